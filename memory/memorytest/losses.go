package memorytest

import (
	"errors"
	"fmt"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// attempt begins a model call on a worker process, after what it is told to wait.
func (e *env) attempt(t memory.Turn, step int, worker string) error {
	e.Helper()
	for {
		b := e.modelBegin(t, step)
		b.Worker = worker
		st, err := e.s.BeginModel(e.ctx, b)
		if err != nil || st.Wait == 0 {
			return err
		}
		equal(e, "nothing begun", [2]any{st.Attempt, st.Stored == nil}, [2]any{0, true})
		e.h.Clock.Advance(st.Wait)
	}
}

var lossRules = []rule{
	{"a turn that is alone on five workers that die ends with a limit", func(e *env) {
		t := e.started("s1")
		for i := range 5 {
			e.ok(e.attempt(t, 1, fmt.Sprint("w", i)))
		}
		e.code(e.attempt(t, 1, "w5"), agent.CodeLimit)
		e.code(e.attempt(t, 1, "w6"), agent.CodeLimit)
		e.close(failed(t, 1, agent.ReasonLimit))
		e.sound(t.ThreadID)
	}},
	{"eight turns share the blame for the workers that die under them", func(e *env) {
		var all []memory.Turn
		for i := range 8 {
			all = append(all, e.started(fmt.Sprint("s", i)))
		}
		for w := range 7 {
			for _, t := range all {
				e.ok(e.attempt(t, 1, fmt.Sprint("w", w)))
			}
		}
		for _, t := range all {
			e.answer2(t, 1, must[[]memory.Step](e)(e.s.Steps(e.ctx, t.ID))[0].Attempt, "fine")
			e.sound(t.ThreadID)
		}
	}},
	{"a turn that kills its worker among others that end ends alone", func(e *env) {
		poison := e.started("poison")
		var err error
		deaths := 0
		for ; err == nil && deaths < 20; deaths++ {
			w := fmt.Sprint("w", deaths)
			if deaths < 3 { // two others run beside it, and end after three deaths
				e.ok(e.attempt(e.started("a"), 1, w))
				e.ok(e.attempt(e.started("b"), 1, w))
			}
			err = e.attempt(poison, 1, w)
		}
		e.code(err, agent.CodeLimit)
		equal(e, "workers that died", deaths-1, 7) // three thirds, then four, and rounding up
		for _, s := range []string{"a", "b"} {
			e.ok(e.attempt(e.started(s), 1, "last"))
		}
	}},
	{"whoever takes up a lost attempt is told which one it was", func(e *env) {
		t := e.started("s1")
		var lost []int
		for _, w := range []string{"w1", "w2", "w2", "w3"} { // w2 is alive when it begins again
			b := e.modelBegin(t, 1)
			b.Worker = w
			st := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b))
			if st.Wait > 0 {
				e.h.Clock.Advance(st.Wait)
				b.Fence = e.fence()
				st = must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b))
			}
			lost = append(lost, st.Lost)
		}
		equal(e, "lost attempts of the model call", fmt.Sprint(lost), "[0 1 0 3]")
		u := e.started("s2")
		for _, repeatable := range []bool{true, false} {
			c := e.calls(u, map[bool]int{true: 1, false: 2}[repeatable], 1)[0]
			b := e.toolBegin(c, repeatable)
			b.Worker = "w1"
			first := must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b))
			equal(e, "first", first.Lost, 0)
			e.h.Clock.Advance(time.Second)
			b.Fence, b.Worker = e.fence(), "w2"
			again := must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b))
			equal(e, "lost attempt of the tool", again.Lost, 1)
			equal(e, "since", again.LostSince, first.Call.UpdatedAt)
			if repeatable {
				e.ok(e.s.SaveResult(e.ctx, result(c, again.Attempt, "ran")))
			}
			e.saveRound(u, c.Step)
		}
	}},
	{"attempts that the same process takes up again killed nobody", func(e *env) {
		t := e.started("s1")
		for range 9 {
			e.ok(e.attempt(t, 1, "w"))
		}
	}},
	{"an attempt that ended is not in flight when its worker dies", func(e *env) {
		t, other := e.started("s1"), e.started("s2")
		for i := range 5 {
			w := fmt.Sprint("w", i)
			e.ok(e.attempt(t, 1, w))
			e.ok(e.attempt(other, i+1, w))
			steps := must[[]memory.Step](e)(e.s.Steps(e.ctx, other.ID))
			r := record(other, i+1, steps[i].Attempt, "", lookup(0))
			e.runTool(must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, r)).Calls[0], "ran")
			e.saveRound(other, i+1)
		}
		e.code(e.attempt(t, 1, "w5"), agent.CodeLimit)
		e.ok(e.attempt(other, 6, "w5"))
	}},
	{"a turn that lost its worker twice waits before it tries again, ever longer", func(e *env) {
		t := e.started("s1")
		var waits []time.Duration
		for i := range 5 {
			b := e.modelBegin(t, 1)
			b.Worker = fmt.Sprint("w", i)
			st := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b))
			waits = append(waits, st.Wait)
			e.h.Clock.Advance(st.Wait)
			if st.Wait > 0 {
				b.Fence = e.fence()
				equal(e, "wait", must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b)).Wait, 0)
			}
		}
		for i, least := range []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second} {
			if waits[i] < least || waits[i] > 2*least {
				e.Errorf("before attempt %d it waits %s, not between %s and %s", i+1, waits[i], least, 2*least)
			}
		}
	}},
	{"a repeatable call that keeps killing its worker ends as failed, and its turn with it", func(e *env) {
		t := e.started("s1")
		c := e.calls(t, 1, 1)[0]
		var st memory.ToolStart
		for i := 0; !st.Final && i < 20; i++ {
			b := e.toolBegin(c, true)
			b.MaxLost, b.Worker = 2, fmt.Sprint("w", i)
			st = must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b))
			e.h.Clock.Advance(st.Wait)
		}
		equal(e, "call", [2]any{st.Call.Status, st.Call.Result}, [2]any{agent.CallFailed, agent.TextLost(2)})
		e.saveRound(t, 1)
		b := e.modelBegin(t, 2)
		b.Worker, b.MaxLost = "w", 2
		_, err := e.s.BeginModel(e.ctx, b)
		e.code(err, agent.CodeLimit)
		e.close(failed(t, 2, agent.ReasonLimit))
		e.sound(t.ThreadID)
	}},
	{"a call that may run once is not run again, and the worker it killed counts", func(e *env) {
		t := e.started("s1")
		for step := 1; step <= 5; step++ {
			c := e.calls(t, step, 1)[0]
			b := e.toolBegin(c, false)
			b.Worker = fmt.Sprint("w", step)
			must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b))
			b.Fence, b.Worker = e.fence(), fmt.Sprint("w", step+1)
			equal(e, "status", must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, b)).Call.Status, agent.CallUnknown)
			e.saveRound(t, step)
		}
		err := e.attempt(t, 6, "w7")
		e.code(err, agent.CodeLimit)
		if errors.Is(err, memory.ErrCancelRequested) {
			e.Errorf("%v", err)
		}
		e.sound(t.ThreadID)
	}},
}
