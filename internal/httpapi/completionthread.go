package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 255
	// searched is how many of a user's latest conversations are looked at for the one
	// that a request goes on with.
	searched = 200
)

// readKey reads the Idempotency-Key of a request.
func (c *call) readKey() error {
	key := c.r.Header.Get(idempotencyHeader)
	if len(key) > maxIdempotencyKey {
		return agent.Errorf(agent.CodeInvalid, "the %s has %d characters, at most %d are possible", idempotencyHeader, len(key), maxIdempotencyKey)
	}
	if key != "" {
		c.key = shortHash(c.user, key)
	}
	return nil
}

// keyed is the id of a request: its own, else that of its key.
func (c *call) keyed(id string) string {
	if id == "" && c.key != "" {
		return "request-" + c.key
	}
	return id
}

func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// target finds the conversation of a request: the one it names, the one its history is
// of, or a new one. Without a transcript there is nothing in it.
func (a *completion) target(ctx context.Context) (r memory.SendRequest, t *transcript, err error) {
	r = memory.SendRequest{Agent: a.q.Model, MessageID: cmp.Or(a.c.keyed(""), spool.NewID()), AnswerSchema: a.q.ResponseFormat.JSONSchema.Schema}
	r.ConversationID = agent.DefaultConversation
	name := cmp.Or(a.c.r.Header.Get(threadHeader), a.q.Metadata[conversationKey])
	switch {
	case name != "":
		if r.SessionID, r.ConversationID, err = named(name); err == nil {
			t, err = a.s.transcript(ctx, a.c.client, agent.MainThreadID(r.SessionID, r.ConversationID))
		}
	case a.c.key != "":
		r.SessionID = "chat-" + a.c.key
	default:
		if t, err = a.continued(ctx); t != nil {
			r.SessionID, r.MessageID = t.thread.SessionID, "after-"+shortHash(t.thread.ID, t.end)
			break
		}
		r.SessionID = a.family() + spool.NewID()
	}
	if err == nil {
		err = a.s.place(a.c, &r)
	}
	return r, t, err
}

func named(name string) (session, conversation string, err error) {
	thread := name
	if !strings.Contains(name, "/") {
		thread = agent.MainThreadID(name, agent.DefaultConversation)
	}
	p, err := agent.ParseThreadID(thread)
	if err != nil || p.Kind != agent.KindMain {
		return "", "", refuse("metadata."+conversationKey, "conversation %q is not valid: use SESSION or SESSION/CONVERSATION", name)
	}
	return p.SessionID, p.ConversationID, nil
}

// family is how the names of sessions begin that began with the same words.
func (a *completion) family() string {
	i := slices.IndexFunc(a.q.Messages, func(m completionMessage) bool { return m.Role == "user" })
	return "chat-" + shortHash(a.c.user, a.q.Model, said(a.q.Messages[i].Content))[:16] + "-"
}

// continued finds the conversation whose whole history is that of the request. Of two
// that went alike it is neither: what their agents did may differ.
func (a *completion) continued(ctx context.Context) (found *transcript, err error) {
	if _, before := a.q.latest(); before == 0 {
		return nil, nil
	}
	threads, _, err := a.c.client.ThreadPage(ctx, memory.ThreadFilter{}, "", searched)
	if err != nil {
		return nil, err
	}
	for _, th := range threads {
		if !strings.HasPrefix(th.SessionID, a.family()) || th.ConversationID != agent.DefaultConversation {
			continue
		}
		t, err := a.s.transcript(ctx, a.c.client, th.ID)
		if err != nil {
			return nil, err
		}
		if t == nil || !t.follows(a.q, t.answered(), true) || !t.asks && t.overlap(a.q) != len(t.open) {
			continue
		}
		if found != nil {
			return nil, nil
		}
		found = t
	}
	return found, nil
}

// put gives a conversation what it lacks of a request.
func (a *completion) put(ctx context.Context, r memory.SendRequest, t *transcript) (spool.Reply, error) {
	latest, before := a.q.latest()
	if t == nil {
		r.Content = a.q.whole()
		return a.post(ctx, r)
	}
	if a.c.key != "" {
		if sent, done, err := a.repeated(ctx, r, t, latest); done {
			return sent, err
		}
	}
	overlap := t.overlap(a.q)
	if gone := t.goneOn(a.q); gone && a.c.key == "" {
		if !t.regenerates(a.q) {
			return spool.Reply{}, &refusal{&httpError{http.StatusConflict, string(agent.CodeConflict), "conversation " + t.thread.ID + " has gone on since the last answer in messages, and keeps what was said: " +
				"fork it there with POST /api/v1/threads/{thread}/fork and name the new conversation, or leave out the messages before your last to add it at the end"}, "messages"}
		}
		return a.again(ctx, t)
	}
	if overlap == len(a.q.Messages)-before {
		return a.again(ctx, t)
	}
	r.Content = joined(a.q.Messages[before+overlap:])
	if now := a.q.instructions(); now != t.instructions {
		r.Content = after(now, nil, r.Content)
	}
	sent, err := a.post(ctx, r)
	var pending *spool.PendingError
	if strings.HasPrefix(r.MessageID, "after-") && agent.CodeOf(err) == agent.CodeConflict && !errors.As(err, &pending) {
		// Another request has gone on from there with other words.
		r.SessionID, r.MessageID, r.Content = a.family()+spool.NewID(), spool.NewID(), a.q.whole()
		return a.post(ctx, r)
	}
	return sent, err
}

// repeated is the outcome of an earlier request with the same key.
func (a *completion) repeated(ctx context.Context, r memory.SendRequest, t *transcript, latest agent.Content) (sent spool.Reply, done bool, err error) {
	e, err := a.s.store.Entry(ctx, t.thread.ID, memory.EntryMessage, r.MessageID)
	if err == nil {
		r.Content = latest
		if _, text := cutInstructions(said(e.Content)); strings.HasSuffix("\n"+said(latest), "\n"+text) {
			r.Content = e.Content // what the conversation had before was not sent
		}
		r.Agent, r.Model = e.Agent, e.Model
		sent, err = a.c.client.Send(ctx, r)
		return sent, true, err
	}
	if _, err = a.s.store.Entry(ctx, t.thread.ID, memory.EntryRetry, r.MessageID); err == nil {
		sent, err = a.c.client.Retry(ctx, t.thread.ID, r.MessageID)
		return sent, true, err
	}
	return sent, false, nil
}

// again answers a message that the conversation has: by the turn that is under way, or
// by another try.
func (a *completion) again(ctx context.Context, t *transcript) (spool.Reply, error) {
	if !t.closed {
		sent, err := a.c.client.Status(ctx, t.thread.ID, t.turn)
		sent.Repeated = true
		return sent, err
	}
	// Two that ask at once get the same try.
	return a.c.client.Retry(ctx, t.thread.ID, cmp.Or(a.c.keyed(""), "again-"+t.turn))
}

// exchange is what the person said, and the answer; "" if there is none yet.
type exchange struct{ asked, answer string }

// transcript is a conversation as its client has seen it.
type transcript struct {
	thread       agent.Thread
	exchanges    []exchange
	open         []string // what was said since the last answer
	instructions string   // the latest of the application
	turn         string   // the last one
	closed       bool     // it has ended
	asks         bool     // the last answer is a question of the agent
	end          string   // the id of the last message
}

// transcript reads a conversation; nil if it does not exist.
func (s *Server) transcript(ctx context.Context, client *spool.Client, thread string) (*transcript, error) {
	th, err := client.Thread(ctx, thread)
	if err != nil {
		if agent.CodeOf(err) == agent.CodeNotFound {
			err = nil
		}
		return nil, err
	}
	t := &transcript{thread: th, closed: true}
	messages, err := client.Messages(ctx, thread, 0, 0)
	if err != nil {
		return nil, err
	}
	asked := map[string]bool{}
	for _, m := range messages {
		t.end = m.ID
		t.add(m, asked)
	}
	if last, err := s.store.LastTurn(ctx, thread); err != nil {
		return nil, err
	} else if last != nil {
		t.turn, t.closed = last.ID, last.State == memory.TurnClosed
	}
	if !t.closed {
		if err := t.addQuestions(ctx, client); err != nil {
			return nil, err
		}
	}
	waiting, err := s.store.Waiting(ctx, thread)
	for _, e := range waiting {
		switch e.Kind {
		case memory.EntryMessage:
			t.say(e.Content)
			t.turn, t.closed = e.TurnID, false
		case memory.EntryRetry:
			t.turn, t.closed = e.TurnID, false
		}
	}
	return t, err
}

// add takes a message of the thread. asked are the calls that have asked the person.
func (t *transcript) add(m agent.Message, asked map[string]bool) {
	switch {
	case m.Partial || m.SupersededBy != "" || strings.HasPrefix(m.Source, "agent:"):
	case m.Role == agent.RoleUser:
		t.say(m.Content)
	case m.Role == agent.RoleTool && asked[m.ToolCallID]:
		t.say(m.Content)
	case m.Role == agent.RoleAssistant:
		for _, c := range m.ToolCalls {
			if p, err := agent.ParseAskUserParams([]byte(c.Function.Arguments)); err == nil && c.Function.Name == agent.ToolAskUser {
				asked[c.ID] = true
				t.answer(p.Question)
			}
		}
		if len(m.ToolCalls) == 0 {
			t.answer(said(m.Content))
		}
	}
}

func (t *transcript) addQuestions(ctx context.Context, client *spool.Client) error {
	questions, err := client.Questions(ctx, t.thread.ID)
	if len(questions) == 0 {
		return err
	}
	said := t.open
	t.answer(textOfQuestions(questions))
	t.open, t.asks = said, true
	return nil
}

func (t *transcript) say(c agent.Content) {
	instructions, text := cutInstructions(said(c))
	t.instructions = cmp.Or(instructions, t.instructions)
	t.open = append(t.open, text)
	if n := len(t.exchanges); n > 0 && t.exchanges[n-1].answer == "" {
		t.exchanges[n-1].asked += "\n" + text
		return
	}
	t.exchanges = append(t.exchanges, exchange{asked: text})
}

func (t *transcript) answer(text string) {
	if n := len(t.exchanges); n > 0 {
		t.exchanges[n-1].answer, t.open = text, nil
	}
}

// answered counts the exchanges that have an answer.
func (t *transcript) answered() int {
	n := len(t.exchanges)
	if n > 0 && t.exchanges[n-1].answer == "" {
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
	for k := min(len(latest), len(t.open)); k > 0; k-- {
		if slices.Equal(t.open[len(t.open)-k:], latest[:k]) {
			return k
		}
	}
	return 0
}

// goneOn reports whether the request's history ends before the conversation does.
func (t *transcript) goneOn(q completionRequest) bool {
	n := t.answered()
	if t.follows(q, n, false) {
		return false
	}
	for i := 1; i < n; i++ {
		if t.follows(q, i, false) {
			return true
		}
	}
	return false
}

// regenerates reports whether the request asks anew for the last answer.
func (t *transcript) regenerates(q completionRequest) bool {
	latest, _ := q.latest()
	n := len(t.exchanges)
	return t.answered() == n && t.follows(q, n-1, false) && t.exchanges[n-1].asked == said(latest)
}

// follows reports whether the history of a request is that of the first n exchanges.
// It may be the end of them only, unless all of it is asked for.
func (t *transcript) follows(q completionRequest, n int, all bool) bool {
	_, at := q.latest()
	for i := n - 1; i >= 0 && at > 0; i-- {
		answer, asked := q.back(at, false)
		user, from := q.back(asked, true)
		if !strings.HasSuffix(answer, strings.TrimSpace(t.exchanges[i].answer)) {
			return false
		}
		if i == 0 && (user != t.exchanges[0].asked || from > 0 && all) {
			q.Messages = q.Messages[:asked] // it may have begun with a history
			_, text := cutInstructions(said(q.whole()))
			return text == t.exchanges[0].asked
		}
		if user != t.exchanges[i].asked {
			return false
		}
		if at = from; at == 0 {
			return i == 0 || !all
		}
	}
	return n > 0 && at > 0 && !all
}

// back is what one side says before a message, and how many messages stand before that.
func (q completionRequest) back(at int, user bool) (text string, from int) {
	from = at
	for from > 0 && (q.Messages[from-1].Role == "user") == user {
		from--
	}
	return said(joined(q.Messages[from:at])), from
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

func cutInstructions(text string) (instructions, rest string) {
	if end := strings.Index(text, instructionsEnd); end > 0 && strings.HasPrefix(text, instructionsBegin) {
		end += len(instructionsEnd)
		return text[:end], strings.TrimSpace(text[end:])
	}
	return "", text
}
