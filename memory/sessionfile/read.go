package sessionfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/atomicfile"
	"github.com/spool-agents/spool/memory/internal/jsontime"
	"github.com/spool-agents/spool/memory/port"
)

// longestFile bounds a session's file, in bytes, and nested what is in it.
const longestFile = 512 << 20

var nested = agent.JSONLimit{Depth: 400}

// readFile reads a file of a session. What is too long or too deep is refused before it
// costs memory.
func readFile(path string) ([]byte, error) {
	if info, err := os.Lstat(path); err == nil && info.Size() > longestFile {
		return nil, agent.Errorf(agent.CodeInvalid, "%s has %d MiB, more than %d: take it apart", path, info.Size()>>20, longestFile>>20)
	}
	data, err := atomicfile.ReadRegular(path)
	if err == nil {
		if data, err = agent.WrittenText(data); err != nil {
			return nil, &port.DamagedError{Path: path, Cause: err}
		}
		if err = nested.Check(data); err != nil {
			err = &port.DamagedError{Path: path, Cause: err}
		}
	}
	return data, err
}

// readSession reads a session's file. lost counts the messages that a torn last
// line cost. A file that is not there is fs.ErrNotExist, one that cannot be
// understood a *port.DamagedError.
func readSession(path string) (s Session, lost int, err error) {
	data, err := readFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Session{}, 0, err
		}
		return Session{}, 0, explain(err, path)
	}
	s, lost, err = ParseSession(data)
	if err != nil {
		return Session{}, 0, &port.DamagedError{Path: path, Cause: err}
	}
	return s, lost, nil
}

// ParseSession reads a session from one JSON object, or from lines of JSON: the
// session first, then a message a line. lost counts the messages of a last line
// that was not written to its end.
func ParseSession(data []byte) (s Session, lost int, err error) {
	if !utf8.Valid(data) {
		return Session{}, 0, errors.New("it is not valid UTF-8")
	}
	if first, rest, found := bytes.Cut(data, []byte("\n")); found && !json.Valid(data) && json.Valid(first) {
		lost, err = parseLines(&s, first, rest)
	} else {
		if err = jsontime.Unmarshal(data, &s); err == nil && len(s.Store) == 0 {
			s.Messages, err = ownMessages(s.Messages, data, func() ([]json.RawMessage, error) {
				var raw struct{ Messages []json.RawMessage }
				err := json.Unmarshal(data, &raw)
				return raw.Messages, err
			})
		}
	}
	if err != nil {
		return Session{}, 0, err
	}
	if err := s.complete(); err != nil {
		return Session{}, 0, err
	}
	for i, m := range s.Messages {
		switch m.Role {
		case agent.RoleSystem, agent.RoleUser, agent.RoleAssistant, agent.RoleTool:
		default:
			return Session{}, 0, fmt.Errorf("message %d has role %q", i+1, m.Role)
		}
	}
	return s, lost, nil
}

func parseLines(s *Session, first, rest []byte) (lost int, err error) {
	if err := jsontime.Unmarshal(first, s); err != nil {
		return 0, err
	}
	lines := bytes.Split(bytes.TrimRight(rest, "\n"), []byte("\n"))
	for i, line := range lines {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if i == len(lines)-1 && !json.Valid(line) {
			return 1, nil
		}
		list, err := messagesOf([]json.RawMessage{line})
		if err != nil {
			return 0, fmt.Errorf("line %d: %w", i+2, err)
		}
		s.Messages = append(s.Messages, list...)
	}
	return 0, nil
}
