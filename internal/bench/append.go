package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
)

const (
	appendBar   = 1.5
	shortLength = 100
	longLength  = 100_000
	// denied is how many calls one seeded reply has. They are denied as they
	// are stored, so a round of a thousand messages needs no tool runs.
	denied = 999
)

// appendTimes are the times of one turn with one tool call, by operation.
type appendTimes struct{ send, take, result, close time.Duration }

func (a appendTimes) total() time.Duration { return a.send + a.take + a.result + a.close }

// longAndShort opens two stores of a kind, with a thread of 100 and one of 100,000
// messages. The caller closes them.
func longAndShort(ctx context.Context, where [2]string) (stores [2]memory.ConversationMemoryStore, closeAll func(), err error) {
	closeAll = func() {
		for _, s := range stores {
			if s != nil {
				_ = s.Close() // what is measured is read before
			}
		}
	}
	for i, length := range []int{shortLength, longLength} {
		if stores[i], err = spool.OpenStore(ctx, where[i]); err != nil {
			return stores, closeAll, err
		}
		if err = lengthen(ctx, stores[i], length); err != nil {
			return stores, closeAll, err
		}
	}
	return stores, closeAll, nil
}

// measureAppend compares what it costs to append to a thread of 100 messages and
// to one of 100,000, each in a store of its own, without Temporal; and to read the
// last 100 messages of each.
func measureAppend(ctx context.Context, kind string, where [2]string, t *table, turns int) error {
	stores, closeAll, err := longAndShort(ctx, where)
	defer closeAll()
	if err != nil {
		return err
	}
	var times [2][]appendTimes
	for n := range turns {
		for i, store := range stores {
			a, err := appendTurn(ctx, store, appendSession, n)
			if err != nil {
				return err
			}
			times[i] = append(times[i], a)
		}
	}
	short, long := middle(times[0], appendTimes.total), middle(times[1], appendTimes.total)
	ops := ""
	for _, op := range []struct {
		name string
		of   func(appendTimes) time.Duration
	}{
		{"Send", func(a appendTimes) time.Duration { return a.send }},
		{"TakeNext", func(a appendTimes) time.Duration { return a.take }},
		{"SaveResult with its round", func(a appendTimes) time.Duration { return a.result }},
		{"CloseTurn", func(a appendTimes) time.Duration { return a.close }},
	} {
		ops += fmt.Sprintf("; %s %.2f → %.2f", op.name, milliseconds(middle(times[0], op.of)), milliseconds(middle(times[1], op.of)))
	}
	t.add(row{
		Figure: "append at 100,000 messages ÷ at 100, " + kind, Value: float64(long) / float64(short), Unit: "×", Bar: appendBar,
		Detail: fmt.Sprintf("median of %d turns, %.2f → %.2f ms%s", turns, milliseconds(short), milliseconds(long), ops),
	})
	return measureWindow(ctx, kind, stores, t, turns)
}

// measureWindow reads the last messages of both threads, in turn.
func measureWindow(ctx context.Context, kind string, stores [2]memory.ConversationMemoryStore, t *table, times int) error {
	const window = 100
	var took [2][]time.Duration
	for range times {
		for i, store := range stores {
			th, err := store.Thread(ctx, "", appendSession+"/default")
			if err != nil {
				return err
			}
			at := time.Now()
			m, err := store.Messages(ctx, th.ID, th.MessageCount-window, 0)
			took[i] = append(took[i], time.Since(at))
			if err != nil || len(m) != window {
				return fmt.Errorf("%d messages of the last %d: %w", len(m), window, err)
			}
		}
	}
	short, long := median(took[0]), median(took[1])
	t.add(row{
		Figure: "reading the last 100 of 100,000 messages ÷ of 100, " + kind, Value: float64(long) / float64(short), Unit: "×", Bar: appendBar,
		Detail: fmt.Sprintf("median of %d, %.2f → %.2f ms", times, milliseconds(short), milliseconds(long)),
	})
	return nil
}

// middle is the median of one part of the times.
func middle(times []appendTimes, of func(appendTimes) time.Duration) time.Duration {
	var ds []time.Duration
	for _, a := range times {
		ds = append(ds, of(a))
	}
	return median(ds)
}

const appendSession = "append"

// lengthen fills a thread with messages: whole turns of rounds whose calls are
// denied at once, which is what a store does fastest.
func lengthen(ctx context.Context, store memory.ConversationMemoryStore, length int) error {
	const roundsOfTurn = 10
	for n := 0; length > 0; n++ {
		t, err := begin(ctx, store, appendSession, "", fmt.Sprintf("seed-%d", n), filler(200))
		if err != nil {
			return err
		}
		length -= 2 // the user's message and the answer
		for range roundsOfTurn {
			calls := min(denied, length-1)
			if calls < 1 {
				break
			}
			if err := deniedRound(ctx, t, calls); err != nil {
				return err
			}
			length -= calls + 1
		}
		if err := t.answer(ctx, filler(200)); err != nil {
			return err
		}
	}
	return nil
}

func deniedRound(ctx context.Context, t *storeTurn, n int) error {
	var r agent.ModelReply
	gates := make([]agent.Gate, n)
	for i := range n {
		r.Calls = append(r.Calls, agent.NewCall(fmt.Sprintf("call_%d", i), "calculator", `{"expression":"1+1"}`))
		gates[i] = agent.GateDeny
	}
	if _, err := t.reply(ctx, r, gates...); err != nil {
		return err
	}
	return t.round(ctx)
}

// appendTurn runs a turn with one tool call and times what appends.
func appendTurn(ctx context.Context, store memory.ConversationMemoryStore, session string, n int) (appendTimes, error) {
	var a appendTimes
	var t *storeTurn
	var claim memory.Claim
	var sent memory.SendResult
	clock := func(d *time.Duration, f func() error) error {
		at := time.Now()
		err := f()
		*d = time.Since(at)
		return err
	}
	err := clock(&a.send, func() (err error) {
		sent, err = store.Send(ctx, memory.SendRequest{UserID: user, SessionID: session, MessageID: fmt.Sprintf("m-%d", n), Content: agent.Text(filler(200))})
		return err
	})
	if err != nil {
		return a, err
	}
	err = clock(&a.take, func() (err error) {
		claim, err = store.TakeNext(ctx, memory.TakeRequest{ThreadID: sent.ThreadID, RunID: "bench"})
		return err
	})
	if err != nil {
		return a, err
	}
	t = &storeTurn{store: store, thread: sent.ThreadID, turn: claim.Turn.ID, step: 1}
	stored, err := t.reply(ctx, agent.ModelReply{Calls: []agent.Call{agent.NewCall("call_1", "calculator", `{"expression":"1+1"}`)}})
	if err != nil {
		return a, err
	}
	call := stored.Calls[0].ID
	begun, err := store.BeginTool(ctx, memory.ToolBegin{
		ThreadID: t.thread, TurnID: t.turn, CallID: call, Fence: memory.Fence{Scope: "bench", Number: 1}, Repeatable: true,
	})
	if err != nil {
		return a, err
	}
	// The step's only result, so its round is saved with it.
	err = clock(&a.result, func() error {
		return store.SaveResult(ctx, memory.ToolOutcome{
			ThreadID: t.thread, TurnID: t.turn, CallID: call, Attempt: begun.Attempt, Result: agent.ToolOK(filler(200)), Duration: time.Millisecond,
		})
	})
	if err != nil {
		return a, err
	}
	if err := t.round(ctx); err != nil {
		return a, err
	}
	if _, err := t.reply(ctx, agent.ModelReply{Content: filler(200), FinishReason: "stop"}); err != nil {
		return a, err
	}
	return a, clock(&a.close, func() error { return t.close(ctx) })
}

// measureAppendPostgres measures on a server of its own whose commits wait for the disk.
func measureAppendPostgres(ctx context.Context, t *table, turns int) error {
	c, err := pgtest.New()
	if err != nil {
		return err
	}
	defer c.Close()
	// Two databases that every cluster has.
	return measureAppend(ctx, "postgres", [2]string{c.URL("postgres"), c.URL("template1")}, t, turns)
}
