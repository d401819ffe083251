package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

const (
	// settledVersion is asked for first: servers of all ages know it, and one
	// that only knows a newer one says so.
	settledVersion = "2025-11-25"
	// pingWithin is how long a server over HTTP may take to show that it is there.
	pingWithin = 3 * time.Second
	// Between attempts to reach a server whose tools are not known yet.
	firstRetry, lastRetry = time.Second, time.Minute
)

// server keeps one session with a server, from one call to the next. Safe for
// concurrent use.
type server struct {
	cfg     ServerConfig
	env     func(string) string
	log     *slog.Logger
	changed func() // its list of tools is another one
	give    func() // ends the attempts to reach it

	mu      sync.Mutex
	link    *link
	opening *attempt    // under way
	err     error       // why the last attempt failed
	tools   []*sdk.Tool // the last list
	listed  bool        // there has been one
	closed  bool
	runs    map[string]agent.ToolRun // under way, by progress token
	count   int

	suspects chan struct{} // holds the call that has the server to itself among those it ended under
}

// attempt is one try to open a session, for all who wait for it.
type attempt struct {
	done chan struct{} // closed when link or err is set
	link *link
	err  error
}

type link struct {
	session *sdk.ClientSession
	gone    chan struct{} // closed when the session has ended
	last    func() string // what the server said at the end
	explain func(error) error
	end     func() // of its process or connections
	ended   sync.Once
	// changed says that its list of tools is another one, since it was last read;
	// reading, that it is being read. Both are under server.mu.
	changed, reading bool
}

// close ends the session and waits for the end of its process.
func (l *link) close() {
	l.ended.Do(func() {
		if l.session != nil {
			closed := make(chan struct{})
			go func() {
				_ = l.session.Close()
				close(closed)
			}()
			select {
			case <-closed:
			case <-time.After(politeness):
			}
		}
		l.end()
	})
}

func newServer(c ServerConfig, env func(string) string, log *slog.Logger, changed func()) *server {
	return &server{cfg: c, env: env, log: log.With("mcpServer", c.ID), changed: changed, runs: map[string]agent.ToolRun{}, suspects: make(chan struct{}, 1)}
}

// run keeps trying until the tools are known once; from then on a dead session is
// opened again by the call that needs it.
func (s *server) run(ctx context.Context) {
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		_, err := s.open(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.log.Warn("MCP server does not answer; its tools are missing until it does", "error", err, "again", delay)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
	}
}

// open returns the session, making one if there is none. The attempt belongs to
// nobody: that ctx ends, ends the waiting only, and a session outlives the call
// that opened it.
func (s *server) open(ctx context.Context) (*link, error) {
	s.mu.Lock()
	if s.closed || s.cfg.Problem != "" || s.link != nil {
		defer s.mu.Unlock()
		switch {
		case s.closed:
			return nil, errClosed
		case s.cfg.Problem != "":
			return nil, errors.New(s.cfg.Problem)
		}
		return s.link, nil
	}
	a := s.opening
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		s.opening = a
		go s.connect(a)
	}
	s.mu.Unlock()
	select {
	case <-a.done:
		return a.link, a.err
	case <-ctx.Done():
		return nil, errStarting
	}
}

// apart waits until no other call is repeated that the server ended under, so that the
// one which ends it takes none of the others along again. It does not wait for ever.
func (s *server) apart(ctx context.Context) (leave func()) {
	late := time.NewTimer(s.cfg.turn())
	defer late.Stop()
	select {
	case s.suspects <- struct{}{}:
		return func() { <-s.suspects }
	case <-late.C:
	case <-ctx.Done():
	}
	return func() {}
}

// unreachable is why the server does not answer, or nil: it does, or that is not
// known when ctx ends.
func (s *server) unreachable(ctx context.Context) error {
	l, err := s.open(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return s.failure()
	case err != nil || s.cfg.Kind == kindStdio: // the end of a process is noticed
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pingWithin)
	defer cancel()
	err = l.session.Ping(ctx, nil)
	var answered *jsonrpc.Error
	if err == nil || ctx.Err() != nil || errors.Is(err, sdk.ErrSessionMissing) || errors.As(err, &answered) && !isUndelivered(answered) {
		return nil // also to a session that it forgot: the call opens another one
	}
	return l.explain(err)
}

func (s *server) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

var (
	errClosed   = errors.New("it was closed: its entry changed, or the worker stops")
	errStarting = errors.New("it is being started and has not answered yet")
)

// connect makes one attempt and reports it to all who wait.
func (s *server) connect(a *attempt) {
	defer close(a.done)
	l, tools, err := s.dial(settledVersion)
	var refused *jsonrpc.Error
	if err != nil && (errors.As(err, &refused) || strings.Contains(err.Error(), "unsupported protocol version")) {
		l, tools, err = s.dial("") // what the SDK likes best
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening, s.err = nil, err
	if err == nil && s.closed {
		go l.close()
		err = errClosed
	}
	if a.link, a.err = l, err; err != nil {
		return
	}
	s.link = l
	s.take(tools)
	s.refresh(l)
	go func() {
		_ = l.session.Wait()
		close(l.gone)
		s.forget(l)
	}()
}

// take keeps a new list of tools and says so if it differs. s.mu is held.
func (s *server) take(tools []*sdk.Tool) {
	slices.SortStableFunc(tools, func(a, b *sdk.Tool) int { return strings.Compare(a.Name, b.Name) })
	if s.listed && reflect.DeepEqual(tools, s.tools) {
		return
	}
	s.tools, s.listed = tools, true
	go s.changed()
}

// dial starts or reaches the server, and lists its tools.
func (s *server) dial(version string) (l *link, tools []*sdk.Tool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	began := time.Now()
	late := time.AfterFunc(s.cfg.Start, cancel) // a deadline would end the session too
	l = &link{gone: make(chan struct{}), last: func() string { return "" }, explain: func(err error) error { return err }}
	var transport sdk.Transport
	if s.cfg.Kind == kindStdio {
		p, err := startProcess(s.cfg, s.env, s.said)
		if err != nil {
			late.Stop()
			cancel()
			return nil, nil, err
		}
		transport, l.last = &sdk.IOTransport{Reader: p.messages, Writer: p.stdin, MaxLineLength: -1}, p.last
		l.end = func() { p.stop(); cancel() }
		defer func() {
			if err != nil {
				p.Kill()
				p.stop()
			}
		}()
	} else {
		w, err := newWire(s.cfg)
		if err != nil {
			late.Stop()
			cancel()
			return nil, nil, err
		}
		transport, l.explain, l.end = w.transport(), w.explain, cancel
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "spool", Version: "1"}, &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{}, // no roots: servers take theirs from args
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { s.listChanged(l) },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { s.progress(r.Params) },
	})
	l.session, err = client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	slow := !late.Stop()
	if err == nil {
		listing, stop := context.WithDeadline(ctx, began.Add(s.cfg.Start)) // its end is not that of the session
		tools, err = s.list(listing, l.session)
		slow = slow || err != nil && listing.Err() != nil
		stop()
	}
	if slow || ctx.Err() != nil {
		err = fmt.Errorf("it did not answer within %s (startTimeout of its entry in %s)", s.cfg.Start, s.cfg.File)
	}
	if err != nil {
		err = l.explain(err)
		if said := l.last(); said != "" {
			err = fmt.Errorf("%w; it said: %s", err, said)
		}
		go l.close()
		return nil, nil, err
	}
	return l, tools, nil
}

func (s *server) forget(l *link) {
	s.mu.Lock()
	if s.link == l {
		s.link = nil
		if !s.closed {
			s.log.Warn("the session with the MCP server ended; the next call opens another one")
		}
	}
	s.mu.Unlock()
	go l.close()
}

func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	l := s.link
	s.link = nil
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
}

func (s *server) said(text string) {
	s.log.Debug("MCP server says", "text", text)
	s.mu.Lock()
	runs := make([]agent.ToolRun, 0, len(s.runs))
	for _, r := range s.runs {
		runs = append(runs, r)
	}
	s.mu.Unlock()
	for _, r := range runs {
		r.Tell(agent.EventMCPStderr, agent.MCPStderr{ServerID: s.cfg.ID, Data: tool.CleanText(text)})
	}
}

func (s *server) progress(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	s.mu.Lock()
	r, ok := s.runs[token]
	s.mu.Unlock()
	if ok {
		r.Tell(agent.EventToolProgress, agent.ToolProgress{
			ToolCallID: r.CallID, Progress: p.Progress, Total: p.Total, Message: tool.CleanText(p.Message),
		})
	}
}

// enter notes a run that is under way and returns its progress token.
func (s *server) enter(r agent.ToolRun) (token string, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	token = fmt.Sprintf("%s#%d", r.CallID, s.count)
	s.runs[token] = r
	return token, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.runs, token)
	}
}
