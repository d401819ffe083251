package follow

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
)

const (
	// logKept is how many of a thread's latest events its followers share. Who is
	// further behind reads the store alone.
	logKept = 128
	// page is how many events are read at once.
	page = 1000
)

// logged is an event with what is delivered along with it.
type logged struct {
	agent.Event
	messages []agent.Message
	// rest is all text of the message whose stream this event ends.
	rest *memory.Streamed
}

// logView is a thread as one reading showed it: its latest events and what was
// streamed when the last of them was the last. It is never changed.
type logView struct {
	began, ended int64 // by the watcher's time
	last         int64 // seq of the last event
	events       []logged
	stream       *memory.Streamed
}

// since returns the events after seq, or false if the view does not reach back to it.
func (v *logView) since(seq int64) ([]logged, bool) {
	if seq >= v.last {
		return nil, true
	}
	if len(v.events) == 0 || seq < v.events[0].Seq-1 {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(v.events, seq+1, func(e logged, seq int64) int { return cmp.Compare(e.Seq, seq) })
	return v.events[i:], true
}

// sharedLog is what the followers of one thread read together.
type sharedLog struct {
	w     *watcher
	id    string
	sub   bool
	users int // under w.mu
	// waiting are those who wait for a change of the thread; under w.mu.
	waiting map[*changes]bool

	reading sync.Mutex
	view    *logView // nil before the first reading
	// seen was the thread's mark before the view was read.
	seen markedAt

	mark markedAt // the latest; under w.mu
}

// markedAt is where a thread stood between two moments of the watcher's time.
type markedAt struct {
	began, ended int64
	there        bool // the thread exists, and was asked for
	mark         memory.Mark
}

// shows reports whether a mark shows what had been committed at a moment: it was read
// after it, or the moment is the end of its reading.
func (m markedAt) shows(moment int64) bool {
	return m.there && (m.began > moment || m.ended == moment)
}

// marked is the latest that the watcher knows.
func (l *sharedLog) marked() markedAt {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.mark
}

// log returns the shared log of a thread, whose changes x is told of from now on.
// leaveLog has to be called.
func (w *watcher) log(threadID string, x *changes) *sharedLog {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.logs[threadID]
	if l == nil {
		p, err := agent.ParseThreadID(threadID)
		l = &sharedLog{w: w, id: threadID, sub: err == nil && p.Kind == agent.KindSubAgent, waiting: map[*changes]bool{}}
		w.logs[threadID] = l
	}
	l.users++
	l.waiting[x] = true
	return l
}

func (w *watcher) leaveLog(l *sharedLog, x *changes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(l.waiting, x)
	if l.users--; l.users == 0 {
		delete(w.logs, l.id)
	}
}

// at returns a view that was read after a moment and that has the event seq, if
// there is one. Seq is where a follower stands.
func (l *sharedLog) at(ctx context.Context, moment, seq int64) *logView {
	l.reading.Lock()
	defer l.reading.Unlock()
	if l.view == nil {
		l.view = &logView{last: markOf(ctx, l.w.store, l.id).LastEvent}
	}
	mark := l.marked()
	same := mark.shows(moment) && l.seen.there && mark.mark == l.seen.mark // read again, it would be the same
	if l.view.began <= moment && !same || l.view.last < seq {
		l.view, l.seen = l.read(ctx, l.view), mark
	}
	return l.view
}

// read reads what came after a view. What is streamed belongs after the last
// event if the log has not grown when the stream has been read.
func (l *sharedLog) read(ctx context.Context, old *logView) *logView {
	store := l.w.store
	v := &logView{began: l.w.time.Add(1), last: old.last, events: old.events}
	for {
		v.stream = steps.Must(store.Stream(ctx, l.id))
		events := steps.Must(store.Events(ctx, l.id, v.last, page))
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			v.events = append(v.events, logged{Event: e, messages: messagesOf(ctx, store, l.sub, e)})
		}
		v.last = events[len(events)-1].Seq
	}
	fresh := v.events[len(old.events):]
	for i := range fresh {
		switch id := finished(&fresh[i].Event); {
		case id == "":
		case v.stream != nil && v.stream.MessageID == id:
			fresh[i].rest = v.stream
		case old.stream != nil && old.stream.MessageID == id && old.stream.Text+old.stream.Reasoning != "":
			fresh[i].rest = savedText(ctx, store, fresh[i].Event, id)
		}
	}
	v.events = slices.Clip(v.events[max(0, len(v.events)-logKept):])
	v.ended = l.w.time.Add(1)
	return v
}

// isIdle reports whether, at some time after a moment, no turn was open and
// nothing waited for one, and the moment when that was known.
func (l *sharedLog) isIdle(ctx context.Context, moment int64) (idle bool, known int64) {
	if m := l.marked(); m.shows(moment) {
		return m.mark.Idle, m.ended
	}
	mark := markOf(ctx, l.w.store, l.id)
	return mark.Idle, l.w.time.Add(1)
}

// markOf is where one thread stands.
func markOf(ctx context.Context, store memory.Reader, threadID string) memory.Mark {
	marks := steps.Must(store.Mark(ctx, []string{threadID}))
	if len(marks) == 0 {
		steps.Must(store.Thread(ctx, "", threadID)) // says that it does not exist
		return memory.Mark{ThreadID: threadID}
	}
	return marks[0]
}

type payload struct {
	MessageID string `json:"messageId"`           // of a stream_finish
	FromSeq   int64  `json:"fromSeq"`             // of a memory_appended
	ToSeq     int64  `json:"toSeq"`               // of a memory_appended
	SubAgent  string `json:"sub_agent_thread_id"` // of a call and its end
}

func read(e *agent.Event) (p payload) {
	_ = json.Unmarshal(e.Data, &p) // what is missing stays empty
	return p
}

// finished is the id of the message whose stream an event ends, or "".
func finished(e *agent.Event) string {
	if e.Type != agent.EventStreamFinish {
		return ""
	}
	return read(e).MessageID
}

// linkOf returns the sub-agent thread an event names.
func linkOf(e *agent.Event) string {
	switch e.Type {
	case agent.EventToolCall, agent.EventToolResponse, agent.EventSubAgentCompleted:
		return read(e).SubAgent
	}
	return ""
}

// savedText is what a model call streamed whose step may be over, or nil.
func savedText(ctx context.Context, store memory.Reader, e agent.Event, messageID string) *memory.Streamed {
	all, _ := steps.Found(store.Steps(ctx, e.TurnID)) // an imported turn has none
	for _, s := range all {
		if agent.MessageID(s.TurnID, s.Step) != messageID {
			continue
		}
		if !s.Saved {
			live := steps.Must(store.Stream(ctx, e.ThreadID))
			if live == nil || live.MessageID != messageID {
				return nil
			}
			return live
		}
		m := steps.Must(store.Messages(ctx, e.ThreadID, s.FromSeq-1, 1))
		if len(m) == 0 || m[0].ID != messageID {
			return nil
		}
		return &memory.Streamed{MessageID: messageID, TurnID: s.TurnID, Step: s.Step, Attempt: s.Attempt, Text: m[0].Content.String(), Reasoning: m[0].Reasoning, Stored: true}
	}
	return nil
}
