package e2e

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// repair runs verify --all --repair as a person does and returns what it said.
func repair(t *testing.T, s *tt.Stack) string {
	t.Helper()
	return says(t, s, 0, "verify", "--all", "--repair")
}

// stopAll stops the workers in order.
func stopAll(s *tt.Stack) {
	for _, w := range s.Workers {
		w.Stop()
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	_ = os.Remove(to + "-shm")
	for _, side := range []string{"", "-wal"} {
		data, err := os.ReadFile(from + side)
		if side != "" && errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(to + side)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to+side, data, 0o600))
	}
}

// TestAll_Backup_StoreOlderThanTemporal: a copy of the store's file is put back.
// Temporal knows turns, and threads, that the store has forgotten, and has
// finished a turn that is open there.
func TestAll_Backup_StoreOlderThanTemporal(t *testing.T) {
	s := stack(t)
	ask(t, s)
	s.StartWorker()
	first := s.Ask("s1", "script: say first")
	open := s.Send("s2", script.Script("first 5s "+add(1, 2), "say finished meanwhile"))
	tt.Eventually(t, "the turn is open", func() bool { return len(turns(t, s, open.ThreadID)) == 1 })
	backup := t.TempDir() + "/backup.db"
	raw := openRaw(t, s)
	_, err := raw.ExecContext(t.Context(), `VACUUM INTO '`+backup+`'`)
	require.NoError(t, err)
	require.NoError(t, raw.Close())

	require.Equal(t, "finished meanwhile", s.Wait(open).Response)
	lost := pendingApproval(t, s, s.Send("s1", script.Script(count("x"), "say never")))     // its turn is unknown
	gone := pendingApproval(t, s, s.Send("s3", script.Script(count("y"), "say never too"))) // so is its thread
	stopAll(s)
	s.Reopen(func() { copyFile(t, backup, s.StorePath()) })
	_, err = s.Store.Thread(s.Ctx(), "", gone.ThreadID)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))

	s.StartWorker()
	said := repair(t, s)
	require.Contains(t, said, gone.ThreadID+": its open run is terminated")
	require.Equal(t, "finished meanwhile", s.Wait(open).Response, "the turn went on from what the store held")
	d, err := s.Temporal.DescribeWorkflow(s.Ctx(), gone.ThreadID, "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, d.RawResponse.GetWorkflowExecutionInfo().GetStatus())
	for _, session := range []string{"s1", "s2", "s3"} {
		require.Equal(t, "answered after the restore", s.Ask(session, "script: say answered after the restore").Response, session)
	}
	require.Equal(t, "user assistant user assistant", roles(messages(t, s, first.ThreadID)))
	_, err = s.Store.Turn(s.Ctx(), lost.TurnID)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "what came after the backup is not there")
	require.Contains(t, repair(t, s), "ok")
}

// TestAll_Backup_TemporalIsLost: Temporal begins anew with nothing. What was under way
// is closed as failed(terminated), with everything saved kept, and can be retried.
func TestAll_Backup_TemporalIsLost(t *testing.T) {
	t.Parallel()
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	s.StartWorker()
	done := s.Ask("s1", "script: say first")
	busy := s.Send("s2", script.Script(count("n"), script.Task("general", script.Script("first 60s "+add(1, 2), "say never")), "echo retried:"))
	tt.Eventually(t, "the sub-agent is at work", func() bool {
		all := tree(t, s, busy.ThreadID)
		return len(all) == 2 && all[1].OpenTurnID != ""
	})
	stopAll(s)
	server.Stop()
	for _, side := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(server.DB() + side)
	}
	waits := s.Send("s3", "script: say sent while Temporal was gone")
	server.Restart(t)
	said := repair(t, s)
	require.Contains(t, said, "closed as failed(terminated)")
	s.StartWorker()
	require.Equal(t, "sent while Temporal was gone", s.Wait(waits).Response)
	for _, th := range tree(t, s, busy.ThreadID) {
		require.Equal(t, agent.ThreadFailed, th.Status, th.ID)
		require.Equal(t, agent.ReasonTerminated, th.Reason, th.ID)
	}
	require.Equal(t, "user assistant tool assistant tool", roles(messages(t, s, busy.ThreadID)))
	require.Equal(t, 1, lines(s.File("n")))
	for _, r := range []string{"s1", "s2"} {
		require.Equal(t, "answered", s.Ask(r, "script: say answered").Response)
	}
	require.Equal(t, "user assistant user assistant", roles(messages(t, s, done.ThreadID)))
	s.Verify()
}

// TestAll_Backup_TemporalOlderThanTheStore: the server's file of before is put back.
// It believes in runs whose turns are long closed, and knows nothing of others.
func TestAll_Backup_TemporalOlderThanTheStore(t *testing.T) {
	t.Parallel()
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	ask(t, s)
	s.StartWorker()
	closed := pendingApproval(t, s, s.Send("s1", script.Script(count("x"), "say decided")))
	stopAll(s)
	server.Stop()
	backup := t.TempDir() + "/temporal.db"
	copyFile(t, server.DB(), backup)
	server.Restart(t)
	s.StartWorker()
	decide(t, s, closed.Pending[0].ApprovalID, memory.Approve)
	require.Equal(t, "decided", s.Wait(closed).Response)
	later := pendingApproval(t, s, s.Send("s2", script.Script(count("y"), "say later")))
	stopAll(s)
	server.Stop()
	copyFile(t, backup, server.DB())
	server.Restart(t)
	s.StartWorker()
	said := repair(t, s)
	require.Contains(t, said, later.ThreadID+": turn "+later.TurnID+" is closed as failed(terminated)")
	require.Equal(t, "failed", s.Wait(later).Status)
	require.Equal(t, 1, lines(s.File("x")), "a tool whose result is stored does not run again")
	require.Empty(t, s.File("y"))
	for _, session := range []string{"s1", "s2"} {
		require.Equal(t, "goes on", s.Ask(session, "script: say goes on").Response, session)
	}
	require.Contains(t, repair(t, s), "ok")
	s.Verify()
}
