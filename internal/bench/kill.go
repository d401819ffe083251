package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

const (
	killMedianBar = 3000 // ms
	killP95Bar    = 6000
	// killSpread is how long a turn is left alone before its worker is killed:
	// longer than heartbeats are apart, so that the moment is a random one.
	killSpread = 2500 * time.Millisecond
)

// measureKill kills the worker that works on a turn, in the middle of a model's
// stream and of a tool's run in turn, and measures until the other worker, which
// is up already, has made the turn go on in the store.
func measureKill(ctx context.Context, s *stack, t *table, kills int) {
	for range 2 {
		s.startWorker(ctx)
	}
	defer s.stopWorkers()
	times := map[string][]time.Duration{}
	for i := range kills {
		w := interruptions[i%len(interruptions)]
		times[w.name] = append(times[w.name], s.killOne(ctx, w))
	}
	all := slices.Concat(times[interruptions[0].name], times[interruptions[1].name])
	t.spread("kill -9 of the worker → the turn goes on", killMedianBar, killP95Bar, interruptions, all, times)
}

func (t *table) spread(figure string, medianBar, p95Bar float64, states []interruption, all []time.Duration, parts map[string][]time.Duration) {
	var detail []string
	for _, w := range states {
		detail = append(detail, fmt.Sprintf("in a %s %.0f ms", w.name, milliseconds(median(parts[w.name]))))
	}
	t.add(row{Figure: figure + ", median", Value: milliseconds(median(all)), Unit: "ms", Bar: medianBar,
		Detail: fmt.Sprintf("of %d; %s", len(all), strings.Join(detail, ", "))})
	t.add(row{Figure: figure + ", p95", Value: milliseconds(quantile(all, 0.95)), Unit: "ms", Bar: p95Bar,
		Detail: fmt.Sprintf("longest %.0f ms", milliseconds(quantile(all, 1)))})
}

// interruption is something to interrupt: what the model plays, and how to see
// that the turn is in the middle of it.
type interruption struct {
	name  string
	play  answer
	under func(ctx context.Context, s *stack, r spool.Reply) bool
}

var interruptions = []interruption{
	{name: "stream", play: streamLong, under: func(_ context.Context, s *stack, r spool.Reply) bool {
		asks := s.stub.asked(r.TurnID)
		return len(asks) > 0 && !asks[0].First.IsZero()
	}},
	{name: "tool", play: calls(1, func(int) (string, string) { return "shell", `{"command":"sleep 60"}` }),
		under: func(ctx context.Context, s *stack, r spool.Reply) bool {
			list, err := s.Store.ToolCalls(ctx, r.ThreadID)
			return err == nil && len(list) > 0 && list[0].Status == agent.CallRunning
		}},
}

// streamLong streams for a minute at the first attempt and answers at once later.
func streamLong(ctx context.Context, q ask, out *reply) {
	for range 3000 {
		out.text("word ")
		if q.Attempt > 1 {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	out.end("stop")
}

func (s *stack) interrupted(ctx context.Context, w interruption) spool.Reply {
	s.stub.play(w.play)
	r := s.send(ctx, spool.NewID())
	s.eventually(ctx, "the turn is in a "+w.name, s.Workers[0], func() bool { return w.under(ctx, s, r) })
	time.Sleep(100*time.Millisecond + rand.N(killSpread))
	return r
}

func (s *stack) killOne(ctx context.Context, w interruption) time.Duration {
	r := s.interrupted(ctx, w)
	victim := s.workerOf(ctx, r.ThreadID)
	at := time.Now()
	victim.Kill()
	before := s.progress(ctx, r)
	s.eventually(ctx, "the turn goes on", s.Workers[1], func() bool { return s.progress(ctx, r) != before })
	took := time.Since(at)
	s.Workers = slices.DeleteFunc(s.Workers, func(p *temporaltest.Process) bool { return p == victim })
	s.finish(ctx, r)
	s.startWorker(ctx)
	return took
}

func (s *stack) workerOf(ctx context.Context, workflowID string) *temporaltest.Process {
	d := must(s.Temporal.DescribeWorkflow(ctx, workflowID, ""))
	for _, a := range d.RawResponse.GetPendingActivities() {
		pid, _, _ := strings.Cut(a.GetLastWorkerIdentity(), "@")
		for _, p := range s.Workers {
			if strconv.Itoa(p.PID()) == pid {
				return p
			}
		}
	}
	fail("no worker of %s is at work on it: %v", workflowID, d.RawResponse.GetPendingActivities())
	return nil
}

// progress tells apart the states of a turn in the store: attempts of model and
// tool calls and what they came to, and what is saved.
func (s *stack) progress(ctx context.Context, r spool.Reply) string {
	steps := must(s.Store.Steps(ctx, r.TurnID))
	list := must(s.Store.ToolCalls(ctx, r.ThreadID))
	var b strings.Builder
	for _, st := range steps {
		fmt.Fprintf(&b, "%d.%d.%t.%t ", st.Step, st.Attempt, st.Stored, st.Saved)
	}
	for _, c := range list {
		fmt.Fprintf(&b, "%s.%d.%s ", c.ID, c.Attempts, c.Status)
	}
	return b.String()
}

const (
	cancelBar     = 500  // ms, a turn
	cancelTreeBar = 2000 // ms, all turns of a tree
)

func cancelStates() []interruption {
	return append(slices.Clone(interruptions),
		interruption{name: "silent model", play: silent, under: func(_ context.Context, s *stack, r spool.Reply) bool {
			return len(s.stub.asked(r.TurnID)) > 0
		}},
		interruption{name: "wait for a person", play: calls(1, func(int) (string, string) { return agent.ToolAskUser, `{"question":"which?"}` }),
			under: func(ctx context.Context, s *stack, r spool.Reply) bool {
				th, err := s.Store.Thread(ctx, "", r.ThreadID)
				return err == nil && th.Status == agent.ThreadWaitingForUser
			}},
		interruption{name: "tree of depth 3", play: descend(3), under: func(ctx context.Context, s *stack, r spool.Reply) bool {
			all := s.treeOf(ctx, r.ThreadID)
			if len(all) != 4 {
				return false
			}
			list, err := s.Store.ToolCalls(ctx, all[3].ID)
			return err == nil && len(list) > 0 && list[0].Status == agent.CallRunning
		}})
}

func silent(ctx context.Context, _ ask, _ *reply) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
}

func descend(depth int) answer {
	var mu sync.Mutex
	level := map[string]int{} // by turn
	return func(_ context.Context, q ask, out *reply) {
		mu.Lock()
		n, ok := level[q.Turn]
		if !ok {
			n = len(level)
			level[q.Turn] = n
		}
		mu.Unlock()
		if n < depth {
			out.call("assign_task", `{"agent":"general","task":"go on"}`)
			return
		}
		out.call("shell", `{"command":"sleep 60"}`)
	}
}

// treeOf is a thread and what is below it, each with one child at most.
func (s *stack) treeOf(ctx context.Context, id string) []agent.Thread {
	th := must(s.Store.Thread(ctx, "", id))
	children := must(s.Store.Children(ctx, id))
	if len(children) == 0 {
		return []agent.Thread{th}
	}
	return append([]agent.Thread{th}, s.treeOf(ctx, children[0].ID)...)
}

// measureCancel cancels turns in whatever they may be doing and measures, by the
// store's clock, until the turn is closed, and all of its tree.
func measureCancel(ctx context.Context, s *stack, t *table, n int) {
	s.startWorker(ctx)
	defer s.stopWorkers()
	times := map[string][]time.Duration{}
	var all, trees []time.Duration
	for i := range n {
		states := cancelStates()
		w := states[i%len(states)]
		turn, tree := s.cancelOne(ctx, w)
		times[w.name] = append(times[w.name], turn)
		all, trees = append(all, turn), append(trees, tree)
	}
	t.spread("cancel → the turn is closed", cancelBar, cancelBar, cancelStates(), all, times)
	t.add(row{Figure: "cancel → all turns of its tree are closed, longest", Value: milliseconds(quantile(trees, 1)), Unit: "ms",
		Bar: cancelTreeBar, Detail: fmt.Sprintf("of %d; every %dth has sub-agents to depth 3", len(trees), len(cancelStates()))})
}

func (s *stack) cancelOne(ctx context.Context, w interruption) (turn, tree time.Duration) {
	r := s.interrupted(ctx, w)
	c := must(s.Client.Cancel(ctx, memory.CancelRequest{ThreadID: r.ThreadID, TurnID: r.TurnID}))
	if c.Status != string(agent.ThreadCancelled) {
		fail("it ended as %s: %s", c.Status, c.Note)
	}
	own := must(s.Store.Turn(ctx, r.TurnID))
	threads := s.treeOf(ctx, r.ThreadID)
	for _, th := range threads {
		turns := must(s.Store.TurnsOf(ctx, th.ID))
		for _, other := range turns {
			if other.ClosedAt == nil {
				fail("turn %s of %s is open after the cancel", other.ID, th.ID)
			}
			tree = max(tree, other.ClosedAt.Sub(*own.CancelRequested))
		}
	}
	return own.ClosedAt.Sub(*own.CancelRequested), tree
}
