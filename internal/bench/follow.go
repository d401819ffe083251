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
func measureFollow(ctx context.Context, s *stack, t *table, pairs int) {
	worker := s.startWorker(ctx)
	defer s.stopWorkers()
	crowd := s.startCrowd()
	defer crowd.p.stop()
	var cpu []time.Duration
	c := inTurn(pairs, func(side, pair int) timed {
		before := cpuTime(crowd.p)
		took := s.followedTurn(ctx, worker, crowd, side == 1)
		if side == 1 && pair > 0 {
			cpu = append(cpu, cpuTime(crowd.p)-before)
		}
		return took
	})
	r := c.ratio(fmt.Sprintf("turn with %d followers ÷ none, %s", followers, s.kindOfStore()), followRatioBar, fmt.Sprintf("turns of %d steps", followSteps))
	r.Detail += fmt.Sprintf("; %.0f ms with, %.0f ms without", milliseconds(median(c.took(1))), milliseconds(median(c.took(0))))
	t.add(r)
	if work := mean(c.cpu(0)); mean(cpu) > 0 {
		t.add(row{
			Figure: fmt.Sprintf("processor time of %d followers ÷ turn's, %s", followers, s.kindOfStore()), Value: float64(mean(cpu)) / float64(work), Unit: "×",
			Detail: fmt.Sprintf("followers %.0f ms; server and worker %.0f ms with them, %.0f ms without", milliseconds(mean(cpu)), milliseconds(mean(c.cpu(1))), milliseconds(work)),
		})
	}
}

// followedTurn runs a turn of steps that stream and call a tool without any delay.
func (s *stack) followedTurn(ctx context.Context, worker *process, c *crowd, with bool) timed {
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
	converse(ctx, s.store, session, s.work, 1000)
	if with {
		c.ask("follow " + agent.MainThreadID(session, agent.DefaultConversation))
	}
	before := cpuTime(s.server, worker)
	begun := time.Now()
	r := s.send(ctx, session)
	s.finish(ctx, r)
	took := timed{time.Since(begun), cpuTime(s.server, worker) - before}
	if with {
		c.ask("leave")
	}
	return took
}

// measureFollowPostgres is measureFollow on a store in Postgres.
func measureFollowPostgres(ctx context.Context, t *table, o options, dir string, model *stub) {
	c := must(pgtest.New())
	defer c.Close()
	s := newStack(ctx, c.URL("postgres"), o.bin, dir, model)
	defer s.close()
	measureFollow(ctx, s, t, o.times)
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

func (s *stack) startCrowd() *crowd {
	self := must(os.Executable())
	r, w := io.Pipe()
	p := must(spawn("followers", self, []string{"followers", s.spec}, nil, s.dir, w))
	go func() { <-p.done; _ = w.Close() }() // ends who reads
	return &crowd{p: p, in: p.in, out: bufio.NewReader(r)}
}

// ask lets the followers come or leave and waits until they have.
func (c *crowd) ask(line string) {
	fmt.Fprintln(c.in, line)
	said, err := c.out.ReadString('\n')
	if err != nil || said != "ok\n" {
		fail("the followers said %q to %q\n%s", said, line, c.p.log)
	}
}

// serveFollowers is this program as the process of followers. It reads lines,
// "follow THREAD" and "leave", and answers each with ok: when all are there, and
// when all have been given the end of a turn.
func serveFollowers(ctx context.Context, spec string, in io.Reader, out io.Writer) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	store := must(spool.OpenStore(ctx, spec))
	defer store.Close()
	c := spool.NewClient(store, nil, spool.ClientOptions{})
	var all sync.WaitGroup
	failed := make(chan error, followers)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if thread, ok := strings.CutPrefix(lines.Text(), "follow "); ok {
			cursor := must(c.Tail(ctx, thread))
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
			check(<-failed)
		}
		fmt.Fprintln(out, "ok")
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
