package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
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
)

type stream struct {
	mu sync.Mutex
	w  http.ResponseWriter
	rc *http.ResponseController
}

// open begins a stream and its heartbeat, which ends with ctx. What is said then is
// "alive", or the line that news returns if it is not nil: for who reads the stream, a
// comment that means nothing.
func (s *Server) open(ctx context.Context, c *call, news func() string) *stream {
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
				line := ""
				if news != nil {
					line = news()
				}
				_ = st.comment(cmp.Or(line, "alive"))
			}
		}
	}()
	return st
}

// event sends one event. An empty id leaves the reader's last one as it is.
func (st *stream) event(id, name string, data any) error {
	raw, err := toJSON(data)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(raw)
	b.WriteString("\n")
	return st.write(b.Bytes())
}

// comment writes a line that readers of events skip.
func (st *stream) comment(line string) error {
	return st.write([]byte(": " + strings.Join(strings.Fields(line), " ") + "\n\n"))
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
	ctx = s.stopped(ctx, c)
	st := s.open(ctx, c, nil)
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
func (s *Server) followThread(c *call) (any, error) {
	q := c.query()
	from, o := q.Get("from"), spool.FollowOptions{UntilIdle: q.flag("untilIdle"), UntilTurn: q.Get("untilTurn")}
	return nil, s.follow(c, c.lastID(from), o, true)
}

// followTree streams the updates of a thread and all below it, from a cursor for
// each: there is no event id, as it would have to name them all.
func (s *Server) followTree(c *call) (any, error) {
	var r struct {
		From      map[string]string `json:"from,omitempty"`
		UntilIdle bool              `json:"untilIdle,omitempty"`
		UntilTurn string            `json:"untilTurn,omitempty"`
	}
	c.body(&r)
	o := spool.FollowOptions{UntilIdle: r.UntilIdle, UntilTurn: r.UntilTurn, Descendants: true, From: r.From}
	return nil, s.follow(c, r.From[c.thread], o, false)
}

func (s *Server) follow(c *call, from string, o spool.FollowOptions, ids bool) error {
	if err := s.canFollow(c, c.thread, from); err != nil {
		return err
	}
	for thread, cursor := range o.From {
		if _, err := spool.ParseCursor(cursor); err != nil {
			return agent.Wrap(err, agent.CodeInvalid, "from[%q]", thread)
		}
	}
	return s.streaming(c, func(ctx context.Context, st *stream) error {
		return c.client.Follow(ctx, c.thread, from, o, func(u spool.Update) error {
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
