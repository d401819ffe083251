package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	parked, threads := 100, 1000
	if long {
		parked, threads = 1000, 100_000
	}
	check(os.WriteFile(filepath.Join(s.Agents(), "asks.md"), []byte(asks), 0o644))
	seed(ctx, s.Store, s.Work, threads)
	env := s.Env
	s.Env = append(s.Env, "SPOOL_WAIT_IN_RUN=100ms")
	worker := s.startWorker(ctx)
	defer func() { s.Env = env; s.stopWorkers() }()
	s.stub.play(func(_ context.Context, _ ask, out *reply) { out.call("shell", `{"command":"date"}`) })
	_, _ = s.atOnce(parked, worker, func(int) {
		r := must(s.Client.Send(ctx, memory.SendRequest{UserID: user, SessionID: spool.NewID(), Content: agent.Text("go"), Workdir: s.Work, Agent: "asks"}))
		must(s.Client.Wait(ctx, r.ThreadID, r.TurnID, spool.WaitOptions{}))
	})
	time.Sleep(15 * time.Second) // they park, and the sweeps that follow the last commit are over
	const idle = 20 * time.Second
	before, server := cpuTime(worker), cpuTime(s.Server.Process)
	time.Sleep(idle)
	of := fmt.Sprintf("%d parked turns, %d threads", parked, threads)
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / idle.Seconds() }
	t.add(row{Figure: "a worker at rest, of one processor", Value: share(cpuTime(worker) - before), Unit: "%", Bar: 1,
		Detail: fmt.Sprintf("%s; the server %.1f %%", of, share(cpuTime(s.Server.Process)-server))})
	for _, c := range []struct {
		what string
		f    func()
	}{
		{"threads", func() { must(s.Store.Threads(ctx, memory.ThreadFilter{UserID: user, Limit: 50})) }},
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

// seed makes threads of one turn each.
func seed(ctx context.Context, store memory.ConversationMemoryStore, workdir string, threads int) {
	for range threads {
		begin(ctx, store, spool.NewID(), workdir, "m", "hello").answer(ctx, "good day")
	}
}

// measureWaiters has a thousand wait for, and a thousand follow, a hundred threads in
// which nothing happens, in this process.
func measureWaiters(ctx context.Context, t *table, spec string) {
	const threads, each = 100, 10
	store := must(spool.OpenStore(ctx, spec))
	defer store.Close()
	c := spool.NewClient(store, nil, spool.ClientOptions{UserID: user})
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range threads {
		turn := begin(ctx, store, spool.NewID(), "/", "m", "hello")
		for range each {
			all.Go(func() { _, _ = c.Wait(ctx, turn.thread, turn.turn, spool.WaitOptions{Patient: true}) })
			all.Go(func() {
				_ = c.Follow(ctx, turn.thread, "", spool.FollowOptions{}, func(spool.Update) error { return nil })
			})
		}
	}
	time.Sleep(3 * time.Second)
	const idle = 15 * time.Second
	before := ownTime()
	time.Sleep(idle)
	used := ownTime() - before
	stop()
	all.Wait()
	t.add(row{Figure: "1,000 waiters and 1,000 followers at rest, of one processor", Value: 100 * used.Seconds() / idle.Seconds(), Unit: "%", Bar: 5,
		Detail: fmt.Sprintf("on %d threads", threads)})
}

// measureStart times the command line: a command without a turn, and one whose turn is
// answered at once.
func measureStart(ctx context.Context, s *stack, t *table, bin string, times int) {
	s.startWorker(ctx)
	defer s.stopWorkers()
	s.stub.play(func(_ context.Context, _ ask, out *reply) { out.text("hello"); out.end("stop") })
	run := func(args ...string) (time.Duration, time.Time) {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "starter"), args...)
		cmd.Env, cmd.Dir = append(os.Environ(), s.Env...), s.Work
		var said bytes.Buffer
		cmd.Stderr = &said
		began := time.Now()
		if err := cmd.Run(); err != nil {
			fail("starter %v: %v\n%s", args, err, said.String())
		}
		return time.Since(began), time.Now()
	}
	var plain, sends, after []time.Duration
	for i := range times {
		took, _ := run("threads")
		plain = append(plain, took)
		session := fmt.Sprintf("start%d", i)
		took, end := run("send", "-s", session, "hi")
		sends = append(sends, took)
		turn := must(s.Store.TurnsOf(ctx, agent.MainThreadID(session, agent.DefaultConversation)))[0]
		after = append(after, end.Sub(*turn.ClosedAt))
	}
	t.add(row{Figure: "starter threads", Value: milliseconds(median(plain)), Unit: "ms", Bar: 60})
	t.add(row{Figure: "starter send ends after its turn", Value: milliseconds(median(after)), Unit: "ms", Bar: 100,
		Detail: fmt.Sprintf("the whole command %.0f ms", milliseconds(median(sends)))})
}
