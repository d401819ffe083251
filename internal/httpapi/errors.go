package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// httpError is an error of HTTP itself; all others have a code of package agent.
type httpError struct {
	status        int
	code, message string
}

func (e *httpError) Error() string { return e.message }

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Pending and Questions are what a person has to decide or answer first.
	Pending   []spool.ApprovalRequest `json:"pending,omitempty"`
	Questions []spool.QuestionRequest `json:"questions,omitempty"`
}

var statuses = map[agent.Code]int{
	agent.CodeInvalid:     http.StatusBadRequest,
	agent.CodeNotFound:    http.StatusNotFound,
	agent.CodeConflict:    http.StatusConflict,
	agent.CodeStale:       http.StatusConflict,
	agent.CodeForeign:     http.StatusConflict,
	agent.CodeLimit:       http.StatusTooManyRequests,
	agent.CodeUnavailable: http.StatusServiceUnavailable,
}

// describe maps an error to a status and what the client gets. What nobody foresaw is
// logged only: it may name things of others.
func describe(log *slog.Logger, r *http.Request, err error) (int, failure) {
	var h *httpError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &h):
		return h.status, failure{Code: h.code, Message: h.message}
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, failure{Code: "too_large", Message: "the request's body is larger than " + size(tooLarge.Limit)}
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, failure{Code: string(agent.CodeUnavailable), Message: "the server is stopping or the request took too long: try again"}
	}
	code := agent.CodeOf(err)
	if errors.Is(err, memory.ErrBroken) {
		code = agent.CodeUnavailable
	}
	status, ok := statuses[code]
	if !ok {
		log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		return http.StatusInternalServerError, failure{Code: string(agent.CodeInternal), Message: "the server failed; its log says why"}
	}
	f := failure{Code: string(code), Message: err.Error()}
	var p *spool.PendingError
	if errors.As(err, &p) {
		f.Pending, f.Questions = p.Pending, p.Questions
	}
	return status, f
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, f := describe(s.o.Log, r, err)
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		wire := wireFailure(w, r, status, f)
		var about *refusal
		if errors.As(err, &about) {
			wire["param"] = about.param
		}
		writeJSON(w, status, map[string]any{"error": wire})
		return
	}
	writeJSON(w, status, map[string]any{"error": f})
}

// bound cuts off a client that does not take its answer. A connection that cannot
// be bound is not one.
func bound(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
}

// toJSON writes a document as one line, which shows all characters in a terminal.
func toJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return terminal.VisibleJSON(b.Bytes()), agent.Wrap(err, agent.CodeInternal, "cannot write the answer")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	bound(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	doc, _ := toJSON(v) // documents of a store are JSON
	_, _ = w.Write(doc) // a client that is gone needs no answer
}
