package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

func fork(t *testing.T, s *tt.Stack, thread, at string) spool.Forked {
	t.Helper()
	f, err := s.Client.Fork(s.Ctx(), spool.ForkRequest{ThreadID: thread, At: at})
	require.NoError(t, err)
	return f
}

// tell sends a message to a thread and waits for the answer.
func tell(t *testing.T, s *tt.Stack, thread, text string) spool.Reply {
	t.Helper()
	r, err := s.Client.Send(s.Ctx(), memory.SendRequest{ThreadID: thread, Content: agent.Text(text)})
	require.NoError(t, err)
	return s.Wait(r)
}

// SPEC 5, fork: a tree with grandchildren is forked; the copy's sub-agent is
// resumed in a run of its own with its old messages first; the original's is not
// its business, and the original is as it was.
func TestFork_ResumesTheCopiedSubAgent(t *testing.T) {
	s := stack(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	child := script.Script(script.Task("researcher", script.Script(add(2, 2), "say four")), "say remembered")
	first := s.Ask("s1", script.Script(script.Task("general", child), "echo root:"))
	require.Equal(t, "completed", first.Status, first.Error)
	before := snapshot(t, s, first.ThreadID)

	f := fork(t, s, first.ThreadID, "")
	require.Empty(t, f.Cut)
	require.Len(t, f.SubAgents, 2)
	copied := tree(t, s, f.ThreadID)
	require.Len(t, copied, 3)

	// The model finds the id of the copy in what it was told.
	end := tell(t, s, f.ThreadID, script.Script(resume("general", copied[1].AgentID, "script: say second answer"), "echo resumed:"))
	require.Contains(t, end.Response, "second answer", end.Error)
	told := asked(t, s, "say second answer")
	require.Equal(t, messages(t, s, tree(t, s, first.ThreadID)[1].ID)[0].Content.String(), told[1].Content.String(), "its history first")
	require.Contains(t, messages(t, s, f.ThreadID)[2].Content.String(), copied[1].AgentID)
	require.Equal(t, 2, len(turns(t, s, copied[1].ID)))

	foreign := tell(t, s, f.ThreadID, script.Script(resume("general", tree(t, s, first.ThreadID)[1].ID, "never"), "echo refused:"))
	require.Contains(t, foreign.Response, "refused:", foreign.Error)
	require.Equal(t, 1, len(turns(t, s, tree(t, s, first.ThreadID)[1].ID)))

	require.Equal(t, before, snapshot(t, s, first.ThreadID))
}

// FAULT F3: fork before an answer, regenerate it, restart: both conversations are
// intact, and each goes on.
func TestFault_F3_ForkAndRegenerate(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	first := s.Ask("s1", script.Script(add(1, 1), "echo one:"))
	second := s.Ask("s1", script.Script(add(2, 2), "echo two:"))
	before := snapshot(t, s, first.ThreadID)

	f := fork(t, s, first.ThreadID, second.MessageID) // as its sender named it
	require.Equal(t, agent.ThreadCancelled, f.Status)
	require.Equal(t, []string{f.ThreadID}, f.Cut)
	require.Equal(t, "user assistant tool assistant user", roles(messages(t, s, f.ThreadID)))

	w.Kill()
	s.StartWorker()
	again := retry(t, s, spool.Reply{ThreadID: f.ThreadID}, "")
	require.Equal(t, second.Response, s.Wait(again).Response)
	require.Equal(t, roles(messages(t, s, first.ThreadID)), roles(messages(t, s, f.ThreadID)))
	require.Equal(t, before, snapshot(t, s, first.ThreadID))
	require.Equal(t, "more", tell(t, s, f.ThreadID, "script: say more").Response)
	require.Equal(t, "more", tell(t, s, first.ThreadID, "script: say more").Response)
}

// A thread that works, with a sub-agent in the background, is forked up to what is
// saved; neither runs again in the copy, and the original ends as ever.
func TestFork_WhileItWorks(t *testing.T) {
	s := begin(t)
	background := script.Call("assign_task", map[string]any{"agent": "general", "background": true, "task": script.Script(until("child"), "say reported")})
	r := s.Send("s1", script.Script(background, until("root"), "say done"))
	started(t, s, "root")
	started(t, s, "child")
	f := fork(t, s, r.ThreadID, "")
	require.Equal(t, "user assistant tool", roles(messages(t, s, f.ThreadID)))
	require.Equal(t, []string{f.ThreadID, f.SubAgents[0].ThreadID}, f.Cut)
	require.Equal(t, "on with it", tell(t, s, f.ThreadID, "script: say on with it").Response)
	letGo(t, s, "root")
	require.Equal(t, "done", s.Wait(r).Response)
	letGo(t, s, "child")
	tt.Eventually(t, "the original is told of its sub-agent", func() bool {
		return len(turns(t, s, r.ThreadID)) == 2 && thread(t, s, r.ThreadID).OpenTurnID == ""
	})
	require.Len(t, turns(t, s, f.ThreadID), 2, "the copy is not")
}

// The program that forks dies before or after the commit; the same request again
// makes one fork.
func TestFork_CrashPoints(t *testing.T) {
	s := begin(t)
	first := s.Ask("s1", script.Script(script.Task("general", script.Script(add(1, 1), "say one")), "echo root:"))
	before := snapshot(t, s, first.ThreadID)
	for _, point := range []string{"before-fork", "after-fork"} {
		cmd := starterCommand(t, s, "fork", first.ThreadID, "--request-id", point, "--json")
		cmd.Env = append(cmd.Env, memory.CrashAtEnv+"="+point+":1", memory.CrashOnceEnv+"="+filepath.Join(s.Dir, point))
		require.ErrorContains(t, cmd.Run(), "killed")
		out, code := starter(t, s, "fork", first.ThreadID, "--request-id", point, "--json")
		require.Zero(t, code, out)
		var f spool.Forked
		require.NoError(t, json.Unmarshal([]byte(out), &f))
		require.Equal(t, point == "after-fork", f.Repeated)
		require.Len(t, f.SubAgents, 1)
	}
	require.Equal(t, before, snapshot(t, s, first.ThreadID))
	all, err := s.Store.Threads(s.Ctx(), memory.ThreadFilter{})
	require.NoError(t, err)
	require.Len(t, all, 3)
}
