package sessionfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
		data = bytes.ReplaceAll(data, []byte(`"reasoning_content":`), []byte(`"reasoning":`)) // as other programs call it
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
		err = jsontime.Unmarshal(data, &s)
	}
	if err != nil {
		return Session{}, 0, err
	}
	if err := s.complete(); err != nil {
		return Session{}, 0, err
	}
	return s, lost, checkMessages(s.Messages)
}

// checkMessages refuses what other programs write and this one would lose or send on as
// it is. Parts of text have other names with them.
func checkMessages(list []agent.Message) error {
	for i, m := range list {
		switch m.Role {
		case agent.RoleSystem, agent.RoleUser, agent.RoleAssistant, agent.RoleTool:
		default:
			return fmt.Errorf("message %d has role %q", i+1, m.Role)
		}
		for j, p := range m.Content.Parts {
			switch {
			case p.Type == "input_text", p.Type == "output_text":
				m.Content.Parts[j].Type = "text"
			case p.Type != "text" && (p.Type != "image_url" || p.ImageURL == nil):
				return fmt.Errorf("message %d has a part of type %q of another program, which cannot be kept: make it a part of type text, or take it out", i+1, p.Type)
			}
		}
	}
	return nil
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
		var m agent.Message
		if err := jsontime.Unmarshal(line, &m); err != nil {
			if i == len(lines)-1 {
				return 1, nil
			}
			return 0, fmt.Errorf("line %d: %w", i+2, err)
		}
		s.Messages = append(s.Messages, m)
	}
	return 0, nil
}

const (
	// DefaultPrefix begins the names of main sessions' files.
	DefaultPrefix = "session"
	// SubAgentMark and a prefix begin the names of sub-agents' files.
	SubAgentMark = "subagent_"
	// MaxIDLength bounds ids: those of sub-agents contain their type.
	MaxIDLength = 128

	tail = 8 // characters of an id that a file's name shows
)

var (
	idPattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	prefixPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	hashed        = regexp.MustCompile(`-[0-9a-f]{8}$`)
)

// CheckID refuses ids that could lead to another file: with a slash, NUL, anything
// but plain letters and digits, or too long. One that begins with a letter or
// digit and has no slash is a single element of a path, neither "." nor "..":
// dots behind that, also two of them, lead nowhere.
func CheckID(id string) error {
	switch {
	case len(id) > MaxIDLength:
		return agent.Errorf(agent.CodeInvalid, "session id %.40q… has %d characters: at most %d are possible", id, len(id), MaxIDLength)
	case !idPattern.MatchString(id):
		return agent.Errorf(agent.CodeInvalid, "session id %q is not valid: use a letter or digit, then A-Z a-z 0-9 . _ -", id)
	}
	return nil
}

// CheckPrefix refuses prefixes that could lead to another folder or that hide
// whether a file is a sub-agent's.
func CheckPrefix(prefix string) error {
	if prefixPattern.MatchString(prefix) {
		return nil
	}
	return agent.Errorf(agent.CodeInvalid, "session prefix %q is not valid: use a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -", prefix)
}

// ProfileDir is the folder of a profile's files. It appears with its first file.
func ProfileDir(home, profile string) (string, error) {
	if err := agent.CheckName("profile", profile); err != nil {
		return "", err
	}
	return filepath.Join(home, "profiles", profile), nil
}

// ShortID is the part of a file's name that stands for an id: its last 8
// characters, for people, and 8 hex digits of its SHA-256, because many ids end
// alike.
func ShortID(id string) (string, error) {
	if err := CheckID(id); err != nil {
		return "", err
	}
	return bare(id) + "-" + sum(id), nil
}

// conversationShortID is ShortID of a conversation: unless it is the default
// one, its thread id is hashed, so that the conversations of a session differ.
func conversationShortID(sessionID, conversationID string) (string, error) {
	short, err := ShortID(sessionID)
	if err != nil || conversationID == "" || conversationID == agent.DefaultConversation {
		return short, err
	}
	if err := agent.CheckName("conversation", conversationID); err != nil {
		return "", err
	}
	return bare(sessionID) + "-" + sum(agent.MainThreadID(sessionID, conversationID)), nil
}

func bare(id string) string { return id[max(0, len(id)-tail):] }

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])[:8]
}

// GetSessionFilePath is the path of a session's file in dir: PREFIX_SHORT.json.
// The prefix is DefaultPrefix if it is empty; for a sub-agent it begins with
// SubAgentMark.
func GetSessionFilePath(id, dir, prefix string) (string, error) {
	return GetConversationFilePath(id, agent.DefaultConversation, dir, prefix)
}

// GetConversationFilePath is GetSessionFilePath for a conversation of a session.
func GetConversationFilePath(sessionID, conversationID, dir, prefix string) (string, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if err := CheckPrefix(prefix); err != nil {
		return "", err
	}
	short, err := conversationShortID(sessionID, conversationID)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, prefix+"_"+short+".json"), nil
}
