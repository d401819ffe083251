package follow

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
	store  memory.Reader
	shared bool // it stands in watchers
	end    context.CancelFunc
	came   chan struct{} // somebody came
	users  int           // under watchers.mu

	// time orders readings: what began after a moment shows all that had been
	// committed by then.
	time atomic.Int64

	mu      sync.Mutex
	at      int64         // when the last change was seen
	changed chan struct{} // closed at the next one
	err     error         // why looking fails, unless the store just cannot be reached
	logs    map[string]*sharedLog
}

var watchers = struct {
	mu sync.Mutex
	of map[memory.Reader]*watcher
}{of: map[memory.Reader]*watcher{}}

// watch returns the watcher of a store handle. leave has to be called. A handle that
// cannot be a key of a map has a watcher for each who asks.
func watch(store memory.Reader) *watcher {
	watchers.mu.Lock()
	defer watchers.mu.Unlock()
	shared := reflect.ValueOf(store).Comparable() // the type does not say: a field may be an interface
	var w *watcher
	if shared {
		w = watchers.of[store]
	}
	if w == nil {
		ctx, end := context.WithCancel(context.Background())
		w = &watcher{store: store, shared: shared, end: end, came: make(chan struct{}, 1), changed: make(chan struct{}), logs: map[string]*sharedLog{}}
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
	if w.shared {
		delete(watchers.of, w.store)
	}
}

// run looks until nobody waits any more. A store that cannot be reached is asked ever
// more slowly.
func (w *watcher) run(ctx context.Context) {
	var last int64
	var woken time.Time // when all were woken last
	changed, fails := time.Now(), 0
	for {
		n, err := w.store.Changed(ctx)
		now := time.Now()
		news := woken.IsZero() || n != last || fails > 0
		if err == nil && (news || now.Sub(woken) > lookAnyway) {
			err = w.look(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			fails++
			if agent.CodeOf(err) != agent.CodeUnavailable {
				w.fail(err)
			}
		case news:
			last, fails, changed, woken = n, 0, now, now
		case now.Sub(woken) > lookAnyway:
			woken = now
		}
		pause := min(max(now.Sub(changed)/100, lookMin), lookMax)
		if fails > 0 {
			pause = lookMin << min(fails, 6)
		}
		select {
		case <-ctx.Done():
		case <-w.came: // something is going on
			changed = time.Now()
			sleep(ctx, lookMin-time.Since(now))
		case <-time.After(pause):
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// look finds out which of the followed threads have changed, in one reading for all,
// and wakes all who wait.
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

// fail wakes all who wait with an error.
func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake(w.time.Add(1), err)
}

func (w *watcher) wake(at int64, err error) {
	w.at, w.err = at, err
	close(w.changed)
	w.changed = make(chan struct{})
}

// changes says to one who waits when to read the store again.
type changes struct {
	w    *watcher
	seen int64
}

// wait returns at once the first time, then when something was committed, after a
// second in any case, or with ctx's error. It waits for a store that cannot be
// reached. Readings that begin after the moment it returns show what was committed.
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

// Store calls f now and whenever something may have been committed to the store,
// until f says that it is done or fails. A store that cannot be reached is waited for.
func Store(ctx context.Context, store memory.Reader, f func() (done bool, err error)) error {
	w := watch(store)
	defer w.leave()
	return w.each(ctx, func() bool { return true }, f)
}

// Thread is Store for who looks at one thread: f is called when that thread has
// another event or turn, and every second.
func Thread(ctx context.Context, store memory.Reader, threadID string, f func() (done bool, err error)) error {
	w := watch(store)
	defer w.leave()
	log := w.log(threadID)
	defer w.leaveLog(log)
	var seen markedAt
	var last time.Time
	return w.each(ctx, func() bool {
		now := log.marked()
		same := now.there && seen.there && now.mark.LastEvent == seen.mark.LastEvent && now.mark.TurnID == seen.mark.TurnID && now.mark.Idle == seen.mark.Idle
		if same && time.Since(last) < lookAnyway*9/10 {
			return false
		}
		seen, last = now, time.Now()
		return true
	}, f)
}

// each calls f whenever something was committed and it is due.
func (w *watcher) each(ctx context.Context, due func() bool, f func() (bool, error)) error {
	x := &changes{w: w}
	for {
		if _, err := x.wait(ctx); err != nil {
			return err
		}
		if !due() {
			continue
		}
		if done, err := f(); done && err == nil || err != nil && !unreachable(ctx, err) {
			return err
		}
	}
}

// unreachable reports whether err means that the store will be back.
func unreachable(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && agent.CodeOf(err) == agent.CodeUnavailable
}
