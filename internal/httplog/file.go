package httplog

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/spool-agents/spool/memory/sessionfile"
)

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
