package sessionfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// family is a main session with two children, one grandchild, and a stranger.
func family(t *testing.T, minute int) (f sessionfile.Folder, thread func(string) string) {
	t.Helper()
	f = folder(t)
	thread = func(id string) string { return agent.SubThreadID("general", id) }
	save(t, f, session("main", minute), child("first", "main/default", "main/default", 1, minute+1), child("second", "main/default", "main/default", 1, minute+2),
		child("grand", thread("first"), "main/default", 2, minute+3), session("stranger", minute+4), child("theirs", "stranger/default", "stranger/default", 1, minute+5))
	return f, thread
}

// shape prints a tree.
func shape(t sessionfile.Tree) string {
	out := t.ID
	var below []string
	for _, c := range t.Children {
		below = append(below, shape(c))
	}
	if len(below) > 0 {
		out += "(" + strings.Join(below, " ") + ")"
	}
	return out
}

// TestRow86_FlatFilesNestedChildren and row 90: a restored main session brings
// its children, linked.
func TestRow86_FlatFilesNestedChildren(t *testing.T) {
	f, _ := family(t, 1)
	subs := 0
	for _, n := range names(t, f.Dir) {
		if strings.HasPrefix(n, "subagent_session_") {
			subs++
		}
	}
	same(t, "files of sub-agents", subs, 4)
	for id, want := range map[string]string{"main": "main(first(grand) second)", "first": "first(grand)", "stranger": "stranger(theirs)"} {
		tree, found, broken, err := f.LoadTree(id)
		if err != nil || !found || len(broken) > 0 || shape(tree) != want {
			t.Errorf("%s: %s, %t, %v, %v; want %s", id, shape(tree), found, broken, err, want)
		}
	}
}

func TestRow90_RestoreBringsChildren(t *testing.T) {
	f, thread := family(t, 1)
	tree, _, _, err := f.LoadTree("main")
	ok(t, err)
	grand := tree.Children[0].Children[0]
	same(t, "links", []string{grand.ParentThreadID, grand.RootThreadID, tree.Children[0].ParentThreadID}, []string{thread("first"), "main/default", "main/default"})
	same(t, "messages", []int{len(tree.Messages), len(grand.Messages)}, []int{2, 2})
	// A child whose parent's file is gone is not lost.
	path := memorytest.Must(f.Path(child("first", "main/default", "main/default", 1, 1)))(t)
	ok(t, os.Remove(path))
	tree, _, _, err = f.LoadTree("main")
	ok(t, err)
	same(t, "without the middle", shape(tree), "main(second grand)")
	// Links in a circle end.
	save(t, f, child("x", thread("y"), "main/default", 2, 1), child("y", thread("x"), "main/default", 2, 1))
	tree, found, _, err := f.LoadTree("x")
	if err != nil || !found || shape(tree) != "x(y)" {
		t.Errorf("%s, %t, %v", shape(tree), found, err)
	}
}

// TestRow88_Delete covers both kinds, and the folder of the session.
func TestRow88_Delete(t *testing.T) {
	f, _ := family(t, 1)
	other := session("main", 9)
	other.ConversationID = "other"
	save(t, f, other)
	memorytest.Must(f.WriteHistory(t.Context(), "main", port.MemorySnapshot[json.RawMessage]{"default": {[]byte(`{"id":"a","role":"user","content":"hi"}`)}}))(t)
	dir := filepath.Join(f.Dir, "sessions", "main")
	removed := memorytest.Must(f.DeleteSession("main"))(t)
	same(t, "removed", len(removed), 4)
	memorytest.Must(os.Stat(dir))(t) // another conversation needs the session's folder
	list := func() []string {
		got, _, err := f.ListSessions(sessionfile.ListOptions{All: true})
		ok(t, err)
		return ids(got)
	}
	same(t, "left", list(), []string{"main", "theirs", "stranger"})
	removed = memorytest.Must(f.DeleteSession("main/other"))(t)
	same(t, "removed", len(removed), 2)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the session's folder: %v", err)
	}
	for range 2 {
		memorytest.Must(f.DeleteSession("theirs"))(t)
	}
	same(t, "left", list(), []string{"stranger"})
}

// TestRow88_Expire: old sessions go with their children; never what runs or is
// being restored, nor what has an active child; 0 is for ever.
func TestRow88_Expire(t *testing.T) {
	f, thread := family(t, 1)
	save(t, f, child("orphan", "gone/default", "gone/default", 1, 1), child("below", thread("orphan"), "gone/default", 2, 2), session("young", 600), child("late", "young2/default", "young2/default", 1, 600), session("young2", 1))
	write(t, filepath.Join(f.Dir, "session_zzzzzzzz.json"), "{")
	list := func() []string {
		got, _, err := f.ListSessions(sessionfile.ListOptions{All: true})
		ok(t, err)
		return ids(got)
	}
	expire := func(age time.Duration, keep ...string) []string {
		removed := memorytest.Must(f.ExpireSessions(sessionfile.ExpireOptions{MaxAge: age, Now: noon.Add(11 * time.Hour), Keep: func(i sessionfile.Session) bool {
			return strings.Contains(" "+strings.Join(keep, " ")+" ", " "+i.ID+" ")
		}}))(t)
		return removed
	}
	all := list()
	same(t, "for ever", len(expire(0)), 0)
	same(t, "not that old", len(expire(24*time.Hour)), 0)
	same(t, "all there", list(), all)
	removed := expire(2*time.Hour, "grand")
	same(t, "removed", len(removed), 4)
	same(t, "left", list(), []string{"late", "young", "grand", "second", "first", "main", "young2"})
	same(t, "removed", len(expire(2*time.Hour)), 4)
	same(t, "left", list(), []string{"late", "young", "young2"})
	memorytest.Must(os.Stat(filepath.Join(f.Dir, "session_zzzzzzzz.json")))(t) // a file that cannot be read was removed
}
