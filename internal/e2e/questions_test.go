package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// openQuestions waits until n questions of a thread's tree are open.
func openQuestions(t *testing.T, s *tt.Stack, thread string, n int) []memory.Question {
	t.Helper()
	var open []memory.Question
	tt.Eventually(t, "questions are open", func() bool {
		var err error
		open, err = s.Store.Questions(s.Ctx(), memory.QuestionFilter{RootThread: thread, OpenOnly: true})
		return err == nil && len(open) == n
	})
	return open
}

// waitingForUser waits until a turn needs an answer.
func waitingForUser(t *testing.T, s *tt.Stack, r spool.Reply) spool.Reply {
	t.Helper()
	ctx, stop := context.WithTimeout(s.Ctx(), tt.Patience)
	defer stop()
	out, err := s.Client.Wait(ctx, r.ThreadID, r.TurnID, spool.WaitOptions{})
	require.NoError(t, err)
	require.Equal(t, "waiting_for_user", out.Status, out.Error)
	return out
}

func answer(t *testing.T, s *tt.Stack, target, text string) {
	t.Helper()
	_, err := s.Client.Answer(s.Ctx(), memory.AnswerRequest{By: "tester", Target: target, Text: text})
	require.NoError(t, err)
}

// say sends a message that makes no choice.
func say(t *testing.T, s *tt.Stack, session, id, text string) spool.Reply {
	t.Helper()
	m := s.Message(session, text)
	m.WhenBusy, m.MessageID = "", id
	r := send(t, s, m)
	return r
}

// document is the JSON that the command line printed.
func document(t *testing.T, out string) map[string]any {
	t.Helper()
	var doc map[string]any
	require.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&doc), out)
	return doc
}

// Row 98: the orchestrator asks; a person sees the question with every command,
// everything is restarted in between, the person answers on the command line, and
// the same turn goes on. A second and a late answer are refused with the reason.
func TestRow98_TheOrchestratorAsks(t *testing.T) {
	t.Parallel()
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	w := s.StartWorker("SPOOL_WAIT_IN_RUN=200ms")
	session := s.Session("s1")
	out := says(t, s, 6, "send", "-s", session, script.Script(script.Calls(count("ran"), llmtest.Ask("which colour?")), "echo you said:"))
	require.Contains(t, out, "waiting for an answer")
	require.Contains(t, out, "which colour?")
	q := openQuestions(t, s, s.Thread("s1"), 1)[0]
	require.Contains(t, out, q.ID)
	require.Equal(t, agent.ThreadWaitingForUser, thread(t, s, s.Thread("s1")).Status)

	out = says(t, s, 0, "questions", "--json")
	listed := document(t, out)["questions"].([]any)[0].(map[string]any)
	require.Equal(t, []any{q.ID, s.Thread("s1"), "orchestrator", "which colour?"}, []any{listed["questionId"], listed["threadId"], listed["agent"], listed["text"]})
	for _, command := range []string{"show", "tasks", "trace", "questions"} {
		out = says(t, s, 0, command, s.Thread("s1"))
		require.Contains(t, out, "which colour?", command)
		require.Contains(t, out, q.ID, command)
	}
	require.Contains(t, out, "orchestrator")

	parked(t, s, s.Thread("s1"))
	w.Kill()
	server.Kill()
	server.Restart(t)
	s.StartWorker()
	says(t, s, 0, "answer", q.ID, "blue")
	out = says(t, s, 4, "answer", q.ID, "red")
	require.Contains(t, out, "answered already")
	require.Contains(t, out, "tester")
	_, code := starter(t, s, "answer", q.CallID, "blue")
	require.Equal(t, 0, code, "the same answer again, by the call's id")
	_, code = starter(t, s, "answer", "ques_none", "blue")
	require.Equal(t, 3, code)

	turn := turns(t, s, s.Thread("s1"))[0]
	end := s.Wait(spool.Reply{ThreadID: s.Thread("s1"), TurnID: turn.ID})
	require.Contains(t, end.Response, "you said:", end.Error)
	require.Contains(t, end.Response, "blue")
	require.Equal(t, 1, lines(s.File("ran")), "the finished sibling did not run again")
	require.Equal(t, "user assistant tool tool assistant", roles(messages(t, s, s.Thread("s1"))))
	s.Verify()
}

// Rows 58, 98: a grandchild asks; its parents are told that it waits, the question
// is shown on the root with agent and task, and a plain message to the root answers
// it, once, however often it is repeated.
func TestRow98_AGrandchildAsks(t *testing.T) {
	s := stack(t)
	template(t, s, "digger", "description: digs\n", "You dig.")
	w := s.StartWorker("SPOOL_WAIT_IN_RUN=200ms")
	grandchild := script.Script(llmtest.Ask("how deep?"), "echo dug:")
	r := s.Send("s1", script.Script(script.Task("general", script.Script(script.Task("digger", grandchild), "echo child:")), "echo root:"))
	q := openQuestions(t, s, r.ThreadID, 1)[0]
	require.Equal(t, "digger", q.Agent)
	require.Contains(t, q.Task, "how deep?", "the task it works on")
	all := tree(t, s, r.ThreadID)
	require.Len(t, all, 3)
	require.Equal(t, agent.ThreadWaitingForUser, all[2].Status)
	tasks := tasksOf(t, s, all[1].ID)
	require.Equal(t, agent.TaskWaiting, tasks[0].Status, "row 58: waiting, not success")
	require.Contains(t, strings.Join(eventTypes(t, s, r.ThreadID), " "), agent.EventQuestionAsked, "shown on the root")
	out, _ := starter(t, s, "show", r.ThreadID)
	require.Contains(t, out, "digger waits for an answer")
	require.Contains(t, out, "how deep?")
	require.Equal(t, "digger", waitingForUser(t, s, r).Questions[0].Agent)

	for _, th := range all {
		parked(t, s, th.ID)
	}
	w.Kill()
	got := say(t, s, "s1", "answer-1", "3 m")
	require.Equal(t, []string{q.ID, r.TurnID}, []string{got.Answered.QuestionID, got.TurnID})
	s.StartWorker()
	again := say(t, s, "s1", "answer-1", "3 m")
	require.True(t, again.Repeated)
	end := s.Wait(again)
	for _, part := range []string{"root:", "child:", "dug:", "3 m"} {
		require.Contains(t, end.Response, part, end.Error)
	}
	again = say(t, s, "s1", "answer-1", "3 m")
	require.Equal(t, []string{q.ID, r.TurnID}, []string{again.Answered.QuestionID, again.TurnID}, "also after the turn's end")
	require.Equal(t, "user assistant tool assistant", roles(messages(t, s, r.ThreadID)), "the answer is no message of the root")
}

// E2, E11, row 98: two children ask at once and are answered in reverse order, one
// asks twice in one reply, and a sibling fails meanwhile: each answer reaches its
// own question, and a plain message is refused while it could be for several.
func TestFault_E2_EachAnswerReachesItsQuestion(t *testing.T) {
	s := begin(t)
	one := script.Script(script.Calls(llmtest.Ask("one a?"), llmtest.Ask("one b?")), "echo one:")
	two := script.Script(llmtest.Ask("two?"), "echo two:")
	r := s.Send("s1", script.Script(script.Calls(script.Task("general", one), script.Task("researcher", two), script.Task("general", "script: fail 400 say never")), "echo root:"))
	open := map[string]string{}
	for _, q := range openQuestions(t, s, r.ThreadID, 3) {
		open[q.Text] = q.ID
	}
	out := says(t, s, 4, "send", "-s", s.Session("s1"), "42")
	for text, id := range open {
		require.Contains(t, out, id)
		require.Contains(t, out, text)
	}
	tt.Eventually(t, "the third child has failed", func() bool {
		return tree(t, s, r.ThreadID)[3].Status == agent.ThreadFailed
	})
	answer(t, s, open["two?"], "for two")
	answer(t, s, open["one b?"], "for b")
	require.Len(t, openQuestions(t, s, r.ThreadID, 1), 1)
	answer(t, s, open["one a?"], "for a")
	end := s.Wait(r)
	require.Equal(t, "completed", end.Status, end.Error)
	require.Contains(t, end.Response, "status: failed")
	for _, th := range tree(t, s, r.ThreadID) {
		var results []string
		for _, m := range messages(t, s, th.ID) {
			if m.Role == agent.RoleTool && m.Name == agent.ToolAskUser {
				results = append(results, m.Content.String())
			}
		}
		switch th.AgentType {
		case "researcher":
			require.Equal(t, []string{"for two"}, results)
		case "general":
			if th.Status == agent.ThreadCompleted {
				require.Equal(t, []string{"for a", "for b"}, results)
			}
		}
	}
}

// Workers that die around the write that asks, and a person's process that dies
// around the write that answers, lose and double nothing.
func TestRow98_CrashPointsOfQuestions(t *testing.T) {
	s := stack(t)
	all := dieAt(t, s, "before-question", "after-question")
	r := s.Send("s1", script.Script(script.Task("general", script.Script(llmtest.Ask("which?"), "echo child:")), "echo root:"))
	all()
	q := openQuestions(t, s, r.ThreadID, 1)[0]
	for _, point := range []string{"before-answer", "after-answer"} {
		require.Len(t, openQuestions(t, s, r.ThreadID, 1), 1)
		cmd := starterCommand(t, s, "answer", q.ID, "this")
		cmd.Env = append(cmd.Env, "SPOOL_CRASH_AT="+point)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "the process was to die at %s: %s", point, out)
	}
	require.Contains(t, s.Wait(r).Response, "this", "that answer stands, and the sweep finds it")
	for _, th := range tree(t, s, r.ThreadID) {
		require.Equal(t, "user assistant tool assistant", roles(messages(t, s, th.ID)))
	}
}

// Row 98, D8: a cancel while questions are open, here and below, settles them and
// leaves valid threads that take the next message; an answer comes too late.
func TestRow98_CancelWhileAQuestionIsOpen(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", script.Script(script.Calls(llmtest.Ask("here?"), script.Task("general", script.Script(llmtest.Ask("below?"), "say never"))), "say never"))
	open := openQuestions(t, s, r.ThreadID, 2)
	cancel(t, s, r)
	require.Equal(t, "cancelled", s.Wait(r).Status)
	for _, q := range open {
		_, err := s.Client.Answer(s.Ctx(), memory.AnswerRequest{By: "tester", Target: q.ID, Text: "late"})
		require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "its turn ended")
	}
	for _, th := range tree(t, s, r.ThreadID) {
		require.Equal(t, agent.ThreadCancelled, th.Status, th.ID)
	}
	require.Equal(t, "hi", s.Wait(say(t, s, "s1", "m2", "script: say hi")).Response)
}

// Row 58: task_output of a sub-agent that waits says so and what it asks, and a
// message to the idle root answers it although no turn waits there.
func TestRow58_TaskOutputSaysWaiting(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", script.Script(background("general", script.Script(llmtest.Ask("which way?"), "echo went:")), "say started"))
	q := openQuestions(t, s, r.ThreadID, 1)[0]
	m := s.Message("s1", script.Script(taskOutput("", 0), taskOutput(tree(t, s, r.ThreadID)[1].AgentID, 0), "echo now:"))
	sent, err := s.Client.Send(s.Ctx(), m) // queued: it answers nothing
	require.NoError(t, err)
	state := s.Wait(sent).Response
	require.Contains(t, state, "waiting_for_user")
	require.Contains(t, state, "which way?")
	require.NotContains(t, state, "success")

	out := says(t, s, 0, "send", "-s", s.Session("s1"), "--json", "left")
	require.Contains(t, out, "this answered question "+q.ID+" of general")
	require.Contains(t, out, `"status":"answered"`)
	tt.Eventually(t, "its end is reported", func() bool {
		ts := turns(t, s, r.ThreadID)
		return len(ts) == 3 && ts[2].State == memory.TurnClosed
	})
	require.Contains(t, messages(t, s, r.ThreadID)[len(messages(t, s, r.ThreadID))-2].Content.String(), "left")
	quiet(t, s, r.ThreadID)
}

// ask_user is offered where an agent's tools allow it, a denied or wrong call is a
// result for the model, and nobody is asked.
func TestAskUserIsATool(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	template(t, s, "mute", "description: asks nobody\ntools: [ls]\n", "You are mute.")
	template(t, s, "shy", "description: may not ask\napproval:\n  ask_user: deny\n", "You are shy.")
	s.StartWorker()
	mute, shy := script.Script(llmtest.Ask("may I?"), "echo mute:"), script.Script(llmtest.Ask("may I?"), "echo shy:")
	r := s.Ask("s1", script.Script(script.Calls(script.Task("mute", mute), script.Task("shy", shy), `call ask_user {"question":" "}`, `call ask_user {"text":"x"}`), "say done"))
	require.Equal(t, "done", r.Response, r.Error)
	require.NotContains(t, offered(sent(t, s, strings.TrimPrefix(mute, "script: "))), "ask_user")
	require.Contains(t, offered(sent(t, s, strings.TrimPrefix(shy, "script: "))), "ask_user")
	m := messages(t, s, r.ThreadID)
	require.Contains(t, m[2].Content.String(), `no tool "ask_user"`)
	require.Contains(t, m[3].Content.String(), "the approval policy denies it")
	require.Equal(t, []agent.ErrorReason{agent.ErrInvalidInput, agent.ErrInvalidInput}, []agent.ErrorReason{m[4].ErrorReason, m[5].ErrorReason})
	all, err := s.Store.Questions(s.Ctx(), memory.QuestionFilter{})
	require.NoError(t, err)
	require.Empty(t, all)
}
