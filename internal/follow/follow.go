package follow

import (
	"context"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
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
	fl := &follower{w: w, x: w.changes(), ctx: ctx, o: o, f: f, threads: map[string]*followed{}}
	defer fl.leave()
	fl.join(t.ID, at)
	if o.Descendants { // those that exist already, for a start in mid-log
		err := steps.Run(func() {
			for _, child := range steps.Must(Below(ctx, store, t)) {
				fl.add(child.ID)
			}
		})
		if err != nil {
			return err
		}
	}
	again := time.Duration(0)
	checked := cursor == "" && len(o.From) == 0
	asked := o.UntilTurn == "" || checked
	for {
		now, err := fl.x.wait(ctx, again)
		if err != nil {
			return err
		}
		end, err := steps.Get(func() bool {
			if !checked {
				fl.refuseBeyond()
				checked = true
			}
			if !asked { // its last event may lie before the cursor
				turn, begun := steps.Found(w.store.Turn(ctx, o.UntilTurn))
				fl.over, asked = begun && turn.State == memory.TurnClosed, true
			}
			return fl.round(now)
		})
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

// follower delivers the updates of a thread and its descendants. A round ends at its
// first error (package steps).
type follower struct {
	ctx     context.Context
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

func (fl *follower) add(threadID string) {
	if fl.threads[threadID] == nil {
		fl.join(threadID, steps.Must(ParseCursor(fl.o.From[threadID])))
	}
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
func (fl *follower) round(now int64) bool {
	idle := false
	if fl.o.UntilIdle {
		// Known before the events are read: what an idle thread emitted is all there.
		idle, now = fl.threads[fl.order[0]].log.isIdle(fl.ctx, now)
	}
	for i := 0; i < len(fl.order); i++ { // order grows while children appear
		fl.pump(fl.threads[fl.order[i]], now)
	}
	return idle || fl.ended || fl.over
}

// refuseBeyond refuses cursors beyond the ends of their threads: somebody mistyped
// them, or the store was restored from a backup since.
func (fl *follower) refuseBeyond() {
	for _, m := range steps.Must(fl.w.store.Mark(fl.ctx, fl.order)) {
		if at := fl.threads[m.ThreadID].at.Seq; at > m.LastEvent {
			steps.Refuse(agent.CodeInvalid, "cursor %d is not of this thread: %s has %d events", at, m.ThreadID, m.LastEvent)
		}
	}
}

// pump delivers what is new in one thread as a reading after now shows it: the
// events, then what was streamed when the last of them was the last. So text never
// precedes the events before it, and a cursor's attempt and offset always mean the
// one message that streams after its seq.
func (fl *follower) pump(t *followed, now int64) {
	if t.busy {
		return
	}
	t.busy = true
	defer func() { t.busy = false }()
	for {
		v := t.log.at(fl.ctx, now, t.at.Seq)
		events, near := v.since(t.at.Seq)
		if !near {
			before := t.at.Seq
			if fl.catchUp(t, v); t.at.Seq == before {
				return
			}
			continue
		}
		for i := range events {
			fl.deliverEvent(t, &events[i], v)
		}
		if t.at.Seq == v.last { // no cursor beyond the end
			fl.deliverText(t, v.stream)
		}
		return
	}
}

// catchUp delivers a page of events of a view that are too old to be shared.
func (fl *follower) catchUp(t *followed, v *logView) {
	for _, e := range steps.Must(fl.w.store.Events(fl.ctx, t.id, t.at.Seq, page)) {
		if e.Seq > v.last {
			return
		}
		fl.deliverEvent(t, &logged{Event: e, messages: messagesOf(fl.ctx, fl.w.store, t.log.sub, e)}, v)
	}
}

func (fl *follower) deliverEvent(t *followed, e *logged, v *logView) {
	link := linkOf(&e.Event)
	if fl.o.Descendants && link != "" && e.Type != agent.EventToolCall {
		if child := fl.threads[link]; child != nil {
			fl.pump(child, v.ended)
		}
	}
	if id := finished(&e.Event); id != "" {
		fl.deliverRest(t, e, v, id)
	}
	event := e.Event
	u := Update{ThreadID: t.id, Event: &event, Messages: slices.Clone(e.messages)}
	t.at.Seq = e.Seq
	switch e.Type { // after these another message may stream
	case agent.EventMemoryAppended, agent.EventMessageStarted, agent.EventDone, agent.EventError:
		t.at.Attempt, t.at.Offset, t.messageID, t.resumed, t.text, t.reasoning = 0, 0, "", false, 0, 0
	}
	u.Cursor = t.at.String()
	steps.Check(fl.f(u))
	if fl.o.UntilTurn != "" && e.TurnID == fl.o.UntilTurn && (e.Type == agent.EventDone || e.Type == agent.EventError) {
		fl.ended = true
	}
	if fl.o.Descendants && link != "" && e.Type == agent.EventToolCall {
		fl.add(link)
	}
}

// deliverRest delivers the text that belongs before the event that ends its
// stream, to whom some of it was delivered and while it is what streams. Others are
// given the whole message when it is saved.
func (fl *follower) deliverRest(t *followed, e *logged, v *logView, messageID string) {
	seen := t.at.Attempt > 0
	if !seen && (v.stream == nil || v.stream.MessageID != messageID) {
		return
	}
	rest := e.rest
	if rest == nil {
		rest = savedText(fl.ctx, fl.w.store, e.Event, messageID)
	}
	fl.deliverText(t, rest)
}

// deliverText delivers what the current model call has streamed since. A new
// attempt counts once some of its text is delivered: until then the cursor names
// the one whose text is to be marked as void.
func (fl *follower) deliverText(t *followed, s *memory.Streamed) {
	if s == nil || s.Attempt == 0 {
		return
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
		return
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
	steps.Check(fl.f(u))
}
