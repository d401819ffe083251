package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	// heartbeat is how often a silent stream says that it is alive.
	heartbeat = 15 * time.Second
	// slowReader is how long a reader may take nothing before its stream is cut: it
	// goes on from its last event id when it is back.
	slowReader = 30 * time.Second
	// reconnect is when a client should come back after a stream was cut.
	reconnect = "500"
	// maxFollowed bounds the threads of one stream.
	maxFollowed = 16
	// listEvery bounds how often a list is read.
	listEvery = 200 * time.Millisecond
	// listed is how many threads a stream of the list holds.
	listed = 100
)

// stream is a response of server-sent events.
type stream struct {
	mu sync.Mutex
	w  http.ResponseWriter
	rc *http.ResponseController
}

// open begins a stream and its heartbeat, which ends with ctx.
func (s *Server) open(ctx context.Context, c *call) *stream {
	st := &stream{w: c.w, rc: http.NewResponseController(c.w)}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	_ = st.write([]byte("retry: " + reconnect + "\n\n"))
	go func() {
		t := time.NewTicker(heartbeat)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				_ = st.write([]byte(": alive\n\n"))
			}
		}
	}()
	return st
}

// event sends one event. An empty id leaves the reader's last one as it is.
func (st *stream) event(id, name string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return agent.Wrap(err, agent.CodeInternal, "cannot write the event %s", name)
	}
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(raw)
	b.WriteString("\n\n")
	return st.write(b.Bytes())
}

func (st *stream) write(p []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	_ = st.rc.SetWriteDeadline(time.Now().Add(slowReader))
	if _, err := st.w.Write(p); err != nil {
		return err
	}
	return st.rc.Flush()
}

// streaming runs f with an open stream, and says at its end whether the client is
// to come back: after `end` there is nothing more, after `failure` it would fail again.
func (s *Server) streaming(c *call, f func(ctx context.Context, st *stream) error) error {
	done, err := s.limits.stream(c.user)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	ctx = s.stopped(ctx)
	st := s.open(ctx, c)
	err = f(ctx, st)
	if ctx.Err() != nil { // the client comes back to another server, or is gone
		return nil
	}
	if err == nil {
		_ = st.event("", "end", map[string]any{})
		return nil
	}
	_, what := describe(s.o.Log, c.r, err)
	_ = st.event("", "failure", map[string]any{"error": what})
	return nil
}

// lastID is where a reader goes on: the header of one that comes back outranks
// the parameter it began with.
func (c *call) lastID(from string) string {
	if id := c.r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return from
}

// followThread streams the updates of one thread. Its event ids are the thread's
// cursors.
func (s *Server) followThread(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	q := c.query()
	from, o := q.text("from"), spool.FollowOptions{UntilIdle: q.flag("untilIdle"), UntilTurn: q.text("untilTurn")}
	if err := q.check(); err != nil {
		return err
	}
	return s.follow(c, id, c.lastID(from), o, true)
}

// followTree streams the updates of a thread and all below it, from a cursor for
// each: there is no event id, as it would have to name them all.
func (s *Server) followTree(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	var r struct {
		From      map[string]string `json:"from,omitempty"`
		UntilIdle bool              `json:"untilIdle,omitempty"`
		UntilTurn string            `json:"untilTurn,omitempty"`
	}
	if err := c.body(&r); err != nil {
		return err
	}
	o := spool.FollowOptions{UntilIdle: r.UntilIdle, UntilTurn: r.UntilTurn, Descendants: true, From: r.From}
	return s.follow(c, id, r.From[id], o, false)
}

func (s *Server) follow(c *call, id, from string, o spool.FollowOptions, ids bool) error {
	if err := s.canFollow(c, id, from); err != nil {
		return err
	}
	for thread, cursor := range o.From {
		if _, err := spool.ParseCursor(cursor); err != nil {
			return agent.Wrap(err, agent.CodeInvalid, "from[%q]", thread)
		}
	}
	return s.streaming(c, func(ctx context.Context, st *stream) error {
		return c.client.Follow(ctx, id, from, o, func(u spool.Update) error {
			event := ""
			if ids {
				event = u.Cursor
			}
			return st.event(event, "update", u)
		})
	})
}

// canFollow checks what can be answered with a status before a stream begins.
func (s *Server) canFollow(c *call, id, cursor string) error {
	if _, err := spool.ParseCursor(cursor); err != nil {
		return err
	}
	_, err := c.client.Thread(c.r.Context(), id)
	return err
}

// followMany streams several threads, and if wanted the list of threads, over one
// connection: browsers allow few. The event id has the cursors of the threads, in
// the order in which they were asked for.
func (s *Server) followMany(c *call) error {
	q := c.query()
	threads, from, list := q.list("thread"), q.text("from"), q.flag("threads")
	if err := q.check(); err != nil {
		return err
	}
	switch {
	case len(threads) > maxFollowed:
		return agent.Errorf(agent.CodeInvalid, "%d threads are too many for one stream: at most %d are possible", len(threads), maxFollowed)
	case len(threads) == 0 && !list:
		return agent.Errorf(agent.CodeInvalid, "say what to follow: thread=…, as often as needed, or threads=true for the list of threads")
	}
	cursors := make([]string, len(threads))
	if from = c.lastID(from); from != "" {
		given := strings.Split(from, ",")
		if len(given) != len(threads) {
			return agent.Errorf(agent.CodeInvalid, "there are %d cursors for %d threads", len(given), len(threads))
		}
		copy(cursors, given)
	}
	for i, id := range threads {
		if slices.Contains(threads[:i], id) {
			return agent.Errorf(agent.CodeInvalid, "thread %q stands there twice", id)
		}
		if err := s.canFollow(c, id, cursors[i]); err != nil {
			return err
		}
		if cursors[i] == "" {
			cursors[i] = "0"
		}
	}
	return s.streaming(c, func(ctx context.Context, st *stream) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := make(chan error, len(threads)+1)
		var mu sync.Mutex
		for i, id := range threads {
			start := cursors[i]
			go func() {
				ended <- c.client.Follow(ctx, id, start, spool.FollowOptions{}, func(u spool.Update) error {
					mu.Lock()
					defer mu.Unlock()
					cursors[i] = u.Cursor
					return st.event(strings.Join(cursors, ","), "update", u)
				})
			}()
		}
		running := len(threads)
		if list {
			running++
			go func() { ended <- s.followList(ctx, c, st) }()
		}
		var first error
		for range running { // none ends before the others but by an error
			if err := <-ended; first == nil {
				first = err
			}
			cancel()
		}
		return first
	})
}

// followList sends each of the user's newest conversations and newest sub-agents,
// once at the start and whenever it has changed. They are listed apart, so that many
// sub-agents of one conversation do not hide the others.
func (s *Server) followList(ctx context.Context, c *call, st *stream) error {
	sent := map[string]agent.Thread{}
	return c.client.Watch(ctx, func() error {
		defer pause(ctx, listEvery)
		chats, err := c.client.Threads(ctx, memory.ThreadFilter{Limit: listed})
		if err != nil {
			return err
		}
		all, err := c.client.Threads(ctx, memory.ThreadFilter{All: true, Limit: listed})
		if err != nil {
			return err
		}
		for _, t := range slices.Backward(append(all, chats...)) {
			if old, ok := sent[t.ID]; ok && sameSummary(old, t) {
				continue
			}
			sent[t.ID] = t
			if err := st.event("", "thread", t); err != nil {
				return err
			}
		}
		return nil
	})
}

// sameSummary compares what is shown of a thread in a list.
func sameSummary(a, b agent.Thread) bool {
	return a.UpdatedAt.Equal(b.UpdatedAt) && a.Status == b.Status && a.Reason == b.Reason && a.OpenTurnID == b.OpenTurnID && a.Topic == b.Topic &&
		a.MessageCount == b.MessageCount && a.TotalTokens == b.TotalTokens && a.TotalPrice == b.TotalPrice && a.ToolCallCount == b.ToolCallCount
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
