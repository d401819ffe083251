package sessionfile

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/port"
)

// Events is the log of each thread of a session, by its key in the session: the
// conversation's name, "agent:TYPE:ID".
type Events map[string][]agent.Event

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

// memory is one of a session's files, which is memory by keys.
func (f Folder) memory(sessionID, name string) (*port.JSONFile, string, error) {
	path, err := f.sessionFile(sessionID, name)
	return port.NewJSONFile(path, port.JSONFileOptions{OnDamage: f.OnDamage, Now: f.Now}), path, err
}

// WriteHistory puts conversations into sessions/ID/history.json, which is memory by
// keys as other programs read it: {key: [message, …], "__metadata__:key": [metadata]}.
// Conversations that are there and not among them stay. It returns the file's path.
func (f Folder) WriteHistory(ctx context.Context, sessionID string, s port.MemorySnapshot[json.RawMessage]) (string, error) {
	file, path, err := f.memory(sessionID, "history.json")
	if err != nil {
		return "", err
	}
	return path, port.NewConversationStore(file, port.ConversationOptions{Now: f.Now}).ImportSnapshot(ctx, s)
}

// ReadHistory reads sessions/ID/history.json, also as older programs wrote it, and
// changes nothing there. Without such a file it is empty.
func (f Folder) ReadHistory(ctx context.Context, sessionID string) (map[string]port.Conversation, error) {
	path, err := f.sessionFile(sessionID, "history.json")
	if err != nil {
		return nil, err
	}
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err, path)
	}
	h, err := parseHistory(ctx, data)
	if err != nil {
		return nil, &port.DamagedError{Path: path, Cause: err}
	}
	return h, nil
}

func parseHistory(ctx context.Context, data []byte) (map[string]port.Conversation, error) {
	var snapshot port.MemorySnapshot[json.RawMessage]
	if err := json.Unmarshal(data, &snapshot); err != nil {
		return nil, err
	}
	if snapshot == nil {
		return nil, errors.New("it is not an object of conversations")
	}
	store := port.NewConversationStore(port.NewInMemory(), port.ConversationOptions{})
	if err := store.ImportSnapshot(ctx, snapshot); err != nil {
		return nil, err
	}
	h := map[string]port.Conversation{}
	for key := range snapshot {
		if strings.HasPrefix(key, "__metadata__") {
			continue
		}
		c, err := store.GetConversation(ctx, key)
		if err == nil {
			err = checkMessages(c.Messages)
		}
		if err != nil {
			return nil, err
		}
		h[key] = c
	}
	return h, nil
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

// WriteEvents puts logs into sessions/ID/events.json, {thread: [event, …]} in the
// order of the log, and returns its path; nothing, and "", if it is not enabled.
func (f Folder) WriteEvents(ctx context.Context, sessionID string, events Events, o EventOptions) (string, error) {
	file, path, err := f.memory(sessionID, "events.json")
	if err != nil || !o.Enabled {
		return "", err
	}
	out := port.MemorySnapshot[agent.Event]{}
	for key, list := range events {
		if o.Cap > 0 && len(list) > o.Cap {
			list = list[len(list)-o.Cap:]
		}
		list = slices.Clone(list)
		for i := range list {
			if list[i].Type == agent.EventToolResponse {
				list[i].Type = toolResult
			}
		}
		out[key] = list
	}
	return path, port.NewPersistedMemory[agent.Event](file).ImportSnapshot(ctx, out)
}
