// Package processtest has the tests of a store that several processes share, that are
// killed, and whose disk is full.
package processtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
)

// Process is a test binary that acts as another process of a store.
type Process struct {
	*exec.Cmd
	out *bufio.Reader
	in  io.Closer
}

// StartProcess starts the test binary again, with an environment that tells its
// TestMain what to do. It is killed when t ends.
func StartProcess(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = t.Output()
	out := memorytest.Must(cmd.StdoutPipe())(t)
	in := memorytest.Must(cmd.StdinPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &Process{Cmd: cmd, out: bufio.NewReader(out), in: in}
}

// Next reads a whole line of output; false at its end. What a killed process did
// not end is no line.
func (p *Process) Next() (string, bool) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err == nil
}

// Lines reads the remaining output and waits for the end. It ends the process's
// own input, for which some wait.
func (p *Process) Lines() (lines []string, err error) {
	_ = p.in.Close()
	for line, ok := p.Next(); ok; line, ok = p.Next() {
		lines = append(lines, line)
	}
	return lines, p.Wait()
}

// OpenStore opens the store at a location, as a program would.
type OpenStore func(ctx context.Context, location string) (memory.ConversationMemoryStore, error)

// StoreJob is what another process does, under a name of its own, with a store
// that it opens.
type StoreJob func(ctx context.Context, open func() (memory.ConversationMemoryStore, error), name string) error

// storeJobs are what every store's tests may start.
var storeJobs = map[string]StoreJob{
	// one sends one message into s/default.
	"one": opened(func(ctx context.Context, s memory.ConversationMemoryStore, name string) error {
		_, err := s.Send(ctx, memorytest.Request("s", name))
		return err
	}),
	// sends sends some messages there and says so after each.
	"sends": opened(func(ctx context.Context, s memory.ConversationMemoryStore, name string) error {
		for i := range sends {
			r, err := s.Send(ctx, memorytest.Request("s", name+"-"+strconv.Itoa(i)))
			if err != nil {
				return err
			}
			fmt.Println(r.MessageID)
		}
		return nil
	}),
	// turns runs turns for good, and prints what Acknowledged reads.
	"turns": opened(runForGood),
	// hammer does everything at once for the seconds that its name ends in, in the
	// conversations that its name begins with, and says how many operations it did.
	"hammer": opened(func(ctx context.Context, s memory.ConversationMemoryStore, name string) error {
		var conversations, seconds int
		if _, err := fmt.Sscanf(name, "%d-conversations-%ds", &conversations, &seconds); err != nil {
			return err
		}
		n, err := memorytest.Hammer(ctx, s, fmt.Sprint("h", os.Getpid()), conversations, time.Now().Add(time.Duration(seconds)*time.Second), 500)
		fmt.Println(n)
		return err
	}),
}

// sends is how many messages the job of that name sends.
const sends = 20

// Job is what a test binary does as another process, with its arguments.
type Job func(args []string) error

// jobEnv makes a test binary do the job that it names.
const jobEnv = "SPOOL_TEST_JOB"

// Main runs the tests; in a process that Start started, it does the job instead.
func Main(m *testing.M, jobs ...map[string]Job) {
	name := os.Getenv(jobEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	for _, some := range jobs {
		if job := some[name]; job != nil {
			if err := job(os.Args[1:]); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", agent.CodeOf(err), err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	panic("there is no job " + name)
}

// Start starts a process that does a job of Main.
func Start(t testing.TB, job string, env []string, args ...string) *Process {
	t.Helper()
	return StartProcess(t, append([]string{jobEnv + "=" + job}, env...), args...)
}

// StoreJobs are what StoreProcess starts, for Main.
func StoreJobs(open OpenStore, more map[string]StoreJob) map[string]Job {
	jobs := map[string]Job{}
	for _, some := range []map[string]StoreJob{storeJobs, more} {
		for name, job := range some {
			jobs[name] = func(args []string) error {
				ctx := context.Background()
				return job(ctx, func() (memory.ConversationMemoryStore, error) { return open(ctx, args[0]) }, args[1])
			}
		}
	}
	return jobs
}

// StoreProcess starts a process that does a job on the store at a location.
func StoreProcess(t testing.TB, job, location, name string, env ...string) *Process {
	t.Helper()
	return Start(t, job, env, location, name)
}

func opened(f func(ctx context.Context, s memory.ConversationMemoryStore, name string) error) StoreJob {
	return func(ctx context.Context, open func() (memory.ConversationMemoryStore, error), name string) error {
		s, err := open()
		if err != nil {
			return err
		}
		return errors.Join(f(ctx, s, name), s.Close())
	}
}

// runForGood sends a message and runs its turn over and over, in a session of its
// own, and says what Acknowledged reads. What the store is not there for is repeated.
func runForGood(ctx context.Context, s memory.ConversationMemoryStore, name string) error {
	say := func(words ...any) { fmt.Println(words...) }
	for i := 0; ; i++ {
		for _, f := range []func() error{
			func() error {
				sent, err := s.Send(ctx, memorytest.Request(name, fmt.Sprint(os.Getpid(), "-", i)))
				if err == nil {
					say("sent", sent.ThreadID, sent.MessageID)
				}
				return err
			},
			func() error { return memorytest.RunTurnsSaying(ctx, s, name+"/default", say) },
		} {
			for err := f(); err != nil; err = f() {
				if agent.CodeOf(err) != agent.CodeUnavailable {
					return err
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}

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
