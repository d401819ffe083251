package follow

import (
	"context"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Follow delivers what a thread emits, from cursor on: its events in order of seq
// and the text that is being streamed. Going on from the cursor of the last update
// loses nothing and repeats nothing. It reads the store only, also after the end
// of a turn, and waits for a store that cannot be reached. An error of f ends it.
//
// A sub-agent's updates come before its parent's event that reports its end.
func Follow(ctx context.Context, store memory.Reader, t agent.Thread, cursor string, o Options, f func(Update) error) error {
	at, err := ParseCursor(cursor)
	if err != nil {
		return err
	}
	w := watch(store)
	defer w.leave()
	fl := &follower{w: w, x: w.changes(), o: o, f: f, threads: map[string]*followed{}}
	defer fl.leave()
	fl.join(t.ID, at)
	if o.Descendants { // those that exist already, for a start in mid-log
		below, err := Below(ctx, store, t)
		if err != nil {
			return err
		}
		for _, child := range below {
			if err := fl.add(child.ID); err != nil {
				return err
			}
		}
	}
	again := time.Duration(0)
	asked := o.UntilTurn == "" || cursor == "" && len(o.From) == 0
	for {
		now, err := fl.x.wait(ctx, again)
		if err != nil {
			return err
		}
		if !asked { // its last event may lie before the cursor
			fl.over, err = isOver(ctx, store, o.UntilTurn)
			asked = err == nil
		}
		end := false
		if err == nil {
			end, err = fl.round(ctx, now)
		}
		if again = 0; err != nil {
			again = lookAnyway
		}
		if err != nil && !unreachable(ctx, err) {
			return err
		}
		if err == nil && (end || o.Once) {
			return nil
		}
	}
}

// follower delivers the updates of a thread and its descendants.
type follower struct {
	w       *watcher
	x       *changes
	o       Options
	f       func(Update) error
	threads map[string]*followed
	order   []string
	ended   bool // UntilTurn was seen
	over    bool // UntilTurn had ended before anything was read
}

// followed is how far one thread was delivered.
type followed struct {
	id  string
	log *sharedLog
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

func (fl *follower) add(threadID string) error {
	if fl.threads[threadID] != nil {
		return nil
	}
	at, err := ParseCursor(fl.o.From[threadID])
	if err != nil {
		return err
	}
	fl.join(threadID, at)
	return nil
}

func (fl *follower) join(threadID string, at Cursor) {
	fl.threads[threadID] = &followed{id: threadID, log: fl.w.log(threadID, fl.x), at: at, resumed: at.Attempt > 0}
	fl.order = append(fl.order, threadID)
}

func (fl *follower) leave() {
	for _, t := range fl.threads {
		fl.w.leaveLog(t.log, fl.x)
	}
}

// round delivers what had been committed by now everywhere and says whether this
// was the end.
func (fl *follower) round(ctx context.Context, now int64) (bool, error) {
	idle := false
	if fl.o.UntilIdle {
		// Known before the events are read: what an idle thread emitted is all there.
		var err error
		if idle, now, err = fl.threads[fl.order[0]].log.isIdle(ctx, now); err != nil {
			return false, err
		}
	}
	for i := 0; i < len(fl.order); i++ { // order grows while children appear
		if err := fl.pump(ctx, fl.threads[fl.order[i]], now); err != nil {
			return false, err
		}
	}
	return idle || fl.ended || fl.over, nil
}

// isOver reports whether a turn has ended; one that has not begun has not.
func isOver(ctx context.Context, store memory.Reader, turnID string) (bool, error) {
	turn, err := store.Turn(ctx, turnID)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return false, nil
	}
	return turn.State == memory.TurnClosed, err
}

// pump delivers what is new in one thread as a reading after now shows it: the
// events, then what was streamed when the last of them was the last. So text never
// precedes the events before it, and a cursor's attempt and offset always mean the
// one message that streams after its seq.
func (fl *follower) pump(ctx context.Context, t *followed, now int64) error {
	if t.busy {
		return nil
	}
	t.busy = true
	defer func() { t.busy = false }()
	for {
		v, err := t.log.at(ctx, now, t.at.Seq)
		if err != nil {
			return err
		}
		events, near := v.since(t.at.Seq)
		if !near {
			before := t.at.Seq
			if err := fl.catchUp(ctx, t, v); err != nil || t.at.Seq == before {
				return err
			}
			continue
		}
		for i := range events {
			if err := fl.deliverEvent(ctx, t, &events[i], v); err != nil {
				return err
			}
		}
		if t.at.Seq != v.last { // a cursor beyond the end
			return nil
		}
		return fl.deliverText(t, v.stream)
	}
}

// catchUp delivers a page of events of a view that are too old to be shared.
func (fl *follower) catchUp(ctx context.Context, t *followed, v *logView) error {
	events, err := fl.w.store.Events(ctx, t.id, t.at.Seq, page)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Seq > v.last {
			return nil
		}
		m, err := messagesOf(ctx, fl.w.store, t.log.sub, e)
		if err != nil {
			return err
		}
		if err := fl.deliverEvent(ctx, t, &logged{Event: e, messages: m}, v); err != nil {
			return err
		}
	}
	return nil
}

// endsStep reports whether the message that streams before an event may be
// another one than that after it.
func endsStep(eventType string) bool {
	switch eventType {
	case agent.EventMemoryAppended, agent.EventMessageStarted, agent.EventDone, agent.EventError:
		return true
	}
	return false
}

// deliverEvent delivers an event that a view has shown.
func (fl *follower) deliverEvent(ctx context.Context, t *followed, e *logged, v *logView) error {
	link := linkOf(&e.Event)
	if fl.o.Descendants && link != "" && e.Type != agent.EventToolCall {
		if child := fl.threads[link]; child != nil {
			if err := fl.pump(ctx, child, v.ended); err != nil {
				return err
			}
		}
	}
	if id := finished(&e.Event); id != "" {
		if err := fl.deliverRest(ctx, t, e, v, id); err != nil {
			return err
		}
	}
	event := e.Event
	u := Update{ThreadID: t.id, Event: &event, Messages: slices.Clone(e.messages)}
	t.at.Seq = e.Seq
	if endsStep(e.Type) {
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

// deliverRest delivers the text that belongs before the event that ends its
// stream, to whom some of it was delivered and while it is what streams. Others are
// given the whole message when it is saved.
func (fl *follower) deliverRest(ctx context.Context, t *followed, e *logged, v *logView, messageID string) error {
	seen := t.at.Attempt > 0
	if !seen && (v.stream == nil || v.stream.MessageID != messageID) {
		return nil
	}
	rest := e.rest
	if rest == nil {
		var err error
		if rest, err = savedText(ctx, fl.w.store, e.Event, messageID); err != nil {
			return err
		}
	}
	return fl.deliverText(t, rest)
}

// deliverText delivers what the current model call has streamed since. A new
// attempt counts once some of its text is delivered: until then the cursor names
// the one whose text is to be marked as void.
func (fl *follower) deliverText(t *followed, s *memory.Streamed) error {
	if s == nil || s.Attempt == 0 {
		return nil
	}
	if t.resumed {
		// The cursor's attempt is one of the message that streams now. It counted
		// reasoning first, then text.
		t.resumed, t.messageID = false, s.MessageID
		if t.at.Offset > 0 {
			t.shownID, t.shown = s.MessageID, t.at.Attempt
		}
		t.reasoning = min(t.at.Offset, len(s.Reasoning))
		t.text = min(t.at.Offset-t.reasoning, len(s.Text))
	}
	text, reasoning := t.text, t.reasoning
	if t.messageID != s.MessageID || t.at.Attempt != s.Attempt {
		text, reasoning = 0, 0
	}
	if len(s.Text) <= text && len(s.Reasoning) <= reasoning {
		return nil
	}
	u := Update{ThreadID: t.id, Text: &TextUpdate{MessageID: s.MessageID, TurnID: s.TurnID, Attempt: s.Attempt, Offset: text, ReasoningOffset: reasoning}}
	if t.shownID == s.MessageID && t.shown != s.Attempt {
		u.Text.Supersedes = t.shown
	}
	if len(s.Text) > text {
		u.Text.Text = s.Text[text:]
	}
	if len(s.Reasoning) > reasoning {
		u.Text.Reasoning = s.Reasoning[reasoning:]
	}
	t.shownID, t.shown, t.messageID = s.MessageID, s.Attempt, s.MessageID
	t.text, t.reasoning = max(text, len(s.Text)), max(reasoning, len(s.Reasoning))
	t.at.Attempt, t.at.Offset = s.Attempt, t.text+t.reasoning
	u.Cursor = t.at.String()
	return fl.f(u)
}
