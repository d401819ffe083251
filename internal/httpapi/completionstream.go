package httpapi

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

// drainFor is how long the end of a stream of text is awaited after its turn.
const drainFor = 5 * time.Second

// wait returns when the turn has ended or needs a person.
func (a *completion) wait(ctx context.Context) (spool.Reply, error) {
	if a.sent.Status == spool.StatusAnswered || a.sent.Status == spool.StatusStored {
		return a.sent, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return a.c.client.Wait(a.s.stopped(ctx, a.c), a.sent.ThreadID, a.sent.TurnID, spool.WaitOptions{})
}

// stream answers with chunks: the texts of the turn as they are written, with a
// blank line between those before tools and the last.
func (a *completion) stream(tail string) error {
	done, err := a.s.limits.stream(a.c.user)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(a.c.r.Context())
	defer cancel()
	ctx = a.s.stopped(ctx, a.c)
	st := a.s.open(ctx, a.c, func() string { return a.waiting(ctx) })
	t := &chunks{a: a, st: st}
	if err := t.send(map[string]any{"role": "assistant", "content": ""}, nil); err != nil {
		return nil
	}
	followed := make(chan struct{})
	following, stop := context.WithCancel(ctx)
	defer stop()
	if a.sent.Repeated || a.sent.Status == spool.StatusAnswered {
		close(followed) // it may be over: its answer is sent as a whole
		if line := a.waiting(ctx); line != "" {
			_ = st.comment(line)
		}
	} else {
		go func() {
			defer close(followed)
			o := spool.FollowOptions{UntilTurn: a.sent.TurnID}
			// What it misses for an error is sent at the end.
			_ = a.c.client.Follow(following, a.sent.ThreadID, tail, o, t.update)
		}()
	}
	end, err := a.wait(ctx)
	if agent.ThreadStatus(end.Status).Final() {
		select { // what led to the end was committed with it
		case <-followed:
		case <-time.After(drainFor):
			stop()
			<-followed
		}
	} else {
		stop()
		<-followed
	}
	if a.c.r.Context().Err() != nil {
		return nil // the turn goes on without its reader
	}
	text, failed := "", err
	if failed == nil {
		text, failed = outcome(end)
	}
	if failed != nil {
		status, f := describe(a.s.o.Log, a.c.r, failed)
		_ = t.raw(map[string]any{"error": wireFailure(a.c.w, a.c.r, status, f)})
		return nil
	}
	t.finish(end, text)
	return nil
}

// waiting says what the turn's model calls wait for, "" if for nothing.
func (a *completion) waiting(ctx context.Context) string {
	waits, err := a.c.client.ModelWaits(ctx, a.sent.ThreadID)
	if err != nil || len(waits) == 0 {
		return ""
	}
	return a.waitLine(waits[0])
}

// waitLine tells of a pause in a comment: its end first, for programs.
func (a *completion) waitLine(w agent.ModelWait) string {
	line := "waiting until " + w.Until.UTC().Truncate(time.Second).Format(time.RFC3339) + ": "
	if w.ThreadID != a.sent.ThreadID {
		line += w.Agent + ": "
	}
	return line + w.Text(time.Now().UTC())
}

// chunks writes the texts of a turn's messages so that what was written is never
// taken back.
type chunks struct {
	a  *completion
	st *stream
	// Of the message that is being written:
	message string
	attempt int
	text    string // of this attempt, as far as it is known
	shown   string // what the reader has of the message
	any     bool   // something was written, of any message
	lost    error
}

func (t *chunks) raw(v any) error {
	raw, err := toJSON(v)
	if err != nil {
		return err
	}
	return t.st.write([]byte("data: " + string(raw) + "\n"))
}

func (t *chunks) send(delta map[string]any, finish any) error {
	if t.lost == nil {
		t.lost = t.raw(map[string]any{
			"id": t.a.id(), "object": "chat.completion.chunk", "created": t.a.created, "model": t.a.q.Model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}},
		})
	}
	return t.lost
}

func (t *chunks) update(u spool.Update) error {
	if u.Text != nil && u.Text.TurnID == t.a.sent.TurnID {
		if u.Text.Reasoning != "" {
			if err := t.send(map[string]any{"reasoning_content": u.Text.Reasoning}, nil); err != nil {
				return err
			}
		}
		if u.Text.Text == "" {
			return nil
		}
		t.begin(u.Text.MessageID)
		if u.Text.Attempt != t.attempt {
			t.attempt, t.text = u.Text.Attempt, ""
		}
		t.text += u.Text.Text
		return t.show(false)
	}
	if u.Event != nil && u.Event.Type == agent.EventWarning {
		var warning agent.Warning
		if json.Unmarshal(u.Event.Data, &warning) == nil && warning.Wait != nil && warning.Wait.Until.After(time.Now()) {
			return t.st.comment(t.a.waitLine(*warning.Wait))
		}
	}
	for _, m := range u.Messages {
		if m.Role != agent.RoleAssistant || m.TurnID != t.a.sent.TurnID || m.Content.String() == "" {
			continue
		}
		t.begin(m.ID)
		t.text = m.Content.String()
		if err := t.show(true); err != nil {
			return err
		}
	}
	return nil
}

func (t *chunks) begin(id string) {
	if t.message != id {
		t.message, t.attempt, t.text, t.shown = id, 0, "", ""
	}
}

// show writes what the reader lacks. A new attempt that says the same as the one
// before goes on where that broke off; one that says something else follows it.
func (t *chunks) show(whole bool) error {
	var add string
	switch {
	case strings.HasPrefix(t.text, t.shown):
		add = t.text[len(t.shown):]
		if t.shown == "" && t.any && add != "" {
			add = "\n\n" + add
		}
	case !whole && strings.HasPrefix(t.shown, t.text):
		return nil // not beyond the last attempt yet
	default:
		add = "\n\n" + t.text
	}
	t.shown = t.text
	if add == "" {
		return nil
	}
	t.any = true
	return t.send(map[string]any{"content": add}, nil)
}

// finish writes the end of an answer, and all of it if none was written.
func (t *chunks) finish(r spool.Reply, text string) {
	if !strings.HasSuffix(t.shown, text) || !t.any {
		if t.any && text != "" {
			text = "\n\n" + text
		}
		_ = t.send(map[string]any{"content": text}, nil)
	}
	_ = t.send(map[string]any{}, finish(r))
	if t.a.q.StreamOptions.IncludeUsage && t.lost == nil {
		_ = t.raw(map[string]any{
			"id": t.a.id(), "object": "chat.completion.chunk", "created": t.a.created, "model": t.a.q.Model,
			"choices": []any{}, "usage": wireUsage(r.Usage),
		})
	}
	if t.lost == nil {
		_ = t.st.write([]byte("data: [DONE]\n\n"))
	}
}
