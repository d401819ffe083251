//go:build postgres

package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/postgres"
)

func mustOpen(t *testing.T, url string) *postgres.Store {
	t.Helper()
	s := memorytest.Must(postgres.Open(t.Context(), url, postgres.Options{MaxConnections: 4}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// query reads one number of the server.
func query(t *testing.T, url, text string) (n int64) {
	t.Helper()
	conn := memorytest.Must(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(context.Background())
	require.NoError(t, conn.QueryRow(t.Context(), text).Scan(&n))
	return n
}

// TestAll_EightProcessesHammer: eight processes do everything at once to one thread,
// then to eight trees of up to seven threads that close across each other. What
// the rules refuse is no error; a deadlock would be.
func TestAll_EightProcessesHammer(t *testing.T) {
	seconds := 2
	if os.Getenv("SPOOL_LONG") == "1" {
		seconds = 60
	}
	for _, conversations := range []int{1, 8} {
		t.Run(fmt.Sprint(conversations), func(t *testing.T) {
			url := pgtest.Database(t)
			s := mustOpen(t, url)
			var wg sync.WaitGroup
			var mu sync.Mutex
			total := 0
			for n := range 8 {
				c := processtest.StoreProcess(t, "hammer", url, fmt.Sprintf("%d-conversations-%ds", conversations, seconds))
				wg.Go(func() {
					lines, err := c.Lines()
					if err != nil || len(lines) != 1 {
						t.Errorf("process %d: %v", n, err)
						return
					}
					operations, _ := strconv.Atoi(lines[0])
					mu.Lock()
					defer mu.Unlock()
					total += operations
				})
			}
			wg.Wait()
			threads := memorytest.Must(s.Threads(t.Context(), memory.ThreadFilter{All: true}))(t)
			deadlocks := query(t, url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
			t.Logf("%d operations on %d threads in %d s, %d deadlocks inside", total, len(threads), seconds, deadlocks)
			if conversations > 1 && len(threads) < 20 {
				t.Errorf("%d threads only", len(threads))
			}
			memorytest.Sound(t, s)
		})
	}
}

func TestProcesses(t *testing.T) {
	processtest.RunProcesses(t, openStore, func(t *testing.T) string { return pgtest.Database(t) })
}

// TestFault_C5_KilledAtRandomWrites kills processes in the middle of their turns;
// the next ones go on with what they find.
func TestFault_C5_KilledAtRandomWrites(t *testing.T) {
	processtest.RunKills(t, openStore, pgtest.Database(t), 2)
}

// TestKilledServerLosesNothingAcknowledged kills the server in the middle of
// everything and starts it again: what a process was told is there, and the
// processes go on.
func TestKilledServerLosesNothingAcknowledged(t *testing.T) {
	c := pgtest.Start(t)
	url := c.Database(t)
	s := mustOpen(t, url)
	var wg sync.WaitGroup
	said := make([][]string, 4)
	var written atomic.Int64
	var processes []*processtest.Process
	for n := range said {
		p := processtest.StoreProcess(t, "turns", url, fmt.Sprint("p", n))
		processes = append(processes, p)
		wg.Go(func() {
			for line, ok := p.Next(); ok; line, ok = p.Next() {
				said[n] = append(said[n], line)
				written.Add(1)
			}
			_ = p.Wait()
		})
	}
	more := func(n int64) { // waits until the processes have said so much more
		end, until := written.Load()+n, time.Now().Add(2*time.Minute)
		for written.Load() < end {
			if time.Now().After(until) {
				t.Fatalf("the processes said less than %d lines in two minutes", n)
			}
			time.Sleep(time.Millisecond)
		}
	}
	for range 4 {
		more(50 + rand.Int64N(200))
		c.Kill(t)
		_, err := s.Send(t.Context(), memorytest.Request("mine", "m"))
		code(t, err, agent.CodeUnavailable, "cannot be reached", "try again")
		c.Restart(t)
		memorytest.Must(s.Send(t.Context(), memorytest.Request("mine", "m")))(t) // after the restart
	}
	more(50)
	for _, p := range processes {
		_ = p.Process.Kill()
	}
	wg.Wait()
	var acknowledged processtest.Acknowledged
	for _, lines := range said {
		acknowledged.Add(t, lines)
	}
	t.Logf("%d acknowledged writes, 4 kills", acknowledged.Writes)
	acknowledged.Check(t, s)
}
