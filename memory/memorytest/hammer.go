package memorytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

// Hammer does what many people and workers do at once: it picks a conversation and
// sends, cancels, retries or decides in it, or takes one of its threads a step
// further, whoever else is at work there, until a time, and on from there to so
// many operations if the machine is slow. What a store may refuse is no error;
// anything else ends it. Name tells processes apart.
func Hammer(ctx context.Context, s memory.ConversationMemoryStore, name string, conversations int, until time.Time, least int) (operations int, err error) {
	seed := uint64(time.Now().UnixNano())
	d := &driver{ctx: ctx, s: s, name: name, session: "hammer", rng: rand.New(rand.NewPCG(seed, seed))}
	last := ""
	d.do = func(what string, _ bool, f func() error) bool {
		operations, last = operations+1, what
		err := f()
		if !refused(err) {
			steps.Check(err)
		}
		return err == nil
	}
	err = steps.Run(func() {
		for time.Now().Before(until) || operations < least {
			d.one(fmt.Sprint("c", d.rng.IntN(conversations)))
		}
	})
	if err != nil {
		err = fmt.Errorf("%s after %d operations (seed %d): %w", last, operations, seed, err)
	}
	return operations, err
}

// refused reports whether an error is what a store's rules may say.
func refused(err error) bool {
	return slices.Contains([]agent.Code{agent.CodeConflict, agent.CodeStale, agent.CodeLimit, agent.CodeNotFound, agent.CodeInvalid}, agent.CodeOf(err))
}

// driver draws operations on the conversations of a session. Steps delegate in the
// foreground and background, ask people, stop in the middle, and close turns in
// every way.
type driver struct {
	ctx     context.Context
	s       memory.ConversationMemoryStore
	name    string
	session string
	rng     *rand.Rand
	n       int // counts ids and fences
	// do runs an operation and says whether to go on from it. once marks those
	// whose repetition is another request.
	do func(what string, once bool, f func() error) bool
	// past holds replies that were sent before, for late writers.
	past []memory.ReplyRecord
}

func (d *driver) chance(n int) bool { return d.rng.IntN(n) == 0 }

func pick[T any](d *driver, from ...T) T { return from[d.rng.IntN(len(from))] }

// id is a new one of this driver.
func (d *driver) id() string {
	d.n++
	return fmt.Sprint(d.name, "-", d.n)
}

func (d *driver) fence() memory.Fence { return memory.Fence{Scope: d.id(), Number: 1} }

// one does something in a conversation.
func (d *driver) one(conversation string) {
	root := d.session + "/" + conversation
	switch d.rng.IntN(16) {
	case 0, 1:
		r := memory.SendRequest{UserID: suite.User, SessionID: d.session, ConversationID: conversation, MessageID: d.id(), Content: agent.Text("go"),
			WhenBusy: pick(d, memory.Queue, memory.Steer, memory.Reject, "")}
		d.do("send "+r.MessageID, false, func() error { _, err := d.s.Send(d.ctx, r); return err })
	case 2:
		r := memory.CancelRequest{UserID: suite.User, ThreadID: root, By: d.name, All: d.chance(2)}
		d.do("cancel", r.All, func() error { _, err := d.s.RequestCancel(d.ctx, r); return err })
	case 3:
		r := memory.RetryRequest{UserID: suite.User, ThreadID: root, RequestID: d.id()}
		d.do("retry", false, func() error { _, err := d.s.Retry(d.ctx, r); return err })
	case 4, 5:
		d.decide(root)
	case 6:
		if len(d.past) > 0 {
			r := pick(d, d.past...)
			d.do("late reply", false, func() error { _, err := d.s.SaveReply(d.ctx, r); return err })
		}
	default:
		if threads := steps.Must(d.s.Threads(d.ctx, memory.ThreadFilter{Root: root, All: true, Limit: 100})); len(threads) > 0 {
			d.advance(pick(d, threads...))
		}
	}
}

// decide says something about an approval or a question, open or not.
func (d *driver) decide(root string) {
	approvals := steps.Must(d.s.Approvals(d.ctx, memory.ApprovalFilter{RootThread: root, OpenOnly: !d.chance(4)}))
	questions := steps.Must(d.s.Questions(d.ctx, memory.QuestionFilter{RootThread: root, OpenOnly: !d.chance(4)}))
	if len(questions) > 0 && (len(approvals) == 0 || d.chance(2)) {
		r := memory.AnswerRequest{UserID: suite.User, By: d.name, Target: pick(d, questions...).ID, Text: "by " + d.name}
		d.do("answer", false, func() error { _, err := d.s.Answer(d.ctx, r); return err })
		return
	}
	if len(approvals) == 0 {
		return
	}
	r := memory.Decision{UserID: suite.User, By: d.name, Target: pick(d, approvals...).ID, Verdict: pick(d, memory.Approve, memory.ApproveAll, memory.Deny, memory.Edit)}
	if r.Verdict == memory.Edit {
		r.Instruction = "do it better"
	}
	d.do(r.Verdict, false, func() error { _, err := d.s.Decide(d.ctx, r); return err })
}

// advance takes a thread's open turn, or its next one, a step further.
func (d *driver) advance(th agent.Thread) {
	var claim memory.Claim
	r := memory.TakeRequest{ThreadID: th.ID, RunID: d.name}
	if d.chance(3) {
		r.Config = &agent.SpecialistAgentConfig{Name: "a" + d.name, Model: fmt.Sprint(d.rng.IntN(8))}
	}
	if !d.do("take "+th.ID, false, func() (err error) { claim, err = d.s.TakeNext(d.ctx, r); return err }) || claim.Turn == nil {
		return
	}
	t, step := *claim.Turn, claim.Step
	if d.chance(8) {
		d.end(t, pick(d, suite.Failed(t, step, agent.ReasonError), suite.Failed(t, step, agent.ReasonTerminated), suite.Cancelled(t, step)))
		return
	}
	calls, ok := d.reply(t, step)
	if !ok {
		return
	}
	if len(calls) == 0 {
		d.end(t, suite.Completed(t, step))
		return
	}
	if slices.ContainsFunc(calls, func(c agent.ToolCall) bool { return c.Gate == agent.GateAsk }) {
		if !d.do("ask", false, func() error { _, err := d.s.OpenApproval(d.ctx, suite.Round(t, step)); return err }) {
			return
		}
	}
	for _, c := range calls {
		d.call(c)
	}
	d.do("round", false, func() error { _, err := d.s.SaveToolRound(d.ctx, suite.Round(t, step)); return err })
}

func (d *driver) end(t memory.Turn, r memory.CloseRequest) {
	d.do("close "+t.ID+" "+string(r.Outcome), false, func() error { _, err := d.s.CloseTurn(d.ctx, r); return err })
}

// reply calls the model of a step, streaming, or finds its stored reply.
func (d *driver) reply(t memory.Turn, step int) ([]agent.ToolCall, bool) {
	b := memory.ModelBegin{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Fence: d.fence(), MaxLost: 1 << 20}
	var start memory.ModelStart
	ok := d.do("begin model", false, func() (err error) { start, err = d.s.BeginModel(d.ctx, b); return err })
	switch {
	case !ok || start.Stored == nil && start.Attempt == 0:
		return nil, false
	case start.Stored != nil:
		return start.Stored.Calls, true
	}
	for i := range d.rng.IntN(3) {
		c := suite.Chunk(t, step, start.Attempt, 4*i, "word")
		if !d.do("chunk", false, func() error { return d.s.AppendChunk(d.ctx, c) }) {
			return nil, false
		}
	}
	if d.chance(8) {
		f := suite.Failure(t, step, start.Attempt)
		if d.chance(2) {
			f.Wait = &agent.ModelWait{Attempt: start.Attempt + 1, Until: time.Unix(4e9, 0).UTC(), Code: f.Code}
		}
		d.do("fail", false, func() error { return d.s.FailModel(d.ctx, f) })
		return nil, false
	}
	r := suite.Record(t, step, start.Attempt, "wordwordword", d.calls()...)
	for i := range r.Gates {
		if !r.Delegations[i] && d.chance(3) {
			r.Gates[i] = agent.GateAsk
		}
	}
	d.past = append(d.past, r)
	var stored memory.StoredReply
	ok = d.do("reply", false, func() (err error) { stored, err = d.s.SaveReply(d.ctx, r); return err })
	return stored.Calls, ok
}

// calls are those of a reply; few have none.
func (d *driver) calls() (calls []agent.Call) {
	for i := range d.rng.IntN(4) {
		switch d.rng.IntN(6) {
		case 0, 1, 2:
			calls = append(calls, suite.Assign(i))
		case 3:
			calls = append(calls, suite.AskUser("why?"))
		default:
			calls = append(calls, suite.Lookup(i))
		}
	}
	return calls
}

// call goes on with a call: it asks, delegates and takes the end, or runs a tool.
func (d *driver) call(c agent.ToolCall) {
	switch c.ToolName {
	case agent.ToolAskUser:
		d.do("question", false, func() error { _, err := d.s.OpenQuestion(d.ctx, suite.QuestionFor(c, "why?")); return err })
		return
	case agent.ToolAssignTask:
		d.delegate(c)
		return
	}
	b := memory.ToolBegin{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Repeatable: !d.chance(6), MaxLost: 1 << 20, Fence: d.fence()}
	var start memory.ToolStart
	if !d.do("begin "+c.ID, !b.Repeatable, func() (err error) { start, err = d.s.BeginTool(d.ctx, b); return err }) || start.Final {
		return
	}
	r := suite.Result(c, start.Attempt, "result of "+c.ID)
	d.do("result "+c.ID, false, func() error { return d.s.SaveResult(d.ctx, r) })
}

func (d *driver) delegate(c agent.ToolCall) {
	r := suite.Delegation(c, "researcher")
	r.Background, r.Limits = d.chance(3), memory.DelegationLimits{MaxDepth: 3, MaxFanOut: 4, MaxDescendants: 6}
	switch d.rng.IntN(8) {
	case 0:
		r.Refusal = "not now"
	case 1:
		if children := steps.Must(d.s.Children(d.ctx, c.ThreadID)); len(children) > 0 {
			r.Resume = children[len(children)-1].ID
		}
	}
	if !d.do("delegate "+c.ID, false, func() error { _, err := d.s.OpenDelegation(d.ctx, r); return err }) || r.Background {
		return
	}
	d.do("child result "+c.ID, false, func() error { _, err := d.s.TakeChildResult(d.ctx, suite.ChildResult(c)); return err })
}
