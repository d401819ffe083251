//go:build postgres

package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
)

// TestDeadlockIsRepeated makes a deadlock with a foreign program: the operation
// that the server undoes is run again, and its caller sees its success.
func TestDeadlockIsRepeated(t *testing.T) {
	db := pgtest.Database(t)
	s := mustOpen(t, db)
	turn, _ := replied(t, s, memory.ReplyRecord{Gates: []agent.Gate{agent.GateAsk}}, agent.NewCall("", "lookup", `{}`))
	approval := memorytest.Must(s.OpenApproval(t.Context(), memory.RoundRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1}))(t)
	conn := memorytest.Must(pgx.Connect(t.Context(), db))(t)
	defer conn.Close(context.Background())
	// The foreign program holds what the operation needs second, and then asks
	// for what it holds. Its own patience is longer, so it is not the victim.
	memorytest.Must(conn.Exec(t.Context(), `SET deadlock_timeout = '20s'; BEGIN; LOCK TABLE approved_tools IN SHARE MODE`))(t)
	decided := make(chan error, 1)
	go func() {
		_, err := s.Decide(context.Background(), memory.Decision{UserID: "u", By: "u", Target: approval.ID, Verdict: memory.ApproveAll})
		decided <- err
	}()
	for query(t, db, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	memorytest.Must(conn.Exec(t.Context(), `UPDATE threads SET topic = topic; ROLLBACK`))(t)
	require.NoError(t, <-decided)
	// The server counts it a while later.
	deadlocks := func() int64 {
		return query(t, db, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	}
	for until := time.Now().Add(time.Minute); deadlocks() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("there was no deadlock")
		}
	}
	memorytest.Sound(t, s)
}

// TestAll_StreamsDoNotWaitForTheirTree: while a tree is locked, text goes on
// streaming into its steps; pieces that arrive twice at once are kept once.
func TestAll_StreamsDoNotWaitForTheirTree(t *testing.T) {
	db := pgtest.Database(t)
	s := mustOpen(t, db)
	turn, attempt := begun(t, s)
	release := hold(t, db)
	for i := range 20 {
		c := memory.Chunk{ThreadID: "s/default", TurnID: turn.ID, Step: 1, Attempt: attempt, Offset: 2 * i, Text: fmt.Sprintf("%02d", i)}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := s.AppendChunk(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	stream, err := s.Stream(t.Context(), "s/default")
	if err != nil || stream.Text != "0001020304050607080910111213141516171819" {
		t.Fatalf("%+v, %v", stream, err)
	}
	release()
}

// TestDeletedSessionKeepsNewConversations: while a session's last conversation is
// deleted, others begin new ones in it. What was acknowledged stays.
func TestDeletedSessionKeepsNewConversations(t *testing.T) {
	db := pgtest.Database(t)
	deleter, sender := mustOpen(t, db), mustOpen(t, db)
	for round := range 60 {
		first := memorytest.Request("s", "m")
		first.ConversationID = fmt.Sprint("old", round)
		old := memorytest.Must(sender.Send(t.Context(), first))(t)
		require.NoError(t, memorytest.RunTurns(t.Context(), sender, old.ThreadID))
		second := memorytest.Request("s", "m")
		second.ConversationID = fmt.Sprint("new", round)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := deleter.DeleteTree(t.Context(), memory.DeleteRequest{UserID: "u", ThreadID: old.ThreadID}); err != nil {
				t.Error(err)
			}
		})
		var sent memory.SendResult
		wg.Go(func() {
			var err error
			if sent, err = sender.Send(t.Context(), second); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		memorytest.Must(deleter.Inbox(t.Context(), sent.ThreadID))(t)
		require.NoError(t, memorytest.RunTurns(t.Context(), sender, sent.ThreadID))
		memorytest.Must(deleter.DeleteTree(t.Context(), memory.DeleteRequest{UserID: "u", ThreadID: sent.ThreadID}))(t)
	}
}

// TestAForeignIDWaitsForNoLock: who names another user's thread is refused at once,
// also while that user's tree is locked.
func TestAForeignIDWaitsForNoLock(t *testing.T) {
	db := pgtest.Database(t)
	s := mustOpen(t, db)
	const theirs = "theirs/default"
	other := memorytest.Request("theirs", "m")
	other.UserID = "mallory"
	memorytest.Must(s.Send(t.Context(), other))(t)
	exported := memorytest.Must(s.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: theirs}))(t)
	exported[0].Thread.UserID, exported[0].Rows = "u", nil
	turn, stored := replied(t, s, memory.ReplyRecord{Delegations: []bool{true}, Gates: []agent.Gate{agent.GateAuto}}, agent.NewCall("", "assign_task", `{}`))
	conn := memorytest.Must(pgx.Connect(t.Context(), db))(t)
	defer conn.Close(context.Background())
	memorytest.Must(conn.Exec(t.Context(), `BEGIN; SELECT 1 FROM threads WHERE id = 'theirs/default' FOR UPDATE`))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d := memorytest.Must(s.OpenDelegation(ctx, memory.DelegationRequest{
		ThreadID: "s/default", TurnID: turn.ID, CallID: stored.Calls[0].ID, Config: agent.SpecialistAgentConfig{Name: "general"}, Task: "t",
		Resume: theirs, Limits: memory.DelegationLimits{MaxDepth: 3},
	}))(t)
	require.Equal(t, agent.RefuseResumeUnknown(theirs), d.Refusal)
	for name, try := range map[string]func() error{
		"send": func() error {
			_, err := s.Send(ctx, memory.SendRequest{UserID: "u", ThreadID: theirs, MessageID: "x", Content: agent.Text("x"), WhenBusy: memory.Queue})
			return err
		},
		"send to its session": func() error { _, err := s.Send(ctx, memorytest.Request("theirs", "x")); return err },
		"retry": func() error {
			_, err := s.Retry(ctx, memory.RetryRequest{UserID: "u", ThreadID: theirs, RequestID: "x"})
			return err
		},
		"cancel": func() error {
			_, err := s.RequestCancel(ctx, memory.CancelRequest{UserID: "u", ThreadID: theirs})
			return err
		},
		"fork": func() error {
			_, err := s.Fork(ctx, memory.ForkRequest{UserID: "u", ThreadID: theirs, RequestID: "x"})
			return err
		},
		"delete": func() error {
			_, err := s.DeleteTree(ctx, memory.DeleteRequest{UserID: "u", ThreadID: theirs})
			return err
		},
		"edit": func() error {
			return s.EditThreads(ctx, memory.EditRequest{UserID: "u", Edits: []memory.ThreadEdit{{ThreadID: theirs, Metadata: &agent.Metadata{}}}})
		},
		"import": func() error {
			_, err := s.ImportThreads(ctx, memory.ImportRequest{UserID: "u", Threads: exported})
			return err
		},
	} {
		want := agent.CodeNotFound
		if name == "import" || name == "send to its session" { // a taken name
			want = agent.CodeConflict
		}
		if err := try(); agent.CodeOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// replied begins a turn in s/default and stores a reply with one call.
func replied(t *testing.T, s memory.ConversationMemoryStore, r memory.ReplyRecord, call agent.Call) (memory.Turn, memory.StoredReply) {
	t.Helper()
	turn, attempt := begun(t, s)
	r.ThreadID, r.TurnID, r.Step, r.Attempt, r.Reply.Calls = turn.ThreadID, turn.ID, 1, attempt, []agent.Call{call}
	return turn, memorytest.Must(s.SaveReply(t.Context(), r))(t)
}

// begun begins a turn in s/default, and its first model call.
func begun(t *testing.T, s memory.ConversationMemoryStore) (turn memory.Turn, attempt int) {
	t.Helper()
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "m")))(t)
	turn = *memorytest.Must(s.TakeNext(t.Context(), memory.TakeRequest{ThreadID: "s/default", RunID: "r"}))(t).Turn
	return turn, memorytest.Must(s.BeginModel(t.Context(), memory.ModelBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1}))(t).Attempt
}
