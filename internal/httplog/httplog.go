// Package httplog writes what goes over the wire to models into the files of
// sessions, one line per call: also of those that are streamed, broke off or
// failed. Secrets are masked. It is off unless SPOOL_HTTP_LOG says otherwise.
package httplog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/sessionfile"
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

// Entry is a line of http-log.json. Secrets are masked. A body that is JSON
// stands there as JSON, another one as text.
type Entry struct {
	At              time.Time           `json:"at"`
	ThreadID        string              `json:"threadId,omitempty"`
	TurnID          string              `json:"turnId,omitempty"`
	Step            int                 `json:"step,omitempty"`
	Attempt         int                 `json:"attempt,omitempty"`
	Method          string              `json:"method"`
	URL             string              `json:"url"`
	RequestHeaders  map[string][]string `json:"requestHeaders,omitempty"`
	Request         json.RawMessage     `json:"request,omitempty"`
	Status          int                 `json:"status"` // 0 if there was no answer
	ResponseHeaders map[string][]string `json:"responseHeaders,omitempty"`
	Response        json.RawMessage     `json:"response,omitempty"`
	Streamed        bool                `json:"streamed"`
	DurationMs      int64               `json:"durationMs"`
	Error           string              `json:"error,omitempty"`
}

// Call is one call of a model over HTTP, as it was.
type Call struct {
	Entry
	Sent, Received string // the bodies
	Err            error
}

const maxLine = 1 << 20

// Append writes a call into the log of its session, masked. The line is in the
// file when it returns, but is not synced: the log explains, nothing depends on it.
func (l *Log) Append(c Call) error {
	th, err := l.Threads.Thread(context.Background(), "", c.ThreadID)
	if err != nil {
		return err
	}
	dir, err := sessionfile.ProfileDir(l.Home, th.Profile)
	if err != nil {
		return err
	}
	path, err := sessionfile.Folder{Dir: dir}.HTTPLog(th.SessionID)
	if err != nil {
		return err
	}
	m := masker{secrets: l.Secrets}
	e := c.Entry
	e.URL, e.RequestHeaders, e.ResponseHeaders = m.url(e.URL), m.headers(e.RequestHeaders), m.headers(e.ResponseHeaders)
	e.Request, e.Response = m.line(c.Sent), m.line(c.Received)
	if c.Err != nil {
		e.Error = m.text(c.Err.Error())
	}
	return l.write(path, append(encode(e), '\n'))
}

func (l *Log) write(path string, line []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if torn(f) {
		line = append([]byte("\n"), line...)
	}
	_, err = f.Write(line) // one write: lines of two processes do not mix
	return errors.Join(err, f.Close())
}

// torn reports whether the last line has no end: its writer died.
func torn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// line masks a body, then cuts it: a secret must not be cut out of its mask.
func (m masker) line(s string) json.RawMessage {
	out := m.body(s)
	if len(out) <= maxLine {
		return out
	}
	n := maxLine
	for n > 0 && !utf8.RuneStart(out[n]) {
		n--
	}
	return quote(string(out[:n]) + "…")
}
