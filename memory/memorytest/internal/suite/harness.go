package suite

import (
	"errors"
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

func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Rule is one case of the suite, named by the sentence it checks. It has Run, or
// Turn, which begins in the first turn of session s1. When it has ended, every
// thread keeps every invariant.
type Rule struct {
	Name string
	Run  func(e *Env)
	Turn func(e *Env, t memory.Turn)
}

func (r Rule) Check(t *testing.T, h Harness) {
	e := NewEnv(t, h)
	if r.Turn != nil {
		r.Turn(e, e.Started("s1"))
	} else {
		r.Run(e)
	}
	for _, th := range Must(e.S.Threads(e.Ctx, memory.ThreadFilter{UserID: User, Limit: 10_000}))(e) {
		e.Sound(th.ID)
	}
}

// Group is the rules of a subject.
type Group struct {
	Name  string
	Rules []Rule
}

// AtOnce does something n times at once, which all must succeed.
func (e *Env) AtOnce(n int, do func(i int) error) {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	e.Ok(errors.Join(errs...))
}

// Pages reads a list to its end, each part from the last of the one before on.
func Pages[T any](limit int, read func(last T) []T) (all []T) {
	for {
		var last T
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		part := read(last)
		if all = append(all, part...); len(part) < limit {
			return all
		}
	}
}

func (e *Env) Idle(id string) {
	Equal(e, "nothing to take", Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: id}))(e).Turn == nil, true)
}
