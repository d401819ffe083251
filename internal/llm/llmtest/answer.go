package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

type answer struct {
	w     http.ResponseWriter
	ctx   context.Context
	reply script.Reply
	usage agent.Usage
	q     request
	act   action
}

type object = map[string]any

func (a *answer) write() error {
	if err := script.Sleep(a.ctx, a.reply.First); err != nil {
		return err
	}
	if a.q.Stream {
		return a.stream()
	}
	return a.whole()
}

func (a *answer) whole() error {
	message := object{"role": "assistant", "content": a.reply.Text}
	if a.reply.Reasoning != "" {
		message["reasoning_content"] = a.reply.Reasoning
	}
	if len(a.reply.Calls) > 0 {
		message["tool_calls"] = a.reply.Calls
		if a.reply.Text == "" {
			message["content"] = nil
		}
	}
	for range a.reply.Deltas() {
		if err := script.Sleep(a.ctx, a.reply.Slow); err != nil {
			return err
		}
	}
	b, err := json.Marshal(object{
		"id": "chatcmpl-script", "object": "chat.completion", "model": Model, "usage": wireUsage(a.usage),
		"choices": []any{object{"index": 0, "message": message, "finish_reason": a.reply.FinishReason()}},
	})
	if err != nil {
		return err
	}
	a.w.Header().Set("Content-Type", "application/json")
	if a.act != complete {
		b = b[:len(b)/2]
	}
	if _, err := a.w.Write(b); err != nil {
		return err
	}
	if a.act == abort {
		a.flush()
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (a *answer) stream() error {
	a.w.Header().Set("Content-Type", "text/event-stream")
	deltas := a.deltas()
	if a.act != complete { // a stream that breaks has a running total
		if err := a.event(nil, wireUsage(a.usage)); err != nil {
			return err
		}
	}
	for i, d := range deltas {
		if a.act != complete && i >= (len(deltas)+1)/2 {
			if a.act == abort {
				panic(http.ErrAbortHandler)
			}
			return nil
		}
		if i > 1 {
			if err := script.Sleep(a.ctx, a.reply.Slow); err != nil {
				return err
			}
		}
		if err := a.chunk(d, nil); err != nil {
			return err
		}
	}
	if err := a.chunk(object{}, a.reply.FinishReason()); err != nil {
		return err
	}
	if a.q.StreamOptions.IncludeUsage {
		if err := a.event(nil, wireUsage(a.usage)); err != nil {
			return err
		}
	}
	return a.send("[DONE]")
}

// deltas cuts the reply into the pieces that are streamed; arguments come in
// two, as from real providers.
func (a *answer) deltas() []object {
	ds := []object{{"role": "assistant", "content": ""}}
	for _, d := range a.reply.Deltas() {
		if d.Reasoning != "" {
			ds = append(ds, object{"reasoning_content": d.Reasoning})
		} else {
			ds = append(ds, object{"content": d.Text})
		}
	}
	for i, c := range a.reply.Calls {
		half := len(c.Function.Arguments) / 2
		for half > 0 && c.Function.Arguments[half]&0xC0 == 0x80 {
			half-- // not inside a character
		}
		ds = append(ds,
			object{"tool_calls": []any{object{
				"index": i, "id": c.ID, "type": "function",
				"function": object{"name": c.Function.Name, "arguments": c.Function.Arguments[:half]},
			}}},
			object{"tool_calls": []any{object{"index": i, "function": object{"arguments": c.Function.Arguments[half:]}}}},
		)
	}
	return ds
}

func (a *answer) chunk(delta object, finish any) error {
	return a.event([]any{object{"index": 0, "delta": delta, "finish_reason": finish}}, nil)
}

func (a *answer) event(choices []any, usage object) error {
	e := object{"id": "chatcmpl-script", "object": "chat.completion.chunk", "model": Model, "choices": append([]any{}, choices...)}
	if usage != nil {
		e["usage"] = usage
	}
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return a.send(string(b))
}

func (a *answer) send(data string) error {
	if _, err := fmt.Fprintf(a.w, "data: %s\n\n", data); err != nil {
		return err
	}
	a.flush()
	return nil
}

func (a *answer) flush() { _ = http.NewResponseController(a.w).Flush() }

func wireUsage(u agent.Usage) object {
	return object{"prompt_tokens": u.PromptTokens, "completion_tokens": u.CompletionTokens, "total_tokens": u.TotalTokens}
}
