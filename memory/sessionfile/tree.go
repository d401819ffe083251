package sessionfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/atomicfile"
)

// Tree is a session with the sub-agents that worked for it, linked.
type Tree struct {
	Session
	// Children are in the order in which they started.
	Children []Tree `json:"children"`
}

// LoadTree is LoadSession with all sub-agents below, at any depth. Those whose
// own parent's file is gone stand under the root they name. Files that could
// not be read are returned: one of them may be a missing child.
func (f Folder) LoadTree(id string) (Tree, bool, []BrokenFile, error) {
	found, s, there, err := f.lookUp(id, agent.KindMain, agent.KindSubAgent)
	if err != nil || !there {
		return Tree{}, false, nil, err
	}
	return grow(s, found.below(), map[string]bool{}), true, found.broken, nil
}

// Trees returns all sessions with their sub-agents, newest activity first, then
// the sub-agents that stand under none of them, and the files that could not be
// read.
func (f Folder) Trees() ([]Tree, []BrokenFile, error) {
	found, err := f.scan()
	return found.trees(), found.broken, err
}

func (found scanned) trees() (out []Tree) {
	below, seen := found.below(), map[string]bool{}
	known := map[string]bool{}
	for _, i := range found.files {
		known[i.key()] = true
	}
	for _, root := range []func(Info) bool{
		func(i Info) bool { return i.Kind == agent.KindMain },
		func(i Info) bool { return !known[i.ParentThreadID] },
		func(Info) bool { return true }, // links in a circle
	} {
		for _, i := range found.files {
			if !i.older && !seen[i.key()] && root(i) {
				out = append(out, grow(i.Session, below, seen))
			}
		}
	}
	return out
}

// Link makes trees of sessions that were read elsewhere, newest activity first.
func Link(list []Session) []Tree {
	var found scanned
	for _, s := range list {
		found.files = append(found.files, Info{Session: s})
	}
	return found.trees()
}

// below groups sub-agents by the thread they stand under.
func (found scanned) below() map[string][]Session {
	known := map[string]bool{}
	for _, i := range found.files {
		known[i.key()] = true
	}
	out := map[string][]Session{}
	for _, i := range found.files {
		if i.older || i.Kind != agent.KindSubAgent {
			continue
		}
		parent := i.ParentThreadID
		if p, err := agent.ParseThreadID(parent); err != nil || p.Kind == agent.KindSubAgent && !known[parent] {
			parent = i.RootThreadID
		}
		out[parent] = append(out[parent], i.Session)
	}
	return out
}

// grow links what is below a session; a circle in broken links is cut.
func grow(s Session, below map[string][]Session, seen map[string]bool) Tree {
	t := Tree{Session: s, Children: []Tree{}}
	seen[s.key()] = true
	children := below[s.key()]
	slices.SortStableFunc(children, func(a, b Session) int { return a.StartedAt.Compare(b.StartedAt) })
	for _, child := range children {
		if !seen[child.key()] {
			t.Children = append(t.Children, grow(child, below, seen))
		}
	}
	return t
}

// keys adds the threads of a tree to a set.
func (t Tree) keys(to map[string]bool) map[string]bool {
	to[t.key()] = true
	for _, c := range t.Children {
		c.keys(to)
	}
	return to
}

// Tidy removes what exports that were killed left behind, also of sessions that
// are gone: temporary files of this folder's prefix, older than any write takes.
func (f Folder) Tidy() {
	main, sub, err := f.prefixes()
	if err != nil {
		return
	}
	for _, prefix := range []string{main, sub} {
		atomicfile.RemoveTemporary(f.Dir, prefix+"_", atomicfile.StaleAfter)
	}
	dirs, _ := os.ReadDir(filepath.Join(f.Dir, "sessions")) // there need be none
	for _, d := range dirs {
		atomicfile.RemoveTemporary(filepath.Join(f.Dir, "sessions", d.Name()), "", atomicfile.StaleAfter)
	}
	atomicfile.RemoveTemporary(filepath.Join(f.Dir, imagesDir), "", atomicfile.StaleAfter)
}

// DeleteSession removes the files of a session and of its sub-agents, and with
// its last conversation the folder sessions/ID. It returns what it removed; an
// id that is not there removes nothing.
func (f Folder) DeleteSession(id string) (removed []string, err error) {
	found, s, there, err := f.lookUp(id, agent.KindMain, agent.KindSubAgent)
	if err != nil || !there {
		return nil, err
	}
	return f.remove(found, grow(s, found.below(), map[string]bool{}).keys(map[string]bool{}))
}

// ExpireOptions say what is old.
type ExpireOptions struct {
	// MaxAge is how long after its last activity a session is kept; 0 = for ever.
	MaxAge time.Duration
	Now    time.Time
	// Keep holds back what runs or is being restored; nil = nothing. A session
	// with anything in its tree that is kept, or is not old, is kept as a whole.
	Keep func(Session) bool
}

// ExpireSessions removes the files of old sessions with their sub-agents, and
// of sub-agents whose session is gone. It returns what it removed. Files that
// cannot be read stay.
func (f Folder) ExpireSessions(o ExpireOptions) (removed []string, err error) {
	if o.MaxAge <= 0 {
		return nil, nil
	}
	found, err := f.scan()
	if err != nil {
		return nil, err
	}
	old := map[string]bool{}
	for _, t := range found.trees() {
		if !o.keeps(t) {
			t.keys(old)
		}
	}
	return f.remove(found, old)
}

func (o ExpireOptions) keeps(t Tree) bool {
	return o.Now.Sub(t.LastActiveAt) <= o.MaxAge || o.Keep != nil && o.Keep(t.Session) || slices.ContainsFunc(t.Children, o.keeps)
}

// remove removes the files of threads, children first, so that whoever is
// interrupted leaves nothing without its parent, then what only they needed: the
// folders of their sessions and images. While a file cannot be read nobody knows
// which images it shows, and all stay.
func (f Folder) remove(found scanned, threads map[string]bool) (removed []string, err error) {
	sessions, left := map[string]bool{}, map[string]bool{}
	var shown []string
	stillShown := map[string]bool{}
	slices.SortStableFunc(found.files, func(a, b Info) int { return b.Depth - a.Depth })
	for _, i := range found.files {
		if !threads[i.key()] {
			left[i.ID] = true
			for _, name := range i.Images() {
				stillShown[name] = true
			}
			continue
		}
		if err := os.Remove(i.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, explain(err, i.Path)
		}
		sessions[i.ID] = i.Kind == agent.KindMain
		removed, shown = append(removed, i.Path), append(shown, i.Images()...)
	}
	for id, main := range sessions {
		if !main || left[id] {
			continue
		}
		own, err := f.removeFolder(id)
		removed = append(removed, own...)
		if err != nil {
			return removed, err
		}
	}
	for _, name := range shown {
		if stillShown[name] || len(found.broken) > 0 {
			continue
		}
		path, err := f.RemoveImage(name)
		if err != nil {
			return removed, err
		}
		if path != "" {
			removed = append(removed, path)
		}
	}
	if len(removed) > 0 {
		err = explain(atomicfile.SyncDir(f.Dir), f.Dir)
	}
	return removed, err
}

// sessionFiles are what Spool writes into the folder of a session.
var sessionFiles = []string{"history.json", "history.json.lock", "events.json", "events.json.lock", "http-log.json"}

// removeFolder removes Spool's files in the folder of a session, and the folder if
// nothing else is in it: what people have put there is theirs.
func (f Folder) removeFolder(sessionID string) (removed []string, err error) {
	dir, err := f.sessionFile(sessionID, "")
	if err != nil {
		return nil, err
	}
	for _, name := range sessionFiles {
		path := filepath.Join(dir, name)
		switch err := os.Remove(path); {
		case err == nil:
			removed = append(removed, path)
		case !errors.Is(err, fs.ErrNotExist):
			return removed, explain(err, path)
		}
		atomicfile.RemoveTemporary(dir, name, 0)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
		if err := os.Remove(dir); err != nil {
			return removed, explain(err, dir)
		}
		return []string{dir}, nil
	}
	return removed, nil
}
