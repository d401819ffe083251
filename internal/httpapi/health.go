package httpapi

import (
	"net/http"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/health"
)

// livez says that the server runs.
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
