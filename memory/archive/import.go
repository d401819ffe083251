package archive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
	"github.com/spool-agents/spool/memory/verify"
)

// Imported says what became of the files of a folder.
type Imported struct {
	memory.ImportResult
	// Refused are conversations that were not imported, and files that could
	// not be read.
	Refused []Refused `json:"refused"`
	// MissingImages are shown by messages, and neither folder nor store has them.
	MissingImages []string `json:"missingImages,omitempty"`
}

// Refused is what was not imported, and why.
type Refused struct {
	Name   string `json:"name"` // a thread, session or file
	Reason string `json:"reason"`
	err    error
}

// Unwrap returns the cause.
func (r Refused) Unwrap() error { return r.err }

// Error names what was refused and why.
func (r Refused) Error() string { return r.Name + ": " + r.Reason }

func (i *Imported) refuse(name string, err error) {
	i.Refused = append(i.Refused, Refused{Name: name, Reason: err.Error(), err: err})
}

// Import adds the conversations of a folder's files to a store, each with its
// sub-agents in one write; only, if set, is the one session to import. What
// cannot be imported is listed and keeps nothing else from being imported.
// Files of programs that do not know users become the owner's.
func Import(ctx context.Context, s Store, f sessionfile.Folder, o Owner, only string) (Imported, error) {
	out := Imported{Refused: []Refused{}}
	out.Added, out.Present = []string{}, []string{}
	if info, err := os.Stat(f.Dir); err != nil || !info.IsDir() {
		return out, agent.Errorf(agent.CodeNotFound, "folder %s does not exist", f.Dir)
	}
	trees, broken, err := f.Trees()
	if err != nil {
		return out, err
	}
	for _, b := range broken {
		out.refuse(b.Path, b.Err)
	}
	done := map[string]bool{}
	for _, t := range trees {
		if only != "" && only != t.ID && only != t.ThreadID {
			continue
		}
		err := importTree(ctx, s, f, o, t, &out, done)
		if err != nil {
			return out, err
		}
	}
	histories, err := f.Histories()
	if err != nil {
		return out, err
	}
	for _, sessionID := range histories {
		if only != "" && only != sessionID {
			continue
		}
		h, err := f.ReadHistory(ctx, sessionID)
		if err != nil {
			out.refuse(filepath.Join(f.Dir, "sessions", sessionID), err)
			continue
		}
		for _, t := range treesOf(sessionID, h, done) {
			if err := importTree(ctx, s, f, o, t, &out, done); err != nil {
				return out, err
			}
		}
	}
	if only != "" && len(out.Added)+len(out.Present)+len(out.Refused) == 0 {
		return out, agent.Errorf(agent.CodeNotFound, "folder %s has no session %q", f.Dir, only)
	}
	return out, nil
}

// importTree adds one conversation. An error means that the store is away; a
// refusal goes into out.
func importTree(ctx context.Context, s Store, f sessionfile.Folder, o Owner, t sessionfile.Tree, out *Imported, done map[string]bool) error {
	name := t.ThreadID
	if name == "" {
		name = t.ID
	}
	list, err := records(t)
	if err != nil {
		out.refuse(name, err)
		return nil
	}
	for _, r := range list {
		done[r.Thread.ID] = true
	}
	// Images first: one that no thread shows after all is removed by and by.
	_, there := s.Thread(ctx, "", list[0].Thread.ID)
	if err := importImages(ctx, s, f, t, there == nil, out); err != nil {
		return err
	}
	res, err := s.ImportThreads(ctx, memory.ImportRequest{UserID: o.UserID, Profile: o.Profile, Threads: list})
	if err == nil && len(res.Present) == 0 {
		err = checkTree(ctx, s, list[0].Thread)
	}
	switch agent.CodeOf(err) {
	case "":
		out.Added, out.Present = append(out.Added, res.Added...), append(out.Present, res.Present...)
		out.Dropped = append(out.Dropped, res.Dropped...)
	case agent.CodeUnavailable:
		return err
	default:
		out.Refused = append(out.Refused, Refused{Name: name, Reason: inWords(err), err: err})
	}
	return nil
}

// inWords is why a store refused the rows of a file, without what its database says,
// which tells a person nothing.
func inWords(err error) string {
	var e *agent.Error
	if !errors.As(err, &e) {
		return "its rows contradict each other: restore the file, or leave its \"store\" out to import the messages alone"
	}
	if e.Cause == nil {
		return e.Message
	}
	return e.Message + ": " + inWords(e.Cause)
}

// checkTree takes a conversation back out that breaks a rule which every
// conversation keeps, such as one whose file was edited.
func checkTree(ctx context.Context, s Store, root agent.Thread) error {
	report, err := verify.Check(ctx, s, verify.Options{Threads: []string{root.ID}})
	if err != nil || root.Kind != agent.KindMain {
		return err
	}
	for _, v := range report.Violations {
		if strings.Contains(v.Detail, agent.ImageScheme) {
			continue // images are told of by themselves
		}
		if before, _, cut := strings.Cut(v.Detail, "store: "); cut { // what follows is the database's
			v.Detail = before + "store: a row cannot be read"
		}
		if _, err := s.DeleteTree(ctx, memory.DeleteRequest{ThreadID: root.ID}); err != nil {
			return err
		}
		return agent.Errorf(agent.CodeInvalid, "its parts contradict each other (%s): restore the file, or leave its \"store\" out to import the messages alone", v)
	}
	return nil
}

// importImages keeps the images that the threads of a tree refer to. Of a tree that
// is there already only those are kept that the store has lost.
func importImages(ctx context.Context, s Store, f sessionfile.Folder, t sessionfile.Tree, there bool, out *Imported) error {
	for _, name := range t.Images() {
		data, found, err := f.Image(name)
		if err != nil {
			out.refuse("image "+name, err)
			continue
		}
		if there || !found {
			_, err = s.Image(ctx, name)
		}
		switch {
		case err != nil && agent.CodeOf(err) != agent.CodeNotFound:
			return err
		case found && (err != nil || !there):
			if _, err := s.KeepImage(ctx, data); err != nil {
				return err
			}
		case err != nil && !slices.Contains(out.MissingImages, name):
			out.MissingImages = append(out.MissingImages, name)
		}
	}
	for _, child := range t.Children {
		if err := importImages(ctx, s, f, child, there, out); err != nil {
			return err
		}
	}
	return nil
}

// treesOf makes trees of a history, without the threads that were done. Its
// sub-agents belong to the session's one conversation, or to the default one.
func treesOf(sessionID string, h map[string]port.Conversation, done map[string]bool) []sessionfile.Tree {
	var mains, subs []sessionfile.Session
	for key, c := range h {
		if !strings.HasPrefix(key, "agent:") {
			key = agent.MainThreadID(sessionID, key)
		}
		s := sessionfile.Session{
			ThreadID: key, Topic: c.Metadata.Topic, Messages: c.Messages,
			StartedAt: c.Metadata.CreatedAt, LastActiveAt: c.Metadata.UpdatedAt,
			Tokens: sessionfile.Tokens{Prompt: c.Metadata.PromptTokens, Completion: c.Metadata.CompletionTokens, Total: c.Metadata.TotalTokens},
		}
		p, err := agent.ParseThreadID(s.ThreadID)
		switch {
		case err != nil, len(c.Messages) == 0, done[s.ThreadID]:
		case p.Kind == agent.KindMain:
			s.ID, s.Kind, s.ConversationID = p.SessionID, p.Kind, p.ConversationID
			mains = append(mains, s)
		default:
			s.ID, s.Kind, s.AgentType = p.AgentID, p.Kind, p.AgentType
			subs = append(subs, s)
		}
	}
	byThread := func(a, b sessionfile.Session) int { return strings.Compare(a.ThreadID, b.ThreadID) }
	slices.SortFunc(mains, byThread)
	slices.SortFunc(subs, byThread)
	var out []sessionfile.Tree
	for _, s := range mains {
		t := sessionfile.Tree{Session: s}
		if len(mains) == 1 || s.ConversationID == agent.DefaultConversation {
			for _, sub := range subs {
				t.Children = append(t.Children, sessionfile.Tree{Session: sub})
			}
		}
		out = append(out, t)
	}
	return out
}
