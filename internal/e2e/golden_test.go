package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/llm/llmtest"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/replay"
)

// scenario is a turn: a script that is followed to its end, or what a play does.
// asks says that the orchestrator asks before it uses the shell.
type scenario struct {
	asks   bool
	env    []string // of the worker
	script string
	play   func(t *testing.T, s *tt.Stack) spool.Reply
}

// encrypted is the scenario whose histories are.
const encrypted = "encrypted"

var parksSoon = []string{"SPOOL_WAIT_IN_RUN=100ms"}

// scenarios are the turns whose histories are kept in
// workflows/testdata/histories and replayed by every build.
var scenarios = map[string]scenario{
	"plain":             {script: "script: say hello"},
	"tools":             {script: script.Script(add(1, 2)+" && "+add(3, 4), add(5, 6), "say done")},
	"quick-tools":       {script: script.Script(add(1, 2)+" && "+add(3, 4), add(5, 6), "say done")},
	"quick-tools-below": {env: []string{"SPOOL_MAX_EVENTS=20"}, script: script.Script(add(1, 2), script.Task("general", script.Script(add(3, 4), add(5, 6), "say a")), add(7, 8), "say done")},
	"delegation":        {script: script.Script(script.Calls(script.Task("general", script.Script(add(1, 1), "say a")), script.Task("researcher", "script: say b")), "say done")},
	"nested-delegation": {script: treeScript()},
	"background-delegation": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Ask("g", script.Script(`call assign_task {"agent":"general","task":"script: first 300ms say later","background":true}`, "say started"))
		tt.Eventually(t, "the report's turn is closed", func() bool {
			ts := turns(t, s, r.ThreadID)
			return len(ts) == 2 && ts[1].State == memory.TurnClosed
		})
		return r
	}},
	"denied-tool": {asks: true, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := pendingApproval(t, s, s.Send("g", script.Script(script.Calls(add(6, 7), count("x")), "say never")))
		decide(t, s, r.Pending[0].ApprovalID, memory.Deny)
		return s.Wait(r)
	}},
	"approved-tool": {asks: true, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := pendingApproval(t, s, s.Send("g", script.Script(count("x"), "say done")))
		decide(t, s, r.Pending[0].ApprovalID, memory.Approve)
		return s.Wait(r)
	}},
	"edited-tool": {asks: true, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := pendingApproval(t, s, s.Send("g", script.Script(count("x"), "say done")))
		return decided(t, s, r, memory.Decision{Target: r.Pending[0].ToolCalls[0].ID, Verdict: memory.Edit, Instruction: "something else"})
	}},
	"partial-approval": {asks: true, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := pendingApproval(t, s, s.Send("g", script.Script(script.Calls(add(6, 7), count("x"), count("y")), "say done")))
		return decided(t, s, r, memory.Decision{Target: r.Pending[0].ApprovalID, Verdict: memory.Approve, Calls: []string{r.Pending[0].ToolCalls[1].ID}})
	}},
	"denied-goes-on": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		template(t, s, "orchestrator", "onDeny: continue\n", "You ask first.")
		r := pendingApproval(t, s, s.Send("g", script.Script(count("x"), "say done")))
		return decided(t, s, r, memory.Decision{Target: r.Pending[0].ApprovalID, Verdict: memory.Deny})
	}},
	"parked-approval": {asks: true, env: parksSoon, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := pendingApproval(t, s, s.Send("g", script.Script(script.Calls(add(6, 7), count("x")), "say done")))
		parked(t, s, r.ThreadID)
		return decided(t, s, r, memory.Decision{Target: r.Pending[0].ApprovalID, Verdict: memory.Approve})
	}},
	"parked-delegation": {asks: true, env: parksSoon, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := pendingApproval(t, s, s.Send("g", script.Script(script.Calls(script.Task("general", script.Script(count("x"), "say a")), script.Task("general", "script: say b")), "say done")))
		parked(t, s, r.ThreadID)
		return decided(t, s, r, memory.Decision{Target: r.Pending[0].ApprovalID, Verdict: memory.Approve})
	}},
	"parked-cancel": {asks: true, env: parksSoon, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := pendingApproval(t, s, s.Send("g", script.Script(count("x"), "say never")))
		parked(t, s, r.ThreadID)
		cancel(t, s, r)
		return s.Wait(r)
	}},
	"cancel-workflow": {asks: true, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := pendingApproval(t, s, s.Send("g", script.Script(count("x"), "say never")))
		require.NoError(t, s.Temporal.CancelWorkflow(s.Ctx(), r.ThreadID, ""))
		return s.Wait(r)
	}},
	"steered-message": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Send("g", script.Script(slow("x", 0.3), "say done"))
		started(t, s, "x")
		m := s.Message("g", "and mind this")
		m.WhenBusy = memory.Steer
		_ = send(t, s, m)
		return s.Wait(r)
	}},
	"cancel": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Send("g", script.Script(slow("c", 60), "say never"))
		started(t, s, "c")
		cancel(t, s, r)
		return s.Wait(r)
	}},
	"cancel-tree": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Send("g", script.Script(script.Task("general", script.Script(slow("c", 60), "say never")), "say never"))
		started(t, s, "c")
		cancel(t, s, r)
		return s.Wait(r)
	}},
	"retry": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Ask("g", script.Script(add(1, 2), "fail 400 say fine"))
		again := retry(t, s, r, "retry")
		return s.Wait(again)
	}},
	"queued-message": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		s.Send("g", "script: first 300ms say one")
		return s.Wait(s.Send("g", "script: say two"))
	}},
	"continue-as-new": {env: []string{"SPOOL_MAX_EVENTS=10"}, script: script.Script(add(1, 2), script.Task("general", "script: say x"), add(3, 4), "say done")},
	"worker-killed": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Send("g", script.Script(add(1, 2), "slow 150ms say "+strings.Repeat("word ", 20)))
		streaming(t, s, r.ThreadID)
		s.Workers[0].Kill()
		s.StartWorker()
		return s.Wait(r)
	}},
	"question": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Send("g", script.Script(script.Calls(add(1, 2), llmtest.Ask("a?"), llmtest.Ask("b?")), "say done"))
		for _, q := range openQuestions(t, s, r.ThreadID, 2) {
			answer(t, s, q.ID, "x")
		}
		return s.Wait(r)
	}},
	"question-below": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Send("g", script.Script(script.Calls(llmtest.Ask("here?"), script.Task("general", script.Script(llmtest.Ask("below?"), "say x"))), "say done"))
		for _, q := range openQuestions(t, s, r.ThreadID, 2) {
			answer(t, s, q.ID, "x")
		}
		return s.Wait(r)
	}},
	"question-parked": {env: parksSoon, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Send("g", script.Script(script.Task("general", script.Script(llmtest.Ask("well?"), "say x")), "say done"))
		q := openQuestions(t, s, r.ThreadID, 1)[0]
		for _, th := range tree(t, s, r.ThreadID) {
			parked(t, s, th.ID)
		}
		answer(t, s, q.ID, "x")
		return s.Wait(r)
	}},
	"question-cancelled": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		r := s.Send("g", script.Script(llmtest.Ask("well?"), "say never"))
		openQuestions(t, s, r.ThreadID, 1)
		cancel(t, s, r)
		return s.Wait(r)
	}},
	"compaction": {env: []string{"SPOOL_CONTEXT_WINDOW=12000"}, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		s.Model.Window = 12000
		return s.Ask("g", script.Script(pages(t, s, 8, 6000), "say done"))
	}},
	"context-refused": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		s.Model.Window = 9000
		return s.Ask("g", script.Script(pages(t, s, 6, 6000), "say done"))
	}},
	// A summary is made within a sub-agent.
	"compaction-below": {env: []string{"SPOOL_CONTEXT_WINDOW=12000"}, play: func(t *testing.T, s *tt.Stack) spool.Reply {
		s.Model.Window = 12000
		return s.Ask("g", script.Script(script.Task("general", script.Script(pages(t, s, 8, 6000), "say read")), "say done"))
	}},
	// The turn takes longer than its agent allows.
	"deadline": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		template(t, s, "orchestrator", "timeoutMs: 1500\napproval: {shell: auto}\n", "You do what you are told.")
		return s.Ask("g", script.Script(slow("c", 60), "say never"))
	}},
	// It does not if what is longer is the wait for a person.
	"deadline-waits": {play: func(t *testing.T, s *tt.Stack) spool.Reply {
		template(t, s, "orchestrator", "timeoutMs: 1500\napproval: {shell: ask}\n", "You ask first.")
		r := pendingApproval(t, s, s.Send("g", script.Script(count("x"), "say done")))
		since := time.Now()
		tt.Eventually(t, "the person takes longer than the limit", func() bool { return time.Since(since) > 2*time.Second })
		return decided(t, s, r, memory.Decision{Target: r.Pending[0].ApprovalID, Verdict: memory.Approve})
	}},
	"fallback":       {env: []string{"SPOOL_FALLBACK_MODELS=second"}, script: script.Script(add(1, 2), "fail 404 say done")},
	"provider-pause": {script: script.Script(add(1, 2), "fail 429 after 3s say done")},
	encrypted:        {env: []string{"SPOOL_MAX_EVENTS=20"}, script: script.Script(add(1, 2), script.Task("general", script.Script(add(3, 4), "say a")), "fail 400 say never")},
	"max-steps":      {script: script.Script("repeat 9 "+add(1, 2), "say never")},
}

// goldenKeys are those of the histories that are encrypted.
func goldenKeys(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tt.Root(), "workflows", "testdata", "keys"))
	require.NoError(t, err)
	return string(text)
}

// decided takes a decision and waits for the turn's end.
func decided(t *testing.T, s *tt.Stack, r spool.Reply, d memory.Decision) spool.Reply {
	t.Helper()
	d.By = "tester"
	_, err := s.Client.Decide(s.Ctx(), d)
	require.NoError(t, err)
	return s.Wait(r)
}

// Every scenario's histories replay on this build, all of its threads and runs
// included; a few of them if not all is asked for, since the recorded ones are
// replayed anyway. With SPOOL_RECORD=DIR they are also written there: that is for new
// scenarios; an old history is never recorded anew to get past a failure.
func TestHistoriesReplay(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SPOOL_RECORD")
	for name, c := range scenarios {
		if dir == "" && !tt.All() && !slices.Contains([]string{"nested-delegation", "parked-delegation", "worker-killed"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tt.New(t)
			if c.asks {
				ask(t, s)
			}
			if name == encrypted {
				s.Encrypt(goldenKeys(t))
			}
			s.StartWorker(c.env...)
			if c.play == nil {
				c.play = func(*testing.T, *tt.Stack) spool.Reply { return s.Ask("g", c.script) }
			}
			r := c.play(t, s)
			for i, th := range tree(t, s, r.ThreadID) {
				noRun(t, s, th.ID)
				replays(t, s, th.ID)
				if dir == "" {
					continue
				}
				runs, err := s.Client.Runs(s.Ctx(), th.ID)
				require.NoError(t, err)
				for j, run := range runs {
					h, err := s.Client.History(s.Ctx(), th.ID, run.RunID)
					require.NoError(t, err)
					file := filepath.Join(dir, fmt.Sprintf("%s.thread%d.run%d.json", name, i+1, j+1))
					_, err = os.Stat(file)
					require.ErrorIs(t, err, os.ErrNotExist, "recorded already: add a scenario instead")
					require.NoError(t, os.WriteFile(file, h, 0o644))
				}
			}
		})
	}
}

// replays records a thread's runs and replays them on this build.
func replays(t *testing.T, s *tt.Stack, thread string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, replay.Record(s.Ctx(), s.Client, dir, thread))
	require.NoError(t, replay.Files(replay.Options{EncryptionKeys: goldenKeys(t)}, dir))
}
