package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// Row 67: a worker killed in mid-stream; one final answer, and the text of the
// dead attempt is gone.
func TestRow67_KillWhileStreaming(t *testing.T) {
	t.Parallel()
	lostInMidStream(t, func(s *tt.Stack, w *tt.Process) { w.Kill(); s.StartWorker() })
}

// D6: SIGTERM in mid-stream hands the work to another worker; it does not end
// the turn as if a person had stopped it.
func TestFault_D6_SigtermHandsOver(t *testing.T) {
	t.Parallel()
	_, _, w := lostInMidStream(t, func(s *tt.Stack, w *tt.Process) { s.StartWorker(); w.Signal(syscall.SIGTERM) }, "SPOOL_DRAIN_TIME=0s")
	w.Ends(t, "SIGTERM")
}

// A worker that is paused while another takes its work over, and wakes up late,
// changes nothing.
func TestPausedWorkerIsFenced(t *testing.T) {
	t.Parallel()
	s, r, w := lostInMidStream(t, func(s *tt.Stack, w *tt.Process) { w.Signal(syscall.SIGSTOP); s.StartWorker() })
	before := snapshot(t, s, r.ThreadID)
	w.Signal(syscall.SIGCONT)
	time.Sleep(3 * time.Second) // what it does now is what must not show
	require.Equal(t, before, snapshot(t, s, r.ThreadID))
	require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
	s.Verify()
}

// lostInMidStream loses a worker while an answer streams and waits for the answer.
func lostInMidStream(t *testing.T, lose func(s *tt.Stack, w *tt.Process), env ...string) (*tt.Stack, spool.Reply, *tt.Process) {
	t.Helper()
	s := tt.New(t)
	w := s.StartWorker(env...)
	r := s.Send("s1", script.Script(add(1, 2), "slow 100ms say "+strings.Repeat("word ", 40)+"end"))
	streaming(t, s, r.ThreadID)
	lose(s, w)
	r = s.Wait(r)
	require.Equal(t, "completed", r.Status, r.Error)
	require.True(t, strings.HasSuffix(r.Response, "word end"))
	m := messages(t, s, r.ThreadID)
	require.Equal(t, "user assistant tool assistant", roles(m))
	require.False(t, m[3].Partial)
	s.Verify()
	return s, r, w
}

// The Temporal server is killed in mid-turn and comes back: the turn goes on.
func TestServerLoss(t *testing.T) {
	t.Parallel()
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	s.StartWorker()
	r := s.Send("s1", script.Script(add(1, 2), "first 1s "+add(3, 4), "say survived"))
	saved(t, s, r.ThreadID, 3)
	server.Kill()
	stored, err := s.Client.Send(s.Ctx(), s.Message("s1", "script: say stored meanwhile"))
	require.NoError(t, err, "a message is safe although no Temporal is up")
	server.Restart(t)
	require.Equal(t, "survived", s.Wait(r).Response)
	require.Equal(t, "stored meanwhile", s.Wait(stored).Response)
	s.Verify()
}

// C8, C9: somebody holds the store's lock; turns wait for it and do not fail.
func TestFault_C8_LockedStoreDelaysATurn(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", script.Script(add(1, 2), "first 500ms "+add(3, 4), "say waited"))
	saved(t, s, r.ThreadID, 3)
	hold(t, s, lockFor())
	require.Equal(t, "waited", s.Wait(r).Response)
}

func lockFor() time.Duration {
	if tt.Long() {
		return 32 * time.Second
	}
	return 6 * time.Second
}

// openRaw opens the store's database behind the store's back.
func openRaw(t *testing.T, s *tt.Stack) *sql.DB {
	t.Helper()
	driver, source := "sqlite", "file:"+s.StorePath()+"?_pragma=busy_timeout(10000)&_txlock=immediate"
	if strings.HasPrefix(s.StoreSpec(), "postgres") {
		driver, source = "pgx", strings.Replace(s.StoreSpec(), "pool_max_conns=6", "application_name=raw", 1)
	}
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// hold keeps the store's write lock for a while.
func hold(t *testing.T, s *tt.Stack, d time.Duration) {
	t.Helper()
	tx, err := openRaw(t, s).BeginTx(context.Background(), nil)
	require.NoError(t, err)
	if strings.HasPrefix(s.StoreSpec(), "postgres") {
		_, err = tx.Exec(`LOCK TABLE threads IN EXCLUSIVE MODE`)
		require.NoError(t, err)
	}
	time.Sleep(d)
	require.NoError(t, tx.Rollback())
}

// A run terminated in the Web UI: the turn is closed as failed(terminated), the
// thread takes the next message, and a retry goes on from what was saved.
func TestTerminatedRunIsReconciled(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", script.Script(count("n"), script.Task("general", script.Script(slow("child", 60), "say never")), "say never"))
	started(t, s, "child")
	require.NoError(t, s.Temporal.TerminateWorkflow(s.Ctx(), r.ThreadID, "", "by a person"))
	end := s.Wait(r)
	require.Equal(t, "failed", end.Status)
	all := tree(t, s, r.ThreadID)
	require.Equal(t, agent.ReasonTerminated, all[0].Reason)
	require.Len(t, all, 2)
	require.True(t, all[1].Status.Final(), "the foreground descendant is closed too, not %s", all[1].Status)
	require.Equal(t, "user assistant tool assistant tool", roles(messages(t, s, r.ThreadID)))
	require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response)
	require.Equal(t, 1, lines(s.File("n")))
}

// A claim that takes effect after its run has ended, as that of a paused worker
// may: nothing was terminated, so the message is answered by a new run.
func TestLateClaimIsAnswered(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", "script: say first")
	noRun(t, s, r.ThreadID)
	m := s.Message("s1", "script: say second")
	m.MessageID = "late"
	sent, err := s.Store.Send(s.Ctx(), m) // a sender that dies before its nudge
	require.NoError(t, err)
	_, err = s.Store.TakeNext(s.Ctx(), memory.TakeRequest{ThreadID: r.ThreadID, RunID: "a run that has ended"})
	require.NoError(t, err)
	end := s.Wait(spool.Reply{ThreadID: sent.ThreadID, TurnID: sent.TurnID})
	require.Equal(t, "second", end.Response, end.Error)
}

// Reset in the Web UI: the new run goes on from what the store holds and calls
// nothing again.
func TestResetGoesOnFromTheStore(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", script.Script(count("n"), "first 3s "+add(1, 2), "say reset"))
	saved(t, s, r.ThreadID, 3)
	_, err := s.Temporal.ResetWorkflowExecution(s.Ctx(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace:                 "default",
		WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: r.ThreadID},
		Reason:                    "by a person",
		WorkflowTaskFinishEventId: 4,
		RequestId:                 "reset-" + s.Store.ID(),
	})
	require.NoError(t, err)
	end := s.Wait(r)
	require.Equal(t, "completed", end.Status, end.Error)
	require.Equal(t, "reset", end.Response)
	require.Equal(t, 1, lines(s.File("n")))
	require.Equal(t, "user assistant tool assistant tool assistant", roles(messages(t, s, r.ThreadID)))
}

// A run may continue as new at any step, children open or not.
func TestContinueAsNewAtEveryStep(t *testing.T) {
	t.Parallel()
	want := undisturbedSnapshot(t)
	s := tt.New(t)
	s.StartWorker("SPOOL_MAX_EVENTS=10")
	root := converse(t, s)
	require.Equal(t, want, snapshot(t, s, root))
	require.GreaterOrEqual(t, historyOf(t, s, root).runs, 3)
	s.Verify()
}

// Row 68: rate limits and server errors are retried, Retry-After is obeyed;
// 400 and 401 are not retried and the person is told why.
func TestRow68_ModelErrors(t *testing.T) {
	s := begin(t)
	begun := time.Now()
	r := s.Ask("s1", "script: fail 429 x2 after 1s say recovered")
	require.Equal(t, "recovered", r.Response, r.Error)
	require.GreaterOrEqual(t, time.Since(begun), 2*time.Second)
	require.Equal(t, "recovered", s.Ask("s2", "script: fail 503 x2 say recovered").Response)
	require.Equal(t, "whole", s.Ask("s3", "script: break x2 say whole").Response)
	for _, status := range []string{"400", "401"} {
		r := s.Ask("s4", "script: fail "+status+" x5 say never")
		require.Equal(t, "failed", r.Status)
		require.Contains(t, r.Error, status)
	}
	require.Equal(t, 1, s.Model.Asked("fail 400", 0))
}

// A provider that asks to wait for longer than calls are repeated ends the turn at
// once, and those that find it so; nobody waits in silence.
func TestFault_A11_ALongRetryAfterEndsTurns(t *testing.T) {
	s := begin(t)
	for i, c := range []struct{ text, want string }{
		{"script: fail 429 x9 after 24h say never", `\(HTTP 429\).*asks to wait until \S+Z`},
		{"script: say never", `^not asked: fake at \S+ said at \S+Z to wait until \S+Z: .*\. To do: retry`},
	} {
		r := s.Ask(fmt.Sprintf("s%d", i), c.text)
		require.Equal(t, "failed", r.Status)
		require.Equal(t, agent.ModelRateLimited, r.ErrorCode)
		require.Regexp(t, c.want, r.Error)
	}
}

// A worker of another store on the same task queue refuses a run clearly.
func TestForeignStoreIsRefused(t *testing.T) {
	t.Parallel()
	a, b := tt.New(t), tt.New(t)
	r := a.Send("s1", "script: say once")
	other := b.StartWorker("SPOOL_TASK_QUEUE=" + agent.TaskQueue(a.Store.ID()))
	tt.Eventually(t, "the run is refused", func() bool {
		err := a.Temporal.GetWorkflow(a.Ctx(), r.ThreadID, "").Get(a.Ctx(), nil)
		return err != nil && strings.Contains(err.Error(), "belongs to store "+a.Store.ID())
	})
	require.Empty(t, messages(t, a, r.ThreadID), "the worker of another store has taken nothing")
	other.Stop()
	a.StartWorker()
	require.Equal(t, "once", a.Wait(r).Response)
}

// A sender with another task queue starts a run that nobody serves: the thread
// is freed, and its messages are answered.
func TestStrandedRunIsFreed(t *testing.T) {
	s := begin(t)
	wrong := spool.NewClient(s.Store, s.Temporal, spool.ClientOptions{UserID: "tester", TaskQueue: "nobody-" + s.Store.ID()})
	sent, err := wrong.Send(s.Ctx(), s.Message("s1", "script: say freed"))
	require.NoError(t, err)
	require.Equal(t, "freed", s.Wait(sent).Response)
	require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
}

// The store's file is deleted under a worker: it says so and ends, instead of
// writing what nobody will read.
func TestDeletedStoreEndsTheWorker(t *testing.T) {
	t.Parallel()
	s := tt.New(t)
	w := s.StartWorker()
	s.Ask("s1", "script: say before")
	require.NoError(t, os.Remove(s.StorePath()))
	w.Ends(t, "its store is gone")
	require.Contains(t, w.Log(), "was deleted or replaced while it was open")
}

// Cancelled requests can leave Temporal's one connection to SQLite interrupted for good.
// The server is started again then, and the turn goes on.
func TestAll_StuckTemporalDatabase(t *testing.T) {
	t.Parallel()
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	s.StartWorker()
	r := s.Send("s1", script.Script(add(1, 2), "first 1s "+add(3, 4), "say survived"))
	saved(t, s, r.ThreadID, 3)
	tt.Eventually(t, "a database that is stuck and a server that starts again", func() bool {
		hurry(s.Ctx(), s.Temporal)
		return strings.Contains(server.Log(), "starting Temporal again")
	})
	require.Equal(t, "survived", s.Wait(r).Response)
	s.Verify()
}

// hurry asks the server many things for a while and takes back each question early.
func hurry(ctx context.Context, c client.Client) {
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			for n := range 100 {
				asked, cancel := context.WithTimeout(ctx, time.Duration(i*n%200)*100*time.Microsecond)
				_, _ = c.WorkflowService().ListNamespaces(asked, &workflowservice.ListNamespacesRequest{PageSize: 1})
				_, _ = c.ExecuteWorkflow(asked, client.StartWorkflowOptions{TaskQueue: "nobody"}, "Nothing")
				cancel()
			}
		})
	}
	all.Wait()
}
