//go:build postgres

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// One of two workers loses its store: all messages are answered by the other one, what
// it was about included, and it works again when the store is back.
func TestAWorkerWithoutItsStoreLeavesTheWorkToOthers(t *testing.T) {
	t.Parallel()
	tt.OnPostgres(t)
	for name, how := range map[string]linkState{"refused": linkRefused, "silent": linkSilent} {
		t.Run(name, func(t *testing.T) {
			s := stack(t)
			way := newLink(t, s.StoreSpec())
			cut := s.StartWorker("SPOOL_STORE="+way.url, anyPort)
			streamed := s.Send("streamed", "script: slow 50ms say "+strings.Repeat("word ", 300)+"end")
			streaming(t, s, streamed.ThreadID)
			other := s.StartWorker()
			way.set(how)
			var sent []spool.Reply
			for i := range 12 {
				sent = append(sent, s.Send(fmt.Sprint("s", i), "script: say answered"))
			}
			for _, r := range sent {
				require.Equal(t, "answered", s.Wait(r).Response)
			}
			require.True(t, strings.HasSuffix(s.Wait(streamed).Response, "word end"))
			require.Contains(t, cut.Log(), "takes no tasks until what is missing is back")
			status, r := readiness(t, cut)
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.False(t, r.Parts["store"].OK || r.Parts["worker"].OK, r)

			other.Kill()
			way.set(linkWhole)
			require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
			require.Contains(t, cut.Log(), "what was missing is back")
			tt.Eventually(t, "it is ready", func() bool { status, _ = readiness(t, cut); return status == http.StatusOK })
		})
	}
}
