package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// approvalID is the id of the one approval a step can ask for.
func approvalID(turnID string, step int) string {
	return "appr_" + strings.TrimPrefix(turnID, "t") + "_" + strconv.Itoa(step)
}

// OpenApproval asks a person about the gated calls of a step.
func (s *Store) OpenApproval(ctx context.Context, r memory.RoundRequest) (memory.Approval, error) {
	return writing(ctx, s, "approval", func(u *Unit) memory.Approval {
		t, turn := u.Open(r.ThreadID, r.TurnID)
		calls := u.Calls(turn.ID, r.Step)
		a := u.Ask(`id = ?`, approvalID(turn.ID, r.Step))
		if a == nil {
			a = u.openApproval(t, turn, r.Step, calls)
		}
		return a.About(calls)
	})
}

func (u *Unit) openApproval(t *rows.Thread, turn *rows.Turn, step int, calls []*rows.Call) *rows.Ask {
	a := u.newAsk(t, turn, rows.AskApproval, approvalID(turn.ID, step), step)
	asked := rows.ApprovalRequired{ApprovalID: a.ID, Agent: a.Agent, ThreadID: t.ID}
	for _, c := range calls {
		if c.Status != agent.CallPending || c.Gate != agent.GateAsk {
			continue
		}
		c.Status, c.ApprovalID = agent.CallAwaitingApproval, a.ID
		u.callWaits(t, c)
		asked.ToolCalls = append(asked.ToolCalls, rows.ApprovalCall{ID: c.ID, ToolName: c.ToolName, Args: c.Args})
	}
	if asked.ToolCalls == nil {
		rows.Refuse(agent.CodeConflict, "step %d of turn %s has no call that needs an approval", step, turn.ID)
	}
	u.openAsk(t, turn, a, agent.EventApprovalRequired, asked)
	return a
}

// StepState tells what is left to do in a step.
func (s *Store) StepState(ctx context.Context, r memory.RoundRequest) (state memory.StepState, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) {
		var open, cancelAt int64
		there := q.One(`SELECT (SELECT COUNT(*) FROM asks WHERE turn_id = n.id AND step = ? AND kind = 'approval' AND outcome = ''), n.cancel_at`+
			` FROM turns n JOIN threads t ON t.id = n.thread_id AND t.open_turn = n.id WHERE n.id = ? AND t.id = ?`, r.Step, r.TurnID, r.ThreadID).Into(&open, &cancelAt)
		if !there {
			q.Exists(r.ThreadID)
			rows.Check(memory.Stale("turn %q is not the open turn of thread %s", r.TurnID, r.ThreadID))
		}
		calls := rows.Find(q, (*rows.Call).Targets, (*rows.Call).Loaded, rows.SelectCall+` WHERE turn_id = ? AND step = ? ORDER BY idx`, r.TurnID, r.Step)
		state = memory.StepState{Waiting: open > 0, Calls: rows.CallViews(calls), Cancelled: cancelAt != 0}
	})
	return state, err
}

// Decide settles an approval; the first decision wins.
func (s *Store) Decide(ctx context.Context, d memory.Decision) (res memory.DecideResult, err error) {
	if d.Arguments, err = checkDecision(d); err != nil {
		return res, err
	}
	return writing(ctx, s, "decide", func(u *Unit) memory.DecideResult {
		a, t := u.askOf(rows.AskApproval, d.Target, d.UserID)
		return u.decide(t, a, d)
	})
}

// checkDecision returns the arguments of a decision in the form that is stored.
func checkDecision(d memory.Decision) (args map[string]json.RawMessage, err error) {
	switch d.Verdict {
	case memory.Approve, memory.ApproveAll, memory.Deny:
	case memory.Edit:
		if d.Instruction == "" {
			return nil, agent.Errorf(agent.CodeInvalid, "an edit of %q needs an instruction: it becomes the result of the call", d.Target)
		}
	default:
		return nil, agent.Errorf(agent.CodeInvalid, "verdict %q is not valid: use approve, approve_all, deny or edit", d.Verdict)
	}
	if len(d.Arguments) > 0 && d.Verdict != memory.Approve {
		return nil, agent.Errorf(agent.CodeInvalid, "arguments are changed with the verdict approve, not with %s", d.Verdict)
	}
	for id, given := range d.Arguments {
		clean, err := agent.ReadArguments(string(given))
		if err != nil {
			return nil, agent.Errorf(agent.CodeInvalid, "the arguments for call %s %v", id, err)
		}
		if args == nil {
			args = map[string]json.RawMessage{}
		}
		args[id] = rows.JSONArgs(rows.Clean(clean))
	}
	return args, nil
}

// carried is what a decision says besides its verdict, as it is stored: the instruction
// of an edit, or the arguments of an approval.
func carried(d memory.Decision) string {
	if len(d.Arguments) == 0 {
		return d.Instruction
	}
	return rows.Must(rows.Encode(d.Arguments))
}

func (u *Unit) decide(t *rows.Thread, a *rows.Ask, d memory.Decision) memory.DecideResult {
	calls := u.Calls(a.Turn, a.Step)
	named := namedCalls(calls, a.ID, d)
	key := rows.Must(rows.Encode(named))
	if a.Outcome != "" {
		if a.Outcome != d.Verdict || a.Named != key || a.Answer != carried(d) {
			rows.Check(a.SettledAlready())
		}
		return memory.DecideResult{Approval: a.About(calls), Repeated: true}
	}
	turn := u.Turn(a.Turn)
	a.Outcome, a.By, a.Answer, a.Named = d.Verdict, d.By, carried(d), key
	if d.Verdict == memory.Approve || d.Verdict == memory.ApproveAll {
		a.Approved = key
	}
	u.settleAsk(t, turn, a)
	u.applyDecision(t, turn, a, calls, named, d)
	return memory.DecideResult{Approval: a.About(calls)}
}

// namedCalls are the calls the verdict is about: all of the approval, or those
// named. An edit aimed at one call is about that call only.
func namedCalls(calls []*rows.Call, approvalID string, d memory.Decision) []string {
	var ids []string
	for _, c := range calls {
		if c.ApprovalID == approvalID {
			ids = append(ids, c.ID)
		}
	}
	for _, id := range d.Calls {
		if !slices.Contains(ids, id) {
			rows.Refuse(agent.CodeInvalid, "call %q is not part of approval %s", id, approvalID)
		}
	}
	switch {
	case d.Verdict == memory.Deny:
	case len(d.Calls) > 0:
		ids = slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(d.Calls, id) })
	case d.Verdict == memory.Edit && d.Target != approvalID:
		ids = []string{d.Target}
	}
	for id := range d.Arguments {
		if !slices.Contains(ids, id) {
			rows.Refuse(agent.CodeInvalid, "arguments are given for call %q, which is not approved with %s", id, approvalID)
		}
	}
	return ids
}

// applyDecision moves the calls: approved ones may run, the others get their result.
func (u *Unit) applyDecision(t *rows.Thread, turn *rows.Turn, a *rows.Ask, calls []*rows.Call, named []string, d memory.Decision) {
	for _, c := range calls {
		if c.ApprovalID != a.ID || c.Status != agent.CallAwaitingApproval {
			continue
		}
		switch {
		case a.Outcome == memory.Deny || !slices.Contains(named, c.ID):
			u.Finish(t, turn, c, Ending{Status: agent.CallDenied, Reason: agent.ErrDenied, Text: agent.TextDenied})
		case a.Outcome == memory.Edit:
			u.Finish(t, turn, c, Ending{Status: agent.CallDenied, Reason: agent.ErrEdited, Text: a.Answer})
		default:
			if args := d.Arguments[c.ID]; args != nil {
				u.changeArguments(turn, c, args)
			}
			u.approveCall(t, c, a.Outcome == memory.ApproveAll, d.Narrow)
		}
	}
}

// changeArguments gives a call a person's arguments, in its reply too, which becomes the
// message that the model sees.
func (u *Unit) changeArguments(turn *rows.Turn, c *rows.Call, args json.RawMessage) {
	c.ArgsText, c.Gate = string(args), agent.GateEdited
	u.Exec(`UPDATE tool_calls SET args = ? WHERE id = ?`, c.ArgsText, c.ID)
	u.Exec(`UPDATE tasks SET instruction = ? WHERE id = ? AND type = 'tool'`, c.ArgsText, c.TaskID)
	step := u.Step(turn.ID, c.Step)
	reply := step.ModelReply()
	reply.Calls[c.Index].Function.Arguments = c.ArgsText
	step.Reply = rows.Must(rows.Encode(reply))
	u.SaveStep(step)
}

// approveCall lets a call run; remember approves its tool for the agent in this session,
// narrow only the calls like it.
func (u *Unit) approveCall(t *rows.Thread, c *rows.Call, remember, narrow bool) {
	c.Status = agent.CallPending
	if c.Gate != agent.GateEdited {
		c.Gate = agent.GateAuto
	}
	rule := c.ToolName
	if narrow {
		rule = agent.NarrowRule(c.ToolName, c.Args)
	}
	if remember && rule != "" {
		by := u.Store.Config(u, t.ConfigHash)
		u.Exec(`INSERT INTO approved_tools (session_id, tool_name) VALUES (?, ?) ON CONFLICT (session_id, tool_name) DO NOTHING`, t.SessionID, grant(by, rule))
	}
	u.TaskStatus(t, c.TaskID, agent.TaskPending)
	u.SaveCall(t, c)
}

// Revoke takes back what was allowed for a session.
func (s *Store) Revoke(ctx context.Context, userID, sessionID string, p memory.Permission) error {
	return s.write(ctx, "revoke", func(u *Unit) {
		key := rows.PermissionKey(p)
		if len(u.Strings(`SELECT tool_name FROM approved_tools WHERE tool_name = ? AND`+rows.OfSession, key, sessionID, userID, userID)) == 0 {
			rows.Refuse(agent.CodeNotFound, "%s is not allowed to %s in session %s", p.Rule, p.Agent, sessionID)
		}
		u.Exec(`DELETE FROM approved_tools WHERE session_id = ? AND tool_name = ?`, sessionID, key)
	})
}

const (
	outcomeAnswered = string(memory.QuestionAnswered)
	// taskLength is how much of its task is shown with what a sub-agent asks.
	taskLength = 200
)

// Ask finds one ask; nil if there is none.
func (u *Unit) Ask(where string, args ...any) *rows.Ask {
	found := rows.Asks(u, where, args...)
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// askOf finds what a person settles, named by its id or by a call.
func (u *Unit) askOf(kind, target, userID string) (*rows.Ask, *rows.Thread) {
	a := u.Ask(`kind = ? AND `+rows.AskNamed, kind, target, rows.QuestionID(target), target)
	if a == nil || userID != "" && a.User != userID {
		waits := map[string]string{rows.AskApproval: "an approval nor a call that waits for one", rows.AskQuestion: "a question nor a call that asks one"}
		rows.Refuse(agent.CodeNotFound, "%q is neither %s", target, waits[kind])
	}
	return u.lockAsk(a)
}

// lockAsk loads an ask's thread, and the ask once more: on a server with row
// locks somebody may have settled it while this transaction waited for the tree.
func (u *Unit) lockAsk(a *rows.Ask) (*rows.Ask, *rows.Thread) {
	t := u.Thread(a.Thread)
	return u.Ask(`id = ?`, a.ID), t
}

// newAsk is what a turn asks, not stored yet.
func (u *Unit) newAsk(t *rows.Thread, turn *rows.Turn, kind, id string, step int) *rows.Ask {
	turn.Cancelled()
	var task string
	if turn.TaskID != "" {
		u.One(`SELECT instruction FROM tasks WHERE id = ?`, turn.TaskID).Into(&task)
	}
	return &rows.Ask{
		ID: id, Kind: kind, Thread: t.ID, Root: t.RootThreadID, User: t.UserID, Turn: turn.ID, Step: step,
		Agent: u.agentName(t), TaskID: turn.TaskID, Task: line(task, taskLength), CreatedMs: t.At,
	}
}

// openAsk stores an ask and lets its turn wait.
func (u *Unit) openAsk(t *rows.Thread, turn *rows.Turn, a *rows.Ask, event string, data any) {
	u.Exec(rows.InsertAsk, rows.Values(a.Targets())...)
	u.waits(t, turn)
	u.surface(t, turn, event, data)
}

// callWaits stores a call that waits for a person, and lets its task wait.
func (u *Unit) callWaits(t *rows.Thread, c *rows.Call) {
	u.SaveCall(t, c)
	u.TaskStatus(t, c.TaskID, agent.TaskWaiting)
}

// settleAsk stores how an ask ended and lets its turn go on, unless that waits for
// something else.
func (u *Unit) settleAsk(t *rows.Thread, turn *rows.Turn, a *rows.Ask) {
	u.countWaiting(t, turn)
	a.SettledMs = t.At
	u.Exec(`UPDATE asks SET outcome = ?, named = ?, approved = ?, answer = ?, message_id = ?, settled_by = ?, settled_at = ? WHERE id = ?`,
		a.Outcome, a.Named, a.Approved, a.Answer, a.Message, a.By, a.SettledMs, a.ID)
	u.waits(t, turn)
	if a.Kind == rows.AskQuestion {
		u.surface(t, turn, agent.EventQuestionAnswered, rows.QuestionAnswered{
			QuestionID: a.ID, AnsweredBy: a.By, State: a.Outcome, Agent: a.Agent, Answer: rows.Short(a.Answer, rows.MaxEventResult), ThreadID: t.ID,
		})
		return
	}
	response := rows.ApprovalResponse{ApprovalID: a.ID, Decision: a.Outcome, ThreadID: t.ID}
	rows.Check(rows.Decode(a.Approved, &response.ApprovedCalls))
	response.EditInstruction, response.Arguments = a.Carried()
	u.surface(t, turn, agent.EventApprovalResponse, response)
}

// abortAsks settles what a turn that ends still asks.
func (u *Unit) abortAsks(t *rows.Thread, turn *rows.Turn) {
	if t.Status != agent.ThreadWaitingForApproval && t.Status != agent.ThreadWaitingForUser {
		return
	}
	for _, a := range rows.Asks(u, `turn_id = ? AND outcome = ''`, turn.ID) {
		a.Outcome = rows.OutcomeAborted
		u.settleAsk(t, turn, a)
	}
}

// agentName is who asks, as a person reads it.
func (u *Unit) agentName(t *rows.Thread) string {
	if t.AgentType != "" {
		return t.AgentType
	}
	return cmp.Or(u.Store.Config(u, t.ConfigHash).Name, "orchestrator")
}

// line is a text in one line of at most n characters.
func line(text string, n int) string { return rows.Short(strings.Join(strings.Fields(text), " "), n) }

// surface writes an event on a thread, and on its root too: that is where people look.
func (u *Unit) surface(t *rows.Thread, turn *rows.Turn, typ string, data any) {
	u.Event(t, turn.ID, typ, data)
	if t.RootThreadID == t.ID {
		return
	}
	root := u.Thread(t.RootThreadID)
	u.Event(root, root.OpenTurnID, typ, data)
}

// waits makes the state of a thread, and of the task it works on, what its turn
// waits for: a decision, an answer, or nobody.
func (u *Unit) waits(t *rows.Thread, turn *rows.Turn) {
	status := WaitsFor(u, turn.ID)
	if status == t.Status {
		return
	}
	t.Status = status
	t.Touch()
	u.DelegatorTask(turn, agent.TaskStatusOf(status))
}

// WaitsFor is the state of a thread whose open turn is this one. An approval comes
// first, as its name does.
func WaitsFor(q rows.Rower, turnID string) agent.ThreadStatus {
	var kind string
	rows.Check(q.Row(`SELECT COALESCE(MIN(kind), '') FROM asks WHERE turn_id = ? AND outcome = ''`, turnID).Scan(&kind))
	switch kind {
	case rows.AskApproval:
		return agent.ThreadWaitingForApproval
	case rows.AskQuestion:
		return agent.ThreadWaitingForUser
	}
	return agent.ThreadRunning
}

// countWaiting adds to a turn the time it has waited for people since something
// was settled last. What was waited for at the same time counts once.
func (u *Unit) countWaiting(t *rows.Thread, turn *rows.Turn) {
	var since, last int64
	rows.Check(u.Row(`SELECT COALESCE(MIN(CASE WHEN outcome = '' THEN created_at END), 0), COALESCE(MAX(settled_at), 0) FROM asks WHERE turn_id = ?`, turn.ID).
		Scan(&since, &last))
	if since == 0 {
		return
	}
	turn.WaitedMs += max(0, t.At-max(since, last))
	turn.Dirty = true
}
