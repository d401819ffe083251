package httpapi

import (
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/internal/hosts"
)

// policy lets the page load and do what comes from this server only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bound(w) // also what an earlier request of the connection has left
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	if !slices.Contains([]string{"/healthz", "/livez", "/readyz"}, r.URL.Path) && !hosts.Known(r.Host, s.o.Hosts) {
		s.fail(w, r, &httpError{http.StatusMisdirectedRequest, "wrong_host", "this server is not known as " + r.Host + ": use its address, or start it with --web-host-name"})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// guarded lets a route see requests of known users from pages of this server only.
func (s *Server) guarded(op route) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.pass(origin, op, w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

type packer struct {
	http.ResponseWriter
	to *gzip.Writer
}

var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func (p packer) Write(doc []byte) (int, error) {
	n, err := p.to.Write(doc)
	return n, errors.Join(err, p.to.Close())
}

// Unwrap lets deadlines through.
func (p packer) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (s *Server) pass(origin *http.CrossOriginProtection, op route, w http.ResponseWriter, r *http.Request) error {
	if err := origin.Check(r); err != nil {
		return &httpError{http.StatusForbidden, "cross_origin", "requests of other sites' pages are refused"}
	}
	c := &call{w: w, r: r}
	if !op.public {
		who, err := s.identify(r)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			return err
		}
		if who.user == "" { // it would see everything
			return agent.Errorf(agent.CodeInternal, "a request without a user got through")
		}
		c.user, c.client, c.admin = who.user, s.o.Client(s.store, who.user), who.user == s.o.Administrator
		if err := s.limits.request(who.user, !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method)); err != nil {
			return err
		}
	}
	if err := c.readKey(); err != nil {
		return err
	}
	body := r.Body
	r.Body = http.MaxBytesReader(w, body, cmp.Or(op.bound, maxBody))
	if err := c.where(op.path); err != nil {
		return err
	}
	if err := c.query().known(op.query); err != nil {
		return err
	}
	var document any
	var err error
	if refused := steps.Run(func() { document, err = op.handle(s, c) }); refused != nil {
		err = refused
	}
	// The client gave a key, and knows nothing of the id that was made of it.
	if c.key != "" && agent.CodeOf(err) == agent.CodeConflict && strings.Contains(err.Error(), c.keyed("")) {
		err = agent.Errorf(agent.CodeConflict, "this %s was used for another request: use a new key", idempotencyHeader)
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) { // who still sends would not see the answer
		defer c.reading()()
		_, _ = io.CopyN(io.Discard, body, maxIgnored)
	}
	if err == nil && document != nil {
		if op.packs && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			p := packers.Get().(*gzip.Writer)
			defer packers.Put(p)
			p.Reset(w)
			w.Header().Set("Content-Encoding", "gzip")
			w = packer{w, p}
		}
		writeJSON(w, cmp.Or(op.status, http.StatusOK), document)
	}
	return err
}
