package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
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

// measureAppend compares what it costs to append to a thread of 100 messages and
// to one of 100,000, each in a store of its own, without Temporal.
func measureAppend(ctx context.Context, kind string, where [2]string, t *table, turns int) {
	var stores [2]memory.ConversationMemoryStore
	for i, length := range []int{shortLength, longLength} {
		stores[i] = must(spool.OpenStore(ctx, where[i]))
		lengthen(ctx, stores[i], length)
	}
	defer func() { _ = errors.Join(stores[0].Close(), stores[1].Close()) }() // what is measured is read before
	var times [2][]time.Duration
	for n := range turns {
		for i, store := range stores {
			times[i] = append(times[i], appendTurn(ctx, store, appendSession, n))
		}
	}
	short, long := median(times[0]), median(times[1])
	t.add(row{
		Figure: "append at 100,000 messages ÷ at 100, " + kind, Value: float64(long) / float64(short), Unit: "×", Bar: appendBar,
		Detail: fmt.Sprintf("median of %d turns, %.2f → %.2f ms", turns, milliseconds(short), milliseconds(long)),
	})
}

const appendSession = "append"

// lengthen fills a thread with messages: whole turns of rounds whose calls are
// denied at once, which is what a store does fastest.
func lengthen(ctx context.Context, store memory.ConversationMemoryStore, length int) {
	const roundsOfTurn = 10
	for n := 0; length > 0; n++ {
		t := begin(ctx, store, appendSession, "", fmt.Sprintf("seed-%d", n), filler(200))
		length -= 2 // the user's message and the answer
		for range roundsOfTurn {
			calls := min(denied, length-1)
			if calls < 1 {
				break
			}
			deniedRound(ctx, t, calls)
			length -= calls + 1
		}
		t.answer(ctx, filler(200))
	}
}

func deniedRound(ctx context.Context, t *storeTurn, n int) {
	var r agent.ModelReply
	gates := make([]agent.Gate, n)
	for i := range n {
		r.Calls = append(r.Calls, agent.NewCall(fmt.Sprintf("call_%d", i), "calculator", `{"expression":"1+1"}`))
		gates[i] = agent.GateDeny
	}
	t.reply(ctx, r, gates...)
	t.round(ctx)
}

func appendTurn(ctx context.Context, store memory.ConversationMemoryStore, session string, n int) (took time.Duration) {
	at := time.Now()
	t := begin(ctx, store, session, "", fmt.Sprintf("m-%d", n), filler(200))
	took = time.Since(at)
	call := t.reply(ctx, agent.ModelReply{Calls: []agent.Call{agent.NewCall("call_1", "calculator", `{"expression":"1+1"}`)}}).Calls[0].ID
	begun := must(store.BeginTool(ctx, memory.ToolBegin{
		ThreadID: t.thread, TurnID: t.turn, CallID: call, Fence: memory.Fence{Scope: "bench", Number: 1}, Repeatable: true,
	}))
	at = time.Now()
	check(store.SaveResult(ctx, memory.ToolOutcome{
		ThreadID: t.thread, TurnID: t.turn, CallID: call, Attempt: begun.Attempt, Result: agent.ToolOK(filler(200)), Duration: time.Millisecond,
	}))
	took += time.Since(at)
	t.round(ctx)
	t.reply(ctx, agent.ModelReply{Content: filler(200), FinishReason: "stop"})
	at = time.Now()
	t.close(ctx)
	return took + time.Since(at)
}

// pieceSize is the size of the messages that seeded conversations are made of.
const pieceSize = 4000

// converse fills a session's conversation with so many bytes of messages, by
// whole turns written to the store as a worker would.
func converse(ctx context.Context, store memory.ConversationMemoryStore, session, workdir string, bytes int) {
	for n := 0; bytes > 0; n++ {
		piece := min(bytes, 2*pieceSize)
		bytes -= piece
		t := begin(ctx, store, session, workdir, fmt.Sprintf("seed-%d", n), filler(piece/2))
		t.answer(ctx, filler(piece-piece/2))
	}
}

func filler(n int) string { return strings.Repeat("lorem ipsum ", n/12+1)[:n] }

// storeTurn drives one turn on a store, without Temporal.
type storeTurn struct {
	store  memory.ConversationMemoryStore
	thread string
	turn   string
	step   int
}

func begin(ctx context.Context, store memory.ConversationMemoryStore, session, workdir, id, text string) *storeTurn {
	sent := must(store.Send(ctx, memory.SendRequest{UserID: user, SessionID: session, MessageID: id, Content: agent.Text(text), Workdir: workdir}))
	claim := must(store.TakeNext(ctx, memory.TakeRequest{ThreadID: sent.ThreadID, RunID: "seed"}))
	if claim.Turn == nil {
		fail("message %s of %s was not taken", id, sent.ThreadID)
	}
	return &storeTurn{store: store, thread: sent.ThreadID, turn: claim.Turn.ID, step: 1}
}

func (t *storeTurn) reply(ctx context.Context, r agent.ModelReply, gates ...agent.Gate) memory.StoredReply {
	begun := must(t.store.BeginModel(ctx, memory.ModelBegin{ThreadID: t.thread, TurnID: t.turn, Step: t.step, Fence: memory.Fence{Scope: "seed", Number: 1}}))
	return must(t.store.SaveReply(ctx, memory.ReplyRecord{ThreadID: t.thread, TurnID: t.turn, Step: t.step, Attempt: begun.Attempt, Reply: r, Gates: gates}))
}

func (t *storeTurn) round(ctx context.Context) {
	must(t.store.SaveToolRound(ctx, memory.RoundRequest{ThreadID: t.thread, TurnID: t.turn, Step: t.step}))
	t.step++
}

func (t *storeTurn) answer(ctx context.Context, text string) {
	t.reply(ctx, agent.ModelReply{Content: text, FinishReason: "stop"})
	t.close(ctx)
}

func (t *storeTurn) close(ctx context.Context) {
	must(t.store.CloseTurn(ctx, memory.CloseRequest{ThreadID: t.thread, TurnID: t.turn, Step: t.step, Outcome: agent.ThreadCompleted}))
}
