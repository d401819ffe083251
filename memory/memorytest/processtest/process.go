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
	"strconv"
	"strings"
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
