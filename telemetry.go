package spool

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/telemetry"
	"github.com/spool-agents/spool/memory"
)

// TraceIDs makes the ids of spans for the TracerProvider of a worker or client:
//
//	sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(spool.TraceIDs()), …)
//
// Ids of Spool's spans follow from turns, steps and calls, so that all processes that
// a turn runs in, whatever became of them, agree on its trace; all others are random.
// A provider without it keeps a turn in one trace, but not as one tree.
func TraceIDs() interface {
	NewIDs(context.Context) (trace.TraceID, trace.SpanID)
	NewSpanID(context.Context, trace.TraceID) trace.SpanID
} {
	return telemetry.IDs{}
}

// TraceID is the id of the trace of a turn: of a main thread's and of all
// sub-agents' turns below it.
func (c *Client) TraceID(ctx context.Context, turn memory.Turn) (string, error) {
	for turn.DelegatorTurn != "" {
		above, err := c.store.Turn(ctx, turn.DelegatorTurn)
		if err != nil {
			return "", err
		}
		turn = above
	}
	return telemetry.TraceID(turn.ID).String(), nil
}

// lastTrace is the trace of a thread's open turn, or else of the one that wrote its
// last message; "" if there is none.
func (c *Client) lastTrace(ctx context.Context, t agent.Thread, messages []agent.Message) string {
	turn := memory.Turn{ID: t.OpenTurnID}
	if turn.ID == "" && len(messages) > 0 {
		turn.ID = messages[len(messages)-1].TurnID
	}
	if turn.ID == "" {
		return ""
	}
	if t.Kind == agent.KindSubAgent {
		var err error
		if turn, err = c.store.Turn(ctx, turn.ID); err != nil {
			return ""
		}
	}
	id, err := c.TraceID(ctx, turn)
	if err != nil {
		return "" // of a tree that is damaged; verify says what is
	}
	return id
}
