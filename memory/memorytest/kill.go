package memorytest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
)

// Kills is a test with kill -9.
type Kills struct {
	Open     OpenStore
	Location string
	// Processes is how many run at once, each on a thread of its own: more than
	// one where a store allows it.
	Processes int
}

// RunKills lets processes run turns and kills each at a random moment, again and
// again, until 100 writes have been acknowledged (1,000 with SPOOL_LONG=1). After
// each round of kills the store is opened again: nothing acknowledged is missing,
// nothing is torn, every rule holds, and the successors do not repeat what is
// stored. At the end each message has its whole answer, once.
func RunKills(t *testing.T, k Kills) {
	t.Helper()
	writes := 100
	if os.Getenv("SPOOL_LONG") == "1" {
		writes = 1000
	}
	var a Acknowledged
	kills := 0
	for a.Writes < writes {
		said := make([][]string, k.Processes)
		var wg sync.WaitGroup
		for n := range said {
			p := StoreProcess(t, "turns", k.Location, fmt.Sprint("p", n))
			wg.Go(func() { said[n] = killSoon(t, p) })
		}
		wg.Wait()
		for _, lines := range said {
			a.Add(t, lines)
		}
		kills += k.Processes
		s, err := k.Open(t.Context(), k.Location)
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
