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
	// lookAnyway is when threads are looked at again although nothing seems to have changed.
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
	at      int64 // when the last change was seen
	err     error // why looking fails, unless the store just cannot be reached
	logs    map[string]*sharedLog
	waiting map[*changes]bool // for any commit
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
		w = &watcher{store: store, shared: shared, end: end, came: make(chan struct{}, 1), logs: map[string]*sharedLog{}, waiting: map[*changes]bool{}}
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
// and wakes who waits for these, or for any commit.
func (w *watcher) look(ctx context.Context) error {
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
	// What was read while the marks were may lack what they show: only readings that begin
	// from now on do not.
	w.at, w.err = ended, nil
	for _, l := range logs {
		m, there := byID[l.id]
		if there != l.mark.there || m != l.mark.mark {
			wake(l.waiting)
		}
		l.mark = markedAt{began, ended, there, m}
	}
	wake(w.waiting)
	return nil
}

// fail wakes all who wait with an error.
func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.err = w.time.Add(1), err
	for _, l := range w.logs {
		wake(l.waiting)
	}
	wake(w.waiting)
}

func wake(waiting map[*changes]bool) {
	for x := range waiting {
		select {
		case x.woken <- struct{}{}:
		default:
		}
	}
}

// changes says to one who waits when to read the store again: when one of the threads
// has changed whose logs it stands in, or after any commit if it stands in the watcher.
type changes struct {
	w     *watcher
	woken chan struct{}
	began bool
}

func (w *watcher) changes() *changes { return &changes{w: w, woken: make(chan struct{}, 1)} }

// wait returns at once the first time, then when something has changed, after a time in
// any case unless that is 0, or with ctx's error. It waits for a store that cannot be
// reached. Readings that begin after the moment it returns show what was committed.
func (x *changes) wait(ctx context.Context, most time.Duration) (int64, error) {
	if !x.began {
		x.began = true
		return x.w.time.Add(1), ctx.Err()
	}
	var over <-chan time.Time
	if most != 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-over:
		return x.w.time.Add(1), nil
	case <-x.woken:
	}
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	return x.w.at, x.w.err
}

// Store calls f now and whenever something may have been committed to the store,
// until f says that it is done or fails. A store that cannot be reached is waited for.
func Store(ctx context.Context, store memory.Reader, f func() (done bool, err error)) error {
	w := watch(store)
	defer w.leave()
	x := w.changes()
	w.mu.Lock()
	w.waiting[x] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting, x)
	}()
	for {
		if _, err := x.wait(ctx, lookAnyway); err != nil {
			return err
		}
		if done, err := f(); done && err == nil || err != nil && !unreachable(ctx, err) {
			return err
		}
	}
}

// Thread is Store for who waits for a thread's turn: f is called when a turn of the
// thread begins or ends, its inbox or what its tree waits for changes, and after a time
// in any case. It is told whether anything of the thread has changed since: if not, it need
// not read the store.
func Thread(ctx context.Context, store memory.Reader, threadID string, anyway time.Duration, f func(changed bool) (done bool, err error)) error {
	w := watch(store)
	defer w.leave()
	x := w.changes()
	log := w.log(threadID, x)
	defer w.leaveLog(log, x)
	type standing struct {
		there         bool
		turn          string
		waiting, asks int
	}
	stands := func(m markedAt) standing { return standing{m.there, m.mark.TurnID, m.mark.Waiting, m.mark.Asks} }
	var seen markedAt
	var due time.Time // when f is called in any case
	for {
		if _, err := x.wait(ctx, time.Until(due)); err != nil {
			return err
		}
		m := log.marked()
		if m.there && stands(m) == stands(seen) && time.Now().Before(due) {
			continue
		}
		done, err := f(!m.there || m.there != seen.there || m.mark != seen.mark)
		if done && err == nil || err != nil && !unreachable(ctx, err) {
			return err
		}
		if seen, due = m, time.Now().Add(anyway); err != nil {
			seen, due = markedAt{}, time.Now().Add(lookAnyway)
		}
	}
}

// unreachable reports whether err means that the store will be back.
func unreachable(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && agent.CodeOf(err) == agent.CodeUnavailable
}
