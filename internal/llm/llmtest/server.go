// Package llmtest is a fake OpenAI-compatible server. It answers from the
// scripts of package script, plays the failures a script asks for, records what
// it was asked and checks every request as strictly as the strictest providers
// do. In raw mode a test sends any bytes at any pace.
package llmtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// Model is the name of the one model the server offers.
const Model = script.Name

// maxBody bounds a request, in bytes.
const maxBody = 256 << 20

// Record is what is kept of one chat request.
type Record struct {
	At    time.Time
	Model string
	// Tools is the tool list as sent. Do not change it: records share it.
	Tools json.RawMessage
	// Script and Step name the scripted step that was asked for; Script is
	// without its prefix and trimmed, empty for an unscripted request.
	Script string
	Step   int
	// Status is what the script engine answered; 0 in raw mode.
	Status int
	// Usage is what a complete answer was charged for.
	Usage agent.Usage
	// Body is the whole request, if KeepBodies is set.
	Body []byte

	hash      [sha256.Size]byte // of the body
	stream    bool
	requestID string // the X-Client-Request-Id header
}

// RawFunc answers a chat request by itself. body is the request's.
type RawFunc func(w http.ResponseWriter, r *http.Request, body []byte)

// Server is the fake. Its fields are set before the first request; its methods
// are safe for concurrent use.
type Server struct {
	// KeepBodies keeps whole request bodies in the records.
	KeepBodies bool
	// Lenient answers requests that break a rule too, instead of with HTTP 400.
	// They are in Violations either way.
	Lenient bool
	// Window, if not 0, is the context window in tokens, four bytes each: what is
	// longer is refused as OpenAI refuses it, or with Silent read in part.
	Window int64
	// NoImages are models that take none: a request of theirs with an image is refused
	// as OpenAI refuses it.
	NoImages []string
	// Silent reports what fits the window as read, as a server does that drops the
	// rest of a conversation without a word.
	Silent bool

	mu         sync.Mutex
	records    []Record
	violations []string
	hits       map[string]int // faults met so far, per conversation and step
	raw        RawFunc

	http *httptest.Server
}

// Run starts a server on a free port and closes it when the test ends.
func Run(t testing.TB) *Server {
	t.Helper()
	s := &Server{hits: map[string]int{}}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// Close stops the server and breaks open connections.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// URL is the base URL for OPENAI_BASE_URL, "http://host:port/v1".
func (s *Server) URL() string { return s.http.URL + "/v1" }

// Raw lets f answer all chat requests from now on; nil returns to the scripts.
func (s *Server) Raw(f RawFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = f
}

// Records returns what was asked so far, in order.
func (s *Server) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records)
}

// Violations returns the broken rules so far, each with the request's number.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Asked counts the requests for a step (from 0) of a script. text is the
// scripted message or any distinctive part of it; a negative step counts all.
func (s *Server) Asked(text string, step int) int {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), script.Prefix))
	n := 0
	for _, r := range s.Records() {
		if r.Script != "" && strings.Contains(r.Script, text) && (step < 0 || r.Step == step) {
			n++
		}
	}
	return n
}

// Charged adds up the usage of all answers that were reported, also of streams that
// break; Requests counts every request, answered or not.
func (s *Server) Charged() agent.Usage {
	var sum agent.Usage
	for _, r := range s.Records() {
		sum = sum.Add(r.Usage)
		sum.Requests++
	}
	return sum
}

// Reset forgets records, violations and faults met.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records, s.violations, s.hits = nil, nil, map[string]int{}
}

// ServeHTTP answers with or without the /v1 prefix.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := strings.TrimPrefix(r.URL.Path, "/v1"); {
	case path == "/chat/completions" && r.Method == http.MethodPost:
		s.chat(w, r)
	case path == "/models" && r.Method == http.MethodGet:
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
			map[string]any{"id": Model, "object": "model", "owned_by": "spool"},
		}})
	default:
		writeError(w, http.StatusNotFound, "not_found", r.Method+" "+r.URL.Path+" is not served here")
	}
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "the body could not be read: "+err.Error())
		return
	}
	q, broken := decode(body)
	m := q.model()
	reply := script.Answer(m)
	rec := Record{
		At: time.Now(), Model: q.Model, Tools: q.Tools, Script: strings.TrimSpace(reply.Script), Step: reply.Step,
		hash: sha256.Sum256(body), stream: q.Stream, requestID: r.Header.Get("X-Client-Request-Id"),
	}
	if s.KeepBodies {
		rec.Body = body
	}
	usage := reply.Usage(m)
	long := s.Window > 0 && usage.PromptTokens > s.Window
	if long && s.Silent {
		usage.PromptTokens = s.Window
		usage.TotalTokens = usage.PromptTokens + usage.CompletionTokens
		long = false
	}
	blind := slices.Contains(s.NoImages, q.Model) && q.images()
	raw, act := s.decide(&rec, broken, reply, usage, long || blind)
	switch {
	case raw != nil:
		raw(w, r, body)
	case blind:
		writeError(w, http.StatusBadRequest, "invalid_request_error", "Invalid content type. image_url is only supported by certain models.")
	case long:
		writeError(w, http.StatusBadRequest, "context_length_exceeded", fmt.Sprintf(
			"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", s.Window, usage.PromptTokens))
	case rec.Status == http.StatusOK:
		if act != complete {
			usage = halved(usage)
		}
		out := answer{w: w, ctx: r.Context(), reply: reply, usage: usage, q: q, act: act}
		if err := out.write(); err != nil && !errors.Is(err, context.Canceled) {
			panic(http.ErrAbortHandler) // the client is gone
		}
	case len(broken) > 0 && !s.Lenient:
		writeError(w, rec.Status, "invalid_request_error", strings.Join(broken, "; "))
	default:
		if after := reply.Fail.RetryAfter; after > 0 {
			// Rounded up: the header knows whole seconds only.
			w.Header().Set("Retry-After", fmt.Sprint(int64((after+time.Second-1)/time.Second)))
			w.Header().Set("Retry-After-Ms", fmt.Sprint(after.Milliseconds()))
		}
		writeError(w, rec.Status, "scripted_failure", fmt.Sprintf("the script asked for HTTP %d", rec.Status))
	}
}

// halved is what is charged for half an answer.
func halved(u agent.Usage) agent.Usage {
	u.CompletionTokens /= 2
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// action is what happens to an answer on its way.
type action int

const (
	complete action = iota
	abort           // the connection breaks in the middle
	endEarly        // the body ends regularly, but in the middle of the answer
)

// decide counts the request and finds out what becomes of it.
func (s *Server) decide(rec *Record, broken []string, reply script.Reply, usage agent.Usage, refused bool) (RawFunc, action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range broken {
		s.violations = append(s.violations, fmt.Sprintf("request %d: %s", len(s.records)+1, b))
	}
	if n := len(s.records); n > 0 && string(s.records[n-1].Tools) == string(rec.Tools) {
		rec.Tools = s.records[n-1].Tools // 5,000 requests need one copy
	}
	act := complete
	switch {
	case s.raw != nil:
	case len(broken) > 0 && !s.Lenient:
		rec.Status = http.StatusBadRequest
	case refused:
		rec.Status = http.StatusBadRequest
	default:
		rec.Status = http.StatusOK
		met := 0
		if reply.Fail.Status != 0 || reply.Breaks > 0 {
			key := faultKey(rec)
			met = s.hits[key]
			s.hits[key]++
		}
		failures := 0
		if reply.Fail.Status != 0 {
			failures = reply.Fail.Times
		}
		if met < failures {
			rec.Status = reply.Fail.Status
		} else if met -= failures; met < reply.Breaks {
			act = abort
			if met%2 == 1 {
				act = endEarly
			}
		}
	}
	switch {
	case rec.Status != http.StatusOK:
	case act == complete:
		rec.Usage = usage
	case rec.stream:
		rec.Usage = halved(usage)
	}
	s.records = append(s.records, *rec)
	return s.raw, act
}

// faultKey is equal for the attempts at one step of one conversation. Two
// conversations that say the same are told apart by the client's request id,
// "turn.step.attempt"; without it they share their faults.
func faultKey(rec *Record) string {
	id := string(rec.hash[:])
	if i := strings.LastIndexByte(rec.requestID, '.'); i > 0 {
		id = rec.requestID[:i]
	}
	return fmt.Sprintf("%s\x00%d\x00%s", id, rec.Step, rec.Script)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that left needs no answer
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": message, "type": kind, "code": kind}})
}

func (q request) model() agent.ModelRequest {
	r := agent.ModelRequest{Model: q.Model, Stream: q.Stream, Messages: make([]agent.Message, len(q.Messages))}
	for i := range q.Messages {
		r.Messages[i] = q.Messages[i].message()
	}
	for _, t := range q.tools {
		r.Tools = append(r.Tools, agent.ToolSpec{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	return r
}
