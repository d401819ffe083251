package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spool-agents/spool"
)

const tokenBar = 50 // ms

var errSeen = errors.New("seen")

// measureToken measures from the moment the model server has sent a first token
// until a follower of the thread is given it.
func measureToken(ctx context.Context, s *stack, t *table, n int) {
	s.startWorker(ctx)
	defer s.stopWorkers()
	var times []time.Duration
	for range n {
		d := s.firstToken(ctx)
		times = append(times, d)
	}
	t.add(row{
		Figure: "first token sent by the model → seen by a follower, median", Value: milliseconds(median(times)), Unit: "ms", Bar: tokenBar,
		Detail: fmt.Sprintf("of %d; p95 %.0f ms", n, milliseconds(quantile(times, 0.95))),
	})
}

func (s *stack) firstToken(ctx context.Context) time.Duration {
	// The model thinks for long enough that the follower is there before it speaks.
	s.stub.play(func(ctx context.Context, _ ask, out *reply) {
		time.Sleep(100*time.Millisecond + rand.N(50*time.Millisecond))
		for range 10 {
			out.text("word ")
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		out.end("stop")
	})
	r := s.send(ctx, spool.NewID())
	var seen time.Time
	err := s.Client.Follow(ctx, r.ThreadID, "", spool.FollowOptions{UntilTurn: r.TurnID}, func(u spool.Update) error {
		if u.Text == nil {
			return nil
		}
		seen = time.Now()
		return errSeen
	})
	if !errors.Is(err, errSeen) {
		fail("the turn streamed nothing: %v", err)
	}
	sent := s.stub.asked(r.TurnID)[0].First
	s.finish(ctx, r)
	return seen.Sub(sent)
}
