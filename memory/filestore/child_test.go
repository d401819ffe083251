package filestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/filestore"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
)

func TestMain(m *testing.M) {
	processtest.Main(m, processtest.StoreJobs(openStore, processtest.DiskJobs))
}

func openStore(ctx context.Context, dir string) (memory.ConversationMemoryStore, error) {
	s, err := filestore.Open(ctx, dir, filestore.Options{Delay: time.Millisecond})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// delegate runs a turn with a sub-agent in a session and returns its thread.
func delegate(t *testing.T, s memory.ConversationMemoryStore, session string) string {
	t.Helper()
	send(t, s, session, "m1")
	return memorytest.Delegated(t, s, session+"/default")
}

// TestFault_C5_KilledAtRandomWrites: whatever a process was told is safe is in
// the store after its kill, with the journal and, at the end, without; no file is
// torn.
func TestFault_C5_KilledAtRandomWrites(t *testing.T) {
	dir := t.TempDir()
	processtest.RunKills(t, func(ctx context.Context, dir string) (memory.ConversationMemoryStore, error) {
		return filestore.Open(ctx, dir, filestore.Options{Report: func(err error) { t.Errorf("after a kill: %v", err) }})
	}, dir, 1)
	filesAreTheStore(t, dir)
}

// TestFault_C12_DiskFull: of the journal and of the files.
func TestFault_C12_DiskFull(t *testing.T) {
	var dir string
	location := func(parent string) string {
		dir = filepath.Join(parent, "store")
		return dir
	}
	processtest.RunDiskFull(t, func(ctx context.Context, dir string) (memory.ConversationMemoryStore, error) {
		filesAreTheStore(t, dir)
		return openStore(ctx, dir)
	}, location)
}

// filesAreTheStore checks that the files alone hold what was said, in a store that
// keeps every rule.
func filesAreTheStore(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir, filestore.Options{Report: func(err error) { t.Error(err) }})
	want := talk(t, s)
	ok(t, s.Close())
	copied := filepath.Join(t.TempDir(), "store")
	ok(t, os.CopyFS(copied, os.DirFS(dir)))
	ok(t, os.RemoveAll(filepath.Join(copied, ".spool")))
	s = open(t, copied, filestore.Options{Report: func(err error) {
		if !strings.Contains(err.Error(), "was made anew from its file") {
			t.Error(err)
		}
	}})
	got := talk(t, s)
	for thread, text := range want {
		if !strings.HasPrefix(got[thread], text) {
			t.Errorf("from the files alone %s is %s\nwant %s", thread, got[thread], text)
		}
	}
	memorytest.Sound(t, s)
	ok(t, s.Close())
}

// talk is what was said in each thread.
func talk(t *testing.T, s memory.Reader) map[string]string {
	t.Helper()
	threads := memorytest.Must(s.Threads(t.Context(), memory.ThreadFilter{All: true}))(t)
	out := map[string]string{}
	for _, th := range threads {
		messages := memorytest.Must(s.Messages(t.Context(), th.ID, 0, 0))(t)
		for _, m := range messages {
			out[th.ID] += fmt.Sprintf("%d %s %s %s\n", m.Seq, m.ID, m.Role, m.Content)
		}
	}
	return out
}

// TestFault_C12_ReadOnly: a folder that may not be written, new or in use.
func TestFault_C12_ReadOnly(t *testing.T) {
	dir := t.TempDir()
	processtest.OpenToAll(t, dir)
	closed := filepath.Join(dir, "closed")
	s := open(t, closed, filestore.Options{})
	send(t, s, "s", "m")
	ok(t, s.Close())
	before := names(t, closed)
	for _, d := range []string{closed, filepath.Join(closed, ".spool")} {
		ok(t, os.Chmod(d, 0o555))
		t.Cleanup(func() { _ = os.Chmod(d, 0o700) })
	}
	processtest.CheckReadOnly(t, closed, closed, "writable")
	processtest.CheckReadOnly(t, filepath.Join(closed, "new"), closed, "writable")
	if after := names(t, closed); !slices.Equal(after, before) {
		t.Errorf("%v, before %v", after, before)
	}
}
