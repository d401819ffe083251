package spool

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	// lookMin and lookMax bound how often a store is asked whether anything was
	// committed. In between, a look waits for a hundredth of the silence so far: what
	// comes after a silence is seen late by 1 % of it at most.
	lookMin = 15 * time.Millisecond
	lookMax = 100 * time.Millisecond
	// lookAnyway is when everybody reads again although nothing seems to have changed.
	lookAnyway = time.Second
)

// watcher looks for changes of one store for all who wait for them in this
// process: one poll loop, one look per change at where all followed threads stand,
// and one reading of each thread that changed, however many follow. It exists
// while somebody waits.
type watcher struct {
	store memory.ConversationMemoryStore
	end   context.CancelFunc
	came  chan struct{} // somebody came
	users int           // under watchers.mu

	// time orders readings: what began after a moment shows all that had been
	// committed by then.
	time atomic.Int64

	mu      sync.Mutex
	at      int64         // when the last change was seen
	changed chan struct{} // closed at the next one
	err     error         // why looking fails, unless the store is just away
	logs    map[string]*sharedLog
}

var watchers = struct {
	mu sync.Mutex
	of map[memory.ConversationMemoryStore]*watcher
}{of: map[memory.ConversationMemoryStore]*watcher{}}

// watch returns the watcher of a store handle. leave has to be called.
func watch(store memory.ConversationMemoryStore) *watcher {
	watchers.mu.Lock()
	defer watchers.mu.Unlock()
	shared := reflect.TypeOf(store).Comparable()
	var w *watcher
	if shared {
		w = watchers.of[store]
	}
	if w == nil {
		ctx, end := context.WithCancel(context.Background())
		w = &watcher{store: store, end: end, came: make(chan struct{}, 1), changed: make(chan struct{}), logs: map[string]*sharedLog{}}
		if shared {
			watchers.of[store] = w
		}
		go w.run(ctx)
	}
	w.users++
	select {
	case w.came <- struct{}{}:
	default:
	}
	return w
}

func (w *watcher) leave() {
	watchers.mu.Lock()
	defer watchers.mu.Unlock()
	if w.users--; w.users > 0 {
		return
	}
	w.end()
	if reflect.TypeOf(w.store).Comparable() {
		delete(watchers.of, w.store)
	}
}

// run looks until nobody waits any more. A store that is away is asked ever more
// slowly.
func (w *watcher) run(ctx context.Context) {
	var last int64
	fails, known := 0, false
	changed, told := time.Now(), time.Now()
	for {
		n, err := w.store.Changed(ctx)
		now := time.Now()
		if err == nil && (!known || n != last || fails > 0 || now.Sub(told) > lookAnyway) {
			err = w.look(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			fails++
			if agent.CodeOf(err) != agent.CodeUnavailable {
				w.tell(err)
			}
		case !known || n != last || fails > 0:
			last, known, fails, changed, told = n, true, 0, now, now
		case now.Sub(told) > lookAnyway:
			told = now
		}
		wait := min(max(now.Sub(changed)/100, lookMin), lookMax)
		if fails > 0 {
			wait = lookMin << min(fails, 6)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-w.came: // something is going on
			changed = time.Now()
			if rest := lookMin - time.Since(now); rest > 0 {
				_ = sleep(ctx, rest) // the loop sees that ctx ended
			}
		case <-t.C:
		}
		t.Stop()
	}
}

// look finds out which of the threads that are followed have changed, in one
// reading for all, and wakes all who wait.
func (w *watcher) look(ctx context.Context) error {
	at := w.time.Add(1)
	w.mu.Lock()
	logs := slices.Collect(maps.Values(w.logs))
	w.mu.Unlock()
	began := w.time.Add(1)
	ids := make([]string, len(logs))
	for i, l := range logs {
		ids[i] = l.id
	}
	marks, err := w.store.Mark(ctx, ids)
	if err != nil {
		return err
	}
	ended := w.time.Add(1)
	byID := make(map[string]memory.Mark, len(marks))
	for _, m := range marks {
		byID[m.ThreadID] = m
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range logs {
		m, there := byID[l.id]
		l.mark = markedAt{began, ended, there, m}
	}
	w.wake(at, nil)
	return nil
}

// tell wakes all who wait with an error.
func (w *watcher) tell(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake(w.time.Add(1), err)
}

func (w *watcher) wake(at int64, err error) {
	w.at, w.err = at, err
	close(w.changed)
	w.changed = make(chan struct{})
}

// changes tells one who waits when to look at the store again.
type changes struct {
	w    *watcher
	seen int64
}

// changes begins to wait for changes; stop ends it.
func (c *Client) changes() *changes { return &changes{w: watch(c.store)} }

func (x *changes) stop() { x.w.leave() }

// wait returns at once the first time, then when something was committed, after a
// second in any case, or with ctx's error. It waits for a store that is away.
// Readings that begin after the moment it returns show what was committed.
func (x *changes) wait(ctx context.Context) (int64, error) {
	if x.seen == 0 {
		x.seen = x.w.time.Add(1)
		return x.seen, ctx.Err()
	}
	for {
		x.w.mu.Lock()
		at, changed, err := x.w.at, x.w.changed, x.w.err
		x.w.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case at > x.seen && err != nil:
			return 0, err
		case at > x.seen:
			x.seen = at
			return at, nil
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}
