package filestore_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/filestore"
	"github.com/spool-agents/spool/memory/memorytest"
)

func ok(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

// said collects reports.
type said struct {
	mu   sync.Mutex
	text []string
}

func (s *said) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, err.Error())
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.text, "\n")
}

func open(t *testing.T, dir string, o filestore.Options) *filestore.Store {
	t.Helper()
	s := memorytest.Must(filestore.Open(t.Context(), dir, o))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func request(session, id string) memory.SendRequest {
	return memory.SendRequest{UserID: "u", Profile: "default", SessionID: session, MessageID: id, Content: agent.Text("text of " + id), WhenBusy: memory.Queue}
}

func send(t *testing.T, s memory.Sender, session, id string) {
	t.Helper()
	memorytest.Must(s.Send(t.Context(), request(session, id)))(t)
}

// names are the session files of a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries := memorytest.Must(os.ReadDir(dir))(t)
	var out []string
	for _, e := range entries {
		if e.Name() != ".spool" {
			out = append(out, e.Name())
		}
	}
	return out
}

// The store of files is SQLite in memory, which the fast tests run the suite on, written to files.
func TestAll_Conformance(t *testing.T) {
	clock := memorytest.NewClock()
	memorytest.RunStore(t, memorytest.Harness{
		Open: func(t *testing.T) memory.ConversationMemoryStore {
			return open(t, t.TempDir(), filestore.Options{Clock: clock.Now, Delay: 20 * time.Millisecond})
		},
		Reopen: func(t *testing.T, s memory.ConversationMemoryStore) memory.ConversationMemoryStore {
			ok(t, s.Close())
			return open(t, s.(*filestore.Store).Dir(), filestore.Options{Clock: clock.Now})
		},
		Clock: clock, Durable: true,
	})
}

// TestRow79_FilesOfMainAndSubAgents: one file each, flat, and readable as JSON
// by any program soon after a change.
func TestRow79_FilesOfMainAndSubAgents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, filestore.Options{})
	child := delegate(t, s, "s1")
	delegate(t, s, "s2")
	deadline := time.Now().Add(time.Minute)
	for len(names(t, dir)) < 4 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	ok(t, s.Flush())
	var mains, subs int
	for _, name := range names(t, dir) {
		switch {
		case strings.HasPrefix(name, "session_"):
			mains++
		case strings.HasPrefix(name, "subagent_session_"):
			subs++
		}
		data := memorytest.Must(os.ReadFile(filepath.Join(dir, name)))(t)
		var file struct {
			ID, Kind, ThreadID, ParentThreadID string
			Messages                           []agent.Message
		}
		ok(t, json.Unmarshal(data, &file))
		if file.ID == "" || len(file.Messages) == 0 || file.ThreadID == child && file.ParentThreadID != "s1/default" {
			t.Errorf("%s: %+v", name, file)
		}
	}
	if mains != 2 || subs != 2 {
		t.Errorf("%v", names(t, dir))
	}
}

// TestRow78_PrefixOfAFileStore: an option.
func TestRow78_PrefixOfAFileStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{Prefix: "chat"})
	delegate(t, s, "s1")
	ok(t, s.Close())
	found := strings.Join(names(t, dir), " ")
	if !strings.Contains(found, "subagent_chat_") || !strings.HasPrefix(found, "chat_") {
		t.Error(found)
	}
	for _, bad := range []string{"../x", "subagent_x", "a/b", "ü"} {
		memorytest.Fails(filestore.Open(t.Context(), t.TempDir(), filestore.Options{Prefix: bad}))(t, agent.CodeInvalid)
	}
}

// TestOneProcess: a second one is refused with the reason and what to do.
func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	_, err := filestore.Open(t.Context(), dir, filestore.Options{})
	if agent.CodeOf(err) != agent.CodeConflict {
		t.Fatal(err)
	}
	for _, want := range []string{dir, fmt.Sprintf("pid %d", os.Getpid()), "one process", "sqlite:PATH"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	ok(t, s.Close())
	open(t, dir, filestore.Options{})
}

// TestFilesAreRebuilt: without the journal from the files, in which nothing waits
// any more, and the files from the journal.
func TestFilesAreRebuilt(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	delegate(t, s, "s1")
	wanted := talk(t, s)
	send(t, s, "s2", "m")
	ok(t, s.Close())
	files := names(t, dir)

	ok(t, os.RemoveAll(filepath.Join(dir, ".spool")))
	var r said
	s = open(t, dir, filestore.Options{Report: r.report})
	if !strings.Contains(r.String(), "s2/default was made anew from its file, without an entry that waited") {
		t.Errorf("reported %q", r.String())
	}
	load, err := s.Load(t.Context())
	if err != nil || load != (memory.Load{}) {
		t.Errorf("%+v, %v", load, err)
	}
	memorytest.Sound(t, s)
	if got := talk(t, s); !maps.Equal(got, wanted) {
		t.Fatalf("from files: %s\nwant %s", got, wanted)
	}
	before := state(t, s)
	ok(t, s.Close())
	for _, name := range files {
		ok(t, os.Remove(filepath.Join(dir, name)))
	}
	s = open(t, dir, filestore.Options{})
	if got := names(t, dir); !slices.Equal(got, files) {
		t.Errorf("files %v, want %v", got, files)
	}
	if got := state(t, s); got != before {
		t.Fatalf("from the journal: %s\nwant %s", got, before)
	}
}

// TestDeletedFilesStayDeleted: also after the next start.
func TestDeletedFilesStayDeleted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	delegate(t, s, "s1")
	delegate(t, s, "s2")
	ok(t, s.Flush())
	memorytest.Must(s.DeleteTree(t.Context(), memory.DeleteRequest{ThreadID: "s1/default"}))(t)
	ok(t, s.Close())
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("%v", got)
	}
	s = open(t, dir, filestore.Options{})
	left := memorytest.Must(s.Threads(t.Context(), memory.ThreadFilter{All: true}))(t)
	require.Len(t, left, 2)
}

// A file that is written while its conversation is deleted does not bring it back.
func TestADeletionWhileFilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{Delay: time.Nanosecond})
	for i := range 200 {
		edit := func(e memory.ThreadEdit) {
			ok(t, s.EditThreads(t.Context(), memory.EditRequest{UserID: "u", Profile: "default", Edits: []memory.ThreadEdit{e}}))
		}
		id := fmt.Sprintf("s%d/default", i)
		edit(memory.ThreadEdit{ThreadID: id, Messages: []agent.Message{{ID: "m", Role: agent.RoleUser, Content: agent.Text("x")}}})
		time.Sleep(time.Duration(i%20) * 100 * time.Microsecond)
		edit(memory.ThreadEdit{ThreadID: id, Delete: true})
	}
	ok(t, s.Close())
	require.Empty(t, names(t, dir))
}

// TestRow89_DamagedFiles: a file cut at any byte is whole or set aside and
// reported; nothing is lost, with the journal or, of the others, without it.
func TestRow89_DamagedFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	send(t, s, "s1", "m")
	send(t, s, "s2", "m")
	before := state(t, s)
	ok(t, s.Close())
	path := filepath.Join(dir, names(t, dir)[0])
	whole := memorytest.Must(os.ReadFile(path))(t)
	for n := 0; n < len(whole)-1; n += step(len(whole)) {
		ok(t, os.WriteFile(path, whole[:n], 0o600))
		var r said
		s := open(t, dir, filestore.Options{Report: r.report})
		if got := state(t, s); got != before {
			t.Fatalf("cut at %d: %s\nwant %s", n, got, before)
		}
		ok(t, s.Close())
		again, err := os.ReadFile(path)
		if err != nil || string(again) != string(whole) {
			t.Fatalf("cut at %d: the file was not written anew: %v", n, err)
		}
		aside, err := filepath.Glob(path + ".damaged-*")
		if err != nil || len(aside) != 1 || !strings.Contains(r.String(), aside[0]) {
			t.Fatalf("cut at %d: %v, %v, reported %q", n, aside, err, r.String())
		}
		kept, err := os.ReadFile(aside[0])
		if err != nil || string(kept) != string(whole[:n]) {
			t.Fatalf("cut at %d: what was set aside has %d bytes, %v", n, len(kept), err)
		}
		ok(t, os.Remove(aside[0]))
	}
	ok(t, os.RemoveAll(filepath.Join(dir, ".spool")))
	ok(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	var r said
	s = open(t, dir, filestore.Options{Report: r.report})
	left, err := s.Threads(t.Context(), memory.ThreadFilter{})
	if err != nil || len(left) != 1 || !strings.Contains(r.String(), ".damaged-") {
		t.Errorf("%v, %v, %q", left, err, r.String())
	}
	ok(t, s.Close())
	ok(t, os.WriteFile(filepath.Join(dir, ".spool", "journal.db"), []byte("no database at all, but long enough to be read as one"), 0o600))
	_, err = filestore.Open(t.Context(), dir, filestore.Options{})
	if err == nil || !strings.Contains(err.Error(), "made anew from the session files") {
		t.Error(err)
	}
}

// step makes a few dozen cuts, or every one.
func step(n int) int {
	if os.Getenv("SPOOL_LONG") == "1" {
		return 1
	}
	return max(1, n/40)
}

func state(t *testing.T, s memory.ConversationMemoryStore) string {
	t.Helper()
	threads := memorytest.Must(s.Threads(t.Context(), memory.ThreadFilter{All: true}))(t)
	var b strings.Builder
	for _, th := range threads {
		records := memorytest.Must(s.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: th.ID}))(t)
		text := memorytest.Must(json.Marshal(records))(t)
		b.Write(text)
	}
	return b.String()
}

// TestFault_C12_FilesThatCannotBeWritten delay the file, not the store; they are
// reported once and written when that is possible again.
func TestFault_C12_FilesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	var r said
	s := open(t, dir, filestore.Options{Report: r.report, Delay: time.Millisecond})
	send(t, s, "s1", "m1")
	ok(t, s.Flush())
	path := filepath.Join(dir, names(t, dir)[0])
	ok(t, os.Remove(path))
	ok(t, os.Mkdir(path, 0o700))
	send(t, s, "s1", "m2")
	if err := s.Flush(); err == nil {
		t.Error("a folder in the way of a file is no error")
	}
	_ = s.Flush()
	if entries, err := s.Inbox(t.Context(), "s1/default"); err != nil || len(entries) != 2 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if n := strings.Count(r.String(), "cannot be a file there"); n != 1 {
		t.Errorf("reported %d times: %s", n, r.String())
	}
	ok(t, os.Remove(path))
	ok(t, s.Flush())
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), "m2") {
		t.Errorf("%v", err)
	}
	_, err := filestore.Open(t.Context(), path, filestore.Options{})
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file in place of the folder: %v", err)
	}
}

// TestImagesAreFiles, which are made anew from the journal, and the journal from
// them, and which go with the last thread that shows them.
func TestImagesAreFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	name := memorytest.Must(s.KeepImage(t.Context(), memorytest.Picture(1)))(t)
	memorytest.Must(s.Send(t.Context(), memorytest.Showing(request("s1", "m"), name)))(t)
	ok(t, memorytest.RunTurns(t.Context(), s, "s1/default"))
	ok(t, s.Close())
	file := filepath.Join(dir, "images", name)
	for _, gone := range []string{filepath.Join(dir, "images"), filepath.Join(dir, ".spool")} {
		ok(t, os.RemoveAll(gone))
		s = open(t, dir, filestore.Options{})
		data, err := s.Image(t.Context(), name)
		if err != nil || string(data) != string(memorytest.Picture(1)) {
			t.Fatalf("without %s: %v", gone, err)
		}
		if data, err = os.ReadFile(file); err != nil || string(data) != string(memorytest.Picture(1)) {
			t.Fatalf("without %s: %v", gone, err)
		}
		memorytest.Sound(t, s)
		ok(t, s.Close())
	}
	s = open(t, dir, filestore.Options{})
	memorytest.Must(s.DeleteTree(t.Context(), memory.DeleteRequest{ThreadID: "s1/default"}))(t)
	ok(t, s.Flush())
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the image is left: %v", err)
	}
}
