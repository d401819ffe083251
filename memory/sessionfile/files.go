package sessionfile

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Info is an entry of a list of sessions: a Session without its messages.
type Info struct {
	Session
	MessageCount int
	Path         string
	// Lost counts messages that a torn last line cost.
	Lost int

	short string // the part of the file's name that stands for the id
	older bool   // there is a newer file of this thread
}

// BrokenFile is a session's file that was left out of a list.
type BrokenFile struct {
	Path string
	Err  error

	unread bool // not only its name is wrong
}

// ListOptions select sessions. The zero value selects the main ones.
type ListOptions struct {
	// All includes sub-agents.
	All bool
	// Workdir, if set, selects the sessions of that folder.
	Workdir string
}

// ListSessions returns sessions, newest activity first, and the files that
// could not be read, which keep no others from being listed.
func (f Folder) ListSessions(o ListOptions) ([]Info, []BrokenFile, error) {
	found, err := f.scan()
	out := []Info{}
	for _, i := range found.files {
		if !i.older && (o.All || i.Kind == agent.KindMain) && i.isIn(o.Workdir) {
			i.Messages = nil
			out = append(out, i)
		}
	}
	return out, found.broken, err
}

func (i Info) isIn(workdir string) bool {
	return workdir == "" || filepath.Clean(i.Workdir) == filepath.Clean(workdir)
}

// LatestSession returns the main session with the newest activity, of a folder
// if workdir is set. It is never a sub-agent.
func (f Folder) LatestSession(workdir string) (Session, bool, error) {
	found, err := f.scan()
	for _, i := range found.files {
		if i.Kind == agent.KindMain && i.isIn(workdir) {
			return i.Session, true, err
		}
	}
	return Session{}, false, err
}

// LoadSession returns the session with an id, and whether there is one: a main
// session, else a sub-agent's. The id is that of a session (its conversation
// "default"), a thread, an agent, or the short id of a file. What is stored must
// have that id.
func (f Folder) LoadSession(id string) (Session, bool, error) {
	_, s, there, err := f.lookUp(id, agent.KindMain, agent.KindSubAgent)
	return s, there, err
}

// lookUp reads the folder and looks for a session.
func (f Folder) lookUp(id string, kinds ...agent.ThreadKind) (found scanned, s Session, there bool, err error) {
	if found, err = f.scan(); err == nil {
		s, there, err = found.find(id, kinds...)
	}
	return found, s, there, err
}

// LoadSessionAs is LoadSession among the files of one prefix.
func (f Folder) LoadSessionAs(prefix, id string) (Session, bool, error) {
	kind := agent.KindMain
	f.Prefix = prefix
	if main, sub := strings.CutPrefix(prefix, SubAgentMark); sub {
		f.Prefix, kind = main, agent.KindSubAgent
	}
	_, s, there, err := f.lookUp(id, kind)
	return s, there, err
}

// scanned are the files of all sessions, newest activity first.
type scanned struct {
	files  []Info
	broken []BrokenFile
}

func (f Folder) scan() (found scanned, err error) {
	main, sub, err := f.prefixes()
	if err != nil {
		return found, err
	}
	entries, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return found, explain(err, f.Dir)
	}
	for _, e := range entries {
		prefix, short, ok := splitName(e.Name(), main, sub)
		if !ok {
			continue
		}
		info := Info{Path: filepath.Join(f.Dir, e.Name()), short: short}
		if info.Session, info.Lost, err = readSession(info.Path); err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // it was not deleted meanwhile
				found.broken = append(found.broken, BrokenFile{Path: info.Path, Err: err, unread: true})
			}
			continue
		}
		switch err := info.complete(prefix == sub); {
		case errors.Is(err, errOtherPrefix):
		case err != nil:
			found.broken = append(found.broken, BrokenFile{Path: info.Path, Err: err})
		default:
			found.files = append(found.files, info)
		}
	}
	slices.SortFunc(found.files, func(a, b Info) int {
		return cmp.Or(b.LastActiveAt.Compare(a.LastActiveAt), strings.Compare(a.key(), b.key()))
	})
	// Of two files of a thread the one with the newer form of name counts.
	best := map[string]int{}
	for n := range found.files {
		i := &found.files[n]
		other, twice := best[i.key()]
		switch {
		case !twice:
			best[i.key()] = n
		case hashed.MatchString(i.short) && !hashed.MatchString(found.files[other].short):
			found.files[other].older, best[i.key()] = true, n
		default:
			i.older = true
		}
	}
	return found, nil
}

// splitName takes the name of a session's file apart.
func splitName(name, main, sub string) (prefix, short string, ok bool) {
	base, found := strings.CutSuffix(name, ".json")
	if !found {
		base, found = strings.CutSuffix(name, ".jsonl")
	}
	for _, prefix := range []string{main, sub} {
		if short, ok := strings.CutPrefix(base, prefix+"_"); found && ok && short != "" {
			return prefix, short, true
		}
	}
	return "", "", false
}

// errOtherPrefix marks a file whose longer prefix begins with the one looked for.
var errOtherPrefix = errors.New("the file has another prefix")

// complete fills in what the file's name tells, and compares both.
func (i *Info) complete(sub bool) error {
	if sub && i.Kind == agent.KindMain && i.AgentType == "" && i.ConversationID == agent.DefaultConversation {
		// Older files do not say what they are; their names do.
		i.Kind, i.ConversationID, i.ThreadID = agent.KindSubAgent, "", ""
	}
	if i.LastActiveAt.IsZero() {
		if stat, err := os.Stat(i.Path); err == nil {
			i.LastActiveAt = stat.ModTime().UTC().Truncate(time.Millisecond)
		}
	}
	i.MessageCount = len(i.Messages)
	want, err := i.shortID()
	old := bare(i.ID)
	switch {
	case err != nil:
		return err
	case i.short != want && i.short != old && (strings.HasSuffix(i.short, "_"+want) || strings.HasSuffix(i.short, "_"+old)):
		return errOtherPrefix
	case i.short != want && i.short != old:
		return agent.Errorf(agent.CodeInvalid, "the file holds session %s, whose file has another name: rename it to end in _%s.json", i.ID, want)
	case sub != (i.Kind == agent.KindSubAgent):
		return agent.Errorf(agent.CodeInvalid, "the file's name and content differ on whether %s is a sub-agent: rename it", i.ID)
	}
	return nil
}

// find looks for a session by its id, in the first of the kinds that has it.
func (found scanned) find(id string, kinds ...agent.ThreadKind) (Session, bool, error) {
	want := Session{ID: id, Kind: agent.KindMain}
	if strings.ContainsAny(id, "/:") {
		p, err := agent.ParseThreadID(id)
		if err != nil {
			return Session{}, false, err
		}
		want = Session{ID: p.SessionID, Kind: p.Kind, ThreadID: id}
		if p.Kind == agent.KindSubAgent {
			want.ID = p.AgentID
		}
	}
	if err := want.complete(); err != nil {
		return Session{}, false, err
	}
	for _, kind := range kinds {
		var short []Info
		for _, i := range found.files {
			agentID := i.Kind == agent.KindSubAgent && i.ID == want.ID && (id == want.ID || i.ThreadID == "")
			switch {
			case i.older || i.Kind != kind:
			case i.ThreadID == want.ThreadID || agentID:
				return i.Session, true, nil
			case i.short == id, len(id) == tail && bare(i.ID) == id:
				short = append(short, i)
			}
		}
		if len(short) == 1 {
			return short[0].Session, true, nil
		}
		if len(short) > 1 {
			var ids []string
			for _, i := range short {
				ids = append(ids, i.key())
			}
			return Session{}, false, agent.Errorf(agent.CodeConflict, "several sessions have the short id %s: name one of %s", id, strings.Join(ids, ", "))
		}
	}
	return Session{}, false, found.brokenOf(want)
}

// brokenOf is why a session is not found, if the file that would hold it cannot be
// read.
func (found scanned) brokenOf(want Session) (err error) {
	short, shortErr := want.shortID()
	for _, b := range found.broken {
		base := strings.TrimSuffix(filepath.Base(b.Path), filepath.Ext(b.Path))
		if shortErr == nil && b.unread && (strings.HasSuffix(base, "_"+short) || strings.HasSuffix(base, "_"+bare(want.ID))) {
			err = errors.Join(err, b.Err)
		}
	}
	return err
}
