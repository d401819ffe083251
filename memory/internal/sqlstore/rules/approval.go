package rules

import (
	"context"
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
func (s *Store) OpenApproval(ctx context.Context, r memory.RoundRequest) (v memory.Approval, err error) {
	err = s.write(ctx, "approval", func(u *Unit) error {
		t, turn, err := u.Open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		calls, err := u.Calls(turn.ID, r.Step)
		if err != nil {
			return err
		}
		a, err := u.Ask(`id = ?`, approvalID(turn.ID, r.Step))
		if err == nil && a == nil {
			a, err = u.openApproval(t, turn, r.Step, calls)
		}
		if err != nil {
			return err
		}
		v, err = a.About(calls)
		return err
	})
	return v, err
}

func (u *Unit) openApproval(t *rows.Thread, turn *rows.Turn, step int, calls []*rows.Call) (*rows.Ask, error) {
	a, err := u.newAsk(t, turn, rows.AskApproval, approvalID(turn.ID, step), step)
	if err != nil {
		return nil, err
	}
	asked := rows.ApprovalRequired{ApprovalID: a.ID, Agent: a.Agent, ThreadID: t.ID}
	for _, c := range calls {
		if c.Status != agent.CallPending || c.Gate != agent.GateAsk {
			continue
		}
		c.Status, c.ApprovalID = agent.CallAwaitingApproval, a.ID
		if err := u.callWaits(t, c); err != nil {
			return nil, err
		}
		asked.ToolCalls = append(asked.ToolCalls, rows.ApprovalCall{ID: c.ID, ToolName: c.ToolName, Args: c.Args})
	}
	if asked.ToolCalls == nil {
		return nil, agent.Errorf(agent.CodeConflict, "step %d of turn %s has no call that needs an approval", step, turn.ID)
	}
	return a, u.openAsk(t, turn, a, agent.EventApprovalRequired, asked)
}

// StepState tells what is left to do in a step.
func (s *Store) StepState(ctx context.Context, r memory.RoundRequest) (state memory.StepState, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		var open, cancelAt int64
		err := q.Row(`SELECT (SELECT COUNT(*) FROM asks WHERE turn_id = n.id AND step = ? AND kind = 'approval' AND outcome = ''), n.cancel_at`+
			` FROM turns n JOIN threads t ON t.id = n.thread_id AND t.open_turn = n.id WHERE n.id = ? AND t.id = ?`, r.Step, r.TurnID, r.ThreadID).Scan(&open, &cancelAt)
		if rows.NoRows(err) {
			if err := q.Exists(r.ThreadID); err != nil {
				return err
			}
			return memory.Stale("turn %q is not the open turn of thread %s", r.TurnID, r.ThreadID)
		}
		if err != nil {
			return err
		}
		calls, err := rows.Find(q, (*rows.Call).Targets, (*rows.Call).Loaded, rows.SelectCall+` WHERE turn_id = ? AND step = ? ORDER BY idx`, r.TurnID, r.Step)
		state = memory.StepState{Waiting: open > 0, Calls: rows.CallViews(calls), Cancelled: cancelAt != 0}
		return err
	})
	return state, err
}

// Decide settles an approval; the first decision wins.
func (s *Store) Decide(ctx context.Context, d memory.Decision) (res memory.DecideResult, err error) {
	if err := checkDecision(d); err != nil {
		return res, err
	}
	err = s.write(ctx, "decide", func(u *Unit) error {
		a, t, err := u.askOf(rows.AskApproval, d.Target, d.UserID)
		if err == nil {
			res, err = u.decide(t, a, d)
		}
		return err
	})
	return res, err
}

func checkDecision(d memory.Decision) error {
	switch d.Verdict {
	case memory.Approve, memory.ApproveAll, memory.Deny:
		return nil
	case memory.Edit:
		if d.Instruction == "" {
			return agent.Errorf(agent.CodeInvalid, "an edit of %q needs an instruction: it becomes the result of the call", d.Target)
		}
		return nil
	}
	return agent.Errorf(agent.CodeInvalid, "verdict %q is not valid: use approve, approve_all, deny or edit", d.Verdict)
}

func (u *Unit) decide(t *rows.Thread, a *rows.Ask, d memory.Decision) (res memory.DecideResult, err error) {
	calls, err := u.Calls(a.Turn, a.Step)
	if err != nil {
		return res, err
	}
	named, err := namedCalls(calls, a.ID, d)
	if err != nil {
		return res, err
	}
	key, err := rows.Encode(named)
	if err != nil {
		return res, err
	}
	if a.Outcome != "" {
		if a.Outcome != d.Verdict || a.Named != key || a.Answer != d.Instruction {
			return res, a.SettledAlready()
		}
		res.Repeated = true
		res.Approval, err = a.About(calls)
		return res, err
	}
	turn, err := u.Turn(a.Turn)
	if err != nil {
		return res, err
	}
	a.Outcome, a.By, a.Answer, a.Named = d.Verdict, d.By, d.Instruction, key
	if d.Verdict == memory.Approve || d.Verdict == memory.ApproveAll {
		a.Approved = key
	}
	if err := u.settleAsk(t, turn, a); err != nil {
		return res, err
	}
	if err := u.applyDecision(t, turn, a, calls, named, d.Narrow); err != nil {
		return res, err
	}
	res.Approval, err = a.About(calls)
	return res, err
}

// namedCalls are the calls the verdict is about: all of the approval, or those
// named. An edit aimed at one call is about that call only.
func namedCalls(calls []*rows.Call, approvalID string, d memory.Decision) ([]string, error) {
	var ids []string
	for _, c := range calls {
		if c.ApprovalID == approvalID {
			ids = append(ids, c.ID)
		}
	}
	for _, id := range d.Calls {
		if !slices.Contains(ids, id) {
			return nil, agent.Errorf(agent.CodeInvalid, "call %q is not part of approval %s", id, approvalID)
		}
	}
	switch {
	case d.Verdict == memory.Deny:
		return ids, nil
	case len(d.Calls) > 0:
		return slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(d.Calls, id) }), nil
	case d.Verdict == memory.Edit && d.Target != approvalID:
		return []string{d.Target}, nil
	}
	return ids, nil
}

// applyDecision moves the calls: approved ones may run, the others get their result.
func (u *Unit) applyDecision(t *rows.Thread, turn *rows.Turn, a *rows.Ask, calls []*rows.Call, named []string, narrow bool) error {
	for _, c := range calls {
		if c.ApprovalID != a.ID || c.Status != agent.CallAwaitingApproval {
			continue
		}
		var err error
		switch {
		case a.Outcome == memory.Deny || !slices.Contains(named, c.ID):
			err = u.Finish(t, turn, c, Ending{Status: agent.CallDenied, Reason: agent.ErrDenied, Text: agent.TextDenied})
		case a.Outcome == memory.Edit:
			err = u.Finish(t, turn, c, Ending{Status: agent.CallDenied, Reason: agent.ErrEdited, Text: a.Answer})
		default:
			err = u.approveCall(t, c, a.Outcome == memory.ApproveAll, narrow)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// approveCall lets a call run; remember approves its tool for the agent in this session,
// narrow only the calls like it.
func (u *Unit) approveCall(t *rows.Thread, c *rows.Call, remember, narrow bool) error {
	c.Status, c.Gate = agent.CallPending, agent.GateAuto
	rule := c.ToolName
	if narrow {
		rule = agent.NarrowRule(c.ToolName, c.Args)
	}
	if remember && rule != "" {
		by, err := u.Store.Config(u, t.ConfigHash)
		if err != nil {
			return err
		}
		err = u.Exec(`INSERT INTO approved_tools (session_id, tool_name) VALUES (?, ?) ON CONFLICT (session_id, tool_name) DO NOTHING`, t.SessionID, grant(by, rule))
		if err != nil {
			return err
		}
	}
	if err := u.TaskStatus(t, c.TaskID, agent.TaskPending); err != nil {
		return err
	}
	return u.SaveCall(t, c)
}

// Revoke takes back what was allowed for a session.
func (s *Store) Revoke(ctx context.Context, userID, sessionID string, p memory.Permission) error {
	return s.write(ctx, "revoke", func(u *Unit) error {
		key := rows.PermissionKey(p)
		held, err := u.Strings(`SELECT tool_name FROM approved_tools WHERE tool_name = ? AND`+rows.OfSession, key, sessionID, userID, userID)
		if err != nil {
			return err
		}
		if len(held) == 0 {
			return agent.Errorf(agent.CodeNotFound, "%s is not allowed to %s in session %s", p.Rule, p.Agent, sessionID)
		}
		return u.Exec(`DELETE FROM approved_tools WHERE session_id = ? AND tool_name = ?`, sessionID, key)
	})
}
