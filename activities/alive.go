package activities

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/spool-agents/spool/memory"
)

// alive heartbeats until stop is called, so that a worker's death is noticed
// within the heartbeat timeout and a cancel arrives. The context it returns also
// ends when the worker has to, early enough to hand the work over. The
// timeout counts from the activity's start, so the first heartbeat is sent when
// it is due: one sent at once is a request to the server that every step waits
// for. A first attempt's death leaves the workflow bound to the dead worker's
// sticky queue: a later attempt releases it.
//
// It also looks for a cancel in the store: a server tells an activity of one with
// the answer to a heartbeat only, seconds later. A store that is away for storeAwayFor
// ends the context with errStoreAway, unless the activity stays for its result.
func (a *Activities) alive(ctx context.Context, turnID string, stays bool) (alive context.Context, stop func()) {
	alive, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(a.beat(ctx, alive, turnID, stays))
	}()
	if activity.GetInfo(ctx).Attempt > 1 {
		a.releaseSticky(ctx)
	}
	return alive, func() {
		cancel(nil)
		<-ended // a heartbeat that meets the activity's end would be logged as an error
	}
}

// beat heartbeats until alive ends, or has to: then it returns why.
func (a *Activities) beat(ctx, alive context.Context, turnID string, stays bool) error {
	at := time.NewTicker(max(activity.GetInfo(ctx).HeartbeatTimeout/4, 100*time.Millisecond))
	defer at.Stop()
	w := a.watch.add(a.Store, turnID)
	defer a.watch.leave(w)
	for {
		select {
		case <-alive.Done():
			return nil
		case <-a.Cut:
			return errCut
		case err := <-w.stop:
			return err
		case <-at.C:
		}
		activity.RecordHeartbeat(ctx)
		if !stays && time.Since(*w.answered.Load()) >= storeAwayFor {
			return errStoreAway
		}
	}
}

const (
	// lookEvery is how often a worker looks whether turns are to end whose activities
	// it runs.
	lookEvery = 150 * time.Millisecond
	// lookFor bounds one look.
	lookFor = 2 * time.Second
	// storeAwayFor is how long a model call goes on while its worker does not reach the
	// store. Then another worker makes it again: what it has could not be kept here.
	storeAwayFor = 10 * time.Second
)

// Why an activity has to end, besides what its turn says: another attempt goes on.
var (
	errCut       = errors.New("this worker is shutting down; another one goes on")
	errStoreAway = errors.New("this worker does not reach the store; another one goes on")
)

// handsOver is why the activity of ctx is to be made again elsewhere, or nil.
func handsOver(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errCut) || errors.Is(cause, errStoreAway) {
		return cause
	}
	return nil
}

// watch looks, for all activities that run, whether their turns are to end: one query
// however many they are. It looks while there are any.
type watch struct {
	mu   sync.Mutex
	all  map[*watched]bool
	runs bool
}

type watched struct {
	turn string
	// stop gets why the turn's activities have to stop.
	stop chan error
	// answered is when the store answered last, or the activity began.
	answered atomic.Pointer[time.Time]
}

func (w *watch) add(store memory.Reader, turn string) *watched {
	one := &watched{turn: turn, stop: make(chan error, 1)}
	one.answered.Store(new(time.Now()))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*watched]bool{}
	}
	if w.all[one] = true; !w.runs {
		w.runs = true
		go w.run(store)
	}
	return one
}

func (w *watch) leave(one *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, one)
}

// run looks as long as anybody is there.
func (w *watch) run(store memory.Reader) {
	for {
		time.Sleep(lookEvery)
		w.mu.Lock()
		all := make([]*watched, 0, len(w.all))
		for one := range w.all {
			all = append(all, one)
		}
		w.runs = len(all) > 0
		w.mu.Unlock()
		if len(all) == 0 {
			return
		}
		look(store, all)
	}
}

// look asks the store about turns. A store that is away stops nothing.
func look(store memory.Reader, all []*watched) {
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	turns := make([]string, len(all))
	for i, one := range all {
		turns[i] = one.turn
	}
	closed, cancelled, err := store.Stopping(ctx, turns)
	if err != nil {
		return
	}
	now := time.Now()
	for _, one := range all {
		one.answered.Store(&now)
		var why error
		switch {
		case slices.Contains(closed, one.turn):
			why = memory.Stale("turn %s is closed", one.turn)
		case slices.Contains(cancelled, one.turn):
			why = memory.CancelRequested(one.turn)
		default:
			continue
		}
		select {
		case one.stop <- why:
		default:
		}
	}
}
