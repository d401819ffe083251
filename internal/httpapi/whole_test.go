package httpapi

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// The work for a history grows as its length does: 16 times the messages take nothing
// like 256 times as much. It is told by the memory that is asked for: time tells more of
// the machine.
func TestAHistoryIsReadOnce(t *testing.T) {
	asked := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	told := func(n int) uint64 {
		var q completionRequest
		say := func(role string) {
			q.Messages = append(q.Messages, completionMessage{Role: role, Content: agent.Text("x")})
		}
		for range n {
			say("user")
		}
		say("assistant")
		say("user")
		return asked(func() { require.Equal(t, n, strings.Count(q.whole().Value, "user:\nx\n\n")) })
	}
	require.Less(t, told(160_000), 40*told(10_000))
	read := func(n int) uint64 {
		body := []byte(`{"model":"x","messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, n) + `{"role":"user","content":"y"}]}`)
		return asked(func() {
			q, err := parseCompletion(body)
			require.NoError(t, err)
			require.Len(t, q.lines, 1)
		})
	}
	require.Less(t, read(64_000), 40*read(4_000))
}
