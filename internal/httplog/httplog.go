// Package httplog writes what goes over the wire to models into the files of
// sessions, one line per call: also of those that are streamed, broke off or
// failed. Secrets are masked. It is off unless SPOOL_HTTP_LOG says otherwise.
package httplog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
)

// maxBody bounds what is kept of a body while a call runs.
const maxBody = 4 << 20

// Threads finds the session of a thread.
type Threads interface {
	Thread(ctx context.Context, userID, threadID string) (agent.Thread, error)
}

// Log writes the calls of one worker's models.
type Log struct {
	// Home is the folder below which the files are.
	Home    string
	Threads Threads
	// Secrets are masked wherever they stand.
	Secrets []string
	// Report gets the errors of lines that could not be written: no call fails for that.
	Report func(error)

	writing sync.Mutex
}

type metaKey struct{}

type asker struct {
	agent.CallMeta
	stream bool
}

// Model lets the log know for whom a model is asked.
func (l *Log) Model(m agent.Model) agent.Model { return named{m} }

type named struct{ agent.Model }

func (n named) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	return n.Model.Generate(context.WithValue(ctx, metaKey{}, asker{r.Meta, r.Stream}), r, onDelta)
}

// Transport logs what goes through another one.
func (l *Log) Transport(next http.RoundTripper) http.RoundTripper { return &transport{l, next} }

type transport struct {
	log  *Log
	next http.RoundTripper
}

// RoundTrip sends a request and writes its line when the reply has been read to
// its end, was closed, or failed.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	who, _ := req.Context().Value(metaKey{}).(asker)
	c := Call{Entry: Entry{
		At: time.Now().UTC(), ThreadID: who.ThreadID, TurnID: who.TurnID, Step: who.Step, Attempt: who.Attempt, Streamed: who.stream,
		Method: req.Method, URL: req.URL.String(), RequestHeaders: req.Header.Clone(),
	}}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		c.Sent = string(body)
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		c.Err = err
		t.log.ended(c)
		return resp, err
	}
	c.Status, c.ResponseHeaders = resp.StatusCode, resp.Header.Clone()
	resp.Body = &recorder{ReadCloser: resp.Body, log: t.log, call: c}
	return resp, nil
}

// recorder keeps a copy of a reply while it is read.
type recorder struct {
	io.ReadCloser
	log  *Log
	call Call

	mu   sync.Mutex
	body bytes.Buffer
	err  error
	once sync.Once
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.mu.Lock()
	r.body.Write(p[:min(n, max(0, maxBody-r.body.Len()))])
	if err != nil && !errors.Is(err, io.EOF) && r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	return n, err
}

func (r *recorder) Close() error {
	err := r.ReadCloser.Close()
	r.once.Do(func() {
		r.mu.Lock()
		r.call.Received, r.call.Err = r.body.String(), r.err
		r.mu.Unlock()
		r.log.ended(r.call)
	})
	return err
}

func (l *Log) ended(c Call) {
	c.DurationMs = time.Since(c.At).Milliseconds()
	if err := l.Append(c); err != nil && l.Report != nil {
		l.Report(err)
	}
}
