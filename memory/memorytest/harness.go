package memorytest

import (
	"sync"
	"testing"
	"time"

	"github.com/spool-agents/spool/memory"
)

// Harness tells the suite how to make stores and what they can do.
type Harness struct {
	// Open makes an empty store whose clock is Clock.Now. The harness closes it
	// when t ends.
	Open func(t *testing.T) memory.ConversationMemoryStore
	// Reopen closes a store and opens the same data again. Needed if Durable.
	Reopen func(t *testing.T, s memory.ConversationMemoryStore) memory.ConversationMemoryStore
	// Another opens the same data as a second process would. Needed if MultiProcess.
	Another func(t *testing.T, s memory.ConversationMemoryStore) memory.ConversationMemoryStore
	// Clock moves the time of all stores.
	Clock *Clock

	// Durable stores keep their data when they are closed.
	Durable bool
	// MultiProcess stores may be open in several processes.
	MultiProcess bool
}

// Clock is a clock that stands still until it is moved. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a clock that shows a fixed time of whole milliseconds.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// rule is one case of the suite, named by the sentence it checks.
type rule struct {
	name string
	run  func(e *env)
}

// groups are the cases by subject.
var groups = []struct {
	name  string
	rules []rule
}{
	{"send", sendRules},
	{"turn", turnRules},
	{"close", closeRules},
	{"model", modelRules},
	{"summary", summaryRules},
	{"wait", waitRules},
	{"tool", toolRules},
	{"round", roundRules},
	{"ask", askRules},
	{"approval", approvalRules},
	{"verdict", verdictRules},
	{"question", questionRules},
	{"plain answer", plainAnswerRules},
	{"delegation", delegationRules},
	{"background", backgroundRules},
	{"resume", resumeRules},
	{"budget", budgetRules},
	{"agents", agentRules},
	{"waited", waitedRules},
	{"cascade", cascadeRules},
	{"cancel", cancelRules},
	{"cancel-all", cancelAllRules},
	{"usage", usageRules},
	{"account", accountRules},
	{"losses", lossRules},
	{"retry", retryRules},
	{"keeper", keeperRules},
	{"read", readRules},
	{"window", windowRules},
	{"event", eventRules},
	{"edge", edgeRules},
	{"archive", archiveRules},
	{"edit", editRules},
	{"image", imageRules},
	{"fork", forkRules},
}

// RunStore runs every case of the suite on stores of h, each on a store of its
// own, and the property test.
func RunStore(t *testing.T, h Harness) {
	t.Helper()
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, r := range g.rules {
				t.Run(r.name, func(t *testing.T) {
					r.run(newEnv(t, h))
				})
			}
		})
	}
	if h.Durable {
		t.Run("durable", func(t *testing.T) { runAll(t, h, durableRules) })
	}
	if h.MultiProcess {
		t.Run("processes", func(t *testing.T) { runAll(t, h, processRules) })
	}
	t.Run("random operations keep every invariant and repetitions change nothing", func(t *testing.T) {
		runRandom(t, h)
	})
}

func runAll(t *testing.T, h Harness, rules []rule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { r.run(newEnv(t, h)) })
	}
}
