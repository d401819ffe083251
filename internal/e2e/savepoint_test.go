package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
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

// Row 61: the worker dies when the last tool of a batch has run and its result is
// not stored, with which the round is saved. A reader has seen no message of it,
// and after recovery it has all of them, once. No tool ran again; what the last
// one did is not known, and said so.
func TestRow61_KilledBeforeTheRound(t *testing.T) {
	s := stack(t)
	w := s.StartWorker("SPOOL_CRASH_AT=before-result:3", "SPOOL_CRASH_ONCE="+filepath.Join(s.Dir, "crashed"))
	r := s.Send("s1", script.Script(script.Calls(count("a"), count("b"), until("c")), "say whole"))
	ended(t, s, r.ThreadID, 0, 1)
	letGo(t, s, "c")
	w.Ends(t, "its crash point")
	require.Equal(t, "user", roles(messages(t, s, r.ThreadID)), "no orphan")
	s.StartWorker()
	require.Equal(t, "whole", s.Wait(r).Response)
	require.Equal(t, "user assistant tool tool tool assistant", roles(messages(t, s, r.ThreadID)))
	require.Equal(t, "run\nrun\nstart\nend\n", s.File("a")+s.File("b")+s.File("c"))
	require.Equal(t, agent.CallUnknown, messages(t, s, r.ThreadID)[4].Status)
}

// Rows 62, 63: the same answer streamed and not streamed is saved once, under
// the turn's message id.
func answeredOnce(t *testing.T, stream bool) {
	t.Helper()
	s := tt.New(t)
	template(t, s, "orchestrator", fmt.Sprintf("stream: %v\n", stream), "Test.")
	s.StartWorker()
	r := s.Ask("s1", "script: say the whole answer")
	m := messages(t, s, r.ThreadID)
	require.Len(t, m, 2)
	require.Equal(t, agent.MessageID(r.TurnID, 1), m[1].ID)
	require.Equal(t, "the whole answer", m[1].Content.String())
	st, err := s.Store.Stream(s.Ctx(), r.ThreadID)
	require.NoError(t, err)
	require.Nil(t, st, "nothing of the stream is left")
	s.Verify()
}

func TestRow62_Streamed(t *testing.T) { t.Parallel(); answeredOnce(t, true) }

func TestRow63_NotStreamed(t *testing.T) { t.Parallel(); answeredOnce(t, false) }

// Row 65: a reader sees each round as it ends; what it has seen stands unchanged
// at the end, and nothing is written a second time.
func TestRow65_NoBatchAtTheEnd(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", script.Script("first 200ms "+add(1, 2), "first 200ms "+add(3, 4), "first 200ms say done"))
	var last []agent.Message
	var sizes []int
	for turn := (memory.Turn{}); turn.State != memory.TurnClosed; {
		now := messages(t, s, r.ThreadID)
		require.GreaterOrEqual(t, len(now), len(last))
		for i := range last {
			require.Equal(t, last[i], now[i], "what was there stays as it was")
		}
		if len(now) != len(last) {
			sizes = append(sizes, len(now))
		}
		last = now
		time.Sleep(10 * time.Millisecond)
		turn, _ = s.Store.Turn(s.Ctx(), r.TurnID) // not there before it is claimed
	}
	require.Equal(t, last, messages(t, s, r.ThreadID)[:len(last)])
	require.GreaterOrEqual(t, len(sizes), 3, "the rounds were seen one by one: %v", sizes)
	require.Equal(t, "user assistant tool assistant tool assistant", roles(messages(t, s, r.ThreadID)))
}

// Row 66: the model fails for good in mid-answer: the text that came is saved,
// once, as partial; the rounds before are not written again.
func TestRow66_OnlyUnsavedText(t *testing.T) {
	s := begin(t, "SPOOL_RETRY_FOR=1s")
	r := s.Ask("s1", script.Script(count("n"), "break x1000 say half of this will arrive and no more"))
	require.Equal(t, "failed", r.Status)
	m := messages(t, s, r.ThreadID)
	require.Equal(t, "user assistant tool assistant", roles(m))
	require.True(t, m[3].Partial)
	require.NotEmpty(t, m[3].Content.String())
	require.True(t, strings.HasPrefix("half of this will arrive and no more", m[3].Content.String()), "%q", m[3].Content.String())
	require.Greater(t, s.Model.Asked("half of this", 1), 1, "several attempts failed")
	require.Equal(t, 1, lines(s.File("n")))
}

// Row 73: memory_appended comes after the commit of what it names, and all of
// them together name each message exactly once.
func TestRow73_MemoryAppended(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", script.Script(add(1, 2)+" && "+add(3, 4), add(5, 6), "say done"))
	next := int64(1)
	err := s.Client.Follow(s.Ctx(), r.ThreadID, "", spool.FollowOptions{UntilTurn: r.TurnID}, func(u spool.Update) error {
		if u.Event == nil || u.Event.Type != agent.EventMemoryAppended {
			return nil
		}
		var data struct{ FromSeq, ToSeq int64 }
		require.NoError(t, json.Unmarshal(u.Event.Data, &data))
		require.Equal(t, next, data.FromSeq)
		require.GreaterOrEqual(t, data.ToSeq, data.FromSeq)
		require.GreaterOrEqual(t, int64(len(messages(t, s, r.ThreadID))), data.ToSeq, "they can be read")
		next = data.ToSeq + 1
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, int64(len(messages(t, s, r.ThreadID))), next-1)
}

// Rows 59, 69, 99, B1, B2, C6: tool 2 of 3 is stopped by a cancel, or dies with its
// worker by kill -9. The finished ones keep their results and do not run again. Then
// the person says hi, and the request is one that any provider accepts.
func TestRow69_CancelInTheBatch(t *testing.T) { t.Parallel(); interruptedBatch(t, false) }

func TestFault_B2_KillInTheBatch(t *testing.T) { t.Parallel(); interruptedBatch(t, true) }

func interruptedBatch(t *testing.T, kill bool) {
	t.Helper()
	s := tt.New(t)
	s.Model.KeepBodies = true
	r := s.Send("s1", script.Script(script.Calls(count("a"), slow("b", 60), count("c")), "say went on"))
	w := s.StartWorker()
	started(t, s, "b")
	ended(t, s, r.ThreadID, 0, 2)
	reason, end := agent.ErrAborted, "cancelled"
	if kill {
		w.Kill()
		s.StartWorker()
		reason, end = agent.ErrUnknown, "completed"
	} else {
		cancel(t, s, r)
	}
	require.Equal(t, end, s.Wait(r).Status)
	m := messages(t, s, r.ThreadID)
	require.Equal(t, []agent.ErrorReason{"", reason, ""}, []agent.ErrorReason{m[2].ErrorReason, m[3].ErrorReason, m[4].ErrorReason})
	require.Equal(t, kill, strings.Contains(m[3].Content.String(), "not run again"))
	require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response)
	sent := asked(t, s, "say hi")
	require.NoError(t, paired(sent))
	require.Contains(t, shape(sent), "assistant tool tool tool")
	require.Equal(t, "run\nrun\nstart\n", s.File("a")+s.File("c")+s.File("b"), "nothing ran again, and what ran was stopped")
	s.Verify()
}

// ended waits until the results of these calls of a thread are stored.
func ended(t *testing.T, s *tt.Stack, thread string, which ...int) {
	t.Helper()
	tt.Eventually(t, "results are stored", func() bool {
		calls := callsOf(t, s, thread)
		return !slices.ContainsFunc(which, func(i int) bool { return i >= len(calls) || !calls[i].Status.Final() })
	})
}

// paired checks that every call has exactly one result right after it.
func paired(m []agent.Message) error {
	open := map[string]bool{}
	for i, x := range m {
		if x.Role == agent.RoleTool {
			if !open[x.ToolCallID] {
				return fmt.Errorf("message %d is the result of no open call (%s)", i, x.ToolCallID)
			}
			delete(open, x.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("message %d comes before the results of %v", i, open)
		}
		for _, c := range x.ToolCalls {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no results of %v", open)
	}
	return nil
}

// B3: a stored result without its call, and a call without its result, as a
// damaged store may have them: the next request is valid all the same, and
// verify names both.
func TestFault_B3_DamagedTranscript(t *testing.T) {
	t.Parallel()
	s := tt.New(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	r := s.Ask("s1", script.Script(add(1, 2)+" && "+add(3, 4), add(5, 6), "say done"))
	m := messages(t, s, r.ThreadID)
	require.Equal(t, "user assistant tool tool assistant tool assistant", roles(m))
	db := openRaw(t, s)
	for _, lost := range []agent.Message{m[2], m[4]} { // a result, and a message with a call
		res, err := db.Exec(`DELETE FROM messages WHERE thread_id = '` + r.ThreadID + `' AND id = '` + lost.ID + `'`)
		require.NoError(t, err)
		n, err := res.RowsAffected()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	}
	require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response)
	require.NoError(t, paired(asked(t, s, "say hi")))
	require.Empty(t, s.Model.Violations())
	out := says(t, s, 1, "verify", r.ThreadID)
	require.Contains(t, out, m[2].ToolCallID)
	require.Contains(t, out, m[5].ToolCallID)
}

// D8: what a reader had seen of an answer when it was cancelled is saved.
func TestFault_D8_CancelSavesWhatArrived(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", script.Script(count("n"), "slow 30ms say "+strings.Repeat("word ", 500)))
	seen := ""
	tt.Eventually(t, "some of the answer is read", func() bool {
		st, err := s.Store.Stream(s.Ctx(), r.ThreadID)
		if err == nil && st != nil {
			seen = st.Text
		}
		return len(seen) > 40
	})
	cancel(t, s, r)
	require.Equal(t, "cancelled", s.Wait(r).Status)
	m := messages(t, s, r.ThreadID)
	require.Equal(t, "user assistant tool assistant", roles(m))
	require.True(t, m[3].Partial)
	require.True(t, strings.HasPrefix(m[3].Content.String(), seen), "%q was read, %q saved", seen, m[3].Content.String())
	require.Equal(t, "hi", s.Ask("s1", "script: say hi").Response)
}
