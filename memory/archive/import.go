package archive

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
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
	in := &importing{ctx: ctx, s: s, f: f, o: o, done: map[string]bool{}}
	in.out.Refused, in.out.Added, in.out.Present = []Refused{}, []string{}, []string{}
	err := steps.Run(func() {
		steps.Check(in.f.Check())
		trees, broken, err := in.f.Trees()
		steps.Check(err)
		for _, b := range broken {
			in.out.refuse(b.Path, b.Err)
		}
		for _, t := range trees {
			if only == "" || only == t.ID || only == t.ThreadID {
				in.tree(t)
			}
		}
		for _, sessionID := range steps.Must(in.f.Histories()) {
			if only != "" && only != sessionID {
				continue
			}
			h, err := in.f.ReadHistory(in.ctx, sessionID)
			if err != nil {
				in.out.refuse(filepath.Join(in.f.Dir, "sessions", sessionID), err)
			}
			for _, t := range treesOf(sessionID, h, in.done) {
				in.tree(t)
			}
		}
		if only != "" && len(in.out.Added)+len(in.out.Present)+len(in.out.Refused) == 0 {
			steps.Refuse(agent.CodeNotFound, "folder %s has no session %q", in.f.Dir, only)
		}
	})
	return in.out, err
}

// importing is an import under way. It ends at its first error (package steps): the
// store, or the folder, is away.
type importing struct {
	ctx  context.Context
	s    Store
	f    sessionfile.Folder
	o    Owner
	out  Imported
	done map[string]bool // threads
}

// tree adds one conversation, or says why not.
func (in *importing) tree(t sessionfile.Tree) {
	name := cmp.Or(t.ThreadID, t.ID)
	list, err := records(t)
	if err != nil {
		in.out.refuse(name, err)
		return
	}
	for _, r := range list {
		in.done[r.Thread.ID] = true
	}
	// Images first: one that no thread shows after all is removed by and by.
	_, missing := in.s.Thread(in.ctx, "", list[0].Thread.ID)
	in.images(t, missing == nil)
	res, err := in.s.ImportThreads(in.ctx, memory.ImportRequest{UserID: in.o.UserID, Profile: in.o.Profile, Threads: list})
	if err == nil && len(res.Present) == 0 {
		err = checkTree(in.ctx, in.s, list[0].Thread)
	}
	switch agent.CodeOf(err) {
	case "":
		in.out.Added, in.out.Present = append(in.out.Added, res.Added...), append(in.out.Present, res.Present...)
		in.out.Dropped = append(in.out.Dropped, res.Dropped...)
	case agent.CodeUnavailable:
		steps.Check(err)
	default:
		in.out.Refused = append(in.out.Refused, Refused{Name: name, Reason: inWords(err), err: err})
	}
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

// images keeps the images that the threads of a tree refer to. Of a tree that
// is there already only those are kept that the store has lost.
func (in *importing) images(t sessionfile.Tree, there bool) {
	for _, name := range t.Images() {
		data, found, err := in.f.Image(name)
		if err != nil {
			in.out.refuse("image "+name, err)
			continue
		}
		kept := found && !there
		if !kept {
			_, kept = steps.Found(in.s.Image(in.ctx, name))
		}
		switch {
		case found && (!kept || !there):
			steps.Must(in.s.KeepImage(in.ctx, data))
		case !kept && !slices.Contains(in.out.MissingImages, name):
			in.out.MissingImages = append(in.out.MissingImages, name)
		}
	}
	for _, child := range t.Children {
		in.images(child, there)
	}
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
