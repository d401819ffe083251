package processtest

import (
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
)

// RunProcesses checks what processes see of each other that share a store, each on
// a new location.
func RunProcesses(t *testing.T, open OpenStore, location func(t *testing.T) string) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(t *testing.T, open OpenStore, location string)
	}{
		{"many open a new store at once: one of them makes it, all agree on its id", openAtOnce},
		{"a commit of another process is a change, and nothing else is", seeOthers},
		{"before-X loses the operation, after-X keeps it, and a successor lives on", crashAt},
		{"a closed store says so", sayClosed},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open, location(t)) })
	}
}

func mustOpen(t *testing.T, open OpenStore, location string) memory.ConversationMemoryStore {
	t.Helper()
	s := memorytest.Must(open(t.Context(), location))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// RunWriters lets processes write into one thread: what they send is all there, in
// one dense order.
func RunWriters(t *testing.T, open OpenStore, location string, writers int) {
	t.Helper()
	var wg sync.WaitGroup
	for n := range writers {
		c := StoreProcess(t, "sends", location, fmt.Sprint("w", n))
		wg.Go(func() {
			if lines, err := c.Lines(); err != nil || len(lines) != sends {
				t.Errorf("writer %d: %v after %d messages", n, err, len(lines))
			}
		})
	}
	wg.Wait()
	s := mustOpen(t, open, location)
	entries, err := s.Inbox(t.Context(), "s/default")
	if err != nil || len(entries) != writers*sends {
		t.Fatalf("%d entries, %v; want %d", len(entries), err, writers*sends)
	}
	memorytest.Sound(t, s) // no gap either
}

func openAtOnce(t *testing.T, open OpenStore, location string) {
	ids := make([]string, 12)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			s, err := open(t.Context(), location)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = s.ID()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || len(id) != 8 {
			t.Fatalf("ids %v: want one of 8 hex digits", ids)
		}
	}
}

func seeOthers(t *testing.T, open OpenStore, location string) {
	s := mustOpen(t, open, location)
	last := int64(-1)
	changed := func(want bool) {
		t.Helper()
		now, err := s.Changed(t.Context())
		if err != nil || (now != last) != want {
			t.Fatalf("changed from %d to %d, %v; want a change: %t", last, now, err, want)
		}
		last = now
	}
	changed(true)
	changed(false)
	memorytest.Must(StoreProcess(t, "one", location, "other").Lines())(t)
	changed(true)
	changed(false)
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "own")))(t)
	changed(true)
}

func crashAt(t *testing.T, open OpenStore, location string) {
	s := mustOpen(t, open, location)
	entries := func() int {
		list, err := s.Inbox(t.Context(), "s/default")
		if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
			t.Fatal(err)
		}
		return len(list)
	}
	for i, point := range []string{"before-send", "after-send"} {
		id := fmt.Sprint("m", i)
		env := []string{memory.CrashAtEnv + "=" + point + ":1", memory.CrashOnceEnv + "=" + filepath.Join(t.TempDir(), "once")}
		c := StoreProcess(t, "one", location, id, env...)
		_, err := c.Lines()
		if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); err == nil || !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("%s: the process ended with %v", point, c.ProcessState)
		}
		if n := entries(); n != 2*i { // m0 of its successor, and m1
			t.Fatalf("%s: %d entries", point, n)
		}
		if _, err := StoreProcess(t, "one", location, id, env...).Lines(); err != nil {
			t.Fatalf("%s: the successor: %v", point, err)
		}
		if n := entries(); n != i+1 {
			t.Fatalf("%s: %d entries after the successor", point, n)
		}
	}
}

func sayClosed(t *testing.T, open OpenStore, location string) {
	s := mustOpen(t, open, location)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, sent := s.Send(t.Context(), memorytest.Request("s", "m"))
	_, read := s.Thread(t.Context(), "", "s/default")
	for _, err := range []error{sent, read} {
		if agent.CodeOf(err) != agent.CodeUnavailable {
			t.Errorf("of a closed store: %v", err)
		}
	}
}
