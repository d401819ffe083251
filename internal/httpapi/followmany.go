package httpapi

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	// browserStreams is how many streams the windows of one browser may hold open: a
	// browser has six connections to a server at most, and others need some too.
	browserStreams = 3
	// browserWait lets a stream of which the browser has let go come to its end.
	browserWait = 300 * time.Millisecond
	// listEvery bounds how often a list is read.
	listEvery = 200 * time.Millisecond
	// listed is how many conversations, and how many sub-agents, a stream of the list
	// begins with.
	listed = 100
	// listBack is how long a change may take from the time that it bears until it is seen.
	listBack = 5 * time.Second
)

// many is what a stream of several threads was asked for.
type many struct {
	threads, cursors []string
	list, once       bool
	since            time.Time
}

// followMany streams several threads, and if wanted the list of threads, over one
// connection: browsers allow few. The event id has the cursors of the threads, in
// the order in which they were asked for.
func (s *Server) followMany(c *call) (any, error) {
	m, err := s.readMany(c)
	if err != nil {
		return nil, err
	}
	done, ok := s.browserStream(c, m.once)
	defer done()
	return nil, s.streaming(c, func(ctx context.Context, st *stream) error {
		if !ok {
			return st.event("", "busy", map[string]any{})
		}
		return m.send(ctx, s, c, st)
	})
}

// browserStream counts the streams of a browser, which it is by its session. A
// program with a token has as many connections as it wants, and so has a browser that
// shares one among requests.
func (s *Server) browserStream(c *call, once bool) (done func(), ok bool) {
	cookie, err := c.r.Cookie(cookieName(c.r))
	if once || err != nil || c.r.Header.Get("Authorization") != "" || c.r.ProtoMajor > 1 {
		return func() {}, true
	}
	return s.limits.browser(c.r.Context(), cookie.Value, browserWait)
}

func (s *Server) readMany(c *call) (m many, err error) {
	q := c.query()
	m.threads, m.list, m.once = q.Values["thread"], q.flag("threads"), q.flag("once")
	if since := q.number("since", 0, 0, maxSeq); since > 0 {
		m.since = time.UnixMilli(since)
	}
	switch {
	case len(m.threads) > maxFollowed:
		return m, agent.Errorf(agent.CodeInvalid, "%d threads are too many for one stream: at most %d are possible", len(m.threads), maxFollowed)
	case len(m.threads) == 0 && !m.list:
		return m, agent.Errorf(agent.CodeInvalid, "say what to follow: thread=…, as often as needed, or threads=true for the list of threads")
	}
	m.cursors = make([]string, len(m.threads))
	if from := c.lastID(q.Get("from")); from != "" {
		given := strings.Split(from, ",")
		if len(given) != len(m.threads) {
			return m, agent.Errorf(agent.CodeInvalid, "there are %d cursors for %d threads", len(given), len(m.threads))
		}
		copy(m.cursors, given)
	}
	for i, id := range m.threads {
		if slices.Contains(m.threads[:i], id) {
			return m, agent.Errorf(agent.CodeInvalid, "thread %q stands there twice", id)
		}
		if err := s.canFollow(c, id, m.cursors[i]); err != nil {
			return m, err
		}
		m.cursors[i] = cmp.Or(m.cursors[i], "0")
	}
	return m, nil
}

// send streams until ctx or an error ends it, or once all there is.
func (m many) send(ctx context.Context, s *Server, c *call, st *stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(m.threads)+2)
	var mu sync.Mutex
	for i, id := range m.threads {
		start := m.cursors[i]
		go func() {
			ended <- c.client.Follow(ctx, id, start, spool.FollowOptions{Once: m.once}, func(u spool.Update) error {
				mu.Lock()
				defer mu.Unlock()
				m.cursors[i] = u.Cursor
				return st.event(strings.Join(m.cursors, ","), "update", u)
			})
		}()
	}
	running := len(m.threads)
	if m.list {
		running += 2
		go func() {
			l := &lister{client: c.client, st: st, since: m.since, sent: map[string]agent.Thread{}, asked: s.watchAsked(c, st)}
			ended <- l.follow(ctx, m.once)
		}()
		go func() { ended <- s.watchHealth(ctx, c, st, m.once) }()
	}
	var first error
	for range running {
		if err := <-ended; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// lister sends each of a user's newest conversations and newest sub-agents once,
// and then what has changed.
type lister struct {
	client *spool.Client
	st     *stream
	since  time.Time // when the newest thread that was sent was active; zero = none was
	sent   map[string]agent.Thread
	begun  bool                        // the client knows where to go on
	asked  func(context.Context) error // tells what waits for the person, if that has changed
}

func (l *lister) follow(ctx context.Context, once bool) error {
	if once {
		return l.send(ctx)
	}
	return l.client.Watch(ctx, func() error {
		defer pause(ctx, listEvery)
		return l.send(ctx)
	})
}

// send sends what is new, the newest last, and then where to go on.
func (l *lister) send(ctx context.Context) error {
	threads, err := l.read(ctx)
	if err != nil {
		return err
	}
	sent := false
	for _, t := range slices.Backward(threads) {
		if old, ok := l.sent[t.ID]; ok && sameSummary(old, t) {
			continue
		}
		l.sent[t.ID], sent = t, true
		if t.UpdatedAt.After(l.since) {
			l.since = t.UpdatedAt
		}
		if err := l.st.event("", "thread", lean(t)); err != nil {
			return err
		}
	}
	if err := l.asked(ctx); err != nil {
		return err
	}
	if l.begun && !sent {
		return nil
	}
	l.begun = true
	since := ""
	if !l.since.IsZero() {
		since = strconv.FormatInt(l.since.UnixMilli(), 10)
	}
	return l.st.event("", "listed", map[string]string{"since": since})
}

// read reads the threads that may be new. At the start conversations and sub-agents
// are read apart, so that many sub-agents of one conversation do not hide the others.
func (l *lister) read(ctx context.Context) ([]agent.Thread, error) {
	if !l.since.IsZero() {
		return l.client.Threads(ctx, memory.ThreadFilter{All: true, Since: l.since.Add(-listBack), Limit: 2 * listed})
	}
	chats, err := l.client.Threads(ctx, memory.ThreadFilter{Limit: listed})
	if err != nil {
		return nil, err
	}
	agents, err := l.client.Threads(ctx, memory.ThreadFilter{SubAgents: true, Limit: listed})
	return append(agents, chats...), err
}

func sameSummary(a, b agent.Thread) bool {
	return a.UpdatedAt.Equal(b.UpdatedAt) && a.Status == b.Status && a.Reason == b.Reason && a.OpenTurnID == b.OpenTurnID && a.Topic == b.Topic &&
		a.MessageCount == b.MessageCount && a.TotalTokens == b.TotalTokens && a.TotalPrice == b.TotalPrice && a.ToolCallCount == b.ToolCallCount
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
