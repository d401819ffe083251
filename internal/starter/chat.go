package starter

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

type chatCmd struct {
	target
}

// Run reads messages until the input ends or a person leaves.
func (k *chatCmd) Run(ctx context.Context, a *app) error {
	if a.json {
		return usage("chat is for people and has no --json: use send --json")
	}
	c, _, err := a.serving(ctx)
	if err != nil {
		return err
	}
	req, err := k.request(ctx, c)
	if err != nil {
		return err
	}
	if !c.Connected() {
		a.progress("Temporal cannot be reached; messages are stored and run when it is back (%s dev starts a local one)", a.name)
	}
	a.progress("Ctrl-C cancels a running turn, twice leaves; so does /quit")
	t := &talk{a: a, c: c, prompt: true, stream: true}
	for {
		a.talking.Store(a.terminal)
		line, err := t.readLine(ctx, "> ")
		if err != nil {
			break
		}
		switch line = strings.TrimSpace(line); {
		case line == "":
			continue
		case line == "/quit" || line == "/exit":
			return k.bye(a, req)
		case !utf8.ValidString(line):
			a.progress("this is not valid UTF-8; nothing was sent")
			continue
		}
		req.MessageID, req.Content = "", agent.Text(line)
		if err := t.exchange(ctx, req); err != nil {
			if errors.Is(err, errLeft) || errors.Is(err, context.Canceled) {
				break
			}
			return err
		}
		// The choice stays with the thread once it was sent.
		req.Agent, req.Model = "", ""
	}
	a.progress("")
	return k.bye(a, req)
}

// exchange sends one message and shows the answer. What a person can mend is
// told and does not end the chat.
func (t *talk) exchange(ctx context.Context, req memory.SendRequest) error {
	tails, err := tailsOf(ctx, t.c, req)
	if err != nil {
		return err
	}
	sent, err := t.c.Send(ctx, req)
	switch agent.CodeOf(err) {
	case "":
	case agent.CodeConflict, agent.CodeLimit, agent.CodeUnavailable:
		t.a.progress("%s", clean(err.Error()))
		return nil
	default:
		return err
	}
	if sent.Note != "" {
		t.a.progress("%s", clean(sent.Note))
		return nil
	}
	reply, err := t.until(ctx, sent, tails)
	if err != nil {
		return err
	}
	if !agent.ThreadStatus(reply.Status).Final() {
		_ = t.a.report(reply, true) // says what happened; the chat goes on
	}
	return nil
}

func (k *chatCmd) bye(a *app, req memory.SendRequest) error {
	where := "-t " + req.ThreadID
	if req.ThreadID == "" {
		where = "-s " + req.SessionID
		if req.ConversationID != "" {
			where += " -c " + req.ConversationID
		}
	}
	a.progress("go on with: %s chat %s", a.name, where)
	return nil
}
