//go:build postgres

package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/postgres"
)

// childEnv makes the test binary act as another process of the store: its value
// names what to do. The first argument is the store's URL, the second a name.
const childEnv = "SPOOL_POSTGRES_TEST_CHILD"

var children = map[string]func(ctx context.Context, s *postgres.Store, name string) error{
	"turns":   childTurns,
	"patient": childPatient,
	"sends":   childSends,
	"hammer1": func(ctx context.Context, s *postgres.Store, name string) error { return childHammer(ctx, s, name, 1) },
	"hammer7": func(ctx context.Context, s *postgres.Store, name string) error { return childHammer(ctx, s, name, 8) },
	"one": func(ctx context.Context, s *postgres.Store, name string) error {
		_, err := s.Send(ctx, memorytest.Request("s", name))
		return err
	},
}

func TestMain(m *testing.M) {
	mode := os.Getenv(childEnv)
	if mode == "" {
		os.Exit(m.Run())
	}
	if err := runChild(context.Background(), mode); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", agent.CodeOf(err), err)
		os.Exit(1)
	}
}

func runChild(ctx context.Context, mode string) error {
	s, err := postgres.Open(ctx, os.Args[1], postgres.Options{MaxConnections: 4})
	if err != nil {
		return err
	}
	return errors.Join(children[mode](ctx, s, os.Args[2]), s.Close())
}

// child is a process of the store.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
}

// startChild starts a process and reads its output; it is killed when t ends.
func startChild(t *testing.T, mode, url, name string, env ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], url, name)
	cmd.Env = append(append(os.Environ(), childEnv+"="+mode), env...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &child{Cmd: cmd, out: bufio.NewScanner(out)}
}

// lines reads all output and waits for the end.
func (c *child) lines() ([]string, error) {
	var all []string
	for c.out.Scan() {
		all = append(all, c.out.Text())
	}
	return all, c.Wait()
}

// childSends sends messages into one thread and says so after each.
func childSends(ctx context.Context, s *postgres.Store, name string) error {
	for i := range 25 {
		r, err := s.Send(ctx, memorytest.Request("s", name+"-"+strconv.Itoa(i)))
		if err != nil {
			return err
		}
		fmt.Println(r.MessageID)
	}
	return nil
}

// childTurns sends a message and runs its turn over and over, in a session of
// its own. It says which answers it saved.
func childTurns(ctx context.Context, s *postgres.Store, name string) error {
	for i := 0; ; i++ {
		sent, err := s.Send(ctx, memorytest.Request(name, fmt.Sprint(os.Getpid(), "-", i)))
		if err != nil {
			return err
		}
		if err := memorytest.RunTurns(ctx, s, sent.ThreadID); err != nil {
			return err
		}
		fmt.Println(sent.TurnID)
	}
}

// childPatient does the same, and repeats what the store was not there for.
func childPatient(ctx context.Context, s *postgres.Store, name string) error {
	patiently := func(f func() error) error {
		for {
			err := f()
			if agent.CodeOf(err) != agent.CodeUnavailable {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for i := 0; ; i++ {
		err := patiently(func() error {
			_, err := s.Send(ctx, memorytest.Request(name, name+"-"+strconv.Itoa(i)))
			return err
		})
		if err != nil {
			return err
		}
		fmt.Println("sent", name+"-"+strconv.Itoa(i))
		if err := patiently(func() error { return memorytest.RunTurns(ctx, s, name+"/default") }); err != nil {
			return err
		}
		fmt.Println("closed", agent.TurnID(name+"/default", name+"-"+strconv.Itoa(i), 0))
	}
}

// childHammer says how many operations it did.
func childHammer(ctx context.Context, s *postgres.Store, name string, conversations int) error {
	n, err := memorytest.Hammer(ctx, s, name, conversations, time.Now().Add(hammerFor()))
	fmt.Println(n)
	return err
}

func hammerFor() time.Duration {
	if os.Getenv("SPOOL_LONG") == "1" {
		return time.Minute
	}
	return 5 * time.Second
}
