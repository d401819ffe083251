package activities

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	// noteEvery is the least time between two notes of one kind; text is put
	// together meanwhile, of progress the latest counts.
	noteEvery = 250 * time.Millisecond
	// mostNotes bounds the notes of one run, and mostText the text of one.
	mostNotes = 200
	mostText  = 8 << 10
)

// notes writes what a tool under way tells into the log of its thread, thinned
// out: a log is read by people, and a tool may tell a lot. The last is never
// dropped.
type notes struct {
	ctx   context.Context
	store memory.Turns
	note  memory.ToolNote

	mu       sync.Mutex
	progress *agent.ToolProgress
	stderr   map[string]string // by server
	order    []string
	over     bool
	wake     chan struct{}
	stop     chan struct{}
	done     chan struct{} // nil until there is something to write
}

func newNotes(ctx context.Context, store memory.Turns, n memory.ToolNote) *notes {
	return &notes{
		ctx: context.WithoutCancel(ctx), store: store, note: n, stderr: map[string]string{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
}

// tell is agent.ToolRun.Note. It never waits for the store.
func (w *notes) tell(event string, payload any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	switch p := payload.(type) {
	case agent.ToolProgress:
		w.progress = &p
	case agent.MCPStderr:
		if _, there := w.stderr[p.ServerID]; !there {
			w.order = append(w.order, p.ServerID)
		}
		w.stderr[p.ServerID] = agent.Shorten(w.stderr[p.ServerID]+p.Data, mostText, "")
	default:
		return
	}
	if w.done == nil {
		w.done = make(chan struct{})
		go w.write(w.done)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close writes what is left and ends.
func (w *notes) close() {
	w.mu.Lock()
	w.over = true
	done := w.done
	w.mu.Unlock()
	close(w.stop)
	if done != nil {
		<-done
	}
}

func (w *notes) write(done chan struct{}) {
	defer close(done)
	defer func() { w.flush() }() // the last
	for n := 0; ; {
		select {
		case <-w.wake:
		case <-w.stop:
			return
		}
		if n < mostNotes {
			n += w.flush()
		}
		select {
		case <-time.After(noteEvery):
		case <-w.stop:
			return
		}
	}
}

// flush writes the notes since the last time. A note that cannot be written
// is lost: the result of the run matters, and it does not wait for this.
func (w *notes) flush() int {
	w.mu.Lock()
	progress, stderr, order := w.progress, w.stderr, w.order
	w.progress, w.stderr, w.order = nil, map[string]string{}, nil
	w.mu.Unlock()
	var written int
	add := func(event string, payload any) {
		note := w.note
		note.Event = event
		if data, err := json.Marshal(payload); err == nil {
			note.Data = data
			_ = w.store.NoteTool(w.ctx, note)
			written++
		}
	}
	for _, id := range order {
		add(agent.EventMCPStderr, agent.MCPStderr{ServerID: id, Data: stderr[id]})
	}
	if progress != nil {
		add(agent.EventToolProgress, *progress)
	}
	return written
}
