package memorytest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

// world drives one thread and its descendants with operations drawn at random.
// Whatever is asked of the store, in whatever order, every invariant holds after
// each step, what is refused changes nothing, and so does a repetition.
type world struct {
	*suite.Env
	*driver
	root   string
	before string // the tree's state after the last operation
}

// histories is how many the property test plays, and historySteps how long each is.
const (
	histories    = 6
	historySteps = 40
)

func runRandom(t *testing.T, h suite.Harness) {
	t.Helper()
	base, copies := suite.NewEnv(t, h), suite.NewEnv(t, h)
	n := histories
	if os.Getenv("SPOOL_LONG") == "1" {
		n *= 10
	}
	operations := 0
	for i := range n {
		seed := uint64(time.Now().UnixNano())
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { operations += playHistory(t, h, base, copies.S, i, seed) })
		if t.Failed() {
			return
		}
	}
	t.Logf("%d random histories with %d operations", n, operations)
}

func playHistory(t *testing.T, h suite.Harness, base *suite.Env, copies memory.ConversationMemoryStore, i int, seed uint64) (operations int) {
	session := fmt.Sprint("p", i)
	w := &world{
		Env:    suite.On(t, h, base.S),
		driver: &driver{ctx: t.Context(), s: base.S, name: "d" + session, session: session, rng: rand.New(rand.NewPCG(seed, seed))},
	}
	w.Scopes = i * 1000
	w.driver.do = func(what string, once bool, f func() error) bool {
		operations++
		return w.step(what, once, f)
	}
	w.root = w.Send(session, "m0").ThreadID
	w.Take(w.root)
	w.before = w.State(w.root)
	for operations < historySteps {
		w.Ok(steps.Run(func() { w.one(agent.DefaultConversation) }))
	}
	to := *w.Env
	to.S = copies
	w.Archived(w.root, &to)
	w.forksOf(copies)
	return operations
}

// step runs an operation and checks what it left. Now and then it says that
// nobody goes on from there, as if the worker had died.
func (w *world) step(what string, once bool, f func() error) bool {
	w.Helper()
	err := f()
	if err != nil && !refused(err) {
		w.Fatalf("%s: unexpected error (%s): %v", what, agent.CodeOf(err), err)
	}
	w.Logf("%s: %v", what, err)
	after := w.State(w.root)
	if err != nil && after != w.before {
		w.Fatalf("%s was refused (%v) and changed something\nbefore: %s\nafter:  %s", what, err, w.before, after)
	}
	w.before = after
	w.Sound(w.root)
	if !once && w.chance(2) {
		if again := f(); agent.CodeOf(again) != agent.CodeOf(err) {
			w.Fatalf("%s: %v, when repeated: %v", what, err, again)
		}
		if again := w.State(w.root); again != after {
			w.Fatalf("%s changed something when repeated\nbefore: %s\nafter:  %s", what, after, again)
		}
	}
	return err == nil && !w.chance(6)
}

// forksOf forks a drawn conversation at its end and at a drawn message.
func (w *world) forksOf(copies memory.ConversationMemoryStore) {
	w.Helper()
	messages := w.Messages(w.root)
	if len(messages) == 0 {
		return
	}
	at := messages[w.rng.IntN(len(messages))].ID
	for request, at := range map[string]string{"end": "", "at": at} {
		f := w.Fork(w.root, at, request)
		to := *w.Env
		to.S = copies
		w.Archived(f.ThreadID, &to)
		w.GoesOn(f.ThreadID, "after-"+request)
	}
	w.Sound(w.root)
}
