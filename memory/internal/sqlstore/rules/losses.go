package rules

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

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
func (s *Store) begin(ctx context.Context, name string, f func(*Unit) error) error {
	gone := ""
	for {
		var lost *lostWorker
		err := s.write(ctx, name, func(u *Unit) error {
			u.gone = gone
			err := f(u)
			if errors.As(err, &lost) {
				return agent.Wrap(lost, agent.CodeUnavailable, "%s", lost.Error())
			}
			return err
		})
		if !errors.As(err, &lost) {
			return err
		}
		if err := s.write(ctx, "lose-worker", func(u *Unit) error { return u.lose(lost.id) }); err != nil {
			return err
		}
		gone = lost.id
	}
}

// tellLost says in the log that a worker was lost in a call, and what becomes of that.
func (u *Unit) tellLost(t *rows.Thread, turn *rows.Turn, call, has, then string) error {
	name := func(worker, none string) string {
		if worker == "" {
			return none
		}
		short, _, _ := strings.Cut(worker, "/")
		return "worker " + short
	}
	return u.Warn(t, turn, []agent.Warning{{Code: agent.WarnWorkerLost, ToolCallID: call,
		Message: name(u.gone, "a worker") + " was lost in the middle of a call, " + name(has, "another one") + " " + then + "; nothing that was stored is repeated"}})
}

// lose shares the blame for a worker among the turns that it had in flight.
func (u *Unit) lose(worker string) error {
	var turns []string
	for _, in := range []string{"steps", "tool_calls"} {
		ids, err := u.Strings(`UPDATE `+in+` SET worker = '' WHERE worker = ? RETURNING turn_id`, worker)
		if err != nil {
			return err
		}
		turns = append(turns, ids...)
	}
	slices.Sort(turns)
	turns = slices.Compact(turns)
	for _, id := range turns {
		err := u.Exec(`UPDATE turns SET losses = losses + 1, blame = blame + ?, lost_at = ? WHERE id = ?`, 1/float64(len(turns)), u.Now, id)
		if err != nil {
			return err
		}
	}
	return nil
}
