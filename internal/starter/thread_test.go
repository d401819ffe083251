package starter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/internal/exit"
)

// Whatever command takes a thread takes a session for its conversation, and names one
// that is not there.
func TestASessionStandsForItsThread(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := 0
	for _, line := range []string{
		"show ID", "show --follow ID", "tasks ID", "trace ID", "verify ID", "approvals ID", "questions ID", "fork --request-id r ID",
		"history ID", "retry --detach --request-id r ID", "cancel ID", "send --detach --message-id m2 -t ID more",
	} {
		run := func(thread string) result {
			id++ // what a command changes is not to be seen by the next
			session := fmt.Sprintf("s%d", id)
			b.answered(session, "m1", "hello", "hi")
			return b.run(strings.Fields(strings.Replace(line, "ID", session+thread, 1))...)
		}
		by, of, none := run(""), run("/default"), b.run(strings.Fields(strings.Replace(line, "ID", "none", 1))...)
		assert.Equal(t, of.code, by.code, "%s: %s", line, by.errout)
		assert.NotEqual(t, exit.Usage, by.code, "%s: %s", line, by.errout)
		assert.Equal(t, exit.NotFound, none.code, "%s: %s", line, none.errout)
		assert.Contains(t, none.errout, "there is no thread, session or task none here", line)
	}
}
