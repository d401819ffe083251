package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

func taskOutput(id string, wait time.Duration) string {
	args := map[string]any{}
	if id != "" {
		args["agentId"] = id
	}
	if wait > 0 {
		args["waitMs"] = wait.Milliseconds()
	}
	return script.Call("task_output", args)
}

// readResult is the result of a tool call of a thread that has a text.
func readResult(t *testing.T, s *tt.Stack, thread, text string) string {
	t.Helper()
	m := messages(t, s, thread)
	i := slices.IndexFunc(m, func(m agent.Message) bool {
		return m.Role == agent.RoleTool && strings.Contains(m.Content.String(), text)
	})
	require.Positive(t, i, "no result has %q", text)
	return m[i].Content.String()
}

// Row 13: task_output of a child at work says so, waiting for it may run out
// without harm, its end can be read any number of times, and without an id all
// sub-agents are listed.
func TestRow13_TaskOutput(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", script.Script(background("general", script.Script(until("child"), "say finding")), "say started"))
	started(t, s, "child")
	child := tree(t, s, r.ThreadID)[1]

	end := s.Ask("s1", script.Script(taskOutput(child.AgentID, 0), "echo now:"))
	require.Contains(t, end.Response, "status: running")
	begun := time.Now()
	end = s.Ask("s1", script.Script(taskOutput(child.ID, time.Second), "echo waited:"))
	require.Contains(t, end.Response, "status: running", "the wait ran out")
	require.GreaterOrEqual(t, time.Since(begun), time.Second)
	end = s.Ask("s1", script.Script(taskOutput("", 0), "echo list:"))
	require.Contains(t, end.Response, child.AgentID+", general, running")
	end = s.Ask("s1", script.Script(script.Calls(taskOutput("general-1-000000000000", 0), taskOutput("nonsense", 0),
		`call task_output {"waitMs":900000000}`), "echo unknown:"))
	require.Equal(t, 2, strings.Count(end.Response, "not_found"), end.Response)
	require.Contains(t, end.Response, "waitMs")

	require.NotContains(t, s.File("child"), "end", "nothing of this has ended the child")
	waiting := s.Send("s1", script.Script(taskOutput(child.AgentID, time.Minute), "echo awaited:"))
	tt.Eventually(t, "the turn waits", func() bool {
		calls, err := s.Store.ToolCalls(s.Ctx(), r.ThreadID)
		return err == nil && len(calls) == 8
	})
	letGo(t, s, "child")
	end = s.Wait(waiting)
	require.Contains(t, readResult(t, s, r.ThreadID, "finding"), "status: success", end.Error)
	for range 2 {
		end = s.Ask("s1", script.Script(taskOutput(child.AgentID, time.Minute), "echo again:"))
		require.Contains(t, end.Response, "finding")
	}
	quiet(t, s, r.ThreadID)
	onceEach(t, s, r.ThreadID, 1)
	for _, m := range messages(t, s, r.ThreadID) {
		if m.Source == "agent:"+child.ID {
			require.Contains(t, m.Content.String(), "You have read its result with task_output already.")
			require.NotContains(t, m.Content.String(), "finding")
		}
	}
	require.Equal(t, "start\nend\n", s.File("child"))

	other := s.Ask("other", script.Script(taskOutput(child.ID, 0), "echo foreign:"))
	require.Contains(t, other.Response, "not_found", "another conversation's sub-agent")
}

// Row 13: a wait survives its worker, and its cancel is quick.
func TestRow13_WaitingIsDurable(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	r := s.Ask("s1", script.Script(background("general", script.Script("first 4s say finding")), "say started"))
	child := tree(t, s, r.ThreadID)[1]
	waiting := s.Send("s1", script.Script(taskOutput(child.AgentID, time.Minute), "echo awaited:"))
	tt.Eventually(t, "the turn waits", func() bool {
		calls, err := s.Store.ToolCalls(s.Ctx(), r.ThreadID)
		return err == nil && len(calls) == 2
	})
	w.Kill()
	s.StartWorker()
	s.Wait(waiting)
	readResult(t, s, r.ThreadID, "finding")

	stuck := s.Ask("s1", script.Script(background("general", script.Script(slow("forever", 60), "say never")), "say started"))
	started(t, s, "forever")
	children, err := s.Store.Children(s.Ctx(), r.ThreadID)
	require.NoError(t, err)
	child = children[1]
	waiting = s.Send("s1", script.Script(taskOutput(child.AgentID, time.Minute), "say never"))
	tt.Eventually(t, "the turn waits", func() bool {
		calls, err := s.Store.ToolCalls(s.Ctx(), r.ThreadID)
		return err == nil && len(calls) == 4
	})
	begun := time.Now()
	cancel(t, s, waiting)
	require.Equal(t, "cancelled", s.Wait(waiting).Status)
	require.Less(t, time.Since(begun), 30*time.Second, "it does not wait for its minute")
	require.Equal(t, "completed", stuck.Status)
	require.Equal(t, agent.ThreadRunning, thread(t, s, child.ID).Status, "a background child goes on")
}

// E9: six parents on a worker that does two things at once: each delegates, and
// then waits for a background child with task_output. Nobody holds a slot that
// its own descendant needs, or the wait would end after its ten minutes only.
func TestFault_E9_ParentsAtTheLimitDelegate(t *testing.T) {
	s := begin(t, "SPOOL_MAX_TURNS_PER_WORKER=2")
	const parents = 6
	var sent []spool.Reply
	for i := range parents {
		name := string(rune('a' + i))
		grandchild := script.Script(slow(name, 0.2), "say deep")
		sent = append(sent, s.Send(name, script.Script(script.Task("general", script.Script(script.Task("general", grandchild), "echo child:")),
			background("general", script.Script(slow(name+"2", 0.2), "say late")), taskOutput("", 10*time.Minute), "echo root:")))
	}
	for _, r := range sent {
		end := s.Wait(r)
		require.Equal(t, "completed", end.Status, end.Error)
		quiet(t, s, r.ThreadID)
		require.Len(t, tree(t, s, r.ThreadID), 4)
	}
}

// Row 96: the same call with the same result, five times, ends a real turn, and it
// says which call. Looking after a sub-agent at work is no loop, however often.
func TestRow96_LoopsEndLookingDoesNot(t *testing.T) {
	s := begin(t)
	var steps []string
	for range agent.LoopLength + 1 {
		steps = append(steps, script.Call("calculator", map[string]any{"expression": "6*7"}))
	}
	r := s.Ask("s1", script.Script(append(steps, "say never")...))
	require.Equal(t, "failed", r.Status)
	require.Contains(t, r.Error, "the same call with the same result 5 times in a row (calculator(expression=6*7))")
	require.Equal(t, "loop", turns(t, s, r.ThreadID)[0].ErrorCode)
	require.Equal(t, "still here", s.Ask("s1", "script: say still here").Response)

	steps = []string{script.Call("assign_task", map[string]any{"agent": "general", "task": script.Script(until("child"), "say x"), "background": true})}
	for range agent.LoopLength + 2 {
		steps = append(steps, script.Call("task_output", map[string]any{}))
	}
	r = s.Ask("s2", script.Script(append(steps, "say looked")...))
	require.Equal(t, "looked", r.Response, r.Error)
	letGo(t, s, "child")
	quiet(t, s, r.ThreadID)
}

// A result too long to be shown is kept whole, and the model reads the rest with
// tool_output: its own and its sub-agents', nobody else's. An agent with a list
// of tools is offered it once there is something to read.
func TestAll_ToolOutputReadsWhatWasShortened(t *testing.T) {
	s := stack(t)
	template(t, s, "digger", "description: digs\ntools: shell\n", "You dig.")
	s.StartWorker()
	long := script.Call("shell", map[string]any{"command": `head -c 150000 /dev/zero | tr '\0' x; echo; echo THE-NEEDLE; head -c 150000 /dev/zero | tr '\0' y`})
	first := s.Ask("s1", script.Script(long, "say read"))
	calls := callsOf(t, s, first.ThreadID)
	shown := messages(t, s, first.ThreadID)[2].Content.String()
	require.NotContains(t, shown, "THE-NEEDLE")
	require.Contains(t, shown, "kept with call "+calls[0].ID+", tool_output reads it")
	read := func(id string, offset int) string {
		return script.Call("tool_output", map[string]any{"toolCallId": id, "offset": offset, "limit": 1000})
	}
	r := s.Ask("s1", script.Script(read(calls[0].ID, 149_500), "echo got"))
	require.Contains(t, r.Response, "THE-NEEDLE")
	require.Contains(t, r.Response, "[bytes 149500 to 150500 of 300")

	other := s.Ask("s2", script.Script(read(calls[0].ID, 0), read("no-such-call", 0), script.Call("tool_output", map[string]any{}), "echo got"))
	require.NotContains(t, other.Response, "xxx")
	for i, c := range must(s.Store.ToolCalls(s.Ctx(), other.ThreadID)) {
		require.Equal(t, []agent.ErrorReason{agent.ErrNotFound, agent.ErrNotFound, agent.ErrInvalidInput}[i], c.ErrorReason)
	}

	s.Ask("s3", script.Script(script.Task("digger", script.Script(long, "say dug")), "say ok"))
	child := tree(t, s, s.Thread("s3"))[1]
	below := must(s.Store.ToolCalls(s.Ctx(), child.ID))[0]
	r = s.Ask("s3", script.Script(read(below.ID, 149_500), "echo got"))
	require.Contains(t, r.Response, "THE-NEEDLE")
	var lists []string
	for _, rec := range s.Model.Records() {
		lists = append(lists, fmt.Sprint(toolNames(t, rec.Tools)))
	}
	require.Contains(t, lists, "[shell]")
	require.Contains(t, lists, "[shell tool_output]")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
