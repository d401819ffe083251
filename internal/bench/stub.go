package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stub is an OpenAI-compatible model server without any latency. It reads a
// request's body without parsing it: who asks for what stands in the request id
// (conversation.step.attempt), so a large conversation costs the stub nothing.
type stub struct {
	http   *http.Server
	url    string
	answer atomic.Pointer[answer]

	mu   sync.Mutex
	asks []ask
}

type ask struct {
	Turn    string
	Step    int // from 1
	Attempt int
	Bytes   int64
	At      time.Time
	// First is when the first piece of text was sent; zero if none was.
	First time.Time
}

// answer writes the reply to a request. It returns when the reply is complete.
type answer func(ctx context.Context, q ask, out *reply)

func startStub() (*stub, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &stub{url: "http://" + l.Addr().String()}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(l) }() // ends with close
	return s, nil
}

func (s *stub) close() { _ = s.http.Close() }

// play lets f answer from now on and forgets what was asked before.
func (s *stub) play(f answer) {
	s.mu.Lock()
	s.asks = nil
	s.mu.Unlock()
	s.answer.Store(&f)
}

func (s *stub) asked(turn string) []ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ask
	for _, a := range s.asks {
		if a.Turn == turn {
			out = append(out, a)
		}
	}
	return out
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	q := parseAsk(r.Header.Get("X-Client-Request-Id"))
	q.At, q.Bytes = arrived, n
	s.mu.Lock()
	s.asks = append(s.asks, q)
	at := len(s.asks) - 1
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	out := &reply{w: w}
	out.first = func(now time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if at < len(s.asks) && s.asks[at].Turn == q.Turn {
			s.asks[at].First = now
		}
	}
	(*s.answer.Load())(r.Context(), q, out)
}

func parseAsk(id string) ask {
	parts := strings.Split(id, ".")
	if len(parts) < 3 {
		return ask{Turn: id}
	}
	n := len(parts)
	step, _ := strconv.Atoi(parts[n-2]) // a foreign id has no step
	attempt, _ := strconv.Atoi(parts[n-1])
	return ask{Turn: strings.Join(parts[:n-2], "."), Step: step, Attempt: attempt}
}

type reply struct {
	w     http.ResponseWriter
	first func(time.Time)
}

const head = `data: {"id":"bench","object":"chat.completion.chunk","model":"bench","choices":[{"index":0,"delta":`

func (r *reply) text(piece string) {
	b, _ := json.Marshal(piece) // a string always can be
	fmt.Fprintf(r.w, "%s{\"content\":%s},\"finish_reason\":null}]}\n\n", head, b)
	r.flush()
	if r.first != nil {
		r.first(time.Now())
		r.first = nil
	}
}

func (r *reply) call(tool, args string) {
	b, _ := json.Marshal(args) // a string always can be
	fmt.Fprintf(r.w, "%s{\"role\":\"assistant\",\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\","+
		"\"function\":{\"name\":%q,\"arguments\":%s}}]},\"finish_reason\":null}]}\n\n", head, tool, b)
	r.end("tool_calls")
}

func (r *reply) end(reason string) {
	fmt.Fprintf(r.w, "%s{},\"finish_reason\":%q}]}\n\n", head, reason)
	fmt.Fprint(r.w, `data: {"id":"bench","object":"chat.completion.chunk","model":"bench","choices":[],`+
		`"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`+"\n\ndata: [DONE]\n\n")
	r.flush()
}

func (r *reply) flush() {
	if f, ok := r.w.(http.Flusher); ok {
		f.Flush()
	}
}

// calls answers the first n steps with one tool call each and then ends the turn.
func calls(n int, call func(step int) (tool, args string)) answer {
	return func(_ context.Context, q ask, out *reply) {
		if q.Step > n {
			out.text("done")
			out.end("stop")
			return
		}
		out.call(call(q.Step))
	}
}

// calculate is a cheap tool call that differs from step to step, as the same
// call again and again would end the turn.
func calculate(step int) (tool, args string) {
	return "calculator", fmt.Sprintf(`{"expression":"%d+1"}`, step)
}
