package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	cancelBar     = 500  // ms, a turn
	cancelTreeBar = 2000 // ms, all turns of a tree
)

// cancelStates are what a turn may be doing when it is cancelled.
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

// descend delegates down to a depth, where a tool runs.
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

// cancelOne cancels one turn and returns how long it, and its tree, took.
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
