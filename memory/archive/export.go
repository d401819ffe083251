package archive

import (
	"context"
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
func Export(ctx context.Context, s Store, f sessionfile.Folder, o Owner, id string, events sessionfile.EventOptions) (Exported, error) {
	out := Exported{Threads: []string{}, Files: []string{}}
	roots, err := Find(ctx, s, o, id)
	if err != nil {
		return out, err
	}
	history, log := sessionfile.History{}, sessionfile.Events{}
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
			history[r.Thread.ID] = port.Conversation{
				Messages: r.Messages,
				Metadata: port.ConversationMetadata{Metadata: r.Thread.Metadata, CreatedAt: r.Thread.CreatedAt, UpdatedAt: r.Thread.UpdatedAt},
			}
			if events.Enabled {
				if log[r.Thread.ID], err = s.Events(ctx, r.Thread.ID, 0, 0); err != nil {
					return out, err
				}
			}
		}
	}
	return out, writeSession(f, roots, history, log, events, &out)
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

// writeSession writes the files of a session. Of conversations that are not
// exported now, an earlier export stays.
func writeSession(f sessionfile.Folder, roots []agent.Thread, history sessionfile.History, log sessionfile.Events, events sessionfile.EventOptions, out *Exported) error {
	sessionID := roots[0].SessionID
	if before, found, err := f.ReadHistory(sessionID); err == nil && found {
		for key, c := range before {
			if id := sessionfile.AbsoluteKey(sessionID, key); len(history[id].Messages) == 0 && len(c.Messages) > 0 {
				history[id] = c
			}
		}
	}
	path, err := f.WriteHistory(sessionID, history)
	if err != nil {
		return err
	}
	out.Files = append(out.Files, path)
	path, err = f.WriteEvents(sessionID, log, events)
	if path != "" {
		out.Files = append(out.Files, path)
	}
	return err
}
