package turncases

import (
	"errors"
	"fmt"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var lossRules = []suite.Rule{
	{Name: "a turn that is alone on five workers that die ends with a limit", Turn: func(e *suite.Env, t memory.Turn) {
		for i := range 5 {
			e.Ok(e.Attempt(t, 1, fmt.Sprint("w", i)))
		}
		e.Code(e.Attempt(t, 1, "w5"), agent.CodeLimit)
		e.Code(e.Attempt(t, 1, "w6"), agent.CodeLimit)
		e.Close(suite.Failed(t, 1, agent.ReasonLimit))
	}},
	{Name: "eight turns share the blame for the workers that die under them", Run: func(e *suite.Env) {
		var all []memory.Turn
		for i := range 8 {
			all = append(all, e.Started(fmt.Sprint("s", i)))
		}
		for w := range 7 {
			for _, t := range all {
				e.Ok(e.Attempt(t, 1, fmt.Sprint("w", w)))
			}
		}
		for _, t := range all {
			e.Answer2(t, 1, suite.Must(e.S.Steps(e.Ctx, t.ID))(e)[0].Attempt, "fine")
			e.Sound(t.ThreadID)
		}
	}},
	{Name: "a turn that kills its worker among others that end ends alone", Run: func(e *suite.Env) {
		poison := e.Started("poison")
		var err error
		deaths := 0
		for ; err == nil && deaths < 20; deaths++ {
			w := fmt.Sprint("w", deaths)
			if deaths < 3 { // two others run beside it, and end after three deaths
				e.Ok(e.Attempt(e.Started("a"), 1, w))
				e.Ok(e.Attempt(e.Started("b"), 1, w))
			}
			err = e.Attempt(poison, 1, w)
		}
		e.Code(err, agent.CodeLimit)
		suite.Equal(e, "workers that died", deaths-1, 7) // three thirds, then four, and rounding up
		for _, s := range []string{"a", "b"} {
			e.Ok(e.Attempt(e.Started(s), 1, "last"))
		}
	}},
	{Name: "whoever takes up a lost attempt is told which one it was", Turn: func(e *suite.Env, t memory.Turn) {
		var lost []int
		for _, w := range []string{"w1", "w2", "w2", "w3"} { // w2 is alive when it begins again
			b := e.ModelBegin(t, 1)
			b.Worker = w
			st := suite.Must(e.S.BeginModel(e.Ctx, b))(e)
			if st.Wait > 0 {
				e.H.Clock.Advance(st.Wait)
				b.Fence = e.Fence()
				st = suite.Must(e.S.BeginModel(e.Ctx, b))(e)
			}
			lost = append(lost, st.Lost)
		}
		suite.Equal(e, "lost attempts of the model call", fmt.Sprint(lost), "[0 1 0 3]")
		const taken, rest = " was lost in the middle of a call, ", "; nothing that was stored is repeated"
		suite.Equal(e, "told", fmt.Sprint(e.ToldLost(t.ThreadID)), fmt.Sprint([]string{"worker w1" + taken + "worker w2 makes it again" + rest, "a worker" + taken + "worker w3 makes it again" + rest}))
		u := e.Started("s2")
		for _, repeatable := range []bool{true, false} {
			c := e.Calls(u, map[bool]int{true: 1, false: 2}[repeatable], 1)[0]
			b := e.ToolBegin(c, repeatable)
			b.Worker = "w1"
			first := suite.Must(e.S.BeginTool(e.Ctx, b))(e)
			suite.Equal(e, "first", first.Lost, 0)
			e.H.Clock.Advance(time.Second)
			b.Fence, b.Worker = e.Fence(), "w2"
			again := suite.Must(e.S.BeginTool(e.Ctx, b))(e)
			suite.Equals(e, "lost attempt of the tool", again.Lost, 1, "since", again.LostSince, first.Call.UpdatedAt)
			if repeatable {
				e.Ok(e.S.SaveResult(e.Ctx, suite.Result(c, again.Attempt, "ran")))
			}
			e.SaveRound(u, c.Step)
			told := e.ToldLost(u.ThreadID)
			suite.Equal(e, "told", told[len(told)-1], c.ID+": worker w1"+taken+"worker w2 "+map[bool]string{true: "runs it again", false: "goes on without its result, as it may not be run twice"}[repeatable]+rest)
		}
	}},
	{Name: "attempts that the same process takes up again killed nobody", Turn: func(e *suite.Env, t memory.Turn) {
		for range 9 {
			e.Ok(e.Attempt(t, 1, "w"))
		}
	}},
	{Name: "an attempt that ended is not in flight when its worker dies", Run: func(e *suite.Env) {
		t, other := e.Started("s1"), e.Started("s2")
		for i := range 5 {
			w := fmt.Sprint("w", i)
			e.Ok(e.Attempt(t, 1, w))
			e.Ok(e.Attempt(other, i+1, w))
			steps := suite.Must(e.S.Steps(e.Ctx, other.ID))(e)
			r := suite.Record(other, i+1, steps[i].Attempt, "", suite.Lookup(0))
			e.RunTool(suite.Must(e.S.SaveReply(e.Ctx, r))(e).Calls[0], "ran")
			e.SaveRound(other, i+1)
		}
		e.Code(e.Attempt(t, 1, "w5"), agent.CodeLimit)
		e.Ok(e.Attempt(other, 6, "w5"))
	}},
	{Name: "a turn that lost its worker twice waits before it tries again, ever longer", Turn: func(e *suite.Env, t memory.Turn) {
		var waits []time.Duration
		for i := range 5 {
			b := e.ModelBegin(t, 1)
			b.Worker = fmt.Sprint("w", i)
			st := suite.Must(e.S.BeginModel(e.Ctx, b))(e)
			waits = append(waits, st.Wait)
			e.H.Clock.Advance(st.Wait)
			if st.Wait > 0 {
				b.Fence = e.Fence()
				suite.Equal(e, "wait", suite.Must(e.S.BeginModel(e.Ctx, b))(e).Wait, 0)
			}
		}
		for i, least := range []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second} {
			if waits[i] < least || waits[i] > 2*least {
				e.Errorf("before attempt %d it waits %s, not between %s and %s", i+1, waits[i], least, 2*least)
			}
		}
	}},
	{Name: "a repeatable call that keeps killing its worker ends as failed, and its turn with it", Turn: func(e *suite.Env, t memory.Turn) {
		c := e.Calls(t, 1, 1)[0]
		var st memory.ToolStart
		for i := 0; !st.Final && i < 20; i++ {
			b := e.ToolBegin(c, true)
			b.MaxLost, b.Worker = 2, fmt.Sprint("w", i)
			st = suite.Must(e.S.BeginTool(e.Ctx, b))(e)
			e.H.Clock.Advance(st.Wait)
		}
		suite.Equal(e, "call", [2]any{st.Call.Status, st.Call.Result}, [2]any{agent.CallFailed, agent.TextLost(2)})
		e.SaveRound(t, 1)
		b := e.ModelBegin(t, 2)
		b.Worker, b.MaxLost = "w", 2
		suite.Fails(e.S.BeginModel(e.Ctx, b))(e, agent.CodeLimit)
		e.Close(suite.Failed(t, 2, agent.ReasonLimit))
	}},
	{Name: "a call that may run once is not run again, and the worker it killed counts", Turn: func(e *suite.Env, t memory.Turn) {
		for step := 1; step <= 5; step++ {
			c := e.Calls(t, step, 1)[0]
			b := e.ToolBegin(c, false)
			b.Worker = fmt.Sprint("w", step)
			suite.Must(e.S.BeginTool(e.Ctx, b))(e)
			b.Fence, b.Worker = e.Fence(), fmt.Sprint("w", step+1)
			suite.Equal(e, "status", suite.Must(e.S.BeginTool(e.Ctx, b))(e).Call.Status, agent.CallUnknown)
			e.SaveRound(t, step)
		}
		err := e.Attempt(t, 6, "w7")
		e.Code(err, agent.CodeLimit)
		if errors.Is(err, memory.ErrCancelRequested) {
			e.Errorf("%v", err)
		}
	}},
}
