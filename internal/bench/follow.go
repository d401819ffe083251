package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/internal/temporaltest"
)

const (
	followers      = 100
	followSteps    = 20
	followRatioBar = 1.2
)

// measureFollow compares turns of a thread that a hundred follow, in this process
// and not the worker's, with turns that nobody follows. The two take turns.
func measureFollow(ctx context.Context, s *stack, t *table, pairs int) {
	worker := s.startWorker(ctx)
	defer s.stopWorkers()
	store := must(spool.OpenStore(ctx, s.StoreSpec()))
	defer store.Close()
	crowd := spool.NewClient(store, nil, spool.ClientOptions{})
	var own [2][]time.Duration // of this process, which also plays the model
	c := inTurn(pairs, func(side, pair int) timed {
		before := ownTime()
		took := s.followedTurn(ctx, worker, crowd, side == 1)
		if pair > 0 {
			own[side] = append(own[side], ownTime()-before)
		}
		return took
	})
	kind := s.kind()
	r := c.ratio(fmt.Sprintf("turn with %d followers ÷ none, %s", followers, kind), followRatioBar, fmt.Sprintf("turns of %d steps", followSteps))
	r.Detail += fmt.Sprintf("; %.0f ms with, %.0f ms without", milliseconds(median(c.took(1))), milliseconds(median(c.took(0))))
	t.add(r)
	if work, theirs := mean(c.cpu(0)), mean(own[1])-mean(own[0]); work > 0 {
		t.add(row{
			Figure: fmt.Sprintf("processor time of %d followers ÷ turn's, %s", followers, kind), Value: float64(theirs) / float64(work), Unit: "×",
			Detail: fmt.Sprintf("followers %.0f ms; server and worker %.0f ms with them, %.0f ms without", milliseconds(theirs), milliseconds(mean(c.cpu(1))), milliseconds(work)),
		})
	}
}

// followedTurn runs a turn of steps that stream and call a tool without any delay.
func (s *stack) followedTurn(ctx context.Context, worker *temporaltest.Process, crowd *spool.Client, with bool) timed {
	s.stub.play(func(_ context.Context, q ask, out *reply) {
		out.text("I will calculate that now. ")
		if q.Step > followSteps {
			out.end("stop")
			return
		}
		out.call(calculate(q.Step))
	})
	session := spool.NewID()
	// The thread is there, and so are its followers, before the turn that counts.
	converse(ctx, s.Store, session, s.Work, 1000)
	var all sync.WaitGroup
	failed := make(chan error, followers)
	if thread := agent.MainThreadID(session, agent.DefaultConversation); with {
		cursor := must(crowd.Tail(ctx, thread))
		for range followers {
			all.Go(func() {
				if err := followTurn(ctx, crowd, thread, cursor); err != nil {
					failed <- err
				}
			})
		}
	}
	before := cpuTime(s.Server.Process, worker)
	begun := time.Now()
	s.run(ctx, session)
	took := timed{took: time.Since(begun), cpu: cpuTime(s.Server.Process, worker) - before}
	if all.Wait(); len(failed) > 0 {
		check(<-failed)
	}
	return took
}

// measurePostgres measures what depends on the store with one in Postgres.
func measurePostgres(ctx context.Context, t *table, o options, dir string, model *stub) {
	c := must(pgtest.New())
	defer c.Close()
	s := newStack(ctx, "postgres", c.URL("postgres"), o.bin, dir, model)
	defer s.t.close()
	if o.on("step") {
		measureStep(ctx, s, t, o.times)
	}
	if o.on("follow") {
		measureFollow(ctx, s, t, o.times)
	}
	if o.on("load") {
		measureLoad(ctx, s, t, o.times, o.long)
	}
	if o.on("waiters") {
		db := must(sql.Open("pgx", c.URL("template1")))
		defer db.Close()
		measureWaiters(ctx, t, c.URL("template1"), s.kind(), func() (n int64) {
			check(db.QueryRowContext(ctx, `SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`).Scan(&n))
			return n
		})
	}
}

// followTurn follows until the next turn's end, and writes what it is told as a
// web server would.
func followTurn(ctx context.Context, c *spool.Client, thread, cursor string) error {
	to := json.NewEncoder(io.Discard)
	err := c.Follow(ctx, thread, cursor, spool.FollowOptions{}, func(u spool.Update) error {
		if err := to.Encode(u); err != nil {
			return err
		}
		if u.Event != nil && u.Event.Type == agent.EventDone {
			return errSeen
		}
		return nil
	})
	if errors.Is(err, errSeen) {
		return nil
	}
	return err
}

func (s *stack) kind() string {
	if strings.HasPrefix(s.StoreSpec(), "postgres") {
		return "Postgres"
	}
	return "SQLite"
}
