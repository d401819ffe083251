package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
)

// A worker that dies takes everything it has in flight with it, and nobody can
// tell which call killed it. So the turns it had in flight share the blame: of
// eight, each gets an eighth. A turn ends when its shares add up to
// defaultMaxLost workers. One that kills its worker whenever it runs is in flight
// each time; the others finish, or are apart from it, because a turn that lost
// several workers waits at random, ever longer, before it tries again.

// defaultMaxLost is how many workers a turn may kill.
const defaultMaxLost = 5

// maxBackOff bounds the wait of a turn that lost workers.
const maxBackOff = time.Minute

// lostWorker says that an attempt in flight belongs to a process that is gone,
// which is not accounted for yet.
type lostWorker struct{ id string }

func (l *lostWorker) Error() string { return "worker process " + l.id + " is gone" }

// gone reports whether the process that had an attempt in flight is another one
// than that which takes it up. The same process is alive.
func gone(had, has string) error {
	if had == "" || has == "" || had == has {
		return nil
	}
	return &lostWorker{id: had}
}

// lostAttempt is the number of an attempt in flight that another process takes up,
// or 0: one whose loss is accounted for names no process any more.
func lostAttempt(inFlight bool, had, has string, attempt int) int {
	if inFlight && has != "" && had != has {
		return attempt
	}
	return 0
}

// begin is write for operations that begin attempts. What is lost is accounted
// for apart: it concerns other trees, which this operation must not lock.
func (s *Store) begin(ctx context.Context, name string, f func(*unit) error) error {
	for {
		var lost *lostWorker
		err := s.write(ctx, name, func(u *unit) error {
			err := f(u)
			if errors.As(err, &lost) {
				return agent.Wrap(lost, agent.CodeUnavailable, "%s", lost.Error())
			}
			return err
		})
		if !errors.As(err, &lost) {
			return err
		}
		if err := s.write(ctx, "lose-worker", func(u *unit) error { return u.lose(lost.id) }); err != nil {
			return err
		}
	}
}

// lose shares the blame for a worker among the turns that it had in flight.
func (u *unit) lose(worker string) error {
	var turns []string
	for _, in := range []string{"steps", "tool_calls"} {
		ids, err := u.strings(`UPDATE `+in+` SET worker = '' WHERE worker = ? RETURNING turn_id`, worker)
		if err != nil {
			return err
		}
		turns = append(turns, ids...)
	}
	slices.Sort(turns)
	turns = slices.Compact(turns)
	for _, id := range turns {
		err := u.exec(`UPDATE turns SET losses = losses + 1, blame = blame + ?, lost_at = ? WHERE id = ?`, 1/float64(len(turns)), u.now, id)
		if err != nil {
			return err
		}
	}
	return nil
}

// deadly is why a turn must end: it killed too many workers. Shares are added up
// as floating point, so a little is allowed for.
func (t *turnRow) deadly(maxLost int) error {
	limit := orInt(maxLost, defaultMaxLost)
	if t.blame < float64(limit)-1e-6 {
		return nil
	}
	return agent.Errorf(agent.CodeLimit, "turn %s killed its worker %d times (%d died, what else they ran shares the blame): it is not tried again",
		t.ID, limit, t.losses)
}

// backOff is how long a turn that lost workers still has to wait: nothing after
// the first loss, then between half and the whole of a time that doubles. Where
// in between follows from the turn, so that turns lost together come back apart.
func (t *turnRow) backOff(now int64) time.Duration {
	if t.losses < 2 {
		return 0
	}
	most := maxBackOff
	if t.losses < 7 {
		most = time.Second << (t.losses - 1)
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, t.ID, t.losses)
	half := most.Milliseconds() / 2
	until := t.lostAt + half + int64(h.Sum32())%half
	return time.Duration(max(0, until-now)) * time.Millisecond
}
