package script

import (
	"context"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Name is the model name the engine reports.
const Name = "spool-script"

// Model answers by Answer, in process. It ignores the fail and break modifiers.
// The zero value is ready; it is safe for concurrent use.
type Model struct{}

var _ agent.Model = Model{}

// Generate streams the reply word by word, with the delays the script asks for.
// Its only error is ctx's.
func (Model) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	reply := Answer(r)
	if err := Sleep(ctx, reply.First); err != nil {
		return agent.ModelReply{}, err
	}
	for i, d := range reply.Deltas() {
		if i > 0 {
			if err := Sleep(ctx, reply.Slow); err != nil {
				return agent.ModelReply{}, err
			}
		}
		if r.Stream && onDelta != nil {
			onDelta(d)
		}
	}
	if err := ctx.Err(); err != nil {
		return agent.ModelReply{}, err
	}
	return agent.ModelReply{
		Content:      reply.Text,
		Reasoning:    reply.Reasoning,
		Calls:        reply.Calls,
		FinishReason: reply.FinishReason(),
		Usage:        reply.Usage(r),
		Model:        Name,
	}, nil
}

// Deltas cuts the reasoning and the text into words.
func (r Reply) Deltas() []agent.Delta {
	var ds []agent.Delta
	for _, w := range words(r.Reasoning) {
		ds = append(ds, agent.Delta{Reasoning: w})
	}
	for _, w := range words(r.Text) {
		ds = append(ds, agent.Delta{Text: w})
	}
	return ds
}

// FinishReason is "tool_calls" or "stop".
func (r Reply) FinishReason() string {
	if len(r.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// Usage estimates tokens at four bytes each, so that a longer transcript costs
// more, as with a real model.
func (r Reply) Usage(q agent.ModelRequest) agent.Usage {
	prompt, completion := 0, len(r.Text)+len(r.Reasoning)
	for _, m := range q.Messages {
		prompt += len(m.Content.String()) + callBytes(m.ToolCalls)
	}
	for _, t := range q.Tools {
		prompt += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	completion += callBytes(r.Calls)
	u := agent.Usage{PromptTokens: int64(prompt/4 + 1), CompletionTokens: int64(completion/4 + 1)}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

func callBytes(calls []agent.Call) int {
	n := 0
	for _, c := range calls {
		n += len(c.Function.Name) + len(c.Function.Arguments)
	}
	return n
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	w := strings.SplitAfter(s, " ")
	if w[len(w)-1] == "" {
		w = w[:len(w)-1]
	}
	return w
}

// Sleep waits for d or until ctx ends, and then returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
