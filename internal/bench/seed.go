package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

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

// reply stores a model's reply for the present step.
func (t *storeTurn) reply(ctx context.Context, r agent.ModelReply, gates ...agent.Gate) memory.StoredReply {
	begun := must(t.store.BeginModel(ctx, memory.ModelBegin{ThreadID: t.thread, TurnID: t.turn, Step: t.step, Fence: memory.Fence{Scope: "seed", Number: 1}}))
	return must(t.store.SaveReply(ctx, memory.ReplyRecord{ThreadID: t.thread, TurnID: t.turn, Step: t.step, Attempt: begun.Attempt, Reply: r, Gates: gates}))
}

// round saves the present step's calls, which all have their results.
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
