package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
)

var (
	errTooLong      = errors.New("the body is too long")
	errEventTooLong = errors.New("an event of the stream is too long")
	errUnreadable   = errors.New("the provider sent an event that is not JSON")
)

// heartbeat matches what some gateways send as data to keep a connection open.
var heartbeat = regexp.MustCompile(`^[A-Za-z][A-Za-z_ -]{0,31}$`)

// done is the event that ends a stream.
const done = "[DONE]"

// event is one event of a stream: a JSON object, or [DONE].
type event struct {
	name string
	data []byte
}

// sse reads events as tolerantly as is safe: blank lines between them, spaces
// after the colon and a final line break are optional, and a JSON object that
// stands there without "data:" counts. Comments and unknown fields are skipped.
type sse struct {
	r      *bufio.Reader
	limit  int               // bytes of one event
	stray  func(line []byte) // is called with what belongs to no event
	skipLF bool
	name   string
	data   []byte
	reread int // bytes of the event that were read while it arrived
}

// next returns the next event, io.EOF at the end of the body, or the error that
// broke it. A cut event is an error.
func (s *sse) next() (event, error) {
	for {
		line, readErr := s.line()
		if errors.Is(readErr, errEventTooLong) {
			return event{}, readErr
		}
		complete, err := s.take(line, readErr != nil)
		switch {
		case err != nil && (readErr == nil || errors.Is(readErr, io.EOF)):
			return event{}, err
		case complete:
			// A read error shows again at the next call.
			e := event{s.name, bytes.Clone(s.data)}
			s.name, s.data, s.reread = "", s.data[:0], 0
			return e, nil
		case readErr != nil:
			return event{}, readErr
		}
	}
}

// take adds a line and reports whether it completes an event.
func (s *sse) take(line []byte, last bool) (bool, error) {
	if len(line) == 0 || line[0] == ':' {
		if len(line) > 0 {
			return false, nil
		}
		switch {
		case s.name == "error": // its text need not be JSON
			return len(s.data) > 0, nil
		case len(s.data) > 0:
			return false, s.unreadable() // it would have been complete already
		}
		s.name = ""
		return false, nil
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	switch string(field) {
	case "data":
		line = bytes.TrimSpace(value)
	case "event":
		s.name = string(bytes.TrimSpace(value))
		return false, nil
	case "id", "retry":
		return false, nil
	default:
		line = bytes.TrimSpace(line)
		if len(s.data) == 0 && (len(line) == 0 || line[0] != '{' && line[0] != '[') {
			if len(line) > 0 {
				s.stray(line)
			}
			return false, nil
		}
	}
	if len(line) == 0 {
		return false, nil
	}
	if len(s.data) > 0 {
		s.data = append(s.data, '\n')
	}
	s.data = append(s.data, line...)
	if s.reread += len(s.data); len(s.data) > s.limit || s.reread > readAgain*s.limit {
		return false, errEventTooLong
	}
	if string(s.data) == done {
		return true, nil
	}
	// The look at the last byte spares a parse per line of a long event.
	if end := s.data[len(s.data)-1]; (end == '}' || end == ']') && json.Valid(s.data) {
		return true, nil
	}
	if s.name != "error" && heartbeat.Match(s.data) {
		s.data, s.reread = s.data[:0], 0
		return false, nil
	}
	if s.name == "error" {
		return last, nil
	}
	if last {
		return false, s.unreadable()
	}
	return false, nil
}

func (s *sse) unreadable() error {
	const most = 200 // bytes shown
	return fmt.Errorf("%w: %s", errUnreadable, s.data[:min(len(s.data), most)])
}

// line reads up to LF, CR or CRLF; the last line need not have an end.
func (s *sse) line() ([]byte, error) {
	var line []byte
	for {
		b, err := s.r.ReadByte()
		switch {
		case err != nil:
			return line, err
		case b == '\n' && s.skipLF:
			s.skipLF = false
			continue
		case b == '\n', b == '\r':
			s.skipLF = b == '\r'
			return line, nil
		}
		s.skipLF = false
		if line = append(line, b); len(line) > s.limit {
			return nil, errEventTooLong
		}
	}
}

// firstByte skips blanks and a byte order mark and returns the first byte of a
// body without taking it.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch b {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF:
			continue
		}
		return b, r.UnreadByte()
	}
}

func readAll(r io.Reader, limit int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(b) > limit {
		err = errTooLong
	}
	return b, err
}
