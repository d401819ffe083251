package archive

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
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
	err := steps.Run(func() {
		roots := steps.Must(Find(ctx, s, o, id))
		sessionID := roots[0].SessionID
		view := port.NewPersistedMemory[json.RawMessage](port.NewStore(s, port.StoreOptions{UserID: o.UserID, Profile: o.Profile, Session: sessionID}))
		history, log := port.MemorySnapshot[json.RawMessage]{}, sessionfile.Events{}
		for _, root := range roots {
			for _, r := range steps.Must(s.ExportThreads(ctx, memory.ExportRequest{UserID: o.UserID, ThreadID: root.ID, Below: true})) {
				session := steps.Must(Session(r))
				exportImages(ctx, s, f, session.Images(), &out)
				out.Files = append(out.Files, steps.Must(f.SaveThread(session)))
				out.Threads = append(out.Threads, r.Thread.ID)
				key := keyOf(r.Thread)
				for _, key := range []string{key, port.MetadataKey(key)} {
					history[key] = steps.Must(view.Get(ctx, key))
				}
				if events.Enabled {
					log[key] = steps.Must(s.Events(ctx, r.Thread.ID, 0, 0))
				}
			}
		}
		out.Files = append(out.Files, steps.Must(f.WriteHistory(ctx, sessionID, history)))
		if path := steps.Must(f.WriteEvents(ctx, sessionID, log, events)); path != "" {
			out.Files = append(out.Files, path)
		}
	})
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
	return steps.Get(func() []sessionfile.Tree {
		roots := steps.Must(Find(ctx, s, o, id))
		view := port.NewStore(s, port.StoreOptions{UserID: o.UserID, Profile: o.Profile, Session: roots[0].SessionID})
		conversations, agents := port.NewConversationStore(view, port.ConversationOptions{}), port.NewAgentSessionStore(view, port.ConversationOptions{})
		var list []sessionfile.Session
		for _, root := range roots {
			for _, t := range steps.Must(s.Threads(ctx, memory.ThreadFilter{UserID: o.UserID, Root: root.ID, All: true})) {
				var c port.AgentSession
				var err error
				if t.Kind == agent.KindSubAgent {
					c, _, err = agents.Get(ctx, t.AgentType, t.AgentID)
				} else {
					c.Conversation, err = conversations.GetConversation(ctx, t.ConversationID)
				}
				steps.Check(err)
				one := steps.Must(Session(memory.ThreadRecord{Thread: t, Messages: c.Messages}))
				one.Store = nil
				list = append(list, one)
			}
		}
		trees := sessionfile.Link(list)
		if sub := agent.ThreadOfAgent(id); sub != "" && roots[0].SessionID != id {
			return below(trees, sub)
		}
		return trees
	})
}

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

func exportImages(ctx context.Context, s Store, f sessionfile.Folder, names []string, out *Exported) {
	for _, name := range names {
		data, there := steps.Found(s.Image(ctx, name))
		if !there {
			out.MissingImages = append(out.MissingImages, name)
			continue
		}
		if path := steps.Must(f.SaveImage(name, data)); !slices.Contains(out.Files, path) {
			out.Files = append(out.Files, path)
		}
	}
}
