package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// Rows 16, 49, 50: while a child runs, a reader sees the parent's tool_call
// event and the child's thread grow; the child's states are seen in order and
// are still there after a restart.
func TestRow49_ChildGrowsWhileItRuns(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	child := script.Script("first 300ms "+add(1, 1), "first 300ms "+add(2, 2), "first 300ms say grown")
	r := s.Send("s1", script.Script(script.Task("general", child), "say done"))
	var statuses []string
	var sizes []int
	for {
		if all := tree(t, s, r.ThreadID); len(all) == 2 {
			if st := string(all[1].Status); len(statuses) == 0 || statuses[len(statuses)-1] != st {
				statuses = append(statuses, st)
			}
			if n := len(messages(t, s, all[1].ID)); len(sizes) == 0 || sizes[len(sizes)-1] != n {
				sizes = append(sizes, n)
			}
			if all[1].Status == agent.ThreadRunning {
				parent := messages(t, s, r.ThreadID)
				require.Len(t, parent, 1, "the round is saved when its results are in, not before")
				require.Contains(t, eventTypes(t, s, r.ThreadID), agent.EventToolCall)
			}
		}
		if turn, err := s.Store.Turn(s.Ctx(), r.TurnID); err == nil && turn.State == memory.TurnClosed {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	joined := strings.Join(statuses, " ")
	require.Contains(t, []string{"pending running completed", "running completed"}, joined)
	require.Equal(t, []int{1, 3, 5, 6}, sizes[len(sizes)-4:])
	w.Kill()
	again, err := spool.OpenStore(s.Ctx(), s.StoreSpec())
	require.NoError(t, err)
	defer again.Close()
	tasks, err := again.Tasks(s.Ctx(), r.ThreadID)
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	require.Equal(t, agent.TaskSuccess, tasks[0].Status)
	require.Contains(t, tasks[0].Result, "grown")
}

func eventTypes(t *testing.T, s *tt.Stack, thread string) []string {
	t.Helper()
	var out []string
	for _, e := range events(t, s, thread) {
		out = append(out, e.Type)
	}
	return out
}

// Row 17: after kill -9 of everything that runs, and a restart, no row says
// running without an open workflow.
func TestRow17_NothingRunsWithoutAWorkflow(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	r := s.Send("s1", script.Script(script.Calls(script.Task("general", script.Script(slow("child", 60), "say never")), slow("tool", 60)), "say ended"))
	started(t, s, "child")
	started(t, s, "tool")
	w.Kill()
	s.StartWorker()
	end := s.Wait(r)
	require.Equal(t, "ended", end.Response, end.Error)
	for _, th := range tree(t, s, r.ThreadID) {
		require.True(t, th.Status.Final(), "%s is %s", th.ID, th.Status)
		tasks := tasksOf(t, s, th.ID)
		for _, k := range tasks {
			require.NotContains(t, []agent.TaskStatus{agent.TaskPending, agent.TaskRunning, agent.TaskWaiting}, k.Status, k.ID)
		}
	}
}

// Row 35: 1,000 sessions made at once are distinct; a millisecond timestamp is
// a session id like any other.
func TestRow35_SessionIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := spool.NewID()
		require.NoError(t, agent.CheckName("session id", id))
		require.False(t, seen[id])
		seen[id] = true
	}
	s := tt.New(t)
	s.StartWorker()
	m := s.Message("x", "script: say old")
	m.SessionID = "1764277154123"
	r := send(t, s, m)
	require.Equal(t, "old", s.Wait(r).Response)
	require.Equal(t, "1764277154123/default", r.ThreadID)
}

// Row 56: verify prints the thread and its linked children and exits non-zero
// when a link is broken.
func TestRow56_VerifyCommand(t *testing.T) {
	t.Parallel()
	s := tt.New(t)
	s.StartWorker()
	r := s.Ask("s1", script.Script(script.Task("general", script.Script(add(1, 1), "say linked")), "say done"))
	child := tree(t, s, r.ThreadID)[1]
	out := says(t, s, 0, "verify", r.ThreadID, "--print")
	require.Contains(t, out, child.ID)
	require.Contains(t, out, "linked")

	db := openRaw(t, s)
	_, err := db.Exec(fmt.Sprintf(`UPDATE events SET data = replace(data, '%s', 'agent:general:gone-1-000000000000') WHERE thread_id = '%s' AND type = 'tool_call'`, child.ID, r.ThreadID))
	require.NoError(t, err)
	out = says(t, s, 1, "verify", r.ThreadID)
	require.Contains(t, out, "gone-1-000000000000")
}

// starter runs the command line as a user of the stack would.
func starter(t *testing.T, s *tt.Stack, args ...string) (string, int) {
	t.Helper()
	out, progress, code := starterApart(t, s, args...)
	return out + progress, code
}

// says is all that the command line says; its exit code must be code.
func says(t *testing.T, s *tt.Stack, code int, args ...string) string {
	t.Helper()
	out, got := starter(t, s, args...)
	require.Equal(t, code, got, out)
	return out
}

// starterApart is starter with what is printed and what is progress apart.
func starterApart(t *testing.T, s *tt.Stack, args ...string) (out, progress string, code int) {
	t.Helper()
	cmd := starterCommand(t, s, args...)
	var o, p strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &p
	err := cmd.Run()
	if err == nil {
		return o.String(), p.String(), 0
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	return o.String(), p.String(), exit.ExitCode()
}

func starterCommand(t *testing.T, s *tt.Stack, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(tt.Starter(), args...)
	cmd.Env = append(cmd.Environ(), s.Env...)
	return cmd
}

// D5: a model that is silent for long before its first token is waited for.
func TestFault_D5_SlowFirstToken(t *testing.T) {
	s := begin(t)
	wait := "8s" // four heartbeat timeouts
	if tt.Long() {
		wait = "65s"
	}
	r := s.Ask("s1", "script: first "+wait+" say slow but sure")
	require.Equal(t, "slow but sure", r.Response, r.Error)
	require.Equal(t, 1, s.Model.Asked("slow but sure", 0), "it was asked once")
}

// D3: the worker is replaced by one with another prompt and other tools while a
// turn runs: replay holds and the turn ends well.
func TestFault_D3_OtherToolsAfterRestart(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	r := s.Send("s1", script.Script(add(1, 2), "first 2s "+add(3, 4), count("n"), "say done"))
	saved(t, s, r.ThreadID, 3)
	w.Kill()
	template(t, s, "orchestrator", "tools: [ls]\n", "Quite another prompt.")
	s.StartWorker()
	require.Equal(t, "done", s.Wait(r).Response)
	require.Equal(t, 1, lines(s.File("n")), "a turn keeps the snapshot it began with")
	r = s.Ask("s1", script.Script(count("m"), "say refused"))
	require.Equal(t, "refused", r.Response)
	require.Empty(t, s.File("m"), "the next turn has the new one")
}

// A plain Temporal server without our settings will do.
func TestUntunedServer(t *testing.T) {
	t.Parallel()
	s := tt.NewOn(t, tt.StartServer(t, "--untuned"))
	s.StartWorker("SPOOL_HEARTBEAT_TIMEOUT=")
	r := s.Ask("s1", script.Script(add(1, 2), script.Task("general", script.Script(add(3, 4), "say child")), "say root"))
	require.Equal(t, "root", r.Response, r.Error)
	begun := s.Send("s1", "script: slow 100ms say "+strings.Repeat("word ", 300))
	streaming(t, s, begun.ThreadID)
	cancel(t, s, begun)
	require.Equal(t, "cancelled", s.Wait(begun).Status)
	s.Verify()
}
