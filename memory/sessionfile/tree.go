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
	Children []Tree
}

// LoadTree is LoadSession with all sub-agents below, at any depth. Those whose
// own parent's file is gone stand under the root they name. Files that could
// not be read are returned: one of them may be a missing child.
func (f Folder) LoadTree(id string) (Tree, bool, []BrokenFile, error) {
	s, found, err := f.LoadSession(id)
	if err != nil || !found {
		return Tree{}, false, nil, err
	}
	_, sub, err := f.prefixes()
	if err != nil {
		return Tree{}, false, nil, err
	}
	files, broken, err := f.scan(sub)
	if err != nil {
		return Tree{}, false, nil, err
	}
	below := childrenOf(files)
	tree := grow(s, below, map[string]bool{})
	return tree, true, broken, nil
}

// Trees returns all sessions with their sub-agents, newest activity first, then
// the sub-agents that stand under none of them, and the files that could not be
// read.
func (f Folder) Trees() ([]Tree, []BrokenFile, error) {
	files, broken, err := f.scan("")
	if err != nil {
		return nil, nil, err
	}
	below, seen := childrenOf(files), map[string]bool{}
	var out []Tree
	for _, i := range files {
		if i.Kind == agent.KindMain {
			out = append(out, grow(i.Session, below, seen))
		}
	}
	known := map[string]bool{}
	for _, i := range files {
		known[i.key()] = true
	}
	for _, i := range files {
		if !seen[i.key()] && !known[i.ParentThreadID] {
			out = append(out, grow(i.Session, below, seen))
		}
	}
	return out, broken, nil
}

// childrenOf groups sub-agents by the thread they stand under.
func childrenOf(files []Info) map[string][]Info {
	known := map[string]bool{}
	for _, i := range files {
		known[i.key()] = true
	}
	out := map[string][]Info{}
	for _, i := range files {
		if i.Kind != agent.KindSubAgent {
			continue
		}
		parent := i.ParentThreadID
		if p, err := agent.ParseThreadID(parent); err != nil || p.Kind == agent.KindSubAgent && !known[parent] {
			parent = i.RootThreadID
		}
		out[parent] = append(out[parent], i)
	}
	return out
}

// grow links what is below a session; a circle in broken links is cut.
func grow(s Session, below map[string][]Info, seen map[string]bool) Tree {
	t := Tree{Session: s}
	seen[s.key()] = true
	children := below[s.key()]
	slices.SortStableFunc(children, func(a, b Info) int { return a.StartedAt.Compare(b.StartedAt) })
	for _, i := range children {
		if !seen[i.key()] {
			t.Children = append(t.Children, grow(i.Session, below, seen))
		}
	}
	return t
}

// Tidy removes what exports that were killed left behind, also of sessions that
// are gone: temporary files of this folder's prefix, older than any write takes.
func (f Folder) Tidy() {
	main, sub, err := f.prefixes()
	if err != nil {
		return
	}
	for _, prefix := range []string{main, sub} {
		atomicfile.RemoveTemporary(f.Dir, prefix+"_*.json", atomicfile.StaleAfter)
	}
	for _, name := range sessionFiles {
		dirs, err := os.ReadDir(filepath.Join(f.Dir, "sessions"))
		for _, d := range dirs {
			if err == nil && d.IsDir() {
				atomicfile.RemoveTemporary(filepath.Join(f.Dir, "sessions", d.Name()), name, atomicfile.StaleAfter)
			}
		}
	}
	atomicfile.RemoveTemporary(filepath.Join(f.Dir, imagesDir), "*", atomicfile.StaleAfter)
}

// keys lists the threads of a tree.
func (t Tree) keys() map[string]bool {
	out := map[string]bool{t.key(): true}
	for _, c := range t.Children {
		for k := range c.keys() {
			out[k] = true
		}
	}
	return out
}

// DeleteSession removes the files of a session and of its sub-agents, and with
// its last conversation the folder sessions/ID. It returns what it removed; an
// id that is not there removes nothing.
func (f Folder) DeleteSession(id string) (removed []string, err error) {
	tree, found, _, err := f.LoadTree(id)
	if err != nil || !found {
		return nil, err
	}
	return f.deleteThreads(tree.keys())
}

// deleteThreads removes the files of threads, children first, so that whoever
// is interrupted leaves nothing without its parent.
func (f Folder) deleteThreads(threads map[string]bool) (removed []string, err error) {
	files, err := f.allFiles()
	if err != nil {
		return nil, err
	}
	left := map[string]bool{}
	slices.SortStableFunc(files, func(a, b Info) int { return depth(b) - depth(a) })
	var sessions, shown, stillShown []string
	for _, i := range files {
		if !threads[i.key()] {
			stillShown = append(stillShown, i.Images()...)
			if i.Kind == agent.KindMain {
				left[i.ID] = true
			}
			continue
		}
		if err := os.Remove(i.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, explain(err, i.Path)
		}
		removed, shown = append(removed, i.Path), append(shown, i.Images()...)
		if i.Kind == agent.KindMain {
			sessions = append(sessions, i.ID)
		}
	}
	for _, id := range sessions {
		dir, err := f.sessionDir(id)
		if err != nil {
			return removed, err
		}
		if _, err := os.Lstat(dir); err != nil || left[id] || slices.Contains(removed, dir) {
			continue
		}
		own, err := removeOwn(dir)
		removed = append(removed, own...)
		if err != nil {
			return removed, explain(err, dir)
		}
	}
	gone, err := f.removeShown(shown, stillShown)
	removed = append(removed, gone...)
	if err == nil && len(removed) > 0 {
		err = explain(atomicfile.SyncDir(f.Dir), f.Dir)
	}
	return removed, err
}

// sessionFiles are what Spool writes into the folder of a session.
var sessionFiles = []string{"history.json", "events.json", "http-log.json"}

// removeOwn removes Spool's files in the folder of a session, and the folder if
// nothing else is in it: what people have put there is theirs.
func removeOwn(dir string) (removed []string, err error) {
	for _, name := range sessionFiles {
		for _, path := range []string{filepath.Join(dir, name), filepath.Join(dir, name+".lock")} {
			switch err := os.Remove(path); {
			case err == nil:
				removed = append(removed, path)
			case !errors.Is(err, fs.ErrNotExist):
				return removed, err
			}
		}
		atomicfile.RemoveTemporary(dir, name, 0)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return removed, err
	}
	if err := os.Remove(dir); err != nil {
		return removed, err
	}
	return []string{dir}, nil
}

func depth(i Info) int {
	if i.Kind == agent.KindMain {
		return 0
	}
	return max(1, i.Depth)
}

// allFiles are the files of all threads, both of those that have two.
func (f Folder) allFiles() ([]Info, error) {
	files, _, err := f.scan("")
	if err != nil {
		return nil, err
	}
	main, sub, err := f.prefixes()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, i := range files {
		known[i.Path] = true
	}
	for _, i := range slices.Clone(files) {
		for _, prefix := range []string{main, sub} {
			for _, ext := range []string{".json", ".jsonl"} {
				path := filepath.Join(f.Dir, prefix+"_"+bare(i.ID)+ext)
				if other, err := readInfo(path); err == nil && !known[path] && sameThread(&other.Session, &i.Session) {
					known[path] = true
					files = append(files, other)
				}
			}
		}
	}
	return files, nil
}

// ExpireOptions say what is old.
type ExpireOptions struct {
	// MaxAge is how long after its last activity a session is kept; 0 = for ever.
	MaxAge time.Duration
	Now    time.Time
	// Keep holds back what runs or is being restored; nil = nothing. A session
	// with anything in its tree that is kept, or is not old, is kept as a whole.
	Keep func(Info) bool
}

// ExpireSessions removes the files of old sessions with their sub-agents, and
// of sub-agents whose session is gone. It returns what it removed. Files that
// cannot be read stay.
func (f Folder) ExpireSessions(o ExpireOptions) (removed []string, err error) {
	if o.MaxAge <= 0 {
		return nil, nil
	}
	files, _, err := f.scan("")
	if err != nil {
		return nil, err
	}
	byKey := map[string]Info{}
	for _, i := range files {
		byKey[i.key()] = i
	}
	below, old := childrenOf(files), map[string]bool{}
	inTree := map[string]bool{}
	expire := func(i Info) {
		keys := grow(i.Session, below, map[string]bool{}).keys()
		kept := false
		for k := range keys {
			inTree[k] = true
			m := byKey[k]
			kept = kept || o.Now.Sub(m.LastActiveAt) <= o.MaxAge || o.Keep != nil && o.Keep(m)
		}
		for k := range keys {
			old[k] = old[k] || !kept
		}
	}
	for _, i := range files {
		if i.Kind == agent.KindMain {
			expire(i)
		}
	}
	for _, i := range files { // what stands under no session
		if _, known := byKey[i.ParentThreadID]; !known && !inTree[i.key()] {
			expire(i)
		}
	}
	for k, is := range old {
		if !is {
			delete(old, k)
		}
	}
	if len(old) == 0 {
		return nil, nil
	}
	return f.deleteThreads(old)
}
