// Package sessionfile reads and writes the files of exported sessions, below the
// folder of a profile:
//
//	session_SHORT.json           a conversation's own thread, one file each, flat
//	subagent_session_SHORT.json  a sub-agent's thread, whatever its depth
//	sessions/ID/history.json     {conversation: [message, …]} with metadata
//	sessions/ID/events.json      {thread: [event, …]}, if it is wanted
//	sessions/ID/http-log.json    a line of JSON per model call, if it is wanted
//
// Files are the old or the new one, never something in between. A file that
// cannot be understood is reported and never written over. Nothing here knows a
// store: what goes in and comes out are plain values.
package sessionfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/atomicfile"
	"github.com/spool-agents/spool/memory/port"
)

// Session is the content of a session's file: one thread, of a conversation or
// of a sub-agent.
type Session struct {
	// ID is the session's id, or the agent id of a sub-agent. The prefix of the
	// file's name is no part of it.
	ID   string           `json:"id"`
	Kind agent.ThreadKind `json:"kind"`
	// ThreadID is made from the other ids if it is empty.
	ThreadID       string `json:"threadId"`
	ConversationID string `json:"conversationId,omitempty"`
	Topic          string `json:"topic,omitempty"`
	// Sub-agents only: which agent, for whom.
	AgentType        string `json:"agentType,omitempty"`
	ParentThreadID   string `json:"parentThreadId,omitempty"`
	RootThreadID     string `json:"rootThreadId,omitempty"`
	ParentToolCallID string `json:"parentToolCallId,omitempty"`
	Depth            int    `json:"depth,omitempty"`

	Workdir string `json:"workdir"`
	// StartedAt and LastActiveAt are the times of the first and the last message
	// if they are zero.
	StartedAt    time.Time       `json:"startedAt"`
	LastActiveAt time.Time       `json:"lastActiveAt"`
	Tokens       Tokens          `json:"tokens"`
	Messages     []agent.Message `json:"messages"`
	// Store is what a store needs, beyond messages, to hold the thread as it
	// was. It is kept as it is.
	Store json.RawMessage `json:"store,omitempty"`
}

// Tokens counts what models read and wrote. Older files have the total alone.
type Tokens struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Total      int64 `json:"total"`
}

// UnmarshalJSON reads an object or a number.
func (t *Tokens) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] != '{' {
		*t = Tokens{}
		return agent.Wrap(json.Unmarshal(data, &t.Total), agent.CodeInvalid, "tokens must be a number, or an object of prompt, completion and total")
	}
	type plain Tokens
	return json.Unmarshal(data, (*plain)(t))
}

// complete fills in what follows from the rest and refuses contradictions.
func (s *Session) complete() error {
	if err := CheckID(s.ID); err != nil {
		return err
	}
	if min(s.Tokens.Prompt, s.Tokens.Completion, s.Tokens.Total) < 0 {
		return agent.Errorf(agent.CodeInvalid, "tokens is less than 0: put the number that was used there, or 0")
	}
	if s.Kind == "" {
		s.Kind = agent.KindMain
		if s.AgentType != "" || strings.HasPrefix(s.ThreadID, "agent:") {
			s.Kind = agent.KindSubAgent
		}
	}
	if s.ThreadID != "" {
		if err := s.fromThread(); err != nil {
			return err
		}
	}
	switch s.Kind {
	case agent.KindMain:
		if s.ConversationID == "" {
			s.ConversationID = agent.DefaultConversation
		}
		if err := agent.CheckName("conversation", s.ConversationID); err != nil {
			return err
		}
		s.ThreadID = agent.MainThreadID(s.ID, s.ConversationID)
	case agent.KindSubAgent:
		if s.AgentType != "" {
			s.ThreadID = agent.SubThreadID(s.AgentType, s.ID)
		}
	default:
		return agent.Errorf(agent.CodeInvalid, "session %s has kind %q: use %q or %q", s.ID, s.Kind, agent.KindMain, agent.KindSubAgent)
	}
	if n := len(s.Messages); n > 0 {
		if s.StartedAt.IsZero() {
			s.StartedAt = s.Messages[0].Timestamp
		}
		if s.LastActiveAt.IsZero() {
			s.LastActiveAt = s.Messages[n-1].Timestamp
		}
	}
	return nil
}

// fromThread takes ids from the thread id and compares those that are given.
func (s *Session) fromThread() error {
	p, err := agent.ParseThreadID(s.ThreadID)
	if err != nil {
		return err
	}
	own := p.SessionID
	if p.Kind == agent.KindSubAgent {
		own = p.AgentID
	}
	if p.Kind != s.Kind || own != s.ID || s.ConversationID != "" && s.ConversationID != p.ConversationID || s.AgentType != "" && s.AgentType != p.AgentType {
		return agent.Errorf(agent.CodeInvalid, "session %s cannot have thread %s: leave one of them away", s.ID, s.ThreadID)
	}
	s.ConversationID, s.AgentType = p.ConversationID, p.AgentType
	return nil
}

func (s *Session) shortID() (string, error) {
	if s.Kind == agent.KindSubAgent {
		return ShortID(s.ID)
	}
	return conversationShortID(s.ID, s.ConversationID)
}

// key tells threads apart. Older files of sub-agents do not say which thread.
func (s *Session) key() string {
	if s.ThreadID != "" {
		return s.ThreadID
	}
	return "agent::" + s.ID
}

// Folder is where the files of a profile's sessions are. Its methods may be used
// by several processes at once.
type Folder struct {
	// Dir is made by the first file.
	Dir string
	// Prefix begins the names of main sessions' files; empty = DefaultPrefix.
	Prefix string
	// OnDamage is told of a damaged file that was set aside because a new one
	// was to be written there; the write goes on. Without it that write fails
	// with the *port.DamagedError, and works when it is repeated.
	OnDamage func(*port.DamagedError)
	// Now is the clock for names of damaged files; nil = the system's.
	Now func() time.Time
}

// Check refuses a folder that is not there.
func (f Folder) Check() error {
	info, err := os.Stat(f.Dir)
	if err == nil && !info.IsDir() {
		return agent.Errorf(agent.CodeInvalid, "%s is a file: name the folder that it is in, %s", f.Dir, filepath.Dir(f.Dir))
	}
	return agent.Wrap(err, agent.CodeNotFound, "folder %s does not exist", f.Dir)
}

// prefixes are those of main sessions and of sub-agents.
func (f Folder) prefixes() (main, sub string, err error) {
	main = f.Prefix
	if main == "" {
		main = DefaultPrefix
	}
	if strings.HasPrefix(main, SubAgentMark) {
		return "", "", agent.Errorf(agent.CodeInvalid, "session prefix %q is not possible: %q begins the names of sub-agents' files", main, SubAgentMark)
	}
	return main, SubAgentMark + main, CheckPrefix(main)
}

// Path is where the file of a session is.
func (f Folder) Path(s Session) (string, error) {
	prefix, sub, err := f.prefixes()
	if err == nil {
		err = s.complete()
	}
	if err != nil {
		return "", err
	}
	if s.Kind == agent.KindSubAgent {
		prefix = sub
	}
	return GetConversationFilePath(s.ID, s.ConversationID, f.Dir, prefix)
}

// SaveSession writes a session's file and returns its path. A session without
// messages is not saved: the path is empty then, and a file that is there stays.
func (f Folder) SaveSession(s Session) (path string, err error) {
	if _, err := f.Path(s); err != nil || len(s.Messages) == 0 {
		return "", err
	}
	return f.SaveThread(s)
}

// SaveThread is SaveSession also for a thread that has no messages yet, but an
// inbox or a task, which its Store part holds.
func (f Folder) SaveThread(s Session) (path string, err error) {
	if err := s.complete(); err != nil {
		return "", err
	}
	if path, err = f.Path(s); err != nil {
		return "", err
	}
	old, _, err := readSession(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		if err := f.setAside(err); err != nil {
			return "", err
		}
	case old.ID != s.ID || old.Kind != s.Kind || old.ThreadID != "" && old.ThreadID != s.ThreadID:
		return "", agent.Errorf(agent.CodeConflict, "session file %s belongs to %s, not to %s: move it away; it was left as it is", path, old.ThreadID, s.ThreadID)
	}
	return path, f.write(path, s)
}

// write replaces a file by a value's JSON, for people to read. One that says just
// that is left as it is.
func (f Folder) write(path string, v any) error {
	data, err := atomicfile.JSON(v)
	if err != nil {
		return agent.Wrap(err, agent.CodeInvalid, "session file %s: its content cannot be written as JSON; nothing was changed", path)
	}
	if old, err := atomicfile.ReadRegular(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err = atomicfile.MakeDir(filepath.Dir(path)); err == nil {
		err = atomicfile.Write(path, data, func(moment string) { memory.CrashPoint(moment + "-session-save") })
	}
	return explain(err, path)
}

// setAside makes room for a new file where a damaged one is.
func (f Folder) setAside(cause error) error {
	var damaged *port.DamagedError
	if !errors.As(cause, &damaged) {
		return cause
	}
	now := f.Now
	if now == nil {
		now = time.Now
	}
	return damaged.MoveAway(now(), f.OnDamage)
}

func explain(err error, path string) error { return atomicfile.Explain(err, "session file "+path) }
