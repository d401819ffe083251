package processtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
)

// DiskJobs are the jobs of RunDiskFull and CheckReadOnly, for StoreJobs.
var DiskJobs = map[string]StoreJob{"full": jobFull, "readonly": jobReadOnly}

// nobody is a user who may write nothing.
const nobody = 65534

// LimitFiles limits the size of the files that this process writes; release lifts
// the limit. 0 limits nothing.
func LimitFiles(bytes uint64) (release func() error, err error) {
	signal.Ignore(syscall.SIGXFSZ) // else it would end the process
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return nil, err
	}
	if bytes > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: before.Max}); err != nil {
			return nil, err
		}
	}
	return func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) }, nil
}

// jobFull sends large messages until that fails for lack of room, says how, waits
// for the end of its input, and goes on. Its name is the limit on the size of files.
func jobFull(ctx context.Context, open func() (memory.ConversationMemoryStore, error), name string) error {
	return steps.Run(func() {
		s := steps.Must(open())
		release := steps.Must(LimitFiles(steps.Must(strconv.ParseUint(name, 10, 64))))
		n := 0
		var err error
		for err == nil && n < 10_000 {
			r := memorytest.Request("s", fmt.Sprint("big-", n))
			r.Content = agent.Text(fmt.Sprintf("%d %0100000d", n, n))
			if _, err = s.Send(ctx, r); err == nil {
				n++
			}
		}
		fmt.Println(n, agent.CodeOf(err), err)
		// Reading goes on while nothing can be written.
		entries, err := s.Inbox(ctx, "s/default")
		if err != nil || len(entries) != n {
			steps.Check(fmt.Errorf("%d entries of %d: %w", len(entries), n, err))
		}
		steps.Must(io.ReadAll(os.Stdin))
		steps.Check(release())
		for range 3 {
			steps.Must(s.Send(ctx, memorytest.Request("s", "after")))
		}
		steps.Check(s.Close())
	})
}

// RunDiskFull lets a store whose location is in a folder come to the limit of the
// size of its files, as on a full disk. The error is clear, nothing is half
// written, and the same process goes on when there is room again.
func RunDiskFull(t *testing.T, open OpenStore, location func(dir string) string) {
	t.Helper()
	dir := t.TempDir()
	p := StoreProcess(t, "full", location(dir), "3000000")
	line, _ := p.Next()
	f := strings.SplitN(line, " ", 3)
	if len(f) != 3 || f[0] == "0" || f[1] != string(agent.CodeUnavailable) || !strings.Contains(f[2], "full") && !strings.Contains(f[2], "space") || !strings.Contains(f[2], dir) {
		t.Fatalf("got %q, want some messages and then unavailable, no space, and where", line)
	}
	if lines, err := p.Lines(); err != nil || len(lines) > 0 {
		t.Fatalf("after there was room: %v, %v", lines, err)
	}
	s := memorytest.Must(open(t.Context(), location(dir)))(t)
	defer s.Close()
	entries, err := s.Inbox(t.Context(), "s/default")
	if err != nil || fmt.Sprint(len(entries)-1) != f[0] || entries[len(entries)-1].ID != "after" {
		t.Fatalf("%d entries, %v; want %s and one", len(entries), err, f[0])
	}
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("entry %d has seq %d", i, e.Seq)
		}
	}
	memorytest.Sound(t, s)
}

// BecomeNobody makes this process that of a user who may write nothing.
func BecomeNobody() error {
	if os.Geteuid() != 0 {
		return nil // an ordinary user, who may not write where nobody may
	}
	return errors.Join(syscall.Setgid(nobody), syscall.Setuid(nobody))
}

// jobReadOnly opens a store as a user who may not write there, and says what it
// is told.
func jobReadOnly(ctx context.Context, open func() (memory.ConversationMemoryStore, error), _ string) error {
	if err := BecomeNobody(); err != nil {
		return err
	}
	s, err := open()
	if err != nil {
		fmt.Println(agent.CodeOf(err), err)
		return nil
	}
	kept, readErr := s.Threads(ctx, memory.ThreadFilter{Limit: 10})
	_, err = s.Send(ctx, memorytest.Request("s", "m"))
	fmt.Println(agent.CodeOf(err), err)
	fmt.Println("read:", len(kept), "threads,", readErr)
	return nil
}

// CheckReadOnly opens the store at a location as a user who may not write there,
// and checks that the error says so in these words.
func CheckReadOnly(t *testing.T, location string, words ...string) {
	t.Helper()
	lines, err := StoreProcess(t, "readonly", location, "").Lines()
	said := strings.Join(lines, "\n")
	if err != nil || !strings.HasPrefix(said, string(agent.CodeUnavailable)+" ") {
		t.Fatalf("%s: %s, %v; want unavailable", location, said, err)
	}
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%q does not say %q", said, w)
		}
	}
}

// OpenToAll lets every user pass into a test's temporary folder.
func OpenToAll(t *testing.T, dir string) {
	t.Helper()
	for d := dir; strings.HasPrefix(d, filepath.Join(os.TempDir(), "Test")); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
