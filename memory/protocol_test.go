package memory_test

import (
	"strings"
	"testing"
)

// outcome is what an exhaustive exploration found.
type outcome struct {
	states, edges int
	unsafe        string // a safety rule that is broken in a reachable state
	stuck         string // a reachable state that cannot settle
}

// explore visits every reachable state. A state must be safe, and a settled
// state must be reachable from it when faults stop. While no sender crashed
// and no run was terminated, that must hold without any help of the keepers:
// a dead, paused or late worker alone costs nothing but Temporal's retries.
func (r *rules) explore() outcome {
	ids := map[model]int32{}
	var states []model
	type edge struct {
		from, to int32
		kind     uint8
	}
	var edges []edge
	add := func(m model) int32 {
		m = m.canonical()
		id, ok := ids[m]
		if !ok {
			id = int32(len(states))
			ids[m] = id
			states = append(states, m)
		}
		return id
	}
	add(model{})
	for i := 0; i < len(states); i++ {
		if rule := states[i].broken(); rule != "" {
			return outcome{states: len(states), edges: len(edges), unsafe: rule}
		}
		r.steps(states[i], func(to model, kind uint8) {
			edges = append(edges, edge{int32(i), add(to), kind})
		})
	}
	// Incoming edges, grouped by target.
	start := make([]int32, len(states)+1)
	for _, e := range edges {
		start[e.to+1]++
	}
	for i := range states {
		start[i+1] += start[i]
	}
	in, fill := make([]int32, len(edges)), append([]int32(nil), start...)
	for i, e := range edges {
		in[fill[e.to]] = int32(i)
		fill[e.to]++
	}
	canSettle := func(forbidden uint8) []bool {
		good := make([]bool, len(states))
		var todo []int32
		for i := range states {
			if states[i].settled(r) {
				good[i] = true
				todo = append(todo, int32(i))
			}
		}
		for len(todo) > 0 {
			to := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, k := range in[start[to]:start[to+1]] {
				if e := edges[k]; e.kind&forbidden == 0 && !good[e.from] {
					good[e.from] = true
					todo = append(todo, e.from)
				}
			}
		}
		return good
	}
	o := outcome{states: len(states), edges: len(edges)}
	with, without := canSettle(edgeFault), canSettle(edgeFault|edgeKeeper)
	for i, m := range states {
		switch {
		case !with[i]:
			o.stuck = "a message can be left waiting for ever"
			return o
		case !without[i] && m.terms == 0 && !m.crashSender:
			o.stuck = "a message waits for a keeper though only workers failed"
		}
	}
	return o
}

// TestProtocolHolds explores all interleavings of the protocol with crashes,
// pauses and late wake-ups between any two steps.
func TestProtocolHolds(t *testing.T) {
	for name, r := range map[string]rules{
		"two senders, one id sent by both, no termination": {scripts: [2][]uint8{{0, 1}, {1, 2}}},
		"a repeated send, a terminated run":                {scripts: [2][]uint8{{0, 0}, {1}}, maxTerms: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if underRace {
				r.scripts[1] = []uint8{1}
				r.scripts[0] = r.scripts[0][:2-r.maxTerms]
			}
			o := r.explore()
			t.Logf("%d states, %d steps", o.states, o.edges)
			if o.unsafe != "" || o.stuck != "" {
				t.Errorf("unsafe: %q, stuck: %q", o.unsafe, o.stuck)
			}
			if o.states < 10_000 {
				t.Errorf("only %d states: the model lost its steps", o.states)
			}
		})
	}
}

// TestProtocolMutationsAreCaught shows that the exploration has teeth: each
// weakening of the protocol breaks a rule.
func TestProtocolMutationsAreCaught(t *testing.T) {
	for _, c := range []struct {
		name   string
		weaken func(*rules)
		want   string
		terms  uint8
	}{
		{"no fencing by attempt", func(r *rules) { r.noAttemptFence = true }, "stale write", 0},
		{"no fencing by turn", func(r *rules) { r.noTurnFence = true }, "answered twice", 0},
		{"close and claim in two transactions", func(r *rules) { r.splitClose = true }, "waits for a keeper", 0},
		{"sender nudges before commit", func(r *rules) { r.nudgeFirst = true }, "waits for a keeper", 0},
		{"run completes without draining", func(r *rules) { r.noDrain = true }, "waits for a keeper", 0},
		{"no sweep", func(r *rules) { r.noSweep = true }, "for ever", 0},
		{"reconcile on first sighting", func(r *rules) { r.firstSighting = true }, "closed as terminated", 1},
		{"reconcile takes the next entry without a run", func(r *rules) { r.reconcileClaims = true }, "closed as terminated", 1},
		{"reconcile does not ask how the last run ended", func(r *rules) { r.anyEnd = true }, "closed as terminated", 0},
		{"send is not idempotent", func(r *rules) { r.sendNotIdempotent = true }, "a message is in a turn and in the inbox", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rules{scripts: [2][]uint8{{0, 0}, {1}}}
			r.maxTerms = c.terms
			c.weaken(&r)
			o := r.explore()
			t.Logf("%d states: unsafe %q, stuck %q", o.states, o.unsafe, o.stuck)
			if !strings.Contains(o.unsafe+o.stuck, c.want) {
				t.Errorf("unsafe %q, stuck %q; want %q", o.unsafe, o.stuck, c.want)
			}
		})
	}
}
