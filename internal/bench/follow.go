package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/pgtest"
)

const (
	followers      = 100
	followSteps    = 20
	followRatioBar = 1.2
)

// measureFollow compares turns of a thread that a hundred follow, in one process
// that is not the worker's, with turns that nobody follows. The two take turns.
func measureFollow(ctx context.Context, s *stack, t *table, pairs int) error {
	worker, err := s.startWorker(ctx)
	if err != nil {
		return err
	}
	defer s.stopWorkers()
	crowd, err := s.startCrowd()
	if err != nil {
		return err
	}
	defer crowd.p.stop()
	var ratios []float64
	var alone, followed, work, workFollowed, cpu []time.Duration
	for i := range pairs + 1 {
		var took, used [2]time.Duration
		var crowdCPU time.Duration
		for j := range 2 {
			with := (i + j) % 2 // 1: with followers
			before := cpuTime(crowd.p)
			if took[with], used[with], err = s.followedTurn(ctx, worker, crowd, with == 1); err != nil {
				return err
			}
			if with == 1 {
				crowdCPU = cpuTime(crowd.p) - before
			}
		}
		if i == 0 {
			continue // both sides are warm now
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
		alone, followed = append(alone, took[0]), append(followed, took[1])
		work, workFollowed, cpu = append(work, used[0]), append(workFollowed, used[1]), append(cpu, crowdCPU)
	}
	t.add(row{
		Figure: fmt.Sprintf("turn with %d followers ÷ none, %s", followers, s.kindOfStore()), Value: median(ratios), Unit: "×", Bar: followRatioBar,
		Detail: fmt.Sprintf("%d pairs of turns of %d steps, half of them %.2f to %.2f; %.0f ms with, %.0f ms without", pairs, followSteps,
			quantile(ratios, 0.25), quantile(ratios, 0.75), milliseconds(median(followed)), milliseconds(median(alone))),
	})
	if mean(cpu) > 0 {
		t.add(row{
			Figure: fmt.Sprintf("processor time of %d followers ÷ turn's, %s", followers, s.kindOfStore()), Value: float64(mean(cpu)) / float64(mean(work)), Unit: "×",
			Detail: fmt.Sprintf("followers %.0f ms; server and worker %.0f ms with them, %.0f ms without", milliseconds(mean(cpu)), milliseconds(mean(workFollowed)), milliseconds(mean(work))),
		})
	}
	return nil
}

// followedTurn runs a turn of steps that stream and call a tool without any delay.
func (s *stack) followedTurn(ctx context.Context, worker *process, c *crowd, with bool) (took, cpu time.Duration, err error) {
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
	if err := converse(ctx, s.store, session, s.work, 1000); err != nil {
		return 0, 0, err
	}
	if with {
		if err := c.ask("follow " + agent.MainThreadID(session, agent.DefaultConversation)); err != nil {
			return 0, 0, err
		}
	}
	before := cpuTime(s.server, worker)
	begun := time.Now()
	r, err := s.send(ctx, session)
	if err != nil {
		return 0, 0, err
	}
	if err := s.finish(ctx, r); err != nil {
		return 0, 0, err
	}
	took, cpu = time.Since(begun), cpuTime(s.server, worker)-before
	if with {
		err = c.ask("leave")
	}
	return took, cpu, err
}

// measureFollowPostgres is measureFollow on a store in Postgres.
func measureFollowPostgres(ctx context.Context, t *table, o options, dir string, model *stub) error {
	c, err := pgtest.New()
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := newStack(ctx, c.URL("postgres"), o.bin, dir, model)
	if err != nil {
		return err
	}
	defer s.close()
	return measureFollow(ctx, s, t, o.follows)
}

// kindOfStore names the stack's store in a figure.
func (s *stack) kindOfStore() string {
	if strings.HasPrefix(s.spec, "postgres") {
		return "Postgres"
	}
	return "SQLite"
}

// crowd is this program as a process of followers.
type crowd struct {
	p   *process
	in  io.Writer
	out *bufio.Reader
}

func (s *stack) startCrowd() (*crowd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	p, err := spawn("followers", self, []string{"followers", s.spec}, nil, s.dir, w)
	if err != nil {
		return nil, err
	}
	go func() { <-p.done; _ = w.Close() }() // ends who reads
	return &crowd{p: p, in: p.in, out: bufio.NewReader(r)}, nil
}

// ask lets the followers come or leave and waits until they have.
func (c *crowd) ask(line string) error {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return fmt.Errorf("the followers are gone: %w\n%s", err, c.p.log)
	}
	said, err := c.out.ReadString('\n')
	if err != nil || said != "ok\n" {
		return fmt.Errorf("the followers said %q to %q\n%s", said, line, c.p.log)
	}
	return nil
}

// serveFollowers is this program as the process of followers. It reads lines,
// "follow THREAD" and "leave", and answers each with ok: when all are there, and
// when all have been given the end of a turn.
func serveFollowers(ctx context.Context, spec string, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	store, err := spool.OpenStore(ctx, spec)
	if err != nil {
		return err
	}
	defer store.Close()
	c := spool.NewClient(store, nil, spool.ClientOptions{})
	var all sync.WaitGroup
	failed := make(chan error, followers)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if thread, ok := strings.CutPrefix(lines.Text(), "follow "); ok {
			cursor, err := c.Tail(ctx, thread)
			if err != nil {
				return err
			}
			for range followers {
				all.Go(func() {
					if err := followTurn(ctx, c, thread, cursor); err != nil {
						failed <- err
					}
				})
			}
		} else {
			all.Wait()
		}
		if len(failed) > 0 {
			return <-failed
		}
		fmt.Fprintln(out, "ok")
	}
	return nil
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
