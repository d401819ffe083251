package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/memory"
)

// Row 60: whatever way a turn ended, three retries as a person types them leave
// one user message and one answer that counts, go on from the last save point,
// and run no finished tool again.
func TestRow60_RetryOfEveryEnd(t *testing.T) {
	s := stack(t)
	template(t, s, "orchestrator", "approval:\n  shell: auto\n  file_write: ask\n", "Test.")
	s.StartWorker()
	for name, c := range map[string]struct {
		status string
		end    func(t *testing.T, session string) spool.Reply
	}{
		"completed": {"completed", func(_ *testing.T, session string) spool.Reply {
			return s.Ask(session, script.Script(count(session), "say fine"))
		}},
		"failed": {"failed", func(_ *testing.T, session string) spool.Reply {
			s.Model.Raw(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				http.Error(w, `{"error":{"message":"no such model"}}`, http.StatusBadRequest)
			})
			defer s.Model.Raw(nil)
			return s.Ask(session, script.Script(count(session), "say fine"))
		}},
		"broken off": {"cancelled", func(t *testing.T, session string) spool.Reply {
			r := s.Send(session, script.Script(count(session), "slow 5ms say "+strings.Repeat("fine ", 100)))
			streaming(t, s, r.ThreadID)
			cancel(t, s, r)
			return s.Wait(r)
		}},
		"cancelled in a tool": {"cancelled", func(t *testing.T, session string) spool.Reply {
			r := s.Send(session, script.Script(script.Calls(count(session), slow(session+"-slow", 30)), "say fine"))
			started(t, s, session+"-slow")
			started(t, s, session)
			cancel(t, s, r)
			return s.Wait(r)
		}},
		"denied": {"completed", func(t *testing.T, session string) spool.Reply {
			r := pendingApproval(t, s, s.Send(session, script.Script(count(session), gatedWrite(session+"-w"), "say fine")))
			return decided(t, s, r, memory.Decision{Target: r.Pending[0].ApprovalID, Verdict: memory.Deny})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			session := "retry-" + strings.ReplaceAll(name, " ", "-")
			r := c.end(t, session)
			require.Equal(t, c.status, r.Status, r.Error)
			var last sentDoc
			for range 3 {
				last = typed[sentDoc](t, s, 0, "retry", r.ThreadID)
				require.Equal(t, "completed", last.Status)
				require.Contains(t, last.Response, "fine")
			}
			users, counting := 0, 0
			for _, m := range messages(t, s, r.ThreadID) {
				switch {
				case m.Role == agent.RoleUser:
					users++
				case m.Role == agent.RoleAssistant && len(m.ToolCalls) == 0 && m.SupersededBy == "":
					counting++
					require.Equal(t, last.TurnID, m.TurnID)
					require.False(t, m.Partial)
				}
			}
			require.Equal(t, []int{1, 1}, []int{users, counting}, "user messages, answers that count")
			require.Equal(t, 1, lines(s.File(session)), "a finished tool did not run again")
			for i, turn := range turns(t, s, r.ThreadID) {
				require.Equal(t, i > 0, turn.RetryOf != "", "each retry is a turn that names the one before")
			}
		})
	}
}
