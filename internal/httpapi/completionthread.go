package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Clients send the whole history with each message. What the conversation has is not
// sent to it again: a request goes on where its history ends.

// searched is how many of a user's latest conversations are looked at for the one that
// a request goes on with.
const searched = 200

// target finds the conversation of a request: the one it names, the one whose history
// it brings along, or a new one, which has no transcript.
func (a *completion) target(ctx context.Context) (r memory.SendRequest, t *transcript, err error) {
	r = memory.SendRequest{
		Agent: a.q.Model, MessageID: cmp.Or(a.c.keyed(""), spool.NewID()), AnswerSchema: a.q.ResponseFormat.JSONSchema.Schema,
		SessionID: a.family() + spool.NewID(), ConversationID: agent.DefaultConversation,
	}
	name := cmp.Or(a.c.r.Header.Get(threadHeader), textOf(a.q.Metadata[conversationKey]))
	switch {
	case name != "":
		if !strings.Contains(name, "/") {
			name = agent.MainThreadID(name, agent.DefaultConversation)
		}
		p, wrong := agent.ParseThreadID(name)
		if wrong != nil || p.Kind != agent.KindMain {
			return r, nil, refuse("metadata."+conversationKey, "conversation %q is not valid: use SESSION or SESSION/CONVERSATION", name)
		}
		r.SessionID, r.ConversationID = p.SessionID, p.ConversationID
		t, err = a.transcript(ctx, name)
	case a.c.key != "":
		r.SessionID = "chat-" + a.c.key
	default:
		if t, err = a.continued(ctx); t != nil {
			r.SessionID, r.MessageID = t.now.SessionID, "after-"+shortHash(t.now.ThreadID, t.end)
		}
	}
	if err == nil {
		err = a.s.place(a.c, &r)
	}
	return r, t, err
}

// family is how the names of sessions begin that began with the same words.
func (a *completion) family() string {
	i := slices.IndexFunc(a.q.Messages, completionMessage.ofUser)
	return "chat-" + shortHash(a.c.user, a.q.Model, said(a.q.Messages[i].Content))[:16] + "-"
}

// continued finds the conversation whose whole history is that of the request. Of two
// that went alike it is neither: what their agents did may differ.
func (a *completion) continued(ctx context.Context) (found *transcript, err error) {
	threads, _, err := a.c.client.ThreadPage(ctx, memory.ThreadFilter{}, "", searched)
	family := a.family()
	for _, th := range threads {
		if !strings.HasPrefix(th.SessionID, family) || th.ConversationID != agent.DefaultConversation {
			continue
		}
		t, err := a.transcript(ctx, th.ID)
		if err != nil {
			return nil, err
		}
		if t == nil || !t.ends(a.q) {
			continue
		}
		if found != nil {
			return nil, nil
		}
		found = t
	}
	return found, err
}

// ends reports whether a conversation ends where the history of a request does, or has
// what comes then, too. One whose first message failed is tried again by that message.
func (t *transcript) ends(q completionRequest) bool {
	n := t.answered()
	if n == 0 {
		return len(q.lines) == 1 && t.now.Status == string(agent.ThreadFailed) && t.overlap(q) == len(t.open) && t.alike(q)
	}
	return t.follows(q, n, true) && (n == len(t.lines) || t.overlap(q) == len(t.open))
}

// put gives a conversation what it lacks of a request.
func (a *completion) put(ctx context.Context, r memory.SendRequest, t *transcript) (spool.Reply, error) {
	if t == nil {
		r.Content = a.q.whole()
		return a.post(ctx, r)
	}
	latest, before := a.q.latest()
	thread := t.now.ThreadID
	if a.c.key != "" { // what the conversation had before was not sent
		if e, err := a.s.store.Entry(ctx, thread, memory.EntryMessage, r.MessageID); err == nil {
			r.Agent, r.Model, r.Content = e.Agent, e.Model, latest
			if _, text := cutInstructions(said(e.Content)); strings.HasSuffix("\n"+said(latest), "\n"+text) {
				r.Content = e.Content
			}
			return a.c.client.Send(ctx, r)
		}
		if _, err := a.s.store.Entry(ctx, thread, memory.EntryRetry, r.MessageID); err == nil {
			return a.c.client.Retry(ctx, thread, r.MessageID)
		}
	}
	if before += t.overlap(a.q); before == len(a.q.Messages) && !t.alike(a.q) {
		before-- // it is said again
	}
	gone := a.c.key == "" && t.goneOn(a.q)
	n := len(t.lines)
	switch {
	case gone && (t.answered() < n || !t.follows(a.q, n-2, false) || t.lines[n-2].text != said(latest) || !t.alike(a.q)):
		return spool.Reply{}, &refusal{&httpError{http.StatusConflict, string(agent.CodeConflict), "conversation " + thread + " has gone on since the last answer in messages, and keeps what was said: " +
			"fork it there with POST /api/v1/threads/{thread}/fork and name the new conversation, or leave out the messages before your last to add it at the end"}, "messages"}
	case !gone && before < len(a.q.Messages):
		return a.add(ctx, r, t, joined(a.q.Messages[before:]))
	case !agent.ThreadStatus(t.now.Status).Final():
		t.now.Repeated = true
		return t.now, nil
	}
	// Two that ask at once get the same try.
	return a.c.client.Retry(ctx, thread, cmp.Or(a.c.keyed(""), "again-"+t.now.TurnID))
}

// add sends what is new. Where another request has gone on from the same answer with
// other words, a session begins.
func (a *completion) add(ctx context.Context, r memory.SendRequest, t *transcript, content agent.Content) (spool.Reply, error) {
	r.Content = content
	if now := a.q.instructions(); now != t.instructions {
		r.Content = after(now, nil, content)
	}
	sent, err := a.post(ctx, r)
	var pending *spool.PendingError
	if !strings.HasPrefix(r.MessageID, "after-") || agent.CodeOf(err) != agent.CodeConflict || errors.As(err, &pending) {
		return sent, err
	}
	r.SessionID, r.Content = a.family()+spool.NewID(), a.q.whole()
	return a.post(ctx, r)
}

// line is what one side has said until the other one did.
type line struct {
	user bool
	text string
	end  int // of a request: how many of its messages it ends
}

// transcript is a conversation as its client has seen it.
type transcript struct {
	lines        []line
	open         []string        // the messages that have no answer
	instructions string          // the latest of the application
	now          spool.Reply     // the last turn
	end          string          // the last message
	agent        string          // that answers
	schema       json.RawMessage // of the last turn's answer
}

// alike reports whether the last message was asked for as the request asks: another
// agent, or another form of the answer, is another request. Instructions are not
// compared: many name the time.
func (t *transcript) alike(q completionRequest) bool {
	return (t.agent == "" || t.agent == q.Model) && bytes.Equal(t.schema, q.ResponseFormat.JSONSchema.Schema)
}

// transcript reads a conversation; nil if it does not exist.
func (a *completion) transcript(ctx context.Context, thread string) (*transcript, error) {
	messages, err := a.c.client.Messages(ctx, thread, 0, 0)
	if err != nil {
		if agent.CodeOf(err) == agent.CodeNotFound {
			err = nil
		}
		return nil, err
	}
	t := &transcript{now: spool.Reply{ThreadID: thread}}
	for _, m := range messages {
		t.end = m.ID
		switch {
		case m.Partial || m.SupersededBy != "" || strings.HasPrefix(m.Source, "agent:") || len(m.ToolCalls) > 0:
		case m.Role == agent.RoleUser:
			t.say(m.Content)
		case m.Role == agent.RoleAssistant:
			t.open = nil
			t.grow(false, said(m.Content))
		}
	}
	return t, a.stand(ctx, t)
}

// stand finds out what waits in a conversation, and where its last turn stands.
func (a *completion) stand(ctx context.Context, t *transcript) error {
	thread, turn := t.now.ThreadID, ""
	last, err := a.s.store.LastTurn(ctx, thread)
	if err != nil {
		return err
	}
	if last != nil {
		turn, t.schema = last.ID, last.AnswerSchema
	}
	waiting, err := a.s.store.Waiting(ctx, thread)
	for _, e := range waiting {
		if e.Kind == memory.EntryMessage {
			t.say(e.Content)
			t.schema = e.AnswerSchema
		}
		if e.Kind == memory.EntryMessage || e.Kind == memory.EntryRetry {
			turn = e.TurnID
		}
	}
	if err == nil && turn != "" {
		t.now, err = a.c.client.Status(ctx, thread, turn)
	}
	if err == nil {
		var th agent.Thread
		th, err = a.c.client.Thread(ctx, thread)
		t.agent = th.Config.Name
	}
	if question, _ := outcome(t.now); t.now.Status == string(agent.ThreadWaitingForUser) {
		t.grow(false, question)
	}
	return err
}

func (t *transcript) say(c agent.Content) {
	instructions, text := cutInstructions(said(c))
	t.instructions = cmp.Or(instructions, t.instructions)
	t.open = append(t.open, text)
	t.grow(true, text)
}

// grow adds what one side said, to the last line if that is of the same one.
func (t *transcript) grow(user bool, text string) {
	if n := len(t.lines); n > 0 && t.lines[n-1].user == user {
		t.lines[n-1].text += "\n" + text
		return
	}
	t.lines = append(t.lines, line{user: user, text: text})
}

// answered counts the lines up to the last answer.
func (t *transcript) answered() int {
	n := len(t.lines)
	if n > 0 && t.lines[n-1].user {
		n--
	}
	return n
}

// overlap counts the latest messages of a request that the conversation has already.
func (t *transcript) overlap(q completionRequest) int {
	_, before := q.latest()
	var latest []string
	for _, m := range q.Messages[before:] {
		latest = append(latest, said(m.Content))
	}
	k := min(len(latest), len(t.open))
	for !slices.Equal(t.open[len(t.open)-k:], latest[:k]) {
		k--
	}
	return k
}

// goneOn reports whether the request's history ends before the conversation does.
func (t *transcript) goneOn(q completionRequest) bool {
	n := t.answered()
	for i := n; i > 0; i -= 2 {
		if t.follows(q, i, false) {
			return i < n
		}
	}
	return false
}

// follows reports whether the history of a request is that of the first n lines. It may
// be the end of them only, unless all of it is asked for.
func (t *transcript) follows(q completionRequest, n int, all bool) bool {
	h := q.lines[:len(q.lines)-1]
	for i := 1; i <= min(n, len(h)); i++ {
		have, sent := t.lines[n-i], h[len(h)-i]
		if have.user && i == n && (have.text != sent.text || all && len(h) > n) {
			q.Messages = q.Messages[:sent.end] // it may have begun with a history
			_, text := cutInstructions(said(q.whole()))
			return text == have.text
		}
		if have.user != sent.user || have.user && have.text != sent.text || !strings.HasSuffix(sent.text, strings.TrimSpace(have.text)) {
			return false // what a stream wrote before tools stands before an answer
		}
	}
	return n > 0 && len(h) > 0 && (len(h) >= n || !all)
}

// said is a content as it is compared: clients trim texts.
func said(c agent.Content) string {
	text := c.String()
	for _, p := range c.Parts {
		if p.ImageURL != nil {
			text += "\n" + p.ImageURL.URL
		}
	}
	return strings.TrimSpace(text)
}
