package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// The work for a history grows as its length does: 16 times the messages take nothing
// like 256 times as long.
func TestAHistoryIsReadOnce(t *testing.T) {
	history := func(n int) completionRequest {
		var q completionRequest
		say := func(role string) {
			q.Messages = append(q.Messages, completionMessage{Role: role, Content: agent.Text("x")})
		}
		for range n {
			say("user")
		}
		say("assistant")
		say("user")
		return q
	}
	took := func(n int) (least time.Duration) {
		q := history(n)
		for range 5 {
			began := time.Now()
			require.Equal(t, n, strings.Count(q.whole().Value, "user:\nx\n\n"))
			if d := time.Since(began); least == 0 || d < least {
				least = d
			}
		}
		return least
	}
	require.Less(t, took(160_000), 100*took(10_000))
	many := func(n int) (least time.Duration) {
		body := []byte(`{"messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, n) + `{"role":"user","content":"y"}]}`)
		for range 5 {
			began := time.Now()
			q, err := parseCompletion(body)
			require.NoError(t, err)
			require.Len(t, q.lines, 1)
			if d := time.Since(began); least == 0 || d < least {
				least = d
			}
		}
		return least
	}
	require.Less(t, many(64_000), 100*many(4_000))
}
