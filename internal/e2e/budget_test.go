package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/memory"
)

// Row 3: an agent that is disabled by configuration is refused with the reason,
// is not named in the tool's description, and nothing is started.
func TestRow03_DisabledAgent(t *testing.T) {
	s := begin(t, "SPOOL_DISABLED_AGENTS=researcher")
	r := s.Ask("s1", script.Script(script.Task("researcher", "script: say never"), "echo refused:"))
	require.Contains(t, r.Response, "policyDenied:true", r.Error)
	require.Contains(t, r.Response, `agent "researcher" is disabled`)
	require.Len(t, tree(t, s, r.ThreadID), 1)
	tools := string(s.Model.Records()[0].Tools)
	require.Contains(t, tools, "assign_task")
	require.Contains(t, tools, "- general:")
	require.NotContains(t, tools, "- researcher:")
	require.Equal(t, agent.ErrPermissionDenied, messages(t, s, r.ThreadID)[2].ErrorReason)
}

// Row 4: limit 0 is no delegation at all: the tools are not offered and a call
// is refused.
func TestRow04_DepthZero(t *testing.T) {
	s := begin(t, "SPOOL_MAX_DEPTH=0")
	r := s.Ask("s1", script.Script(script.Task("general", "script: say never"), "echo refused:"))
	require.Contains(t, r.Response, "depth limit 0", r.Error)
	require.Len(t, tree(t, s, r.ThreadID), 1)
	require.NotContains(t, string(s.Model.Records()[0].Tools), "assign_task")
	require.NotContains(t, string(s.Model.Records()[0].Tools), "task_output")
}

// Row 23: more calls in one reply than the fan-out limit: the first ones run
// together, the others are refused; results stand in the order of their calls.
func TestRow23_FanOut(t *testing.T) {
	s := begin(t, "SPOOL_MAX_FAN_OUT=3")
	var calls []string
	for i := range 5 { // those that run wait for each other
		calls = append(calls, script.Task("general", script.Script(together(fmt.Sprint(i), 3), fmt.Sprintf("say answer %d", i))))
	}
	r := s.Ask("s1", script.Script(script.Calls(calls...), "say done"))
	require.Equal(t, "done", r.Response, r.Error)
	m := messages(t, s, r.ThreadID)
	refused := 0
	for i := range 5 {
		require.Equal(t, agent.CallID(r.TurnID, 1, i), m[2+i].ToolCallID)
		if strings.Contains(m[2+i].Content.String(), "the limit is 3") {
			require.GreaterOrEqual(t, i, 3, "the last ones are refused")
			refused++
		} else {
			require.Contains(t, m[2+i].Content.String(), fmt.Sprintf("answer %d", i))
		}
	}
	require.Equal(t, 2, refused)
}

// Row 19: a child over its template's time is stopped with its work, keeps its
// history, and its parent is told and goes on.
func TestRow19_Timeout(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(agent, task string) string{"foreground": script.Task, "background": background} {
		t.Run(name, func(t *testing.T) {
			s := stack(t)
			template(t, s, "hasty", "description: has no time\ntimeoutMs: 6000\n", "Hurry.")
			s.StartWorker()
			r := s.Ask("s1", script.Script(step("hasty", script.Script(add(1, 1), slow("work", 60), "say never")), "echo told:"))
			require.Equal(t, "completed", r.Status, r.Error)
			quiet(t, s, r.ThreadID)
			child := tree(t, s, r.ThreadID)[1]
			require.Equal(t, agent.ThreadFailed, child.Status)
			require.Equal(t, agent.ReasonTimeout, child.Reason)
			require.Contains(t, "user assistant tool assistant tool", roles(messages(t, s, child.ID)), "its history is kept")
			require.Contains(t, said(t, s, r.ThreadID), "status: timeout")
			require.Contains(t, said(t, s, r.ThreadID), child.ID)
			require.NotContains(t, s.File("work"), "end", "its work was stopped")
		})
	}
}

// delegates is a model that always delegates, each time in these words.
func delegates(words func() string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		_, _ = fmt.Fprintf(w, `{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function",`+
			`"function":{"name":"assign_task","arguments":"{\"agent\":\"general\",\"task\":\"%s\"}"}}]}}],`+
			`"usage":{"prompt_tokens":90,"completion_tokens":10,"total_tokens":100}}`, words())
	}
}

// E8, row 96: a model that always delegates is stopped by depth and budgets, with the
// reason: first the number of sub-agents, and then the tokens. In other words each time
// it ends too: what is refused five times in a row is no progress.
func TestFault_E8_AlwaysDelegating(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ env, code, text string }{
		"descendants":    {"SPOOL_MAX_DESCENDANTS=6", "loop", "the same call"},
		"tokens":         {"SPOOL_BUDGET_TOKENS=2000", "limit", "tokens are used and the limit is 2000"},
		"price":          {"SPOOL_BUDGET_PRICE=0.002", "limit", "are spent and the limit is $0.0020"},
		"in other words": {"SPOOL_MAX_DESCENDANTS=2", "delegation_refused", "each time it was refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stack(t)
			var n atomic.Int64
			s.Model.Raw(delegates(func() string {
				if n.Add(1); name == "in other words" {
					return fmt.Sprint("delegate ", n.Load())
				}
				return "delegate"
			}))
			s.StartWorker(c.env, "SPOOL_PRICE_INPUT=1", "SPOOL_PRICE_OUTPUT=1")
			s.StartWorker(c.env, "SPOOL_PRICE_INPUT=1", "SPOOL_PRICE_OUTPUT=1")
			r := s.Ask("s1", "go on for ever")
			require.Equal(t, "failed", r.Status)
			require.Contains(t, r.Error, c.text)
			require.Equal(t, agent.ReasonLimit, thread(t, s, r.ThreadID).Reason)
			require.Equal(t, c.code, turns(t, s, r.ThreadID)[0].ErrorCode)
			deepest := 0
			for _, th := range tree(t, s, r.ThreadID) {
				deepest = max(deepest, th.Depth)
			}
			used, err := s.Store.Spent(s.Ctx(), r.ThreadID)
			require.NoError(t, err)
			require.Zero(t, used.Reservations)
			switch name {
			case "in other words":
				// Two are made, one below the other; five refusals end the second, after
				// which its parent and then the root are refused five times each.
				require.Equal(t, []int64{2, int64(2 + 3*agent.LoopLength)}, []int64{int64(deepest), n.Load()})
			case "descendants":
				require.Equal(t, []int{3, 6}, []int{deepest, used.Descendants})
			default:
				require.Equal(t, []int64{3, 2000}, []int64{int64(deepest), used.Tokens}, "no call was made beyond the budget")
			}
			s.Model.Raw(nil)
			require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response, "a person's word renews the budget")
		})
	}
}

// A token budget is one for the whole tree, whichever worker makes the call:
// parallel children pass it by one call at most, and all are told why.
func TestBudgetAcrossWorkers(t *testing.T) {
	s := stack(t)
	for range 2 {
		s.StartWorker("SPOOL_BUDGET_TOKENS=6000")
	}
	var calls []string
	for i := range 4 {
		calls = append(calls, script.Task("general", script.Script("repeat 40 "+script.Call("calculator", map[string]any{"expression": "1+%d"}), fmt.Sprintf("say never %d", i))))
	}
	r := s.Ask("s1", script.Script(script.Calls(calls...), "say never"))
	require.Equal(t, "failed", r.Status)
	require.Contains(t, r.Error, "the limit is 6000")
	all := tree(t, s, r.ThreadID)
	require.Len(t, all, 5)
	for _, th := range all {
		require.Equal(t, agent.ReasonLimit, th.Reason, th.ID)
	}
	used, err := s.Store.Spent(s.Ctx(), r.ThreadID)
	require.NoError(t, err)
	require.Zero(t, used.Reservations)
	charged := s.Model.Charged()
	require.Equal(t, charged.TotalTokens, used.Tokens, "what the provider charged")
	largest := int64(0)
	for _, rec := range s.Model.Records() {
		largest = max(largest, rec.Usage.TotalTokens)
	}
	require.GreaterOrEqual(t, used.Tokens, int64(6000))
	require.Less(t, used.Tokens, 6000+largest)
	require.Equal(t, charged.TotalTokens, all[0].TotalTokens)
}

// E10: the tokens and requests of children, of failed and of repeated attempts
// are in the root's totals: they equal what the model server counted.
func TestFault_E10_UsageOfTheTree(t *testing.T) {
	s := begin(t, "SPOOL_PRICE_INPUT=2", "SPOOL_PRICE_OUTPUT=8")
	grandchild := script.Script("fail 429 "+add(1, 1), "say deep")
	child := script.Script("break "+add(2, 2), script.Task("researcher", grandchild), "say child")
	r := s.Ask("s1", script.Script("fail 503 "+script.Calls(script.Task("general", child), script.Task("researcher", "script: fail 400 say never"),
		background("general", script.Script(background("researcher", "script: first 500ms say late"), "say quick"))), "break say root"))
	require.Equal(t, "root", r.Response, r.Error)
	quiet(t, s, r.ThreadID)
	require.Len(t, tree(t, s, r.ThreadID), 6)
	root, charged := thread(t, s, r.ThreadID), s.Model.Charged()
	require.Equal(t, charged.TotalTokens, root.TotalTokens)
	require.Equal(t, charged.PromptTokens, root.PromptTokens)
	require.Equal(t, charged.CompletionTokens, root.CompletionTokens)
	require.Equal(t, charged.Requests, root.RequestCount)
	require.InDelta(t, (2*float64(charged.PromptTokens)+8*float64(charged.CompletionTokens))/1e6, root.TotalPrice, 1e-9)
}

// SPEC 5, rows 19 and 98: time spent waiting for people counts against no timeout,
// neither that of who asked nor that of who waits for it.
func TestRow19_WaitingForPeopleDoesNotCount(t *testing.T) {
	s := stack(t)
	ask(t, s)
	template(t, s, "hasty", "description: has no time\ntimeoutMs: 15000\n", "Hurry.")
	s.StartWorker()
	below := script.Script(script.Task("hasty", script.Script(count("gated"), llmtest.Ask("well?"), "echo child:")), "echo above:")
	r := pendingApproval(t, s, s.Send("s1", script.Script(script.Task("hasty", below), "echo root:")))
	time.Sleep(8 * time.Second)
	decide(t, s, r.Pending[0].ApprovalID, memory.Approve)
	q := openQuestions(t, s, r.ThreadID, 1)[0]
	time.Sleep(8 * time.Second) // together longer than either has
	for _, th := range tree(t, s, r.ThreadID) {
		require.False(t, th.Status.Final(), "%s is %s(%s)", th.ID, th.Status, th.Reason)
	}
	answer(t, s, q.ID, "granted")
	end := s.Wait(r)
	require.Contains(t, end.Response, "granted", end.Error)
	require.Equal(t, 1, lines(s.File("gated")))
}
