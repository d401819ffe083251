package processtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/verify"
)

// Acknowledged is what processes with the job "turns" were told to be safe.
type Acknowledged struct {
	// Writes counts what was acknowledged.
	Writes int
	is     map[string]bool // by line
}

// Add notes a process's output. A model that is asked again for a reply that was
// acknowledged, or a tool that is run again, is an error.
func (a *Acknowledged) Add(t testing.TB, lines []string) {
	t.Helper()
	if a.is == nil {
		a.is = map[string]bool{}
	}
	for _, line := range lines {
		what, rest, _ := strings.Cut(line, " ")
		switch {
		case what == "ask" && a.is["replied "+rest]:
			t.Errorf("the model was asked again for %s, though its reply was acknowledged", rest)
		case what == "run" && a.is["ran "+rest]:
			t.Errorf("call %s was run again, though its result was acknowledged", rest)
		case what == "ask" || what == "run" || a.is[line]:
		default:
			a.is[line] = true
			a.Writes++
		}
	}
}

// Check looks for all of it, and checks every rule on every thread.
func (a *Acknowledged) Check(t testing.TB, s verify.Store) {
	t.Helper()
	for line := range a.is {
		if err := look(t.Context(), s, line); err != nil {
			t.Errorf("%q was acknowledged, but: %v", line, err)
		}
	}
	memorytest.Sound(t, s)
}

func look(ctx context.Context, s memory.Reader, line string) error {
	f := append(strings.Fields(line), "")
	return steps.Run(func() {
		there := true
		switch f[0] {
		case "sent":
			steps.Must(s.Entry(ctx, f[1], memory.EntryMessage, f[2]))
		case "replied":
			there = slices.ContainsFunc(steps.Must(s.Steps(ctx, f[1])), func(st memory.Step) bool { return fmt.Sprint(st.Step) == f[2] && st.Stored })
		case "ran":
			there = steps.Must(s.ToolCall(ctx, f[2])).Status == agent.CallSuccess
		case "closed":
			there = steps.Must(s.Turn(ctx, f[1])).Outcome == agent.ThreadCompleted
		default:
			there = false
		}
		if !there {
			steps.Check(errors.New("it is not there"))
		}
	})
}

// Finish ends what the processes left open, and checks that each message has its
// whole answer, once.
func (a *Acknowledged) Finish(t testing.TB, s memory.ConversationMemoryStore) {
	t.Helper()
	threads := memorytest.Must(s.Threads(t.Context(), memory.ThreadFilter{}))(t)
	for _, th := range threads {
		ran := memorytest.RunTurns(t.Context(), s, th.ID)
		entries, err := s.Inbox(t.Context(), th.ID)
		messages, err2 := s.Messages(t.Context(), th.ID, 0, 10*len(entries))
		if err := errors.Join(ran, err, err2); err != nil {
			t.Fatal(err)
		}
		var roles strings.Builder
		for _, m := range messages {
			roles.WriteString(string(m.Role)[:1])
		}
		if got, want := roles.String(), strings.Repeat("uatta", len(entries)); got != want {
			t.Errorf("%s: messages %s for %d entries", th.ID, got, len(entries))
		}
	}
	a.Check(t, s)
}

// RunKills lets processes run turns on the store at a location, each on a thread
// of its own, and kills each at a random moment, again and again, until 100 writes
// have been acknowledged (1,000 with SPOOL_LONG=1). After each round of kills the
// store is opened again: nothing acknowledged is missing, nothing is torn, every
// rule holds, and the successors do not repeat what is stored. At the end each
// message has its whole answer, once.
func RunKills(t *testing.T, open OpenStore, location string, processes int) {
	t.Helper()
	writes := 100
	if os.Getenv("SPOOL_LONG") == "1" {
		writes = 1000
	}
	var a Acknowledged
	kills := 0
	for a.Writes < writes {
		said := make([][]string, processes)
		var wg sync.WaitGroup
		for n := range said {
			p := StoreProcess(t, "turns", location, fmt.Sprint("p", n))
			wg.Go(func() { said[n] = killSoon(t, p) })
		}
		wg.Wait()
		for _, lines := range said {
			a.Add(t, lines)
		}
		kills += processes
		s, err := open(t.Context(), location)
		if err != nil {
			t.Fatalf("after %d kills: %v", kills, err)
		}
		if a.Check(t, s); a.Writes >= writes {
			a.Finish(t, s)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if kills < writes/50 {
		t.Errorf("only %d kills in %d writes", kills, a.Writes)
	}
	t.Logf("%d kills in %d acknowledged writes", kills, a.Writes)
}

// killSoon lets a process say a few things and kills it in the middle of the next
// write.
func killSoon(t *testing.T, p *Process) (lines []string) {
	for range 1 + rand.IntN(15) {
		line, ok := p.Next()
		if !ok {
			break
		}
		lines = append(lines, line)
	}
	time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
	_ = p.Process.Kill()
	rest, err := p.Lines()
	if err == nil || p.ProcessState.Exited() {
		t.Errorf("the process ended by itself: %v", err)
	}
	return append(lines, rest...)
}
