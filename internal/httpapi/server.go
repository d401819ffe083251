// Package httpapi serves what the Go client of package spool does over HTTP: a
// JSON API with server-sent events under /api/v1, described by openapi.yaml, the
// page, and a chat completions endpoint for clients of the OpenAI API.
//
// Every request has a user, and sees that user's threads only: what belongs to
// another is not found. The server holds nothing: any number of them may serve a
// store, and a stream goes on at any of them from its last event id.
package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/health"
	"github.com/spool-agents/spool/memory"
)

// Options are what a server works with. Store, Client and Users are required.
type Options struct {
	Store memory.ConversationMemoryStore
	// Client makes the client of a user on a store, which is Store with shared
	// polling.
	Client func(store memory.ConversationMemoryStore, userID string) *spool.Client
	Users  *Users
	// Agents lists the agents that a message may name, as known here: the worker
	// decides. nil = none are listed.
	Agents func() []agent.SpecialistAgentConfig
	// Page answers for all paths but those of the API; nil = no page.
	Page http.Handler
	// Hosts are names under which the server may be asked for, beside localhost and
	// addresses: others are refused, as a page elsewhere could have had its own
	// name point here.
	Hosts []string
	// UI is the address of Temporal's web UI, for links.
	UI string
	// Demo means that no model is configured here, for people who have no
	// conversation yet.
	Demo bool
	Log  *slog.Logger
	// Health says at /readyz what is there; nil = only the store is looked at. Metrics answers at
	// /metrics; nil = there are none.
	Health  *health.Monitor
	Metrics http.Handler
	// Wrap, if set, is put around the handler by Serve, for telemetry.
	Wrap func(http.Handler) http.Handler
	// Administrator is the user who runs the server, to whom the next two do not apply;
	// "" = none of the users.
	Administrator string
	// Workspace is the folder below which each other user has one.
	Workspace string
	// Home is Spool's own folder, and Private are paths elsewhere, of which no file is shown.
	Home    string
	Private []string
	// Approvals are rules for the calls that they may approve.
	Approvals []string
	// Limits bound what one user may do; the zero value is usable.
	Limits Limits
}

// Server is the handler. It is safe for concurrent use.
type Server struct {
	o       Options
	store   memory.ConversationMemoryStore
	mux     *http.ServeMux
	limits  *limiter
	closing chan struct{} // closed when streams have to end
	once    sync.Once

	awayMu    sync.Mutex
	awaySince map[string]time.Time // by part: since when it is known to be away
}

// New checks the options and makes a server.
func New(o Options) (*Server, error) {
	switch {
	case o.Store == nil:
		return nil, agent.Errorf(agent.CodeInvalid, "a web server needs a store")
	case o.Client == nil:
		return nil, agent.Errorf(agent.CodeInvalid, "a web server needs a client")
	case o.Users == nil:
		return nil, agent.Errorf(agent.CodeInvalid, "a web server needs users")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Health == nil {
		o.Health = health.New(health.Store(o.Store))
	}
	if o.Approvals == nil {
		o.Approvals = []string{}
	}
	s := &Server{o: o, store: o.Store, limits: newLimiter(o.Limits), closing: make(chan struct{}), awaySince: map[string]time.Time{}}
	s.mux = s.routes()
	return s, nil
}

// Serve answers on a listener until ctx ends, then lets requests finish and ends
// streams; their clients go on elsewhere or after a restart.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var handler http.Handler = s
	if s.o.Wrap != nil {
		handler = s.o.Wrap(s)
	}
	h := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == http.NoBody {
				unbound(w)
			}
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	select {
	case err := <-ended:
		return agent.Wrap(err, agent.CodeUnavailable, "the web server at %s ended", l.Addr())
	case <-ctx.Done():
	}
	s.once.Do(func() { close(s.closing) })
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := h.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = h.Close()
	}
	return err
}

// page serves the page, and lets in who comes by a link with a token.
func (s *Server) page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			s.fail(w, r, &httpError{http.StatusMethodNotAllowed, "method_not_allowed", "the page can be read only"})
		case r.URL.Path == "/" && r.URL.Query().Has("token"):
			s.enter(w, r)
		default:
			s.o.Page.ServeHTTP(w, r)
		}
	})
}

func (s *Server) livez(*call) (any, error) { return map[string]string{"status": "ok"}, nil }

// readyz says which part is missing. What is wrong with it stands in the log: the route
// is public, and problems name hosts.
func (s *Server) readyz(c *call) (any, error) {
	r := s.o.Health.Look()
	document := struct {
		Ready bool            `json:"ready"`
		Parts map[string]bool `json:"parts"`
	}{r.Ready, map[string]bool{}}
	for name, state := range r.Parts {
		document.Parts[name] = state.OK
		if !state.OK && !r.Ready {
			s.o.Log.Warn("the web server is not ready", "part", name, "problem", state.Problem)
		}
	}
	writeJSON(c.w, health.Status(r), document)
	return nil, nil
}

// metrics answers the administrator with all metrics in Prometheus's text: they tell of
// all users.
func (s *Server) metrics(c *call) (any, error) {
	if !c.admin {
		return nil, &httpError{http.StatusForbidden, "forbidden", "metrics tell of all users: the administrator reads them"}
	}
	if s.o.Metrics == nil {
		return nil, agent.Errorf(agent.CodeNotFound, "this server keeps no metrics")
	}
	s.o.Metrics.ServeHTTP(c.w, c.r)
	return nil, nil
}
