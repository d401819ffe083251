// Package peoplecases has the rules of what people are asked: approvals and questions.
package peoplecases

import (
	"encoding/json"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

func ids(calls []agent.ToolCall) []string {
	var out []string
	for _, c := range calls {
		out = append(out, c.ID)
	}
	return out
}

var approvalRules = []suite.Rule{
	{Name: "nobody is asked about a call that is refused beforehand: it ends with the reply", Turn: func(e *suite.Env, t memory.Turn) {
		r := suite.Record(t, 1, e.Begin(t, 1), "", suite.Lookup(0), suite.Lookup(1))
		r.Gates = []agent.Gate{agent.GateAsk, agent.GateAsk}
		r.Refusals = []agent.ToolResult{agent.ToolFailed(agent.ErrPermissionDenied, "a private address")}
		calls := suite.Must(e.S.SaveReply(e.Ctx, r))(e).Calls
		suite.Equal(e, "ends", [3]any{calls[0].Status, calls[0].ErrorReason, calls[0].Result}, [3]any{agent.CallFailed, agent.ErrPermissionDenied, "a private address"})
		suite.Equal(e, "asks", ids(e.Ask(t, 1).ToolCalls), []string{calls[1].ID})
		e.Decide(suite.Decision(calls[1].ID, memory.Deny))
		saved := suite.Must(e.S.SaveToolRound(e.Ctx, suite.Round(t, 1)))(e)
		suite.Equal(e, "results", [2]int{saved.Results, saved.Denied}, [2]int{2, 1})
	}},
	{Name: "one approval asks about all gated calls of a step, and only about those", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Gated(t, 1, agent.GateAsk, agent.GateAuto, agent.GateAsk)
		a := e.Ask(t, 1)
		suite.Equal(e, "calls", ids(a.ToolCalls), []string{calls[0].ID, calls[2].ID})
		suite.Equal(e, "place", [4]any{a.ThreadID, a.RootThread, a.TurnID, a.Step}, [4]any{t.ThreadID, t.ThreadID, t.ID, 1})
		suite.Equal(e, "thread", e.Thread(t.ThreadID).Status, agent.ThreadWaitingForApproval)
		suite.Equals(e, "asked", e.Call(calls[0].ID).Status, agent.CallAwaitingApproval, "not asked", e.Call(calls[1].ID).Status, agent.CallPending)
		ev := e.EventsOf(t.ThreadID, agent.EventApprovalRequired)
		suite.Equals(e, "events", len(ev), 1, "event", ev[0]["approvalId"], any(a.ID))
		suite.Equal(e, "waiting", suite.Must(e.S.StepState(e.Ctx, suite.Round(t, 1)))(e).Waiting, true)
		suite.Equal(e, "open", len(e.Approvals(memory.ApprovalFilter{UserID: suite.User, OpenOnly: true})), 1)
	}},
	{Name: "a call that waits for a person does not run", Turn: func(e *suite.Env, t memory.Turn) {
		c := e.Gated(t, 1, agent.GateAsk)[0]
		e.Ask(t, 1)
		e.Unchanged(t.ThreadID, func() {
			if _, err := e.S.BeginTool(e.Ctx, e.ToolBegin(c, true)); err == nil {
				e.Fatalf("a call that awaits approval was begun")
			}
			suite.Fails(e.S.SaveToolRound(e.Ctx, suite.Round(t, 1)))(e, agent.CodeConflict)
		})
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
func decided(e *suite.Env, n int) {
	v := verdicts[n]
	c := suite.MainConfig()
	c.OnDeny = v.onDeny
	t := *suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: e.Send("s1", "m1").ThreadID, Config: c}))(e).Turn
	gates := make([]agent.Gate, len(v.want))
	for i := range gates {
		gates[i] = agent.GateAsk
	}
	calls := e.Gated(t, 1, gates...)
	d := suite.Decision(e.Ask(t, 1).ID, v.verdict)
	d.Instruction = v.instruction
	for _, i := range v.named {
		d.Calls = append(d.Calls, calls[i].ID)
	}
	a := e.Decide(d).Approval
	suite.Equal(e, "decision", [3]string{a.Decision, a.DecidedBy, a.Instruction}, [3]string{v.verdict, "alice", v.instruction})
	suite.Equal(e, "equal decision", e.Decide(d).Repeated, true)
	ev := e.EventsOf(t.ThreadID, agent.EventApprovalResponse)[0]
	suite.Equal(e, "event", [2]any{ev["approvalId"], ev["decision"]}, [2]any{a.ID, v.verdict})
	suite.Equal(e, "thread", e.Thread(t.ThreadID).Status, agent.ThreadRunning)
	suite.Equal(e, "waiting", suite.Must(e.S.StepState(e.Ctx, suite.Round(t, 1)))(e).Waiting, false)
	text, denied, approved := agent.TextDenied, 0, []string(nil)
	if v.instruction != "" {
		text = v.instruction
	}
	for i, want := range v.want {
		got := e.Call(calls[i].ID)
		suite.Equal(e, "call", got.Status, want)
		if want == agent.CallPending {
			approved = append(approved, got.ID)
			e.RunTool(got, "ran")
			continue
		}
		suite.Equal(e, "result", [2]string{got.Result, string(got.ErrorReason)}, [2]string{text, string(v.reason)})
		if v.reason == agent.ErrDenied {
			denied++
		}
	}
	suite.Equal(e, "approved", a.Approved, approved)
	saved := e.SaveRound(t, 1)
	suite.Equal(e, "saved", [3]any{saved.Results, saved.Denied, saved.EndTurn}, [3]any{len(calls), denied, v.ends})
	suite.Equal(e, "messages", len(e.Messages(t.ThreadID)), 2+len(calls))
	suite.Equal(e, "responses", len(e.EventsOf(t.ThreadID, agent.EventToolResponse)), len(calls))
	if !v.ends {
		e.Answer(t, 2, "so be it")
		e.Sound(t.ThreadID)
		return
	}
	r := suite.Completed(t, 2)
	r.Answer = "You denied lookup, so I stopped."
	e.Close(r)
	suite.Equal(e, "answer", [2]string{e.Last(t.ThreadID), e.Turn(t.ID).Answer}, [2]string{r.Answer, r.Answer})
	e.Sound(t.ThreadID)
}

// eachVerdict makes a rule of each.
func eachVerdict() (rules []suite.Rule) {
	for n, v := range verdicts {
		rules = append(rules, suite.Rule{Name: v.name, Run: func(e *suite.Env) { decided(e, n) }})
	}
	return rules
}

var verdictRules = append(eachVerdict(), []suite.Rule{
	{Name: "a decision is one that there is, on calls of its approval only", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Gated(t, 1, agent.GateAsk, agent.GateAuto)
		a := e.Ask(t, 1)
		e.Unchanged(t.ThreadID, func() {
			for _, d := range []memory.Decision{
				suite.Decision(a.ID, "maybe"), suite.Decision(calls[0].ID, memory.Edit),
				{Target: a.ID, Verdict: memory.Approve, Calls: []string{"other"}}, {Target: a.ID, Verdict: memory.Approve, Calls: []string{calls[1].ID}},
			} {
				suite.Fails(e.S.Decide(e.Ctx, d))(e, agent.CodeInvalid)
			}
		})
	}},
	{Name: "arguments of a person's become the call's, its message's and its task's, and the result says so", Turn: func(e *suite.Env, t memory.Turn) {
		calls := e.Gated(t, 1, agent.GateAsk, agent.GateAsk, agent.GateAuto)
		a := e.Ask(t, 1)
		own := func(id, args string) map[string]json.RawMessage {
			return map[string]json.RawMessage{id: json.RawMessage(args)}
		}
		d := suite.Decision(calls[0].ID, memory.Approve)
		d.Calls = []string{calls[0].ID}
		e.Unchanged(t.ThreadID, func() {
			for _, args := range []map[string]json.RawMessage{own(calls[0].ID, `[1]`), own(calls[0].ID, `{"a":`), own(calls[1].ID, `{}`), own(calls[2].ID, `{}`), own("other", `{}`)} {
				d.Arguments = args
				suite.Fails(e.S.Decide(e.Ctx, d))(e, agent.CodeInvalid)
			}
			all := suite.Decision(a.ID, memory.ApproveAll)
			all.Arguments = own(calls[0].ID, `{}`)
			suite.Fails(e.S.Decide(e.Ctx, all))(e, agent.CodeInvalid)
		})
		const args = `{"query":"mine"}`
		d.Arguments = own(calls[0].ID, args)
		decided := e.Decide(d).Approval
		suite.Equals(e, "carried", string(decided.Arguments[calls[0].ID]), args, "instruction", decided.Instruction, "", "again", e.Decide(d).Repeated, true)
		suite.Equal(e, "found by a call", len(e.Approvals(memory.ApprovalFilter{UserID: suite.User, ID: calls[0].ID})), 1)
		d.Arguments = own(calls[0].ID, `{"query":"other"}`)
		suite.Fails(e.S.Decide(e.Ctx, d))(e, agent.CodeConflict)
		got := e.Call(calls[0].ID)
		suite.Equals(e, "gate", got.Gate, agent.GateEdited, "args", string(got.Args), args, "the others", e.Call(calls[2].ID).Gate, agent.GateAuto)
		ev := e.EventsOf(t.ThreadID, agent.EventApprovalResponse)[0]
		suite.Equal(e, "event", ev["arguments"], any(map[string]any{got.ID: map[string]any{"query": "mine"}}))
		e.RunTool(got, "ran")
		e.RunTool(calls[2], "ran")
		e.SaveRound(t, 1)
		m := e.Messages(t.ThreadID)
		suite.Equals(e, "said", m[1].ToolCalls[0].Function.Arguments, args, "of the others", m[1].ToolCalls[1].Function.Arguments, `{"query":"q1"}`, "result", m[2].Content.String(), agent.TextEdited+"\nran")
		for _, task := range suite.Must(e.S.TasksOf(e.Ctx, t.ThreadID, []string{got.ID}))(e) {
			suite.Equal(e, "task", task.Instruction, args)
		}
		e.Answer(t, 2, "so be it")
		e.Sound(t.ThreadID)
	}},
	{Name: "approve_all lets the same tool pass for the rest of the session, not in another", Turn: func(e *suite.Env, t memory.Turn) {
		e.RunTool(e.ApproveAll(t), "ran")
		e.SaveRound(t, 1)
		suite.Equal(e, "same thread", e.Asks(t, 2), false)
		r := suite.Message("s1", "m1", "hi")
		r.ConversationID = "second"
		same := e.Take(suite.Must(e.S.Send(e.Ctx, r))(e).ThreadID)
		suite.Equals(e, "same session", e.Asks(same, 1), false, "another session", e.Asks(e.Started("s2"), 1), true)
	}},
	{Name: "a narrow approve_all lets calls pass that are like it, until it is revoked", Turn: func(e *suite.Env, t memory.Turn) {
		step := 0
		asks := func(command string, d *memory.Decision) bool {
			step++
			r := suite.Record(t, step, e.Begin(t, step), "", agent.NewCall("provider-1", "shell", `{"command":"`+command+`"}`))
			r.Gates = []agent.Gate{agent.GateAsk}
			c := suite.Must(e.S.SaveReply(e.Ctx, r))(e).Calls[0]
			waits := e.Call(c.ID).Gate == agent.GateAsk
			if waits {
				a := e.Ask(t, step)
				if d == nil {
					d = &memory.Decision{Verdict: memory.Approve}
				}
				d.UserID, d.By, d.Target = suite.User, "alice", a.ID
				e.Decide(*d)
			}
			e.RunTool(c, "ran")
			e.SaveRound(t, step)
			return waits
		}
		narrow := &memory.Decision{Verdict: memory.ApproveAll, Narrow: true}
		suite.Equals(e, "first", asks("date -u", narrow), true, "like it", asks("date", nil), false, "another", asks("ls", nil), true, "more than one", asks("date; ls", nil), true)
		suite.Equal(e, "one that has no narrow rule", asks("bash x", narrow), true)
		list := suite.Must(e.S.Permissions(e.Ctx, suite.User, "s1"))(e)
		suite.Equals(e, "permissions", len(list), 1, "rule", list[0].Rule, "shell(date *)", "of others", len(suite.Must(e.S.Permissions(e.Ctx, "mallory", "s1"))(e)), 0)
		e.Code(e.S.Revoke(e.Ctx, "mallory", "s1", list[0]), agent.CodeNotFound)
		suite.Equal(e, "still", asks("date", nil), false)
		if err := e.S.Revoke(e.Ctx, suite.User, "s1", list[0]); err != nil {
			e.Fatalf("%v", err)
		}
		suite.Equals(e, "again", asks("date", nil), true, "none", len(suite.Must(e.S.Permissions(e.Ctx, suite.User, "s1"))(e)), 0)
		e.Code(e.S.Revoke(e.Ctx, suite.User, "s1", list[0]), agent.CodeNotFound)
	}},
	{Name: "approve_all is for the agent it was given to, not for another one or one of the same name from elsewhere", Turn: func(e *suite.Env, t memory.Turn) {
		e.RunTool(e.ApproveAll(t), "ran")
		e.SaveRound(t, 1)
		for i, change := range []func(*agent.SpecialistAgentConfig){
			func(c *agent.SpecialistAgentConfig) { c.SystemPrompt += "?" },
			func(c *agent.SpecialistAgentConfig) { c.Name = "fold" },
			func(c *agent.SpecialistAgentConfig) { c.Source = "fold.md" },
		} {
			r := suite.Message("s1", fmt.Sprint("other", i), "hi")
			r.ConversationID = r.MessageID
			other := suite.MainConfig()
			change(other)
			claim := suite.Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: suite.Must(e.S.Send(e.Ctx, r))(e).ThreadID, RunID: "r", Config: other}))(e)
			suite.Equal(e, fmt.Sprint("asks ", i), e.Asks(*claim.Turn, 1), i > 0)
		}
	}},
}...)

// Groups are the cases by subject.
var Groups = []suite.Group{
	{Name: "ask", Rules: askRules},
	{Name: "approval", Rules: approvalRules},
	{Name: "verdict", Rules: verdictRules},
	{Name: "question", Rules: questionRules},
	{Name: "plain answer", Rules: plainAnswerRules},
}
