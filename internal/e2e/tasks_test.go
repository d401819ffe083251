package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/memory"
)

// seen collects the different values that f returns, in order, until done is closed.
func seen(done <-chan struct{}, f func() string) []string {
	var out []string
	for {
		if v := f(); v != "" && (len(out) == 0 || out[len(out)-1] != v) {
			out = append(out, v)
		}
		select {
		case <-done:
			return out
		case <-time.After(3 * time.Millisecond):
		}
	}
}

// Row 92: a tool call of the main thread is a task tool:NAME that goes from
// pending over running and, where a person is asked, waiting to its end, without
// a sub-agent; a delegation is a task agent:NAME with its sub-agent.
func TestRow92_Tasks(t *testing.T) {
	s := stack(t)
	ask(t, s)
	s.StartWorker()
	r := pendingApproval(t, s, s.Send("s1", script.Script(
		script.Call("shell", map[string]any{"command": "sleep 0.3; echo hello"}),
		script.Calls(script.Task("researcher", "script: first 300ms say found"), script.Task("researcher", "script: fail 400 say never"),
			`call calculator {"expression":"1/0"}`), "say done")))
	done := make(chan struct{})
	var states []string
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		states = seen(done, func() string {
			tasks, err := s.Store.Tasks(s.Ctx(), r.ThreadID)
			if err != nil {
				return ""
			}
			var line []string
			for _, k := range tasks {
				line = append(line, string(k.Status))
			}
			return strings.Join(line, " ")
		})
	}()
	time.Sleep(50 * time.Millisecond)
	decide(t, s, r.Pending[0].ApprovalID, memory.Approve)
	require.Equal(t, "done", s.Wait(r).Response)
	close(done)
	<-watched
	require.Equal(t, "waiting", states[0])
	require.Contains(t, states, "running")
	require.Contains(t, states, "success")
	require.Less(t, slices.Index(states, "running"), slices.Index(states, "success"))

	tasks := tasksOf(t, s, r.ThreadID)
	require.Len(t, tasks, 4)
	slices.SortFunc(tasks, func(a, b agent.Task) int { return strings.Compare(a.ID, b.ID) }) // by their calls
	trigger := messages(t, s, r.ThreadID)[0].ID
	for i, want := range []struct {
		typ, name, result, failure string
		status                     agent.TaskStatus
	}{
		{"tool", "tool:shell", "hello", "", agent.TaskSuccess},
		{"agent", "agent:researcher", "found", "", agent.TaskSuccess},
		{"agent", "agent:researcher", "", "400", agent.TaskFailed},
		{"tool", "tool:calculator", "", "zero", agent.TaskFailed},
	} {
		k := tasks[i]
		require.Equal(t, []string{want.typ, want.name, string(want.status)}, []string{k.Type, k.Name, string(k.Status)})
		require.Contains(t, k.Result, want.result)
		require.Contains(t, k.Error, want.failure)
		require.Equal(t, want.failure != "", k.Error != "")
		require.Equal(t, want.typ == "agent", k.SubAgentID != "", "a tool task has no sub-agent")
		require.Equal(t, []string{"tester", r.ThreadID, r.ThreadID, trigger}, []string{k.UserID, k.ChatID, k.ThreadID, k.TriggerMessageID})
		require.NotEmpty(t, k.Instruction)
		require.False(t, k.CreatedAt.IsZero() || k.UpdatedAt.Before(k.CreatedAt))
	}
	require.Len(t, tree(t, s, r.ThreadID), 3)

	out := says(t, s, 0, "tasks", r.ThreadID, "--json")
	var printed struct{ Tasks []agent.Task }
	require.NoError(t, json.Unmarshal([]byte(out), &printed))
	require.ElementsMatch(t, tasks, printed.Tasks)
	out = says(t, s, 0, "tasks", r.ThreadID)
	for _, want := range []string{"tool:shell", "agent:researcher", "success", "failed", tasks[1].SubAgentID} {
		require.Contains(t, out, want)
	}
}

// Rows 16 to 18: the view of all sub-agents agrees with what runs, also after
// every worker was killed, and a clean-up removes what ended only.
func TestRow17_AgentStateManager(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	r := s.Ask("s1", script.Script(script.Task("researcher", "script: say found"), background("general", script.Script(until("child"), "say late")), "say started"))
	started(t, s, "child")
	agents := s.Client.Agents()
	running, err := agents.GetRunning(s.Ctx())
	require.NoError(t, err)
	require.Len(t, running, 1)
	require.Equal(t, "general", running[0].AgentType)
	open, err := s.Client.OpenRun(s.Ctx(), running[0].ThreadID)
	require.NoError(t, err)
	require.True(t, open)
	w.Kill()
	s.StartWorker()
	n, err := agents.Cleanup(s.Ctx(), 0)
	require.NoError(t, err)
	require.Equal(t, 1, n, "what runs stays")
	quiet(t, s, r.ThreadID)
	running, err = agents.GetRunning(s.Ctx())
	require.NoError(t, err)
	require.Empty(t, running)
	all, err := agents.GetAll(s.Ctx())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, agent.ThreadCompleted, all[0].Status)
	require.NotNil(t, all[0].EndedAt)
}
