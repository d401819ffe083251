package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// asks is a template that asks a person before it uses the shell.
const asks = "---\nname: asks\ndescription: asks\napproval: {shell: ask}\n---\nYou ask first.\n"

// measureParked parks turns that wait for a person, among many threads that are done,
// and measures what they cost while nothing happens.
func measureParked(ctx context.Context, s *stack, t *table, long bool) {
	check(os.WriteFile(filepath.Join(s.Agents(), "asks.md"), []byte(asks), 0o644))
	done, real := begin(ctx, s.Store, spool.NewID(), s.Work, "m", "hello"), 100
	done.answer(ctx, "good day")
	threads, messages := 1000, 2
	if long {
		threads, messages = 100_000, 100
	}
	made := fill(ctx, s.StorePath(), done.thread, done.turn, 1, threads, messages, true)
	env := s.Env
	s.Env = append(s.Env, "SPOOL_WAIT_IN_RUN=100ms")
	worker := s.startWorker(ctx)
	defer func() { s.Env = env; s.stopWorkers() }()
	s.stub.play(func(_ context.Context, _ ask, out *reply) { out.call("shell", `{"command":"date"}`) })
	var one spool.Reply
	_, _ = s.atOnce(real, worker, func(i int) {
		r := must(s.Client.Send(ctx, memory.SendRequest{UserID: user, SessionID: spool.NewID(), Content: agent.Text("go"), Workdir: s.Work, Agent: "asks"}))
		must(s.Client.Wait(ctx, r.ThreadID, r.TurnID, spool.WaitOptions{}))
		if i == 0 {
			one = r
		}
	})
	parked := real
	if long { // Temporal knows nothing of these, which would be found out in ten minutes
		parked += fill(ctx, s.StorePath(), one.ThreadID, one.TurnID, 1<<30, 10_000-real, 2, false)
	}
	time.Sleep(15 * time.Second) // they park, and the sweeps that follow the last commit are over
	const idle = 20 * time.Second
	session, _, _ := strings.Cut(one.ThreadID, "/")
	of := fmt.Sprintf("%d parked turns, %d of them the user's; %d threads of %d messages", parked, real, made, messages)
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / idle.Seconds() }
	for i, what := range []string{"at rest", "while others commit once a second"} {
		before, server := cpuTime(worker), cpuTime(s.Server.Process)
		for end := time.Now().Add(idle); time.Now().Before(end); time.Sleep(time.Second) {
			if i > 0 {
				must(s.Store.Send(ctx, memory.SendRequest{UserID: user, SessionID: session, MessageID: spool.NewID(), Content: agent.Text("next"), WhenBusy: memory.Queue}))
			}
		}
		t.add(row{Figure: "a worker " + what + ", of one processor", Value: share(cpuTime(worker) - before), Unit: "%", Bar: 1,
			Detail: fmt.Sprintf("%s; the server %.1f %%", of, share(cpuTime(s.Server.Process)-server))})
	}
	for _, c := range []struct {
		what string
		f    func()
	}{
		{"threads", func() { must(s.Store.Threads(ctx, memory.ThreadFilter{UserID: user, Limit: 50})) }},
		{"the page's list", func() {
			must(s.Store.Threads(ctx, memory.ThreadFilter{UserID: user, Limit: 50}))
			must(s.Store.Threads(ctx, memory.ThreadFilter{UserID: user, SubAgents: true, Limit: 50}))
		}},
		{"the keeper's sweep", func() { must(s.Store.Overdue(ctx, 2*time.Second, 200)) }},
		{"approvals", func() {
			must(s.Store.Approvals(ctx, memory.ApprovalFilter{UserID: user, OpenOnly: true}))
		}},
	} {
		var took []time.Duration
		for range 10 {
			began := time.Now()
			c.f()
			took = append(took, time.Since(began))
		}
		t.add(row{Figure: c.what + ", read from the store", Value: milliseconds(median(took)), Unit: "ms", Bar: 50, Detail: of})
	}
	empty := must(spool.OpenStore(ctx, "sqlite:"+s.file("empty.db")))
	defer empty.Close()
	var ratios []float64
	for i := range 100 {
		var took [2]time.Duration
		for j, store := range []memory.ConversationMemoryStore{empty, s.Store} {
			began := time.Now()
			must(store.Send(ctx, memory.SendRequest{UserID: user, SessionID: spool.NewID(), MessageID: fmt.Sprint(i), Content: agent.Text("go")}))
			took[j] = time.Since(began)
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
	}
	t.add(row{Figure: "send ÷ in an empty store", Value: median(ratios), Unit: "×", Bar: 1.2, Detail: of})
}

// measureWaiters has a thousand wait for, and a thousand follow, a hundred threads in
// which nothing happens, in this process. On PostgreSQL, asked counts what was asked of the
// server: then pieces of text come to one of the threads, and what those who watch ask for each
// is compared with what two hundred ask.
func measureWaiters(ctx context.Context, t *table, spec, kind string, asked func() int64) {
	var perPiece []float64
	for _, each := range []int{10, 100} {
		const threads, pieces = 100, 100
		store, writer := must(spool.OpenStore(ctx, spec)), must(spool.OpenStore(ctx, spec))
		c := spool.NewClient(store, nil, spool.ClientOptions{UserID: user})
		inner, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		var turn *storeTurn
		for range threads {
			turn = begin(ctx, writer, spool.NewID(), "/", "m", "hello")
			for range each / 10 {
				all.Go(func() { _, _ = c.Wait(inner, turn.thread, turn.turn, spool.WaitOptions{Patient: true}) })
				all.Go(func() {
					_ = c.Follow(inner, turn.thread, "", spool.FollowOptions{}, func(spool.Update) error { return nil })
				})
			}
		}
		fence := memory.Fence{Scope: "bench", Number: 1}
		model := must(writer.BeginModel(ctx, memory.ModelBegin{ThreadID: turn.thread, TurnID: turn.turn, Step: 1, Fence: fence}))
		time.Sleep(3 * time.Second)
		const idle = 15 * time.Second
		before, queries := ownTime(), asked()
		time.Sleep(idle)
		used, perSecond := ownTime()-before, float64(asked()-queries)/idle.Seconds()
		queries = asked()
		for range pieces {
			check(writer.AppendChunk(ctx, memory.Chunk{ThreadID: turn.thread, TurnID: turn.turn, Step: 1, Attempt: model.Attempt, Text: "word "}))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		perPiece = append(perPiece, float64(asked()-queries-pieces)/pieces)
		stop()
		all.Wait()
		check(errors.Join(store.Close(), writer.Close()))
		if each == 10 {
			continue
		}
		of := fmt.Sprintf("on %d threads", threads)
		if queries > 0 {
			of += fmt.Sprintf("; %.1f queries a second", perSecond)
			t.add(row{Figure: "queries of 2,000 who watch ÷ of 200, for each piece of text, " + kind, Value: perPiece[1] / perPiece[0], Unit: "×", Bar: 1.2,
				Detail: fmt.Sprintf("%.1f, %.1f; all that this process asked beside the piece itself", perPiece[1], perPiece[0])})
		}
		t.add(row{Figure: "1,000 waiters and 1,000 followers at rest, of one processor, " + kind, Value: 100 * used.Seconds() / idle.Seconds(), Unit: "%", Bar: 5, Detail: of})
	}
}

type firstWrite struct {
	once sync.Once
	at   chan time.Time
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.once.Do(func() { f.at <- time.Now() })
	return len(p), nil
}

// measureStart times the command line: a stack, a command without a turn, and one whose
// turn is answered at once.
func measureStart(ctx context.Context, s *stack, t *table, bin string, times int) {
	s.startWorker(ctx)
	defer s.stopWorkers()
	s.stub.play(func(_ context.Context, _ ask, out *reply) { out.text("hello"); out.end("stop") })
	// run returns when a command has printed something, and when it has ended.
	run := func(stop os.Signal, args ...string) (first, end time.Duration) {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "starter"), args...)
		cmd.Env, cmd.Dir = append(os.Environ(), s.Env...), s.Work
		out, said := &firstWrite{at: make(chan time.Time, 1)}, bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = out, &said
		began := time.Now()
		check(cmd.Start())
		if stop != nil {
			select {
			case at := <-out.at:
				first = at.Sub(began)
			case <-time.After(time.Minute):
			}
			check(cmd.Process.Signal(stop))
		}
		if err := cmd.Wait(); err != nil && stop == nil || len(out.at) == 0 && first == 0 {
			fail("starter %v: %v\n%s", args, err, said.String())
		}
		end = time.Since(began)
		if stop == nil {
			first = (<-out.at).Sub(began)
		}
		return first, end
	}
	var ready, plain, tokens, sends, after []time.Duration
	for i := range times {
		if i < 6 {
			first, _ := run(os.Interrupt, "dev", "--json", "--home", s.file("dev"), "--temporal-port", "0", "--ui-port", "0", "--web-port", "0")
			ready = append(ready, first)
		}
		session := fmt.Sprintf("start%d", i)
		first, took := run(nil, "send", "-s", session, "hi")
		end := time.Now()
		tokens, sends = append(tokens, first), append(sends, took)
		turn := must(s.Store.TurnsOf(ctx, agent.MainThreadID(session, agent.DefaultConversation)))[0]
		after = append(after, end.Sub(*turn.ClosedAt))
		_, took = run(nil, "threads")
		plain = append(plain, took)
	}
	least := func(of []time.Duration) string { return fmt.Sprintf("%.0f ms at best", milliseconds(slices.Min(of))) }
	t.add(row{Figure: "starter dev is ready, warm", Value: milliseconds(median(ready[1:])), Unit: "ms", Bar: 1500, Detail: least(ready)})
	t.add(row{Figure: "a command without a turn: starter threads", Value: milliseconds(median(plain)), Unit: "ms", Bar: 60, Detail: least(plain)})
	t.add(row{Figure: "starter send prints its first token", Value: milliseconds(median(tokens)), Unit: "ms", Bar: 150, Detail: least(tokens)})
	t.add(row{Figure: "starter send ends after its turn", Value: milliseconds(median(after)), Unit: "ms", Bar: 100,
		Detail: fmt.Sprintf("%s; the whole command %.0f ms", least(after), milliseconds(median(sends)))})
}
