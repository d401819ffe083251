package starter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/internal/exit"
)

// Whatever command takes a thread takes a session for its conversation, and names one
// that is not there.
func TestASessionStandsForItsThread(t *testing.T) {
	for _, line := range []string{
		"show ID", "show --follow ID", "tasks ID", "trace ID", "verify ID", "approvals ID", "questions ID", "fork --request-id r ID",
		"retry --detach --request-id r ID", "cancel ID", "history ID", "send --detach --message-id m2 -t ID more",
	} {
		t.Run(line, func(t *testing.T) {
			run := func(id string) result {
				b := newBench(t)
				b.delegated("s1")
				return b.run(strings.Fields(strings.Replace(line, "ID", id, 1))...)
			}
			by, of := run("s1"), run("s1/default")
			assert.Equal(t, of.code, by.code, by.errout)
			assert.NotEqual(t, exit.Usage, by.code, by.errout)
			none := run("s9")
			assert.Equal(t, exit.NotFound, none.code, none.errout)
			assert.Contains(t, none.errout, "there is no session s9 here")
		})
	}
}
