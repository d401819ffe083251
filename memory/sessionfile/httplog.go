package sessionfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spool-agents/spool/memory/internal/atomicfile"
)

// HTTPCall is one call of a model over HTTP, as it was.
type HTTPCall struct {
	At              time.Time
	ThreadID        string
	TurnID          string
	Step            int
	Attempt         int
	Method          string
	URL             string
	RequestHeaders  map[string][]string
	Request         string
	Status          int // 0 if there was no answer
	ResponseHeaders map[string][]string
	Response        string
	Streamed        bool
	Duration        time.Duration
	Err             error
}

// HTTPEntry is a line of http-log.json. Secrets are masked. A body that is JSON
// stands there as JSON, another one as text.
type HTTPEntry struct {
	At              time.Time           `json:"at"`
	ThreadID        string              `json:"threadId,omitempty"`
	TurnID          string              `json:"turnId,omitempty"`
	Step            int                 `json:"step,omitempty"`
	Attempt         int                 `json:"attempt,omitempty"`
	Method          string              `json:"method"`
	URL             string              `json:"url"`
	RequestHeaders  map[string][]string `json:"requestHeaders,omitempty"`
	Request         json.RawMessage     `json:"request,omitempty"`
	Status          int                 `json:"status"`
	ResponseHeaders map[string][]string `json:"responseHeaders,omitempty"`
	Response        json.RawMessage     `json:"response,omitempty"`
	Streamed        bool                `json:"streamed"`
	DurationMs      int64               `json:"durationMs"`
	Error           string              `json:"error,omitempty"`
}

// maxBody bounds a body in the log, in bytes.
const maxBody = 1 << 20

// HTTPLog appends calls of models to sessions/ID/http-log.json, one line each.
// A nil *HTTPLog writes nothing, which is how the log is off. Safe for
// concurrent use, in several processes too.
type HTTPLog struct {
	path string
	m    masker
	mu   sync.Mutex
}

// NewHTTPLog makes a log for a session. secrets are values that are masked
// wherever they stand, besides what is masked by its name or form. The file is
// made by the first call.
func (f Folder) NewHTTPLog(sessionID string, secrets ...string) (*HTTPLog, error) {
	path, err := f.sessionFile(sessionID, "http-log.json")
	if err != nil {
		return nil, err
	}
	return &HTTPLog{path: path, m: masker{secrets: secrets}}, nil
}

// Append writes a call. The line is in the file when it returns, but is not
// synced: the log explains, nothing depends on it.
func (l *HTTPLog) Append(c HTTPCall) error {
	if l == nil {
		return nil
	}
	line := append(encode(l.entry(c)), '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := atomicfile.MakeDir(filepath.Dir(l.path)); err != nil {
		return explain(err, l.path)
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return explain(err, l.path)
	}
	if torn(f) {
		line = append([]byte("\n"), line...)
	}
	_, err = f.Write(line) // one write: lines of two processes do not mix
	return explain(errors.Join(err, f.Close()), l.path)
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

func (l *HTTPLog) entry(c HTTPCall) HTTPEntry {
	e := HTTPEntry{
		At: c.At, ThreadID: c.ThreadID, TurnID: c.TurnID, Step: c.Step, Attempt: c.Attempt,
		Method: c.Method, URL: l.m.url(c.URL), RequestHeaders: l.m.headers(c.RequestHeaders), Request: l.body(c.Request),
		Status: c.Status, ResponseHeaders: l.m.headers(c.ResponseHeaders), Response: l.body(c.Response),
		Streamed: c.Streamed, DurationMs: c.Duration.Milliseconds(),
	}
	if c.Err != nil {
		e.Error = l.m.text(c.Err.Error())
	}
	return e
}

// body masks a body, then cuts it: a secret must not be cut out of its mask.
func (l *HTTPLog) body(s string) json.RawMessage {
	out := l.m.body(s)
	if len(out) <= maxBody {
		return out
	}
	n := maxBody
	for n > 0 && !utf8.RuneStart(out[n]) {
		n--
	}
	return quote(string(out[:n]) + "…")
}

// ReadHTTPLog reads sessions/ID/http-log.json; one that is not there is empty.
// lost counts lines that are torn or no entries.
func (f Folder) ReadHTTPLog(sessionID string) (entries []HTTPEntry, lost int, err error) {
	path, err := f.sessionFile(sessionID, "http-log.json")
	if err != nil {
		return nil, 0, err
	}
	_, err = read(path, func(data []byte) error {
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			var e HTTPEntry
			dec := json.NewDecoder(bytes.NewReader(line))
			if err := dec.Decode(&e); err != nil {
				lost++
				continue
			}
			if _, err := dec.Token(); !errors.Is(err, io.EOF) {
				lost++
				continue
			}
			entries = append(entries, e)
		}
		return nil
	})
	return entries, lost, err
}
