package view

import (
	"context"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/prompt"
	"github.com/spool-agents/spool/memory"
)

// mostSent bounds the messages that are shown of what a model was sent.
const mostSent = 100

// Sent is what a model call was sent, and what came of it.
type Sent struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	Step     int    `json:"step"`
	// Attempts is how often it was made, Failed how many of those ended in an error, the
	// last one with Code and Error.
	Attempts int    `json:"attempts"`
	Failed   int    `json:"failed"`
	Code     string `json:"code,omitempty"`
	Error    string `json:"error,omitempty"`
	// System is what stood before all messages, by the thread's configuration of today.
	System string `json:"system"`
	// Messages are the last that the model read, Omitted how many stood before them.
	Messages []agent.Message `json:"messages"`
	Omitted  int             `json:"omitted,omitempty"`
	// Reply is what it answered, with its usage; nil while there is none.
	Reply        *agent.Message `json:"reply,omitempty"`
	FinishReason string         `json:"finishReason,omitempty"`
}

// Sent reads what the model call of a step was sent, and its reply.
func (v *Views) Sent(ctx context.Context, threadID, turnID string, n int) (Sent, error) {
	t, err := v.Thread(ctx, threadID)
	if err != nil {
		return Sent{}, err
	}
	turn, step, err := v.step(ctx, t, turnID, n)
	if err != nil {
		return Sent{}, err
	}
	out := Sent{
		ThreadID: t.ID, TurnID: turnID, Step: n, Attempts: step.Attempt, Failed: step.Failed, Code: step.LastCode, Error: step.LastErr,
		FinishReason: step.FinishReason, System: prompt.System(t, turn).Content.String(), Messages: []agent.Message{},
	}
	upTo := t.MessageCount
	if step.FromSeq > 0 {
		upTo = step.FromSeq - 1
		saved, err := v.store.Messages(ctx, t.ID, upTo, 1)
		if err != nil {
			return Sent{}, err
		}
		if len(saved) == 1 && saved[0].Role == agent.RoleAssistant {
			out.Reply = &saved[0]
		}
	} else if step.Stored {
		calls, err := v.store.ToolCalls(ctx, t.ID)
		if err != nil {
			return Sent{}, err
		}
		if out.Reply, err = v.pendingReply(ctx, t, calls); err != nil {
			return Sent{}, err
		}
	}
	if upTo == 0 {
		return out, nil
	}
	conversation, err := prompt.Load(ctx, v.store, t, upTo)
	if err != nil {
		return Sent{}, err
	}
	read := agent.Transcript(conversation.Messages())
	out.Omitted = max(0, len(read)-mostSent)
	out.Messages = append(out.Messages, read[out.Omitted:]...)
	return out, nil
}

// step finds a step of a thread's turn.
func (v *Views) step(ctx context.Context, t agent.Thread, turnID string, n int) (turn memory.Turn, step memory.Step, err error) {
	if turn, err = v.store.Turn(ctx, turnID); unlessMissing(err) != nil {
		return turn, step, err
	}
	if err != nil || turn.ThreadID != t.ID {
		return turn, step, agent.Errorf(agent.CodeNotFound, "thread %s has no turn %s", t.ID, turnID)
	}
	steps, err := v.store.Steps(ctx, turnID)
	if err != nil {
		return turn, step, err
	}
	i := slices.IndexFunc(steps, func(s memory.Step) bool { return s.Step == n })
	if i < 0 {
		return turn, step, agent.Errorf(agent.CodeNotFound, "turn %s has no model call %d", turnID, n)
	}
	return turn, steps[i], nil
}
