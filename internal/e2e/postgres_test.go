//go:build postgres

package e2e

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/pgtest"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// TestOnPostgres runs scenarios of every kind with Spool's store on PostgreSQL.
func TestOnPostgres(t *testing.T) {
	t.Parallel()
	tt.OnPostgres(t)
	scenarios := map[string]func(*testing.T){
		"delegation":           TestRow52_DelegationTree,
		"cancel in the batch":  TestRow69_CancelInTheBatch,
		"cancel of tree":       TestRow103_CancelReachesDescendants,
		"approval survives":    TestRow76_ApprovalSurvivesRestart,
		"locked store":         TestFault_C8_LockedStoreDelaysATurn,
		"crash points":         TestRow55_CrashPoints,
		"kill while streaming": TestRow67_KillWhileStreaming,
		"nothing left running": TestRow17_NothingRunsWithoutAWorkflow,
		"verify":               TestRow56_VerifyCommand,
	}
	if tt.All() {
		maps.Copy(scenarios, map[string]func(*testing.T){
			"tool rounds":               TestRow71_ToolRounds,
			"order of events":           TestRow42_EventOrder,
			"five children end at once": TestFault_E3_FiveEndTogether,
			"grandchild outlives":       TestFault_E5_GrandchildOutlivesItsParent,
			"a cancel saves":            TestFault_D8_CancelSavesWhatArrived,
			"retry":                     TestRow60_RetryDoesNotDuplicate,
			"queued messages":           TestRow94_QueuedMessagesInOrder,
			"same message twice":        TestRow104_SameMessageTwice,
			"denial":                    TestRow64_Denial,
			"sender dies":               TestRow59_SenderDiesBeforeTheNudge,
			"kill in the batch":         TestFault_B2_KillInTheBatch,
			"sigterm":                   TestFault_D6_SigtermHandsOver,
			"paused worker":             TestPausedWorkerIsFenced,
			"terminated run":            TestTerminatedRunIsReconciled,
			"export and import":         testExportOfARun,
			"http log":                  TestRow40_HTTPLog,
			"long outputs":              TestFault_D2_FiftyMegabytes,
			"deploys":                   TestAll_RollingDeploys,
			"chaos":                     TestChaos,
		})
	}
	for name, scenario := range scenarios {
		t.Run(name, scenario)
	}
}

// TestAll_ComposeTopology is docker-compose.yml as processes: a PostgreSQL server with
// Spool's store, a Temporal server and two workers, of which one is killed in the
// middle of its work.
func TestAll_ComposeTopology(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t)
	tt.OnStore(t, func(t testing.TB) string { return pgtest.With(t, c.Database(t), "pool_max_conns", "6") })
	s := tt.New(t)
	workers := []*tt.Process{s.StartWorker(), s.StartWorker()}
	first := s.Send("s1", script.Script(add(1, 2), "slow 100ms say "+strings.Repeat("word ", 40)+"end"))
	second := s.Send("s2", treeScript())
	streaming(t, s, first.ThreadID)
	workers[0].Kill()
	r := s.Wait(first)
	require.Equal(t, "completed", r.Status, r.Error)
	require.True(t, strings.HasSuffix(r.Response, "word end"))
	require.Equal(t, "user assistant tool assistant", roles(messages(t, s, first.ThreadID)))
	require.Equal(t, "completed", s.Wait(second).Status)

	// The one that is left dies too, in the middle of a tree; another goes on.
	third := s.Send("s2", treeScript())
	tt.Eventually(t, "the tree grows", func() bool { return len(tree(t, s, third.ThreadID)) > 5 })
	workers[1].Kill()
	s.StartWorker()
	require.Equal(t, "completed", s.Wait(third).Status)
	out := says(t, s, 0, "doctor")
	require.NotContains(t, out, "secret-word", "the password of the store's URL")
	require.Contains(t, out, c.Address())
	s.Verify()
}

// TestAll_StoreLoss kills the store's server in the middle of a turn and starts it
// again: the turn waits for it and goes on; a sender is told meanwhile.
func TestAll_StoreLoss(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t)
	tt.OnStore(t, func(t testing.TB) string { return c.Database(t) })
	s := tt.New(t)
	s.StartWorker()
	s.StartWorker()
	r := s.Send("s1", script.Script(add(1, 2), "first 500ms "+add(3, 4), count("n"), "slow 20ms say "+strings.Repeat("word ", 40)+"end"))
	saved(t, s, r.ThreadID, 3)
	for range 3 {
		c.Kill(t)
		_, err := s.Client.Send(s.Ctx(), s.Message("s2", "script: say lost"))
		require.ErrorContains(t, err, "cannot be reached")
		time.Sleep(time.Second) // that long it is away
		c.Restart(t)
		time.Sleep(700 * time.Millisecond) // and back
	}
	r = s.Wait(r)
	require.Equal(t, "completed", r.Status, r.Error)
	require.True(t, strings.HasSuffix(r.Response, "word end"))
	require.Equal(t, "user assistant tool assistant tool assistant tool assistant", roles(messages(t, s, r.ThreadID)))
	require.LessOrEqual(t, lines(s.File("n")), 1, "a tool that is not repeatable ran at most once")
	require.Equal(t, "again", s.Ask("s2", "script: say again").Response)
	s.Verify()
}
