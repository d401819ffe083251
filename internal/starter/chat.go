package starter

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spool-agents/spool"
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
	c, cfg, err := a.servingThreads(ctx)
	if err != nil {
		return err
	}
	req, err := k.request(ctx, c, cfg)
	if err != nil {
		return err
	}
	if !c.Connected() {
		a.progress("Temporal cannot be reached; messages are stored and run when it is back (%s dev starts a local one)", a.name)
	}
	a.progress("%s", chatBanner)
	a.warnOfAgent(cfg, req.Agent)
	t := &talk{a: a, c: c, prompt: a.asks, stream: true}
	put := map[string]bool{} // questions and approvals that were put here, turns that were followed
	for {
		a.talking.Store(a.asks)
		left, _, err := t.putOpen(ctx, threadOf(req), put)
		if err == nil && left == 0 {
			err = t.join(ctx, threadOf(req), put)
		}
		if err != nil {
			if errors.Is(err, errLeft) || errors.Is(err, context.Canceled) {
				break
			}
			return err
		}
		line, err := t.readLine(ctx, "> ")
		if err != nil {
			break
		}
		text := strings.TrimSpace(line.text)
		if command := chatCommand(line); command != "" {
			if command == "/quit" || command == "/exit" {
				return k.bye(a, req)
			}
			a.progress("%s", chatHelp(command))
			continue
		}
		switch {
		case text == "":
			continue
		case !utf8.ValidString(text):
			a.progress("this is not valid UTF-8; nothing was sent")
			continue
		}
		req.MessageID, req.Content, req.WhenBusy = "", agent.Text(text), ""
		left, asked, err := t.putOpen(ctx, threadOf(req), put)
		if err != nil {
			if errors.Is(err, errLeft) || errors.Is(err, context.Canceled) {
				break
			}
			return err
		}
		if asked {
			a.progress("now your message is sent: %s", oneLine(text, 100))
		}
		if left > 0 {
			req.WhenBusy = memory.Queue
		}
		if err := t.exchange(ctx, req, put); err != nil {
			if errors.Is(err, errLeft) || errors.Is(err, context.Canceled) {
				break
			}
			if exitCode(err) == exitWaiting {
				_ = k.bye(a, req)
			}
			return err
		}
		// The choice stays with the thread once it was sent.
		req.Agent, req.Model = "", ""
	}
	a.progress("")
	return k.bye(a, req)
}

const chatBanner = "Ctrl-C cancels a running turn, twice leaves it running; at a question or a prompt it leaves at once, and the question stays open. /help"

// word is what may be a command; /usr/bin/ls is none.
var word = regexp.MustCompile(`^/[A-Za-z]*$`)

// chatCommand is the command in a line, or "" for a message. What was pasted is
// always a message.
func chatCommand(line typed) string {
	first, _, _ := strings.Cut(strings.TrimRight(line.text, " \t"), " ")
	if line.pasted || !word.MatchString(first) {
		return ""
	}
	return first
}

func chatHelp(command string) string {
	if command != "/help" {
		return command + " is no command of chat, and nothing was sent; /help lists them. A message that begins with / needs a blank before it"
	}
	return "/quit, /exit  leave; so does Ctrl-D\n" +
		"/help         this text\n" +
		"All else is sent. A paste of several lines is one message; Enter sends it. A blank before / sends it as text.\n" + chatBanner
}

// join follows a turn that runs already, each once, until it ends: a person at the
// prompt would see nothing of it.
func (t *talk) join(ctx context.Context, threadID string, put map[string]bool) error {
	if !t.prompt {
		return nil
	}
	tails, err := t.c.TailTree(ctx, threadID)
	if err != nil || len(tails) == 0 { // the thread is made with its first message
		return err
	}
	v, err := t.c.Show(ctx, threadID, false)
	if err != nil || v.Thread.OpenTurnID == "" || put[v.Thread.OpenTurnID] {
		return err
	}
	turn := v.Thread.OpenTurnID
	put[turn] = true
	t.a.progress("a turn is running; this is how it goes on:")
	reply, err := t.until(ctx, spool.Reply{ThreadID: threadID, TurnID: turn}, tails)
	t.a.cut(reply)
	if err == nil && t.untold(reply) {
		_ = t.a.report(reply, t.seen) // says why nobody waits for it any longer
	}
	return err
}

// exchange sends one message and shows the answer. What a person can mend is
// told and does not end the chat.
func (t *talk) exchange(ctx context.Context, req memory.SendRequest, put map[string]bool) error {
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
	t.a.answered(sent)
	if sent.Note != "" {
		t.a.progress("%s", clean(sent.Note))
		return nil
	}
	if sent.Answered != nil && sent.TurnID == "" {
		return nil
	}
	put[sent.TurnID] = true
	reply, err := t.until(ctx, sent, tails)
	if err != nil {
		return err
	}
	t.a.cut(reply)
	if t.untold(reply) {
		err := t.a.report(reply, t.seen)
		if exitCode(err) == exitWaiting { // nobody here can be asked
			return err
		}
	}
	return nil
}

// untold reports whether what became of a turn was not shown while it ran.
func (t *talk) untold(r spool.Reply) bool {
	switch s := agent.ThreadStatus(r.Status); {
	case s == agent.ThreadCompleted:
		return false
	case s.Final():
		return t.seen.failure != failureLine(r.ErrorCode, r.Error)
	}
	return true
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
