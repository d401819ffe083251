package view

import (
	"context"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
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
	return read(ctx, v, func(r reading) Sent {
		t := r.thread(threadID)
		turn, step := r.step(t, turnID, n)
		out := Sent{
			ThreadID: t.ID, TurnID: turnID, Step: n, Attempts: step.Attempt, Failed: step.Failed, Code: step.LastCode, Error: step.LastErr,
			FinishReason: step.FinishReason, System: prompt.System(t, turn).Content.String(), Messages: []agent.Message{},
		}
		upTo := t.MessageCount
		if step.FromSeq > 0 {
			upTo = step.FromSeq - 1
			if saved := steps.Must(r.store.Messages(r.ctx, t.ID, upTo, 1)); len(saved) == 1 && saved[0].Role == agent.RoleAssistant {
				out.Reply = &saved[0]
			}
		} else if step.Stored {
			out.Reply = r.pendingReply(t, steps.Must(r.store.ToolCalls(r.ctx, t.ID)))
		}
		if upTo == 0 {
			return out
		}
		messages := agent.Transcript(steps.Must(prompt.Load(r.ctx, r.store, t, upTo)).Messages())
		out.Omitted = max(0, len(messages)-mostSent)
		out.Messages = append(out.Messages, messages[out.Omitted:]...)
		return out
	})
}

func (r reading) step(t agent.Thread, turnID string, n int) (memory.Turn, memory.Step) {
	turn := r.turnOf(t.ID, turnID)
	all := steps.Must(r.store.Steps(r.ctx, turnID))
	i := slices.IndexFunc(all, func(s memory.Step) bool { return s.Step == n })
	if i < 0 {
		steps.Refuse(agent.CodeNotFound, "turn %s has no model call %d", turnID, n)
	}
	return turn, all[i]
}
