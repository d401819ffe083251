package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// A person types a message and gets an answer; the thread has exactly two
// messages, and two turns make exactly four.
func TestFault_C1_TwoTurnsMakeFourMessages(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", "script: say hello there")
	require.Equal(t, "completed", r.Status, r.Error)
	require.Equal(t, "hello there", r.Response)
	r = s.Ask("s1", "script: say hello again")
	require.Equal(t, "hello again", r.Response)
	m := messages(t, s, r.ThreadID)
	require.Equal(t, "user assistant user assistant", roles(m))
	require.Equal(t, int64(4), thread(t, s, r.ThreadID).MessageCount)
}

// Row 71: N tool rounds are N+1 assistant messages with unique ids, and each
// round is saved as it ends.
func TestRow71_ToolRounds(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", script.Script(add(1, 2), add(3, 4)+" && "+count("n"), "say done"))
	require.Equal(t, "done", r.Response, r.Error)
	m := messages(t, s, r.ThreadID)
	require.Equal(t, "user assistant tool assistant tool tool assistant", roles(m))
	ids := map[string]bool{}
	for _, x := range m {
		require.False(t, ids[x.ID], "message id %s twice", x.ID)
		ids[x.ID] = true
	}
	require.Contains(t, m[2].Content.String(), "3")
	require.Contains(t, m[4].Content.String(), "7")
	require.Equal(t, 1, lines(s.File("n")))
}

// Rows 42, 47, 51, 73: the order of a turn's events.
func TestRow42_EventOrder(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", script.Script(add(1, 2)+" && "+add(2, 2), "say done"))
	var types []string
	for _, e := range events(t, s, r.ThreadID) {
		types = append(types, e.Type)
	}
	got := strings.Join(types, " ")
	require.Regexp(t, `^message_started .*stream_finish .*tool_calls tool_call tool_call .*tool_response .*tool_response .*stream_finish .*assistant_message .*done$`, got)
	require.Equal(t, 2, strings.Count(got, "stream_finish"), "one for each call of the model")
	require.Equal(t, 1, strings.Count(got, "done"))
	require.Contains(t, got, "memory_appended")
}

// Rows 9, 14, 43, 47–54: parallel and nested delegation, linked both ways.
func TestRow52_DelegationTree(t *testing.T) {
	s := begin(t)
	grandchild := script.Script(add(20, 22), "echo grandchild:")
	child := script.Script(script.Task("researcher", grandchild), "echo child:")
	r := s.Ask("s1", script.Script(script.Calls(script.Task("general", child), script.Task("researcher", script.Script("say quick"))), "echo root:"))
	require.Equal(t, "completed", r.Status, r.Error)
	require.Contains(t, r.Response, "42")
	require.Contains(t, r.Response, "quick")

	all := tree(t, s, r.ThreadID)
	require.Len(t, all, 4)
	for _, th := range all[1:] {
		require.Equal(t, agent.KindSubAgent, th.Kind)
		require.Equal(t, agent.ThreadCompleted, th.Status)
		require.Equal(t, r.ThreadID, th.RootThreadID)
		require.NotEmpty(t, th.ParentToolCallID)
		run, err := s.Temporal.DescribeWorkflow(s.Ctx(), th.ID, "")
		require.NoError(t, err, "the thread id is the workflow id")
		require.Equal(t, "SubAgentTurn", run.RawResponse.GetWorkflowExecutionInfo().GetType().GetName())
		require.Equal(t, th.ParentThreadID, run.RawResponse.GetWorkflowExecutionInfo().GetParentExecution().GetWorkflowId())
		var linked int
		for _, e := range events(t, s, th.ParentThreadID) {
			var data struct {
				Child string `json:"sub_agent_thread_id"`
				Call  string `json:"toolCallId"`
			}
			require.NoError(t, json.Unmarshal(e.Data, &data))
			if e.Type == agent.EventToolCall && data.Child == th.ID {
				linked++
				require.Equal(t, th.ParentToolCallID, data.Call)
				require.False(t, e.At.Before(th.CreatedAt), "the thread is written no later than the event that names it")
			}
		}
		require.Equal(t, 1, linked, "exactly one tool_call event links %s", th.ID)
	}
	require.Equal(t, 2, all[2].Depth)
}

// Row 4: the depth limit ends a chain of delegations with a result that says so.
func TestRow04_DepthLimit(t *testing.T) {
	s := begin(t)
	task := script.Script("echo bottom:")
	for range 4 {
		task = script.Script(script.Task("general", task), "echo level:")
	}
	r := s.Ask("s1", task)
	require.Equal(t, "completed", r.Status, r.Error)
	require.Contains(t, r.Response, "depth limit of 3")
	require.Len(t, tree(t, s, r.ThreadID), 4)
}

// Rows 1, 2, 72, A17: what cannot run is a result for the model and its siblings
// keep theirs; nothing is created.
func TestRow72_InvalidCallsBecomeResults(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", script.Script(
		`call no_such_tool {} && `+add(40, 2)+` && assign_task {"agent":"general"} && assign_task {"agent":"nobody","task":"x"} && calculator {"expression":`,
		"say survived"))
	require.Equal(t, "survived", r.Response, r.Error)
	m := messages(t, s, r.ThreadID)
	require.Equal(t, "user assistant tool tool tool tool tool assistant", roles(m))
	require.Equal(t, agent.ErrToolNotFound, m[2].ErrorReason)
	require.Contains(t, m[3].Content.String(), "42")
	require.Equal(t, agent.ErrInvalidInput, m[4].ErrorReason)
	require.Equal(t, agent.ErrNotFound, m[5].ErrorReason)
	require.Contains(t, m[5].Content.String(), "researcher")
	require.Equal(t, agent.ErrInvalidInput, m[6].ErrorReason)
	require.Len(t, tree(t, s, r.ThreadID), 1)
}

// D2: an output of 50 MB is kept whole, the history has a reference to it, and the
// turn goes on. One of 90 MB costs the worker no 100 MB of memory.
func TestFault_D2_FiftyMegabytes(t *testing.T) {
	s := stack(t)
	w := s.StartWorker("SPOOL_HEARTBEAT_TIMEOUT=1m") // a busy machine must not lose the worker
	prints := func(n int) string {
		return script.Script(script.Call("shell", map[string]any{"command": fmt.Sprint("yes 0123456789abcde | head -c ", n)}), "say done")
	}
	require.Equal(t, "done", s.Ask("s2", prints(10)).Response)
	before := peak(t, w)
	require.Equal(t, "done", s.Ask("s2", prints(90_000_000)).Response)
	r := s.Ask("s1", prints(50_000_000))
	require.Less(t, peak(t, w)-before, 100<<10, "KiB")
	require.Equal(t, "done", r.Response, r.Error)
	calls := callsOf(t, s, r.ThreadID)
	require.Less(t, len(calls[0].Result), 70_000)
	output, err := s.Store.ToolOutput(s.Ctx(), calls[0].ID)
	require.NoError(t, err)
	require.Len(t, output, 50_000_000+len("[exit code 0]"))
	h := historyOf(t, s, r.ThreadID)
	require.Less(t, h.bytes, 20_000)
}

// peak is the most memory that a process has used, in KiB.
func peak(t *testing.T, p *tt.Process) (kib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(t, err)
	return kib
}

// Row 104: the same client message twice is one turn; the same id with other
// content is refused.
func TestRow104_SameMessageTwice(t *testing.T) {
	s := begin(t)
	m := s.Message("s1", "script: say once")
	m.MessageID = "m-1"
	first := send(t, s, m)
	s.Wait(first)
	for range 3 {
		again := send(t, s, m)
		require.Equal(t, first.TurnID, again.TurnID)
		require.Equal(t, "once", s.Wait(again).Response)
	}
	m.Content = agent.Text("something else")
	_, err := s.Client.Send(s.Ctx(), m)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "%v", err)
	require.Equal(t, "user assistant", roles(messages(t, s, first.ThreadID)))
	require.Equal(t, 1, s.Model.Asked("once", 0))
}

// Row 36: two conversations of one session do not see each other.
func TestRow36_ConversationsAreApart(t *testing.T) {
	s := begin(t)
	for _, c := range []string{"one", "two"} {
		m := s.Message("s1", "script: say "+c)
		m.ConversationID = c
		r := send(t, s, m)
		require.Equal(t, s.Session("s1")+"/"+c, r.ThreadID)
		require.Equal(t, c, s.Wait(r).Response)
		require.Equal(t, "user assistant", roles(messages(t, s, r.ThreadID)))
	}
}
