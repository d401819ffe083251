package archive

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// Store is what of a store is needed here.
type Store interface {
	memory.Reader
	memory.Imager
	memory.Archiver
}

// Owner bounds what is found to a user's threads in a profile; empty fields to
// nobody's.
type Owner struct {
	UserID  string
	Profile string
}

// Find returns the main threads that an id means: those of a session, a thread,
// or the thread for which a sub-agent works.
func Find(ctx context.Context, s memory.Reader, o Owner, id string) ([]agent.Thread, error) {
	if agent.CheckName("session", id) == nil {
		found, err := s.Threads(ctx, memory.ThreadFilter{UserID: o.UserID, Profile: o.Profile, SessionID: id})
		if err != nil || len(found) > 0 {
			return found, err
		}
		if sub := agent.ThreadOfAgent(id); sub != "" {
			id = sub
		} else {
			return nil, agent.Errorf(agent.CodeNotFound, "session %q does not exist", id)
		}
	}
	if _, err := agent.ParseThreadID(id); err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "%q is neither a session nor a thread: use an id that sessions list or threads shows", id)
	}
	t, err := s.Thread(ctx, o.UserID, id)
	if err != nil {
		return nil, err
	}
	if o.Profile != "" && t.Profile != o.Profile {
		return nil, agent.Errorf(agent.CodeNotFound, "thread %q does not exist", id)
	}
	if t.Kind == agent.KindSubAgent {
		t, err = s.Thread(ctx, o.UserID, t.RootThreadID)
	}
	return []agent.Thread{t}, err
}

// Exported lists what was written.
type Exported struct {
	Threads []string `json:"threads"`
	Files   []string `json:"files"`
	// MissingImages are shown by messages, and the store has them no more.
	MissingImages []string `json:"missingImages,omitempty"`
}

// Export writes the files of the session or thread that an id means: one for
// each thread and each image that its messages show, and the session's history.json
// and, if enabled, events.json.
func Export(ctx context.Context, s memory.ConversationMemoryStore, f sessionfile.Folder, o Owner, id string, events sessionfile.EventOptions) (Exported, error) {
	out := Exported{Threads: []string{}, Files: []string{}}
	roots, err := Find(ctx, s, o, id)
	if err != nil {
		return out, err
	}
	sessionID := roots[0].SessionID
	view := port.NewPersistedMemory[json.RawMessage](port.NewStore(s, port.StoreOptions{UserID: o.UserID, Profile: o.Profile, Session: sessionID}))
	history, log := port.MemorySnapshot[json.RawMessage]{}, sessionfile.Events{}
	for _, root := range roots {
		tree, err := s.ExportThreads(ctx, memory.ExportRequest{UserID: o.UserID, ThreadID: root.ID, Below: true})
		if err != nil {
			return out, err
		}
		for _, r := range tree {
			session, err := Session(r)
			if err != nil {
				return out, err
			}
			if err := exportImages(ctx, s, f, session.Images(), &out); err != nil {
				return out, err
			}
			path, err := f.SaveThread(session)
			if err != nil {
				return out, err
			}
			out.Threads, out.Files = append(out.Threads, r.Thread.ID), append(out.Files, path)
			key := keyOf(r.Thread)
			for _, key := range []string{key, port.MetadataKey(key)} {
				if history[key], err = view.Get(ctx, key); err != nil {
					return out, err
				}
			}
			if events.Enabled {
				if log[key], err = s.Events(ctx, r.Thread.ID, 0, 0); err != nil {
					return out, err
				}
			}
		}
	}
	path, err := f.WriteHistory(ctx, sessionID, history)
	if err != nil {
		return out, err
	}
	out.Files = append(out.Files, path)
	if path, err = f.WriteEvents(ctx, sessionID, log, events); path != "" {
		out.Files = append(out.Files, path)
	}
	return out, err
}

// keyOf is a thread's key in memory by keys, within its session.
func keyOf(t agent.Thread) string {
	if t.Kind == agent.KindSubAgent {
		return t.ID
	}
	return t.ConversationID
}

// Load reads the conversations that an id means, or the sub-agent, with all that
// is below, from memory by keys.
func Load(ctx context.Context, s memory.ConversationMemoryStore, o Owner, id string) ([]sessionfile.Tree, error) {
	roots, err := Find(ctx, s, o, id)
	if err != nil {
		return nil, err
	}
	var threads []agent.Thread
	for _, root := range roots {
		tree, err := s.Threads(ctx, memory.ThreadFilter{UserID: o.UserID, Root: root.ID, All: true})
		if err != nil {
			return nil, err
		}
		threads = append(threads, tree...)
	}
	view := port.NewStore(s, port.StoreOptions{UserID: o.UserID, Profile: o.Profile, Session: roots[0].SessionID})
	conversations, agents := port.NewConversationStore(view, port.ConversationOptions{}), port.NewAgentSessionStore(view, port.ConversationOptions{})
	list := make([]sessionfile.Session, len(threads))
	for i, t := range threads {
		var c port.AgentSession
		if t.Kind == agent.KindSubAgent {
			c, _, err = agents.Get(ctx, t.AgentType, t.AgentID)
		} else {
			c.Conversation, err = conversations.GetConversation(ctx, t.ConversationID)
		}
		if err != nil {
			return nil, err
		}
		if list[i], err = Session(memory.ThreadRecord{Thread: t, Messages: c.Messages}); err != nil {
			return nil, err
		}
		list[i].Store = nil
	}
	trees := sessionfile.Link(list)
	if sub := agent.ThreadOfAgent(id); sub != "" && roots[0].SessionID != id {
		return below(trees, sub), nil
	}
	return trees, nil
}

// below finds a thread in trees.
func below(trees []sessionfile.Tree, id string) []sessionfile.Tree {
	for i, t := range trees {
		if t.ThreadID == id {
			return trees[i : i+1]
		}
		if found := below(t.Children, id); found != nil {
			return found
		}
	}
	return nil
}

// exportImages writes the images that a thread refers to.
func exportImages(ctx context.Context, s Store, f sessionfile.Folder, names []string, out *Exported) error {
	for _, name := range names {
		data, err := s.Image(ctx, name)
		if agent.CodeOf(err) == agent.CodeNotFound {
			out.MissingImages = append(out.MissingImages, name)
			continue
		}
		if err != nil {
			return err
		}
		path, err := f.SaveImage(name, data)
		if err != nil {
			return err
		}
		if !slices.Contains(out.Files, path) {
			out.Files = append(out.Files, path)
		}
	}
	return nil
}
