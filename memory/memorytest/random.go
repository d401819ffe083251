package memorytest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// world drives one thread and its descendants with operations drawn at random.
// Whatever is asked of the store, in whatever order, every invariant holds after
// each step, what is refused changes nothing, and so does a repetition.
type world struct {
	*env
	rt      *rapid.T
	session string
	root    string
	// past holds attempts seen before, so that late writes are tried too.
	past []memory.ReplyRecord
	last memory.Fence
}

// op is an operation with all its arguments. once marks those whose repetition
// is a new request by its meaning.
type op struct {
	name string
	run  func() error
	once bool
}

func runRandom(t *testing.T, h Harness) {
	t.Helper()
	base, copies := newEnv(t, h), newEnv(t, h)
	n, limit, began := 0, h.RandomFor, time.Now()
	if limit == 0 {
		limit = 10 * time.Second
	}
	rapid.Check(t, func(rt *rapid.T) {
		if time.Since(began) > limit && n > 0 {
			return
		}
		n++
		w := &world{rt: rt, session: fmt.Sprintf("p%d", n)}
		w.env = &env{fataler: rt, test: t, h: h, s: base.s, ctx: base.ctx, scopes: n * 1000}
		w.root = w.send(w.session, "m0").ThreadID
		w.take(w.root)
		steps := rapid.IntRange(5, 40).Draw(rt, "steps")
		before := w.state(w.root)
		for range steps {
			before = w.step(before)
		}
		to := *w.env
		to.s = copies.s
		w.archived(w.root, &to)
		w.forksOf(copies.s)
	})
	t.Logf("%d random histories", n)
}

// step draws and runs one operation, checks what it left and returns the state.
func (w *world) step(before string) string {
	w.Helper()
	o := w.draw()
	if o == nil {
		return before
	}
	err := o.run()
	switch agent.CodeOf(err) {
	case "", agent.CodeConflict, agent.CodeStale, agent.CodeLimit, agent.CodeNotFound, agent.CodeInvalid:
	default:
		w.Fatalf("%s: unexpected error (%s): %v", o.name, agent.CodeOf(err), err)
	}
	w.rt.Logf("%s: %v", o.name, err)
	after := w.state(w.root)
	if err != nil && after != before {
		w.Fatalf("%s was refused (%v) and changed something\nbefore: %s\nafter:  %s", o.name, err, before, after)
	}
	w.sound(w.root)
	if o.once || !rapid.Bool().Draw(w.rt, "repeat") {
		return after
	}
	if again := o.run(); agent.CodeOf(again) != agent.CodeOf(err) {
		w.Fatalf("%s: %v, when repeated: %v", o.name, err, again)
	}
	if again := w.state(w.root); again != after {
		w.Fatalf("%s changed something when repeated\nbefore: %s\nafter:  %s", o.name, after, again)
	}
	return after
}

func (w *world) draw() *op {
	switch rapid.IntRange(0, 19).Draw(w.rt, "kind") {
	case 0, 1:
		return w.person()
	case 2:
		return w.claim()
	case 3, 4:
		return w.model()
	case 5, 6:
		return w.tool()
	case 7:
		return w.finish()
	case 8:
		return w.next()
	default:
		return w.guided()
	}
}

// guided is what a workflow would do next for a thread.
func (w *world) guided() *op {
	th := w.pick()
	if th.OpenTurnID == "" {
		return &op{name: "take " + th.ID, run: func() error {
			_, err := w.s.TakeNext(w.ctx, memory.TakeRequest{ThreadID: th.ID, RunID: "run"})
			return err
		}}
	}
	t := w.turn(th.OpenTurnID)
	step := w.stepOf(t)
	for _, s := range must[[]memory.Step](w.env)(w.s.Steps(w.ctx, t.ID)) {
		switch {
		case s.Step != step:
		case s.Stored:
			return w.guidedStep(th, t, step)
		default:
			if rapid.IntRange(0, 3).Draw(w.rt, "broken") > 0 {
				r := w.drawReply(t, step, s.Attempt)
				return &op{name: fmt.Sprintf("reply %s.%d@%d", r.TurnID, r.Step, r.Attempt), run: func() error { _, err := w.s.SaveReply(w.ctx, r); return err }}
			}
		}
	}
	w.last = w.fence()
	b := memory.ModelBegin{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Fence: w.last}
	return &op{name: fmt.Sprintf("begin %s.%d %v", t.ID, step, b.Fence), run: func() error { _, err := w.s.BeginModel(w.ctx, b); return err }}
}

// guidedStep goes on with a stored reply.
func (w *world) guidedStep(th agent.Thread, t memory.Turn, step int) *op {
	calls := must[memory.StepState](w.env)(w.s.StepState(w.ctx, round(t, step))).Calls
	for _, c := range calls {
		switch {
		case c.Status.Final():
		case c.ToolName == "assign_task":
			return w.assigned(th, c)
		case c.Status == agent.CallAwaitingApproval:
			return w.verdict()
		case c.ToolName == agent.ToolAskUser && c.Status == agent.CallRunning:
			return w.reply()
		case c.ToolName == agent.ToolAskUser && c.Gate != agent.GateAsk:
			return w.asked(c)
		case c.Status == agent.CallRunning:
			r := result(c, c.Attempts, "result of "+c.ID)
			return &op{name: "result " + c.ID, run: func() error { return w.s.SaveResult(w.ctx, r) }}
		case c.Gate == agent.GateAsk && rapid.Bool().Draw(w.rt, "ask"):
			return &op{name: "ask " + c.ID, run: func() error { _, err := w.s.OpenApproval(w.ctx, round(t, step)); return err }}
		default:
			b := w.toolBegin(c, true)
			return &op{name: "begin " + c.ID, run: func() error { _, err := w.s.BeginTool(w.ctx, b); return err }}
		}
	}
	if len(calls) > 0 {
		return &op{name: fmt.Sprintf("round %s.%d", t.ID, step), run: func() error { _, err := w.s.SaveToolRound(w.ctx, round(t, step)); return err }}
	}
	return &op{name: "complete " + t.ID, run: func() error { _, err := w.s.CloseTurn(w.ctx, completed(t, step)); return err }}
}

// pick is one of the tree's threads.
func (w *world) pick() agent.Thread {
	tree := must[[]agent.Thread](w.env)(w.s.Threads(w.ctx, memory.ThreadFilter{Root: w.root, All: true, Limit: 100}))
	return tree[rapid.IntRange(0, len(tree)-1).Draw(w.rt, "thread")]
}

// turnOf is a turn of the thread: mostly the open one, sometimes an old one.
func (w *world) turnOf(th agent.Thread) (memory.Turn, bool) {
	if th.OpenTurnID != "" && rapid.IntRange(0, 9).Draw(w.rt, "old turn") > 0 {
		return w.turn(th.OpenTurnID), true
	}
	turns := must[[]memory.Turn](w.env)(w.s.TurnsOf(w.ctx, th.ID))
	if len(turns) == 0 {
		return memory.Turn{}, false
	}
	return turns[rapid.IntRange(0, len(turns)-1).Draw(w.rt, "turn")], true
}

// stepOf is the first unsaved step of a turn.
func (w *world) stepOf(t memory.Turn) int {
	n := 1
	for _, s := range must[[]memory.Step](w.env)(w.s.Steps(w.ctx, t.ID)) {
		if s.Saved {
			n = s.Step + 1
		}
	}
	return n
}

func (w *world) drawFence() memory.Fence {
	f := w.last
	switch rapid.IntRange(0, 2).Draw(w.rt, "fence") {
	case 0:
		f.Number++
	case 1:
		f.Number = max(1, f.Number-1)
	default:
		f = w.fence()
	}
	if f.Scope == "" {
		f = w.fence()
	}
	w.last = f
	return f
}

func (w *world) person() *op {
	switch rapid.IntRange(0, 5).Draw(w.rt, "person") {
	case 0:
		r := memory.RetryRequest{UserID: user, ThreadID: w.root, RequestID: fmt.Sprintf("r%d", rapid.IntRange(0, 2).Draw(w.rt, "request"))}
		return &op{name: "retry " + r.RequestID, run: func() error { _, err := w.s.Retry(w.ctx, r); return err }}
	case 1:
		th := w.pick()
		r := memory.CancelRequest{UserID: user, ThreadID: th.ID, By: "alice", All: rapid.Bool().Draw(w.rt, "all")}
		return &op{name: "cancel " + th.ID, once: r.All, run: func() error { _, err := w.s.RequestCancel(w.ctx, r); return err }}
	case 2:
		return w.verdict()
	case 3:
		return w.reply()
	}
	id := rapid.IntRange(0, 5).Draw(w.rt, "message")
	r := message(w.session, fmt.Sprintf("m%d", id), fmt.Sprintf("text of m%d", id))
	r.WhenBusy = rapid.SampledFrom([]memory.WhenBusy{"", memory.Queue, memory.Steer, memory.Reject}).Draw(w.rt, "when busy")
	return &op{name: "send " + r.MessageID, run: func() error { _, err := w.s.Send(w.ctx, r); return err }}
}

func (w *world) verdict() *op {
	list := must[[]memory.Approval](w.env)(w.s.Approvals(w.ctx, memory.ApprovalFilter{RootThread: w.root}))
	if len(list) == 0 {
		return nil
	}
	a := list[rapid.IntRange(0, len(list)-1).Draw(w.rt, "approval")]
	d := decision(a.ID, rapid.SampledFrom([]string{memory.Approve, memory.Deny, memory.Edit}).Draw(w.rt, "verdict"))
	if d.Verdict == memory.Edit {
		d.Instruction = "do it better"
	}
	return &op{name: d.Verdict + " " + a.ID, run: func() error { _, err := w.s.Decide(w.ctx, d); return err }}
}

// reply answers one of the questions there are, or were.
func (w *world) reply() *op {
	list := must[[]memory.Question](w.env)(w.s.Questions(w.ctx, memory.QuestionFilter{RootThread: w.root}))
	if len(list) == 0 {
		return nil
	}
	q := list[rapid.IntRange(0, len(list)-1).Draw(w.rt, "question")]
	r := answerTo(q.ID, rapid.SampledFrom([]string{"yes", "no"}).Draw(w.rt, "answer"))
	return &op{name: "answer " + q.ID, run: func() error { _, err := w.s.Answer(w.ctx, r); return err }}
}

// asked asks a call's question.
func (w *world) asked(c agent.ToolCall) *op {
	return &op{name: "question " + c.ID, run: func() error { _, err := w.s.OpenQuestion(w.ctx, questionFor(c, "why?")); return err }}
}

func (w *world) claim() *op {
	r := memory.TakeRequest{ThreadID: w.pick().ID, RunID: "run"}
	return &op{name: "take " + r.ThreadID, run: func() error { _, err := w.s.TakeNext(w.ctx, r); return err }}
}

// model draws a begin, a piece, a failure or a reply, for a current attempt or
// one of before.
func (w *world) model() *op {
	th := w.pick()
	t, ok := w.turnOf(th)
	if !ok {
		return nil
	}
	step := w.stepOf(t)
	attempt := 1
	for _, s := range must[[]memory.Step](w.env)(w.s.Steps(w.ctx, t.ID)) {
		if s.Step == step {
			attempt = s.Attempt
		}
	}
	switch rapid.IntRange(0, 5).Draw(w.rt, "model") {
	case 0, 1:
		b := memory.ModelBegin{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Fence: w.drawFence()}
		return &op{name: fmt.Sprintf("begin %s.%d %v", t.ID, step, b.Fence), run: func() error { _, err := w.s.BeginModel(w.ctx, b); return err }}
	case 2:
		length := 0
		if s := must[*memory.Streamed](w.env)(w.s.Stream(w.ctx, t.ThreadID)); s != nil {
			length = len(s.Text)
		}
		c := chunk(t, step, attempt, length, "piece ")
		return &op{name: fmt.Sprintf("chunk %s.%d@%d", t.ID, step, length), run: func() error { return w.s.AppendChunk(w.ctx, c) }}
	case 3:
		f := failure(t, step, attempt)
		if rapid.Bool().Draw(w.rt, "again") {
			f.Wait = &agent.ModelWait{Attempt: attempt + 1, Until: time.Unix(4e9, 0).UTC(), Code: f.Code}
		}
		return &op{name: fmt.Sprintf("fail %s.%d", t.ID, step), run: func() error { return w.s.FailModel(w.ctx, f) }}
	}
	r := w.drawReply(t, step, attempt)
	return &op{name: fmt.Sprintf("reply %s.%d@%d", r.TurnID, r.Step, r.Attempt), run: func() error { _, err := w.s.SaveReply(w.ctx, r); return err }}
}

func (w *world) drawReply(t memory.Turn, step, attempt int) memory.ReplyRecord {
	if len(w.past) > 0 && rapid.IntRange(0, 4).Draw(w.rt, "late") == 0 {
		return w.past[rapid.IntRange(0, len(w.past)-1).Draw(w.rt, "which")]
	}
	var calls []agent.Call
	for i := range rapid.IntRange(0, 3).Draw(w.rt, "calls") {
		switch rapid.IntRange(0, 5).Draw(w.rt, "assign") {
		case 0, 1:
			calls = append(calls, assign(i))
		case 2:
			calls = append(calls, askUser("why?"))
		default:
			calls = append(calls, lookup(i))
		}
	}
	r := record(t, step, attempt, fmt.Sprintf("reply %d of %s", step, t.ID), calls...)
	for i := range r.Gates {
		if !r.Delegations[i] && rapid.IntRange(0, 2).Draw(w.rt, "gate") == 0 {
			r.Gates[i] = agent.GateAsk
		}
	}
	w.past = append(w.past, r)
	return r
}

// tool draws what can be done with a call.
func (w *world) tool() *op {
	th := w.pick()
	calls := must[[]agent.ToolCall](w.env)(w.s.ToolCalls(w.ctx, th.ID))
	if len(calls) == 0 {
		return nil
	}
	// Mostly one of the newest calls.
	n := len(calls)
	c := calls[rapid.IntRange(max(0, n-4), n-1).Draw(w.rt, "call")]
	step := memory.RoundRequest{ThreadID: c.ThreadID, TurnID: c.TurnID, Step: c.Step}
	if c.ToolName == "assign_task" {
		return w.assigned(th, c)
	}
	if c.ToolName == agent.ToolAskUser && rapid.Bool().Draw(w.rt, "asked") {
		return w.asked(c)
	}
	switch rapid.IntRange(0, 4).Draw(w.rt, "tool") {
	case 0, 1:
		b := memory.ToolBegin{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Fence: w.drawFence(), Repeatable: rapid.Bool().Draw(w.rt, "repeatable")}
		return &op{name: "begin " + c.ID, once: !b.Repeatable, run: func() error { _, err := w.s.BeginTool(w.ctx, b); return err }}
	case 2:
		return &op{name: "ask " + c.ID, run: func() error { _, err := w.s.OpenApproval(w.ctx, step); return err }}
	}
	r := result(c, rapid.IntRange(max(0, c.Attempts-1), c.Attempts).Draw(w.rt, "attempt"), "result of "+c.ID)
	return &op{name: fmt.Sprintf("result %s@%d", c.ID, r.Attempt), run: func() error { return w.s.SaveResult(w.ctx, r) }}
}

func (w *world) assigned(th agent.Thread, c agent.ToolCall) *op {
	if rapid.Bool().Draw(w.rt, "result") {
		return &op{name: "child result " + c.ID, run: func() error { _, err := w.s.TakeChildResult(w.ctx, childResult(c)); return err }}
	}
	r := delegation(c, "researcher")
	r.Background = rapid.Bool().Draw(w.rt, "background")
	switch list := w.children(th.ID); rapid.IntRange(0, 5).Draw(w.rt, "delegation") {
	case 0:
		r.Refusal = "not now"
	case 1, 2:
		if len(list) > 0 {
			r.Resume = list[len(list)-1].ID
		}
	}
	return &op{name: "delegate " + c.ID, run: func() error { _, err := w.s.OpenDelegation(w.ctx, r); return err }}
}

// finish ends a turn in some way.
func (w *world) finish() *op {
	t, ok := w.turnOf(w.pick())
	if !ok {
		return nil
	}
	step := w.stepOf(t)
	r := rapid.SampledFrom([]memory.CloseRequest{
		failed(t, step, agent.ReasonError), failed(t, step, agent.ReasonTerminated), cancelled(t, step),
	}).Draw(w.rt, "close")
	return &op{name: "close " + t.ID + " " + string(r.Outcome), run: func() error { _, err := w.s.CloseTurn(w.ctx, r); return err }}
}

// next does what a workflow would: save the round, or complete.
func (w *world) next() *op {
	t, ok := w.turnOf(w.pick())
	if !ok {
		return nil
	}
	step := w.stepOf(t)
	if rapid.Bool().Draw(w.rt, "round") {
		return &op{name: fmt.Sprintf("round %s.%d", t.ID, step), run: func() error { _, err := w.s.SaveToolRound(w.ctx, round(t, step)); return err }}
	}
	return &op{name: "complete " + t.ID, run: func() error { _, err := w.s.CloseTurn(w.ctx, completed(t, step)); return err }}
}
