package memorytest

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// gated stores a step whose calls have the gates, and returns its calls.
func (e *env) gated(t memory.Turn, step int, gates ...agent.Gate) []agent.ToolCall {
	e.Helper()
	var calls []agent.Call
	for i := range gates {
		calls = append(calls, lookup(i))
	}
	r := record(t, step, e.begin(t, step), "", calls...)
	r.Gates = gates
	return must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, r)).Calls
}

func (e *env) ask(t memory.Turn, step int) memory.Approval {
	e.Helper()
	return must[memory.Approval](e)(e.s.OpenApproval(e.ctx, round(t, step)))
}

func decision(target, verdict string) memory.Decision {
	return memory.Decision{UserID: user, By: "alice", Target: target, Verdict: verdict}
}

func (e *env) decide(d memory.Decision) memory.DecideResult {
	e.Helper()
	return must[memory.DecideResult](e)(e.s.Decide(e.ctx, d))
}

func ids(calls []agent.ToolCall) []string {
	var out []string
	for _, c := range calls {
		out = append(out, c.ID)
	}
	return out
}

func (e *env) approvals(f memory.ApprovalFilter) []memory.Approval {
	e.Helper()
	return must[[]memory.Approval](e)(e.s.Approvals(e.ctx, f))
}

var approvalRules = []rule{
	{"nobody is asked about a call that is refused beforehand: it ends with the reply", func(e *env) {
		t := e.started("s1")
		r := record(t, 1, e.begin(t, 1), "", lookup(0), lookup(1))
		r.Gates = []agent.Gate{agent.GateAsk, agent.GateAsk}
		r.Refusals = []agent.ToolResult{agent.ToolFailed(agent.ErrPermissionDenied, "a private address")}
		calls := must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, r)).Calls
		equal(e, "ends", [3]any{calls[0].Status, calls[0].ErrorReason, calls[0].Result}, [3]any{agent.CallFailed, agent.ErrPermissionDenied, "a private address"})
		equal(e, "asks", ids(e.ask(t, 1).ToolCalls), []string{calls[1].ID})
		e.decide(decision(calls[1].ID, memory.Deny))
		saved := must[memory.RoundSaved](e)(e.s.SaveToolRound(e.ctx, round(t, 1)))
		equal(e, "results", [2]int{saved.Results, saved.Denied}, [2]int{2, 1})
	}},
	{"one approval asks about all gated calls of a step, and only about those", func(e *env) {
		t := e.started("s1")
		calls := e.gated(t, 1, agent.GateAsk, agent.GateAuto, agent.GateAsk)
		a := e.ask(t, 1)
		equal(e, "calls", ids(a.ToolCalls), []string{calls[0].ID, calls[2].ID})
		equal(e, "place", [4]any{a.ThreadID, a.RootThread, a.TurnID, a.Step}, [4]any{t.ThreadID, t.ThreadID, t.ID, 1})
		equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadWaitingForApproval)
		equal(e, "asked", e.call(calls[0].ID).Status, agent.CallAwaitingApproval)
		equal(e, "not asked", e.call(calls[1].ID).Status, agent.CallPending)
		ev := e.eventsOf(t.ThreadID, agent.EventApprovalRequired)
		equal(e, "events", len(ev), 1)
		equal(e, "event", ev[0]["approvalId"], any(a.ID))
		equal(e, "waiting", must[memory.StepState](e)(e.s.StepState(e.ctx, round(t, 1))).Waiting, true)
		equal(e, "open", len(e.approvals(memory.ApprovalFilter{UserID: user, OpenOnly: true})), 1)
		e.sound(t.ThreadID)
	}},
	{"a call that waits for a person does not run", func(e *env) {
		t := e.started("s1")
		c := e.gated(t, 1, agent.GateAsk)[0]
		e.ask(t, 1)
		e.unchanged(t.ThreadID, func() {
			if _, err := e.s.BeginTool(e.ctx, e.toolBegin(c, true)); err == nil {
				e.Fatalf("a call that awaits approval was begun")
			}
			_, err := e.s.SaveToolRound(e.ctx, round(t, 1))
			e.code(err, agent.CodeConflict)
		})
	}},
	{"calls that need nobody run before the question and keep their results", func(e *env) {
		t := e.started("s1")
		calls := e.gated(t, 1, agent.GateAuto, agent.GateAsk)
		e.runTool(calls[0], "ran")
		a := e.ask(t, 1)
		e.decide(decision(a.ID, memory.Deny))
		e.saveRound(t, 1)
		equal(e, "ran", e.call(calls[0].ID).Result, "ran")
		e.sound(t.ThreadID)
	}},
}

// verdicts are decisions on the calls of a step, by the index of the calls they name.
var verdicts = []struct {
	name        string
	verdict     string
	named       []int
	instruction string
	onDeny      string
	want        []agent.CallStatus
	reason      agent.ErrorReason // of those that do not run
	ends        bool
}{
	{name: "approve", verdict: memory.Approve, want: []agent.CallStatus{agent.CallPending, agent.CallPending}},
	{name: "approve in part, which denies the rest", verdict: memory.Approve, named: []int{1}, want: []agent.CallStatus{agent.CallDenied, agent.CallPending, agent.CallDenied}, reason: agent.ErrDenied},
	{name: "deny, which ends the turn", verdict: memory.Deny, want: []agent.CallStatus{agent.CallDenied, agent.CallDenied}, reason: agent.ErrDenied, ends: true},
	{name: "deny, to an agent that is to go on", verdict: memory.Deny, onDeny: agent.OnDenyContinue, want: []agent.CallStatus{agent.CallDenied}, reason: agent.ErrDenied},
	{name: "edit, which makes the instruction the result", verdict: memory.Edit, instruction: "look up something nicer", want: []agent.CallStatus{agent.CallDenied}, reason: agent.ErrEdited},
}

// decided takes a verdict through its step.
func decided(e *env, n int) {
	v := verdicts[n]
	c := mainConfig()
	c.OnDeny = v.onDeny
	t := *must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: e.send("s1", "m1").ThreadID, Config: c})).Turn
	gates := make([]agent.Gate, len(v.want))
	for i := range gates {
		gates[i] = agent.GateAsk
	}
	calls := e.gated(t, 1, gates...)
	d := decision(e.ask(t, 1).ID, v.verdict)
	d.Instruction = v.instruction
	for _, i := range v.named {
		d.Calls = append(d.Calls, calls[i].ID)
	}
	a := e.decide(d).Approval
	equal(e, "decision", [3]string{a.Decision, a.DecidedBy, a.Instruction}, [3]string{v.verdict, "alice", v.instruction})
	equal(e, "equal decision", e.decide(d).Repeated, true)
	ev := e.eventsOf(t.ThreadID, agent.EventApprovalResponse)[0]
	equal(e, "event", [2]any{ev["approvalId"], ev["decision"]}, [2]any{a.ID, v.verdict})
	equal(e, "thread", e.thread(t.ThreadID).Status, agent.ThreadRunning)
	equal(e, "waiting", must[memory.StepState](e)(e.s.StepState(e.ctx, round(t, 1))).Waiting, false)
	text, denied, approved := agent.TextDenied, 0, []string(nil)
	if v.instruction != "" {
		text = v.instruction
	}
	for i, want := range v.want {
		got := e.call(calls[i].ID)
		equal(e, "call", got.Status, want)
		if want == agent.CallPending {
			approved = append(approved, got.ID)
			e.runTool(got, "ran")
			continue
		}
		equal(e, "result", [2]string{got.Result, string(got.ErrorReason)}, [2]string{text, string(v.reason)})
		if v.reason == agent.ErrDenied {
			denied++
		}
	}
	equal(e, "approved", a.Approved, approved)
	saved := e.saveRound(t, 1)
	equal(e, "saved", [3]any{saved.Results, saved.Denied, saved.EndTurn}, [3]any{len(calls), denied, v.ends})
	equal(e, "messages", len(e.messages(t.ThreadID)), 2+len(calls))
	equal(e, "responses", len(e.eventsOf(t.ThreadID, agent.EventToolResponse)), len(calls))
	if !v.ends {
		e.answer(t, 2, "so be it")
		e.sound(t.ThreadID)
		return
	}
	r := completed(t, 2)
	r.Answer = "You denied lookup, so I stopped."
	e.close(r)
	ms := e.messages(t.ThreadID)
	equal(e, "answer", [2]string{ms[len(ms)-1].Content.String(), e.turn(t.ID).Answer}, [2]string{r.Answer, r.Answer})
	e.sound(t.ThreadID)
}

// eachVerdict makes a rule of each.
func eachVerdict() (rules []rule) {
	for n, v := range verdicts {
		rules = append(rules, rule{v.name, func(e *env) { decided(e, n) }})
	}
	return rules
}

var verdictRules = append(eachVerdict(), []rule{
	{"a decision is one that there is", func(e *env) {
		t := e.started("s1")
		c := e.gated(t, 1, agent.GateAsk)[0]
		a := e.ask(t, 1)
		e.unchanged(t.ThreadID, func() {
			for _, d := range []memory.Decision{decision(a.ID, "maybe"), decision(c.ID, memory.Edit), {Target: a.ID, Verdict: memory.Approve, Calls: []string{"other"}}} {
				_, err := e.s.Decide(e.ctx, d)
				e.code(err, agent.CodeInvalid)
			}
		})
	}},
	{"approve_all lets the same tool pass for the rest of the session, not in another", func(e *env) {
		t := e.started("s1")
		e.runTool(e.approveAll(t), "ran")
		e.saveRound(t, 1)
		equal(e, "same thread", e.asks(t, 2), false)
		r := message("s1", "m1", "hi")
		r.ConversationID = "second"
		same := e.take(must[memory.SendResult](e)(e.s.Send(e.ctx, r)).ThreadID)
		equal(e, "same session", e.asks(same, 1), false)
		equal(e, "another session", e.asks(e.started("s2"), 1), true)
	}},
}...)

// approveAll opens a step with a gated call and approves its tool for the session.
func (e *env) approveAll(t memory.Turn) agent.ToolCall {
	e.Helper()
	c := e.gated(t, 1, agent.GateAsk)[0]
	e.decide(decision(e.ask(t, 1).ID, memory.ApproveAll))
	return c
}

// asks reports whether a gated call of lookup waits for a person.
func (e *env) asks(t memory.Turn, step int) bool {
	e.Helper()
	c := e.gated(t, step, agent.GateAsk)[0]
	if e.call(c.ID).Gate != agent.GateAsk {
		return false
	}
	if _, err := e.s.OpenApproval(e.ctx, round(t, step)); err != nil {
		e.code(err, agent.CodeConflict, agent.CodeInvalid, agent.CodeNotFound) // nothing to ask
	}
	return must[memory.StepState](e)(e.s.StepState(e.ctx, round(t, step))).Waiting
}
