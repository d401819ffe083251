package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// template writes an agent file of the project.
func template(t *testing.T, s *tt.Stack, name, front, body string) {
	t.Helper()
	file := filepath.Join(s.Agents(), name+".md")
	require.NoError(t, os.WriteFile(file, []byte("---\nname: "+name+"\n"+front+"---\n"+body+"\n"), 0o644))
}

// models writes a table of models.
func models(t *testing.T, s *tt.Stack, table string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "models.yaml"), []byte(table), 0o600))
}

// sent is the body of the last request that followed a script.
func sent(t *testing.T, s *tt.Stack, text string) map[string]any {
	t.Helper()
	records := s.Model.Records()
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].Script == text {
			var body map[string]any
			require.NoError(t, json.Unmarshal(records[i].Body, &body))
			return body
		}
	}
	t.Fatalf("the model was never asked for %q", text)
	return nil
}

func offered(body map[string]any) []string {
	var names []string
	list, _ := body["tools"].([]any)
	for _, x := range list {
		f, _ := x.(map[string]any)["function"].(map[string]any)
		names = append(names, f["name"].(string))
	}
	return names
}

// Rows 5, 6, 7: the model server receives exactly what a child's template says,
// what it does not say comes from the configuration and then from the parent,
// the prompt ends in the environment block, and the stored snapshot shows it all.
// A child is offered its tools as far as its parent may use them.
func TestRow06_TemplateFieldsReachTheModel(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	template(t, s, "orchestrator", "description: test\ntools: [assign_task, calculator, ls, glob]\ntemperature: 0.9\ntopP: 0.7\nmaxTokens: 900\n", "You lead.")
	template(t, s, "exact", "description: exact\ntools: [calculator, ls, shell, file_write]\nmodel: exact-model\ntemperature: 0.25\ntopP: 0.5\nmaxTokens: 321\ntimeoutMs: 60000\nmaxSteps: 7\nstream: false\n", "You are exact.")
	template(t, s, "vague", "description: vague\n", "You are vague.")
	s.StartWorker()
	r := s.Ask("s1", script.Script(script.Calls(script.Task("exact", script.Script(count("n"), "say exact end")), script.Task("vague", "script: say vague end")), "say done"))
	require.Equal(t, "done", r.Response, r.Error)
	exact, vague := sent(t, s, count("n")+" ;; say exact end"), sent(t, s, "say vague end")
	require.Equal(t, []any{"exact-model", 0.25, 0.5, 321.0}, []any{exact["model"], exact["temperature"], exact["top_p"], exact["max_tokens"]})
	require.NotEqual(t, true, exact["stream"])
	require.Equal(t, []string{"calculator", "ls"}, offered(exact))
	require.Equal(t, []any{"fake", 0.9, 0.7, 900.0, true}, []any{vague["model"], vague["temperature"], vague["top_p"], vague["max_tokens"], vague["stream"]},
		"the model is the configuration's, the rest the parent's")
	require.Equal(t, []string{"assign_task", "calculator", "glob", "ls", "task_output"}, offered(vague))
	prompt := exact["messages"].([]any)[0].(map[string]any)["content"].(string)
	require.True(t, strings.HasPrefix(prompt, "You are exact.\n\n<env>\nWorking directory: "+s.Work+"\nDate: "), prompt)
	require.Contains(t, prompt, "You are the sub-agent exact (exact-")
	require.Empty(t, s.File("n"), "the shell is not among the parent's tools")

	children, err := s.Store.Children(s.Ctx(), r.ThreadID)
	require.NoError(t, err)
	for _, th := range children {
		if th.AgentType != "exact" {
			continue
		}
		c := th.Config
		require.Equal(t, []any{"exact", "You are exact.", "exact-model", int64(60000), 7, false, []string{"calculator", "ls"}},
			[]any{c.Name, c.SystemPrompt, c.Model, c.TimeoutMs, c.MaxSteps, c.Stream, c.Tools})
		require.Equal(t, filepath.Join(s.Agents(), "exact.md"), c.Source)
		require.Equal(t, []string{r.ThreadID, r.ThreadID, "tester"}, []string{th.ParentThreadID, th.RootThreadID, th.UserID})
		calls := callsOf(t, s, th.ID)
		require.Equal(t, agent.ErrToolNotFound, calls[0].ErrorReason, "calling another tool")
	}
}

// E1, row 77: a gated tool in a grandchild is asked about on the root thread with
// the agent's name; the same grandchild goes on and the tool runs once, although
// every worker is replaced meanwhile. Two questions at once reach their own calls.
func TestFault_E1_GatedToolsBelow(t *testing.T) {
	s := stack(t)
	ask(t, s)
	template(t, s, "digger", "description: digs\n", "You dig.")
	w := s.StartWorker()
	deep := script.Script(count("deep"), "say deep end")
	r := s.Send("s1", script.Script(script.Calls(script.Task("general", script.Script(script.Task("digger", deep), "echo child:")),
		script.Task("general", script.Script(count("shallow"), "say shallow end"))), "echo root:"))
	var pending []memory.Approval
	tt.Eventually(t, "both questions are open", func() bool {
		var err error
		pending, err = s.Store.Approvals(s.Ctx(), memory.ApprovalFilter{RootThread: r.ThreadID, OpenOnly: true})
		return err == nil && len(pending) == 2
	})
	agents := map[string]string{}
	for _, a := range pending {
		agents[a.Agent] = a.ID
	}
	require.Contains(t, agents, "general")
	require.Contains(t, agents, "digger")
	require.Equal(t, 2, strings.Count(strings.Join(eventTypes(t, s, r.ThreadID), " "), agent.EventApprovalRequired), "both are shown on the root")
	w.Kill()
	s.StartWorker()
	decide(t, s, agents["digger"], memory.Approve)
	_, err := s.Client.Decide(s.Ctx(), memory.Decision{By: "tester", Target: agents["general"], Verdict: memory.Edit, Instruction: "leave it"})
	require.NoError(t, err)
	end := s.Wait(r)
	require.Contains(t, end.Response, "deep end", end.Error)
	require.Contains(t, end.Response, "shallow end")
	require.Equal(t, 1, lines(s.File("deep")))
	require.Empty(t, s.File("shallow"))
	require.Len(t, tree(t, s, r.ThreadID), 4)
}

// E6: a child's worker is killed with nine of its ten calls done: it goes on from
// the tenth.
func TestFault_E6_GoesOnFromTheTenth(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	steps := []string{}
	for i := range 9 {
		steps = append(steps, script.Call("shell", map[string]any{"command": fmt.Sprintf("echo %d >> calls", i)}))
	}
	r := s.Send("s1", script.Script(script.Task("general", script.Script(append(steps, "first 2s "+count("tenth"), "say all ten")...)), "echo told:"))
	tt.Eventually(t, "nine calls are done and saved", func() bool {
		all := tree(t, s, r.ThreadID)
		return len(all) == 2 && all[1].MessageCount == 19
	})
	w.Kill()
	s.StartWorker()
	require.Contains(t, s.Wait(r).Response, "all ten")
	require.Equal(t, 9, lines(s.File("calls")))
	require.Equal(t, 1, lines(s.File("tenth")))
}

// Row 2: an agent file that is written or changed while workers run counts from
// the next task on.
func TestRow02_AgentFilesAreFollowed(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	require.Contains(t, s.Ask("s1", script.Script(script.Task("fresh", "script: say never"), "echo told:")).Response, `there is no agent "fresh"`)
	template(t, s, "fresh", "description: made after the start\n", "You are the first.")
	require.Contains(t, s.Ask("s1", script.Script(script.Task("fresh", "script: say here I am"), "echo told:")).Response, "here I am")
	require.Contains(t, fmt.Sprint(sent(t, s, "say here I am")["messages"]), "You are the first.")
	template(t, s, "fresh", "description: changed\n", "You are the second one.")
	s.Ask("s1", script.Script(script.Task("fresh", "script: say here again"), "echo told:"))
	require.Contains(t, fmt.Sprint(sent(t, s, "say here again")["messages"]), "You are the second one.")
	require.Contains(t, string(s.Model.Records()[len(s.Model.Records())-1].Tools), "changed", "the model is told of it as it is now")
}

// No other agent answers in place of one that the worker does not know: the turn
// fails with what is known and where it was looked for, and can be retried once
// the agent's file is there. A thread whose agent is taken away later goes on
// with the snapshot of it.
func TestAnUnknownAgentEndsItsTurn(t *testing.T) {
	s := begin(t)
	req := s.Message("late", script.Script(script.Call("shell", map[string]any{"command": "touch ran"}), "say HERE"))
	req.Agent = "late"
	sent := send(t, s, req)
	r := s.Wait(sent)
	require.Equal(t, string(agent.ThreadFailed), r.Status)
	require.Equal(t, agent.ReasonError, r.Reason)
	require.Equal(t, agent.CodeUnknownAgent, r.ErrorCode)
	for _, want := range []string{`there is no agent "late"`, "orchestrator", "researcher", filepath.Join(s.Work, ".spool", "agents"), "retry thread " + r.ThreadID} {
		require.Contains(t, r.Error, want)
	}
	require.Empty(t, s.Model.Records(), "no model was called")

	// An unknown agent that follows in a thread of a known one gets nothing of it.
	known := s.Ask("known", "HERE")
	require.Equal(t, string(agent.ThreadCompleted), known.Status, known.Error)
	follow := s.Message("known", "HERE")
	follow.Agent = "nosuch"
	next := send(t, s, follow)
	other := s.Wait(next)
	th, err := s.Store.Thread(s.Ctx(), "", known.ThreadID)
	require.NoError(t, err)
	require.Equal(t, agent.CodeUnknownAgent, other.ErrorCode, "%+v %+v", other, th)

	file := filepath.Join(s.Agents(), "late.md")
	require.NoError(t, os.WriteFile(file, []byte("---\nname: late\ndescription: comes late\ntools: [ls]\n---\nYou came late.\n"), 0o644))
	again := retry(t, s, r, "")
	require.NotEqual(t, agent.CodeUnknownAgent, s.Wait(again).ErrorCode)
	th, err = s.Store.Thread(s.Ctx(), "", r.ThreadID)
	require.NoError(t, err)
	require.Equal(t, []string{"ls"}, th.Config.Tools)
	require.Empty(t, th.Config.Missing)
	require.NoFileExists(t, filepath.Join(s.Work, "ran"))

	require.NoError(t, os.Remove(file))
	more := s.Message("late", "HERE")
	last := send(t, s, more)
	require.NotEqual(t, agent.CodeUnknownAgent, s.Wait(last).ErrorCode)
	th, err = s.Store.Thread(s.Ctx(), "", r.ThreadID)
	require.NoError(t, err)
	require.Contains(t, th.Config.SystemPrompt, "You came late.")
}
