package memorytest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// world drives one thread and its descendants with operations drawn at random.
// Whatever is asked of the store, in whatever order, every invariant holds after
// each step, what is refused changes nothing, and so does a repetition.
type world struct {
	*env
	*driver
	root   string
	before string // the tree's state after the last operation
}

// histories is how many the property test plays, and historySteps how long each is.
const (
	histories    = 6
	historySteps = 40
)

func runRandom(t *testing.T, h Harness) {
	t.Helper()
	base, copies := newEnv(t, h), newEnv(t, h)
	n := histories
	if os.Getenv("SPOOL_LONG") == "1" {
		n *= 10
	}
	operations := 0
	for i := range n {
		seed := uint64(time.Now().UnixNano())
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { operations += playHistory(t, h, base, copies.s, i, seed) })
		if t.Failed() {
			return
		}
	}
	t.Logf("%d random histories with %d operations", n, operations)
}

func playHistory(t *testing.T, h Harness, base *env, copies memory.ConversationMemoryStore, i int, seed uint64) (operations int) {
	session := fmt.Sprint("p", i)
	w := &world{
		env:    &env{fataler: t, test: t, h: h, s: base.s, ctx: t.Context(), scopes: i * 1000},
		driver: &driver{ctx: t.Context(), s: base.s, name: "d" + session, session: session, rng: rand.New(rand.NewPCG(seed, seed))},
	}
	w.driver.do = func(what string, once bool, f func() error) (bool, error) {
		operations++
		return w.step(what, once, f)
	}
	w.root = w.send(session, "m0").ThreadID
	w.take(w.root)
	w.before = w.state(w.root)
	for operations < historySteps {
		w.ok(w.one(agent.DefaultConversation))
	}
	to := *w.env
	to.s = copies
	w.archived(w.root, &to)
	w.forksOf(copies)
	return operations
}

// step runs an operation and checks what it left. Now and then it says that
// nobody goes on from there, as if the worker had died.
func (w *world) step(what string, once bool, f func() error) (bool, error) {
	w.Helper()
	err := f()
	if err != nil && !refused(err) {
		w.Fatalf("%s: unexpected error (%s): %v", what, agent.CodeOf(err), err)
	}
	w.test.Logf("%s: %v", what, err)
	after := w.state(w.root)
	if err != nil && after != w.before {
		w.Fatalf("%s was refused (%v) and changed something\nbefore: %s\nafter:  %s", what, err, w.before, after)
	}
	w.before = after
	w.sound(w.root)
	if !once && w.chance(2) {
		if again := f(); agent.CodeOf(again) != agent.CodeOf(err) {
			w.Fatalf("%s: %v, when repeated: %v", what, err, again)
		}
		if again := w.state(w.root); again != after {
			w.Fatalf("%s changed something when repeated\nbefore: %s\nafter:  %s", what, after, again)
		}
	}
	return err == nil && !w.chance(6), nil
}
