package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/sqlite"
)

// childEnv makes the test binary act as another process of the store: its value
// names what to do. The first argument is the store's path, the second a name.
const childEnv = "SPOOL_SQLITE_TEST_CHILD"

var children = map[string]func(ctx context.Context, path, name string) error{
	"turns":    childTurns,
	"sends":    childSends,
	"one":      childOne,
	"full":     childFull,
	"readonly": childReadOnly,
}

func TestMain(m *testing.M) {
	mode := os.Getenv(childEnv)
	if mode == "" {
		os.Exit(m.Run())
	}
	if err := children[mode](context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", agent.CodeOf(err), err)
		os.Exit(1)
	}
}

// child is a process of the store.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
}

// startChild starts a process and reads its output; it is killed when t ends.
func startChild(t *testing.T, mode, path, name string, env ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], path, name)
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

// startFull starts the process that fills the disk; release lets it go on.
func startFull(t *testing.T, path, limit string) *fullChild {
	t.Helper()
	hold, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release.Close() })
	cmd := exec.Command(os.Args[0], path, limit)
	cmd.Env = append(os.Environ(), childEnv+"=full")
	cmd.Stderr, cmd.Stdin = t.Output(), hold
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(cmd.Start(), hold.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &fullChild{child{Cmd: cmd, out: bufio.NewScanner(out)}, func() { _ = release.Close() }}
}

type fullChild struct {
	child
	release func()
}

// lines reads all output and waits for the end.
func (c *child) lines() ([]string, error) {
	var all []string
	for c.out.Scan() {
		all = append(all, c.out.Text())
	}
	return all, c.Wait()
}

func openStore(ctx context.Context, path string) (*sqlite.Store, error) {
	return sqlite.Open(ctx, path, sqlite.Options{})
}

func request(session, id string) memory.SendRequest {
	return memory.SendRequest{UserID: "u", SessionID: session, MessageID: id, Content: agent.Text("text of " + id), WhenBusy: memory.Queue}
}

// childOne sends one message.
func childOne(ctx context.Context, path, name string) error {
	s, err := openStore(ctx, path)
	if err != nil {
		return err
	}
	_, err = s.Send(ctx, request("s", name))
	return errors.Join(err, s.Close())
}

// childSends sends messages into one thread, says so after each, and ends.
func childSends(ctx context.Context, path, name string) error {
	s, err := openStore(ctx, path)
	if err != nil {
		return err
	}
	for i := range 20 {
		r, err := s.Send(ctx, request("s", name+"-"+strconv.Itoa(i)))
		if err != nil {
			return err
		}
		fmt.Println(r.MessageID)
	}
	return s.Close()
}

// childTurns sends a message and runs its turn, with a tool call, over and over
// in a session of its own. It says which answers it saved.
func childTurns(ctx context.Context, path, name string) error {
	s, err := openStore(ctx, path)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		sent, err := s.Send(ctx, request(name, name+"-"+strconv.Itoa(i)))
		if err != nil {
			return err
		}
		if err := runTurns(ctx, s, sent.ThreadID); err != nil {
			return err
		}
		fmt.Println(sent.TurnID)
	}
}

// runTurns runs turns until the inbox is empty, going on with what is there.
func runTurns(ctx context.Context, s memory.ConversationMemoryStore, thread string) error {
	for {
		claim, err := s.TakeNext(ctx, memory.TakeRequest{ThreadID: thread, RunID: strconv.Itoa(os.Getpid())})
		if err != nil || claim.Turn == nil {
			return err
		}
		for step := claim.Step; claim.Turn != nil; step++ {
			done, err := runStep(ctx, s, *claim.Turn, step)
			if err != nil {
				return err
			}
			if done {
				break
			}
		}
	}
}

// runStep runs a step: the first calls a tool, the second answers.
func runStep(ctx context.Context, s memory.ConversationMemoryStore, turn memory.Turn, step int) (bool, error) {
	fence := memory.Fence{Scope: fmt.Sprint(os.Getpid(), "/", turn.ID, "/", step), Number: 1}
	start, err := s.BeginModel(ctx, memory.ModelBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Fence: fence})
	if err != nil {
		return false, err
	}
	stored := start.Stored
	if stored == nil {
		reply := agent.ModelReply{Content: "answer", Usage: agent.Usage{PromptTokens: 3, CompletionTokens: 2}}
		if step == 1 {
			reply.Calls = []agent.Call{agent.NewCall("x", "lookup", `{}`), agent.NewCall("x", "lookup", `{}`)}
		}
		err := s.AppendChunk(ctx, memory.Chunk{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: start.Attempt, Text: "ans"})
		if err != nil {
			return false, err
		}
		saved, err := s.SaveReply(ctx, memory.ReplyRecord{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: start.Attempt, Reply: reply})
		if err != nil {
			return false, err
		}
		stored = &saved
	}
	if len(stored.Calls) == 0 {
		_, err := s.CloseTurn(ctx, memory.CloseRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Outcome: agent.ThreadCompleted, Step: step})
		return true, err
	}
	for _, c := range stored.Calls {
		start, err := s.BeginTool(ctx, memory.ToolBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: c.ID, Fence: fence, Repeatable: true})
		if err != nil {
			return false, err
		}
		if start.Final {
			continue
		}
		err = s.SaveResult(ctx, memory.ToolOutcome{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: c.ID, Attempt: start.Attempt, Result: agent.ToolOK("found")})
		if err != nil {
			return false, err
		}
	}
	_, err = s.SaveToolRound(ctx, memory.RoundRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step})
	return false, err
}

// childFull sends messages under a limit on the size of files until that fails,
// prints the code of the error, lifts the limit and repeats the message.
func childFull(ctx context.Context, path, limit string) error {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := openStore(ctx, path)
	if err != nil {
		return err
	}
	size, err := strconv.ParseUint(limit, 10, 64)
	if err != nil {
		return err
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	if size > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: before.Max}); err != nil {
			return err
		}
	}
	failed := fill(ctx, s)
	fmt.Println(agent.CodeOf(failed))
	fmt.Fprintln(os.Stderr, failed)
	// Let the parent make room, then go on.
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	for range 3 {
		if _, err := s.Send(ctx, request("s", "after")); err != nil {
			return err
		}
	}
	fmt.Println("after")
	return s.Close()
}

// fill sends large messages until one fails.
func fill(ctx context.Context, s memory.ConversationMemoryStore) error {
	for i := range 10_000 {
		r := request("s", "big-"+strconv.Itoa(i))
		r.Content = agent.Text(fmt.Sprintf("%d %0100000d", i, i))
		if _, err := s.Send(ctx, r); err != nil {
			return err
		}
	}
	return errors.New("the disk never got full")
}

// childReadOnly opens a store as a user who may not write there.
func childReadOnly(ctx context.Context, path, _ string) error {
	if os.Geteuid() == 0 {
		const nobody = 65534
		if err := errors.Join(syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	s, err := openStore(ctx, path)
	if err == nil {
		_, err = s.Send(ctx, request("s", "m"))
	}
	fmt.Println(agent.CodeOf(err))
	fmt.Println(err)
	return nil
}
