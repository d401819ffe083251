package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory/port"
)

// resume is the step that goes on with a sub-agent.
func resume(agentType, id, task string) string {
	return script.Call("assign_task", map[string]any{"agent": agentType, "task": task, "resume": id})
}

// asked are the messages of the last request that followed a script.
func asked(t *testing.T, s *tt.Stack, text string) []agent.Message {
	t.Helper()
	records := s.Model.Records()
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Script == text {
			var q struct{ Messages []agent.Message }
			require.NoError(t, json.Unmarshal(records[i].Body, &q))
			return q.Messages
		}
	}
	t.Fatalf("the model was never asked for %q", text)
	return nil
}

// Row 21: a resume after each kind of end: the same thread, whose model sees
// the old messages first and the new ones after them.
func TestRow21_Resume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first  string // the child's first task
		cancel bool
		status agent.ThreadStatus
		then   func(t *testing.T, s *tt.Stack, child agent.Thread)
	}{
		"edited":  {first: script.Script(add(1, 1), "say remembered"), status: agent.ThreadCompleted, then: remind},
		"failure": {first: script.Script(add(1, 1), "fail 400 say never"), status: agent.ThreadFailed},
		"cancel":  {first: script.Script(add(1, 1), slow("c", 60)), cancel: true, status: agent.ThreadCancelled},
		"restart": {first: script.Script(add(1, 1), "say remembered"), status: agent.ThreadCompleted,
			then: func(_ *testing.T, s *tt.Stack, _ agent.Thread) {
				s.Workers[0].Kill()
				s.StartWorker()
			}},
		"forgotten by Temporal": {first: script.Script(add(1, 1), "say remembered"), status: agent.ThreadCompleted, then: forget},
	} {
		t.Run(name, func(t *testing.T) {
			s := stack(t)
			s.Model.KeepBodies = true
			s.StartWorker()
			r := s.Send("s1", script.Script(script.Task("general", c.first), "say first turn"))
			if c.cancel {
				started(t, s, "c")
				cancel(t, s, r)
			}
			s.Wait(r)
			child := tree(t, s, r.ThreadID)[1]
			require.Equal(t, c.status, child.Status)
			before := messages(t, s, child.ID)
			if c.then != nil {
				c.then(t, s, child)
			}
			end := s.Ask("s1", script.Script(resume("general", child.ID, "script: say second answer"), "echo resumed:"))
			require.Contains(t, end.Response, "second answer", end.Error)
			require.Contains(t, end.Response, child.ID)
			all := tree(t, s, r.ThreadID)
			require.Len(t, all, 2, "the same thread")
			require.Equal(t, agent.ThreadCompleted, all[1].Status)
			after := messages(t, s, child.ID)
			require.Greater(t, len(after), len(before))
			require.Equal(t, before, after[:len(before)], "what was there stays as it was")
			seen := asked(t, s, "say second answer")
			require.Equal(t, agent.RoleSystem, seen[0].Role)
			require.Equal(t, c.first, seen[1].Content.String(), "the old task comes first")
			require.Equal(t, agent.RoleTool, seen[3].Role)
			require.Equal(t, "script: say second answer", seen[len(seen)-1].Content.String())
			ran := 2
			if name == "edited" {
				ran++ // what is added is a closed turn of its own
				require.Equal(t, "mind this", seen[len(seen)-2].Content.String(), "what was saved by keys is what the agent goes on from")
			}
			require.Len(t, turns(t, s, child.ID), ran)
		})
	}
}

// remind adds a message to a sub-agent's thread through memory by keys.
func remind(t *testing.T, s *tt.Stack, th agent.Thread) {
	t.Helper()
	noRun(t, s, th.ID)
	noRun(t, s, th.ParentThreadID)
	agents := port.NewAgentSessionStore(s.Client.Memory(""), port.ConversationOptions{})
	kept, found, err := agents.Get(s.Ctx(), th.AgentType, th.AgentID)
	require.NoError(t, err)
	require.True(t, found)
	kept.Messages = append(kept.Messages, agent.Message{ID: "n1", Role: agent.RoleUser, Content: agent.Text("mind this")})
	require.NoError(t, agents.Save(s.Ctx(), kept))
}

// forget makes Temporal forget a thread's workflow, as after its retention.
func forget(t *testing.T, s *tt.Stack, th agent.Thread) {
	t.Helper()
	noRun(t, s, th.ID)
	_, err := s.Temporal.WorkflowService().DeleteWorkflowExecution(s.Ctx(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: th.ID},
	})
	require.NoError(t, err)
	tt.Eventually(t, "Temporal has forgotten "+th.ID, func() bool {
		_, err := s.Temporal.DescribeWorkflow(s.Ctx(), th.ID, "")
		return err != nil
	})
}

// Row 22: an unknown id, another parent's child and another type are refused,
// as results, and nothing is made.
func TestRow22_ResumeGuards(t *testing.T) {
	s := begin(t)
	other := s.Ask("other", script.Script(script.Task("general", "script: say x"), "say y"))
	foreign := tree(t, s, other.ThreadID)[1]
	r := s.Ask("s1", script.Script(script.Task("general", "script: say x"), "say y"))
	own := tree(t, s, r.ThreadID)[1]
	end := s.Ask("s1", script.Script(script.Calls(
		resume("general", "general-1-000000000000", "script: say z"),
		resume("general", foreign.ID, "script: say z"),
		resume("researcher", own.ID, "script: say z")), "echo refused:"))
	require.Equal(t, 3, strings.Count(end.Response, "Resume refused"), end.Response)
	require.Contains(t, end.Response, "no sub-agent")
	require.Contains(t, end.Response, "not a sub-agent of this thread")
	require.Contains(t, end.Response, "of type general, not researcher")
	require.Len(t, tree(t, s, r.ThreadID), 2)
	require.Len(t, turns(t, s, own.ID), 1)
	require.Len(t, turns(t, s, foreign.ID), 1)
}

// Row 22, E7: two resumes of one child in one reply are serialised: both are
// answered, nothing is lost.
func TestFault_E7_TwoResumesAtOnce(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			s := stack(t)
			w := s.StartWorker()
			r := s.Ask("s1", script.Script(script.Task("general", "script: say zero"), "say y"))
			child := tree(t, s, r.ThreadID)[1]
			second := s.Send("s1", script.Script(script.Calls(
				resume("general", child.ID, script.Script(slow("a", 1), "say answer one")),
				resume("general", child.AgentID, script.Script(slow("b", 1), "say answer two"))), "echo both:"))
			if restart {
				started(t, s, "a")
				w.Kill()
				s.StartWorker()
			}
			end := s.Wait(second)
			require.Contains(t, end.Response, "answer one", end.Error)
			require.Contains(t, end.Response, "answer two")
			require.Equal(t, "user assistant user assistant tool assistant user assistant tool assistant", roles(messages(t, s, child.ID)))
			require.Len(t, turns(t, s, child.ID), 3)
		})
	}
}

// Rows 50 and 92: tasks show descriptions and threads in the order of their calls, and the
// trace of a sub-agent that was resumed shows each call that gave it work.
func TestRow92_TasksAndCallsOfAResumedAgent(t *testing.T) {
	s := begin(t)
	assign := func(task, description, resume string, background bool) string {
		args := map[string]any{"agent": "general", "task": "script: say " + task, "description": description, "background": background}
		if resume != "" {
			args["resume"] = resume
		}
		return script.Call("assign_task", args)
	}
	r := s.Ask("s1", script.Script(script.Calls(assign("one", "First look", "", false), assign("two", "Second pair of eyes", "", false)), "say ok"))
	require.Equal(t, "ok", r.Response, r.Error)
	child := tree(t, s, r.ThreadID)[1]
	s.Ask("s1", script.Script(assign("three", "Once more", child.AgentID, true), "say ok"))
	quiet(t, s, r.ThreadID)
	out := says(t, s, 0, "tasks", r.ThreadID)
	calls := callsOf(t, s, r.ThreadID)
	require.Len(t, calls, 3)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3, out)
	for i, want := range []string{"First look", "Second pair of eyes", "Once more"} {
		require.Regexp(t, "^success +agent:general +agent:general:[^ ]+ +"+want+"$", lines[i])
	}
	out = says(t, s, 0, "trace", child.ID)
	for _, c := range []agent.ToolCall{calls[0], calls[2]} {
		require.Contains(t, out, "call "+c.ID+" (success), task "+agent.TaskID(c.ID)+" (success)")
	}
	require.Equal(t, 1, strings.Count(out, "in the background: script: say three"), out)
	require.NotContains(t, out, calls[1].ID)
}

// shape is the roles of a request and what its messages say, shortened.
func shape(m []agent.Message) string {
	var out []string
	for _, x := range m {
		out = append(out, string(x.Role))
	}
	return strings.Join(out, " ")
}

// Row 8: with shareContext a child's model sees the parent's messages up to the
// delegating step, pairs intact, at every step and after a resume; without it
// only the task.
func TestRow08_ShareContext(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]bool{"shared": true, "not shared": false} {
		t.Run(name, func(t *testing.T) {
			s := stack(t)
			s.Model.KeepBodies = true
			s.StartWorker("SPOOL_MAX_EVENTS=10")
			s.Ask("s1", script.Script(add(20, 22), "say earlier turn"))
			child := script.Script(add(1, 1), add(2, 2), "say child end")
			r := s.Ask("s1", script.Script(add(3, 4),
				script.Call("assign_task", map[string]any{"agent": "general", "task": child, "shareContext": share}), add(5, 5), "say root end"))
			require.Equal(t, "root end", r.Response, r.Error)
			own := "user assistant tool assistant tool"
			seen := asked(t, s, strings.TrimPrefix(child, "script: "))
			th := tree(t, s, r.ThreadID)[1]
			if !share {
				require.Equal(t, "system "+own, shape(seen))
				require.Zero(t, th.Config.SharedSeq)
				return
			}
			parent := "user assistant tool assistant user assistant tool"
			require.Equal(t, "system "+parent+" "+own, shape(seen))
			require.Contains(t, seen[3].Content.String(), "42")
			require.Contains(t, seen[7].Content.String(), "7")
			require.Equal(t, child, seen[8].Content.String())
			require.Equal(t, int64(7), th.Config.SharedSeq)
			require.Equal(t, "user assistant tool assistant tool assistant", roles(messages(t, s, th.ID)), "its thread holds its own messages only")

			s.Ask("s1", script.Script(resume("general", th.ID, "script: say resumed child"), "say z"))
			seen = asked(t, s, "say resumed child")
			require.Equal(t, "system "+parent+" "+own+" assistant user", shape(seen))
		})
	}
}

// Row 8: a grandchild that shares its parent's context is given what that one
// was given, too.
func TestRow08_SharedThroughTwoLevels(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	sharing := func(task string) string {
		return script.Call("assign_task", map[string]any{"agent": "general", "task": task, "shareContext": true})
	}
	r := s.Ask("s1", script.Script(add(20, 22), sharing(script.Script(add(30, 33), sharing("script: say deepest"), "say b")), "say c"))
	require.Equal(t, "c", r.Response, r.Error)
	seen := asked(t, s, "say deepest")
	require.Equal(t, "system user assistant tool user assistant tool user", shape(seen))
	require.Contains(t, seen[3].Content.String(), "42")
	require.Contains(t, seen[6].Content.String(), "63")
}
