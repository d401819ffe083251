package spool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Update is one thing a follower is told. Exactly one of Event and Text is set.
type Update struct {
	ThreadID string `json:"threadId"`
	// Cursor is where to go on in this thread after this update.
	Cursor string       `json:"cursor"`
	Event  *agent.Event `json:"event,omitempty"`
	// Messages are those a memory_appended event speaks of. Each replaces what
	// was streamed under its id. With the message_started of a retry it is the
	// answer that the retry supersedes, as it is marked now.
	Messages []agent.Message `json:"messages,omitempty"`
	Text     *TextUpdate     `json:"text,omitempty"`
}

// TextUpdate is a piece of streamed text of (message id, attempt). A new attempt
// replaces what earlier ones showed for the message.
type TextUpdate struct {
	MessageID string `json:"messageId"`
	TurnID    string `json:"turnId"`
	Attempt   int    `json:"attempt"`
	// Supersedes is the attempt whose text, delivered before, is void: it failed
	// or was lost, and this one begins anew. It stands in the first piece.
	Supersedes int `json:"supersedes,omitempty"`
	// Offset is the byte offset of Text in the attempt's text, ReasoningOffset
	// that of Reasoning in its reasoning.
	Offset          int    `json:"offset"`
	Text            string `json:"text,omitempty"`
	ReasoningOffset int    `json:"reasoningOffset,omitempty"`
	Reasoning       string `json:"reasoning,omitempty"`
}

// FollowOptions say what to follow and how long.
type FollowOptions struct {
	// UntilIdle ends when no turn is open and nothing waits; otherwise Follow
	// goes on until its context ends.
	UntilIdle bool
	// UntilTurn ends once this turn's done or error event was delivered.
	UntilTurn string
	// Descendants includes all sub-agents, each from From[its thread id].
	Descendants bool
	From        map[string]string
}

// Follow delivers what a thread emits, from cursor on: its events in order of seq
// and the text that is being streamed. Going on from the cursor of the last update
// loses nothing and repeats nothing. It reads the store only, also after the end
// of a turn, and waits out a store that is away. An error of f ends it.
//
// A sub-agent's updates come before its parent's event that reports its end.
func (c *Client) Follow(ctx context.Context, threadID, cursor string, o FollowOptions, f func(Update) error) error {
	t, err := c.thread(ctx, threadID)
	if err != nil {
		return err
	}
	at, err := ParseCursor(cursor)
	if err != nil {
		return err
	}
	fl := &follower{c: c, o: o, f: f, threads: map[string]*followed{}, order: []string{t.ID}}
	fl.threads[t.ID] = &followed{id: t.ID, sub: t.Kind == agent.KindSubAgent, at: at, resumed: at.Attempt > 0}
	if o.Descendants {
		if err := fl.addChildren(ctx, t.ID); err != nil {
			return err
		}
	}
	w := &changes{store: c.store}
	for {
		if err := w.wait(ctx); err != nil {
			return err
		}
		end, err := fl.round(ctx, t.ID)
		if err != nil && !away(ctx, err) {
			return err
		}
		if err == nil && end {
			return nil
		}
	}
}

// follower delivers the updates of a thread and its descendants.
type follower struct {
	c       *Client
	o       FollowOptions
	f       func(Update) error
	threads map[string]*followed
	order   []string
	ended   bool // UntilTurn was seen
}

// followed is how far one thread was delivered.
type followed struct {
	id  string
	sub bool
	at  Cursor
	// messageID names the message that at.Attempt and at.Offset belong to.
	messageID string
	// resumed means that it is not known yet, as the cursor does not name it.
	resumed bool
	// text and reasoning are the bytes delivered of the attempt.
	text, reasoning int
	// shown is the attempt of shownID of which text was delivered last.
	shownID string
	shown   int
	busy    bool // being pumped further up the stack
}

// addChildren finds sub-agents that exist already, for a start in mid-log.
func (fl *follower) addChildren(ctx context.Context, threadID string) error {
	children, err := fl.c.store.Children(ctx, threadID)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := fl.add(child.ID); err != nil {
			return err
		}
		if err := fl.addChildren(ctx, child.ID); err != nil {
			return err
		}
	}
	return nil
}

func (fl *follower) add(threadID string) error {
	if fl.threads[threadID] != nil {
		return nil
	}
	at, err := ParseCursor(fl.o.From[threadID])
	if err != nil {
		return err
	}
	fl.threads[threadID] = &followed{id: threadID, sub: true, at: at, resumed: at.Attempt > 0}
	fl.order = append(fl.order, threadID)
	return nil
}

// round delivers what is new everywhere and says whether this was the end.
func (fl *follower) round(ctx context.Context, root string) (bool, error) {
	idle := false
	if fl.o.UntilIdle {
		// Read before the events: what an idle thread emitted is all there.
		var err error
		if idle, err = fl.c.idle(ctx, root); err != nil {
			return false, err
		}
	}
	for i := 0; i < len(fl.order); i++ { // order grows while children appear
		if err := fl.pump(ctx, fl.threads[fl.order[i]]); err != nil {
			return false, err
		}
	}
	return idle || fl.ended, nil
}

// idle reports whether no turn is open and nothing waits for one.
func (c *Client) idle(ctx context.Context, threadID string) (bool, error) {
	inbox, err := c.store.Inbox(ctx, threadID)
	if err != nil {
		return false, err
	}
	for _, e := range inbox {
		if e.State == memory.EntryWaiting {
			return false, nil
		}
	}
	t, err := c.store.Thread(ctx, "", threadID)
	return err == nil && t.OpenTurnID == "", err
}

// pump delivers what is new in one thread. A piece of the stream is placed
// between two readings of the log, so that it is delivered only if no step ended
// meanwhile: text never precedes the events before it, and a cursor's attempt
// and offset always mean the one message that streams after its seq.
func (fl *follower) pump(ctx context.Context, t *followed) error {
	if t.busy {
		return nil
	}
	t.busy = true
	defer func() { t.busy = false }()
	for {
		if err := fl.deliverEvents(ctx, t); err != nil {
			return err
		}
		s, err := fl.c.store.Stream(ctx, t.id)
		if err != nil {
			return err
		}
		next, err := fl.c.store.Events(ctx, t.id, t.at.Seq, page)
		if err != nil {
			return err
		}
		if !endsStep(next) {
			if err := fl.deliverText(t, s); err != nil {
				return err
			}
		}
		if len(next) == 0 {
			return nil
		}
	}
}

// endsStep reports whether the message that streamed before these events may be
// another one after them.
func endsStep(events []agent.Event) bool {
	for _, e := range events {
		switch e.Type {
		case agent.EventMemoryAppended, agent.EventMessageStarted, agent.EventDone, agent.EventError:
			return true
		}
	}
	return false
}

func (fl *follower) deliverEvents(ctx context.Context, t *followed) error {
	for {
		events, err := fl.c.store.Events(ctx, t.id, t.at.Seq, page)
		if err != nil {
			return err
		}
		for i := range events {
			if err := fl.deliverEvent(ctx, t, &events[i]); err != nil {
				return err
			}
		}
		if len(events) < page {
			return nil
		}
	}
}

func (fl *follower) deliverEvent(ctx context.Context, t *followed, e *agent.Event) error {
	link := linkOf(e)
	if fl.o.Descendants && link != "" && e.Type != agent.EventToolCall {
		if child := fl.threads[link]; child != nil {
			if err := fl.pump(ctx, child); err != nil {
				return err
			}
		}
	}
	u := Update{ThreadID: t.id, Event: e}
	var err error
	switch e.Type {
	case agent.EventMemoryAppended:
		u.Messages, err = fl.appended(ctx, t, e)
	case agent.EventMessageStarted:
		u.Messages, err = fl.superseded(ctx, t, e)
	}
	if err != nil {
		return err
	}
	t.at.Seq = e.Seq
	if endsStep([]agent.Event{*e}) {
		t.at.Attempt, t.at.Offset, t.messageID, t.resumed, t.text, t.reasoning = 0, 0, "", false, 0, 0
	}
	u.Cursor = t.at.String()
	if err := fl.f(u); err != nil {
		return err
	}
	if fl.o.UntilTurn != "" && e.TurnID == fl.o.UntilTurn && (e.Type == agent.EventDone || e.Type == agent.EventError) {
		fl.ended = true
	}
	if fl.o.Descendants && link != "" && e.Type == agent.EventToolCall {
		return fl.add(link)
	}
	return nil
}

// linkOf returns the sub-agent thread an event names.
func linkOf(e *agent.Event) string {
	switch e.Type {
	case agent.EventToolCall, agent.EventToolResponse, agent.EventSubAgentCompleted:
	default:
		return ""
	}
	var d struct {
		SubAgentThreadID string `json:"sub_agent_thread_id"`
	}
	_ = json.Unmarshal(e.Data, &d) // events without a link have none
	return d.SubAgentThreadID
}

// appended reads the messages a memory_appended event speaks of.
func (fl *follower) appended(ctx context.Context, t *followed, e *agent.Event) ([]agent.Message, error) {
	var d struct {
		FromSeq int64 `json:"fromSeq"`
		ToSeq   int64 `json:"toSeq"`
	}
	if err := json.Unmarshal(e.Data, &d); err != nil || d.FromSeq < 1 || d.ToSeq < d.FromSeq {
		return nil, nil //nolint:nilerr // an event without a range has no messages
	}
	out, err := fl.c.store.Messages(ctx, t.id, d.FromSeq-1, int(d.ToSeq-d.FromSeq+1))
	if err != nil {
		return nil, err
	}
	for i := range out {
		if t.sub {
			out[i].SubAgentID = t.id
		} else if out[i].MessageID, err = fl.c.sentAs(ctx, t.id, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sentAs is the id that its sender gave to a person's message; "" for others.
func (c *Client) sentAs(ctx context.Context, threadID string, m agent.Message) (string, error) {
	if m.Role != agent.RoleUser || strings.HasPrefix(m.Source, "agent:") {
		return "", nil
	}
	turn, err := c.store.Turn(ctx, m.TurnID)
	if err == nil && m.ID == agent.MessageID(turn.ID, 0) {
		return turn.MessageID, nil
	}
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
		return "", err
	}
	inbox, err := c.store.Inbox(ctx, threadID) // it was taken into a running turn
	for _, e := range inbox {
		if e.Kind == memory.EntryMessage && m.ID == agent.MessageID(e.TurnID, 0) {
			return e.ID, nil
		}
	}
	return "", err
}

// superseded is the answer that a turn, if it is a retry, makes void: the message
// saved last before it began.
func (fl *follower) superseded(ctx context.Context, t *followed, e *agent.Event) ([]agent.Message, error) {
	turn, err := fl.c.store.Turn(ctx, e.TurnID)
	if err != nil || turn.RetryOf == "" {
		if agent.CodeOf(err) == agent.CodeNotFound {
			err = nil // an imported turn
		}
		return nil, err
	}
	for end := e.Seq; end > 1; {
		after := max(0, end-1-page)
		before, err := fl.c.store.Events(ctx, t.id, after, int(end-1-after))
		if err != nil {
			return nil, err
		}
		for _, old := range slices.Backward(before) {
			if old.Type != agent.EventMemoryAppended {
				continue
			}
			messages, err := fl.appended(ctx, t, &old)
			return slices.DeleteFunc(messages, func(m agent.Message) bool { return m.SupersededBy != e.TurnID }), err
		}
		end = after + 1
	}
	return nil, nil
}

// deliverText delivers what the current model call has streamed since.
func (fl *follower) deliverText(t *followed, s *memory.Streamed) error {
	if s == nil || s.Attempt == 0 {
		return nil
	}
	switch {
	case t.resumed && s.Attempt == t.at.Attempt:
		// The cursor counted reasoning first, then text.
		t.reasoning = min(t.at.Offset, len(s.Reasoning))
		t.text = min(t.at.Offset-t.reasoning, len(s.Text))
	case t.resumed && t.at.Offset > 0:
		t.shownID, t.shown = s.MessageID, t.at.Attempt
		t.text, t.reasoning = 0, 0
	case t.messageID != s.MessageID || t.at.Attempt != s.Attempt:
		t.text, t.reasoning = 0, 0
	}
	t.resumed, t.messageID, t.at.Attempt = false, s.MessageID, s.Attempt
	if len(s.Text) <= t.text && len(s.Reasoning) <= t.reasoning {
		return nil
	}
	u := Update{ThreadID: t.id, Text: &TextUpdate{MessageID: s.MessageID, TurnID: s.TurnID, Attempt: s.Attempt, Offset: t.text, ReasoningOffset: t.reasoning}}
	if t.shownID == s.MessageID && t.shown != s.Attempt {
		u.Text.Supersedes = t.shown
	}
	t.shownID, t.shown = s.MessageID, s.Attempt
	if len(s.Text) > t.text {
		u.Text.Text, t.text = s.Text[t.text:], len(s.Text)
	}
	if len(s.Reasoning) > t.reasoning {
		u.Text.Reasoning, t.reasoning = s.Reasoning[t.reasoning:], len(s.Reasoning)
	}
	t.at.Offset = t.text + t.reasoning
	u.Cursor = t.at.String()
	return fl.f(u)
}
