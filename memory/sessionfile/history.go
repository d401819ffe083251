package sessionfile

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/jsontime"
	"github.com/spool-agents/spool/memory/port"
)

// History is all conversations of a session, with those of their sub-agents, by
// their key in the session: the conversation's name, "agent:TYPE:ID".
type History map[string]port.Conversation

// Events is the log of each thread of a session, by its key in the session.
type Events map[string][]agent.Event

// metadataMark and a key are the key of a conversation's metadata; older programs
// wrote no colon behind it.
const metadataMark = "__metadata__"

// RelativeKey is a thread's key inside a session's files: the conversation's
// name, or the whole id of a sub-agent. A thread of another session is refused.
func RelativeKey(sessionID, threadID string) (string, error) {
	session, conversation, found := strings.Cut(threadID, "/")
	if !found {
		return threadID, port.CheckKey(threadID)
	}
	if session != sessionID || agent.CheckName("conversation", conversation) != nil {
		return "", agent.Errorf(agent.CodeInvalid, "thread %q does not belong to session %q: leave it out", threadID, sessionID)
	}
	return conversation, nil
}

// AbsoluteKey is the thread id of a key inside a session's files.
func AbsoluteKey(sessionID, key string) string {
	if strings.HasPrefix(key, "agent:") {
		return key
	}
	return agent.MainThreadID(sessionID, key)
}

func (f Folder) sessionFile(sessionID, name string) (string, error) {
	if err := CheckID(sessionID); err != nil {
		return "", err
	}
	return filepath.Join(f.Dir, "sessions", sessionID, name), nil
}

// HTTPLog is where the calls of models of a session are logged: a line of JSON
// each, if it is wanted.
func (f Folder) HTTPLog(sessionID string) (string, error) {
	return f.sessionFile(sessionID, "http-log.json")
}

// relative makes the keys of a map relative.
func relative[V any](sessionID string, in map[string]V) (map[string]V, error) {
	out := map[string]V{}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		name, err := RelativeKey(sessionID, key)
		if err != nil {
			return nil, err
		}
		if _, twice := out[name]; twice {
			return nil, agent.Errorf(agent.CodeInvalid, "session %q has two threads with key %q: leave one out", sessionID, name)
		}
		out[name] = in[key]
	}
	return out, nil
}

// WriteHistory writes sessions/ID/history.json, the snapshot of a memory that
// other programs read: {key: [message, …], "__metadata__:key": [metadata]}. It
// returns the file's path. Keys may be whole thread ids.
func (f Folder) WriteHistory(sessionID string, h History) (string, error) {
	path, err := f.sessionFile(sessionID, "history.json")
	if err != nil {
		return "", err
	}
	conversations, err := relative(sessionID, h)
	if err != nil {
		return "", err
	}
	out := map[string]any{}
	for key, c := range conversations {
		c.Metadata.MessageCount = int64(len(c.Messages))
		out[key], out[metadataMark+":"+key] = append([]agent.Message{}, c.Messages...), []port.ConversationMetadata{c.Metadata}
	}
	return path, f.replace(path, out, func(data []byte) error { _, err := ParseHistory(data); return err })
}

// replace writes a file, setting aside what is there if it cannot be understood.
func (f Folder) replace(path string, v any, parse func([]byte) error) error {
	_, err := read(path, parse)
	if err := f.setAside(path, err); err != nil {
		return err
	}
	return f.write(path, v)
}

// read reads a file; one that is not there is no error.
func read(path string, parse func([]byte) error) (found bool, err error) {
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, explain(err, path)
	}
	if err := parse(data); err != nil {
		return false, &port.DamagedError{Path: path, Cause: err}
	}
	return true, nil
}

// ReadHistory reads sessions/ID/history.json and says whether there is one.
func (f Folder) ReadHistory(sessionID string) (h History, found bool, err error) {
	path, err := f.sessionFile(sessionID, "history.json")
	if err == nil {
		found, err = read(path, func(data []byte) error { h, err = ParseHistory(data); return err })
	}
	return h, found, err
}

// Histories are the ids of the sessions that have a history.json.
func (f Folder) Histories() (ids []string, err error) {
	found, err := os.ReadDir(filepath.Join(f.Dir, "sessions"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range found {
		path, bad := f.sessionFile(e.Name(), "history.json")
		if info, missing := os.Lstat(path); bad == nil && missing == nil && info.Mode().IsRegular() {
			ids = append(ids, e.Name())
		}
	}
	return ids, explain(err, f.Dir)
}

// ParseHistory reads what WriteHistory writes, and times and keys as older
// programs wrote them.
func ParseHistory(data []byte) (History, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, errors.New("it is not an object of conversations")
	}
	h, newest := History{}, map[string]bool{}
	for key := range raw {
		if err := port.CheckKey(key); err != nil {
			return nil, err
		}
		name, isMetadata := strings.CutPrefix(key, metadataMark)
		if !isMetadata {
			c := h[key]
			err := jsontime.Unmarshal(raw[key], &c.Messages)
			if err == nil {
				err = checkMessages(c.Messages)
			}
			if err != nil {
				return nil, err
			}
			h[key] = c
			continue
		}
		var list []port.ConversationMetadata
		if err := jsontime.Unmarshal(raw[key], &list); err != nil {
			return nil, err
		}
		name, newer := strings.CutPrefix(name, ":")
		if len(list) > 0 && (newer || !newest[name]) {
			h[name], newest[name] = port.Conversation{Messages: h[name].Messages, Metadata: list[len(list)-1]}, newer
		}
	}
	for key, c := range h {
		c.Metadata.MessageCount = int64(len(c.Messages))
		h[key] = c
	}
	return h, nil
}

// EventOptions say whether and how much of the log is exported.
type EventOptions struct {
	// Enabled must be set for anything to be written.
	Enabled bool
	// Cap keeps the last events of each thread only; 0 = all. The log itself is
	// not touched.
	Cap int
}

// toolResult is how exports call agent.EventToolResponse.
const toolResult = "tool_result"

// WriteEvents writes sessions/ID/events.json, {thread: [event, …]} in the order
// of the log, and returns its path; nothing, and "", if it is not enabled. Keys
// may be whole thread ids.
func (f Folder) WriteEvents(sessionID string, events Events, o EventOptions) (string, error) {
	path, err := f.sessionFile(sessionID, "events.json")
	if err != nil || !o.Enabled {
		return "", err
	}
	out, err := relative(sessionID, events)
	if err != nil {
		return "", err
	}
	for key, list := range out {
		list = slices.SortedStableFunc(slices.Values(list), func(a, b agent.Event) int { return int(a.Seq - b.Seq) })
		if o.Cap > 0 && len(list) > o.Cap {
			list = list[len(list)-o.Cap:]
		}
		rename(list, agent.EventToolResponse, toolResult)
		out[key] = list
	}
	return path, f.replace(path, out, func(data []byte) error { _, err := parseEvents(data); return err })
}

// ReadEvents reads sessions/ID/events.json and says whether there is one.
func (f Folder) ReadEvents(sessionID string) (events Events, found bool, err error) {
	path, err := f.sessionFile(sessionID, "events.json")
	if err == nil {
		found, err = read(path, func(data []byte) error { events, err = parseEvents(data); return err })
	}
	return events, found, err
}

func parseEvents(data []byte) (events Events, err error) {
	if err := jsontime.Unmarshal(data, &events); err != nil {
		return nil, err
	}
	if events == nil {
		return nil, errors.New("it is not an object of logs")
	}
	for _, list := range events {
		rename(list, toolResult, agent.EventToolResponse)
	}
	return events, nil
}

// rename gives the events of one type another.
func rename(list []agent.Event, from, to string) {
	for i := range list {
		if list[i].Type == from {
			list[i].Type = to
		}
	}
}
