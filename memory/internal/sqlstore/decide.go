package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Decide settles an approval; the first decision wins.
func (s *Store) Decide(ctx context.Context, d memory.Decision) (res memory.DecideResult, err error) {
	if err := checkDecision(d); err != nil {
		return res, err
	}
	err = s.write(ctx, "decide", func(u *unit) error {
		a, err := u.approval(`id = ? OR id = (SELECT approval_id FROM tool_calls WHERE id = ? AND approval_id <> '')`, d.Target, d.Target)
		if err != nil {
			return err
		}
		if a == nil || d.UserID != "" && a.userID != d.UserID {
			return agent.Errorf(agent.CodeNotFound, "%q is neither an approval nor a call that waits for one", d.Target)
		}
		res, err = u.decide(a, d)
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

func (u *unit) decide(a *approvalRow, d memory.Decision) (memory.DecideResult, error) {
	t, err := u.thread(a.ThreadID)
	if err != nil {
		return memory.DecideResult{}, err
	}
	// On a server with row locks the approval may have been settled while this
	// transaction waited for the tree.
	if a, err = u.approval(`id = ?`, a.ID); err != nil {
		return memory.DecideResult{}, err
	}
	all, err := u.calls(a.TurnID, a.Step)
	if err != nil {
		return memory.DecideResult{}, err
	}
	named, err := namedCalls(asked(all, a.ID), a.ID, d)
	if err != nil {
		return memory.DecideResult{}, err
	}
	key, err := encode(named)
	if err != nil {
		return memory.DecideResult{}, err
	}
	if a.Decision != "" {
		if a.Decision != d.Verdict || a.named != key || a.Instruction != d.Instruction {
			return memory.DecideResult{}, decidedAlready(a)
		}
		a.ToolCalls = asked(all, a.ID)
		return memory.DecideResult{Approval: a.Approval, Repeated: true}, nil
	}
	turn, err := u.turn(a.TurnID)
	if err != nil {
		return memory.DecideResult{}, err
	}
	if err := u.countWaiting(t, turn); err != nil {
		return memory.DecideResult{}, err
	}
	if err := u.settleApproval(t, turn, a, d, key, named); err != nil {
		return memory.DecideResult{}, err
	}
	if err := u.applyDecision(t, turn, a, all, d, named); err != nil {
		return memory.DecideResult{}, err
	}
	a.ToolCalls = asked(all, a.ID)
	return memory.DecideResult{Approval: a.Approval}, nil
}

func decidedAlready(a *approvalRow) error {
	if a.Decision == decisionAborted {
		return agent.Errorf(agent.CodeConflict, "approval %s was settled when its turn ended at %s: there is nothing to decide", a.ID, a.DecidedAt.Format(time.RFC3339))
	}
	return agent.Errorf(agent.CodeConflict, "approval %s was decided already: %s by %s at %s", a.ID, a.Decision, or(a.DecidedBy, "unknown"), a.DecidedAt.Format(time.RFC3339))
}

// namedCalls are the calls the verdict is about: all of the approval, or those
// named. An edit aimed at one call is about that call only.
func namedCalls(about []agent.ToolCall, approvalID string, d memory.Decision) ([]string, error) {
	var ids []string
	for _, c := range about {
		ids = append(ids, c.ID)
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

// settleApproval writes the decision and lets the turn go on.
func (u *unit) settleApproval(t *threadRow, turn *turnRow, a *approvalRow, d memory.Decision, key string, named []string) error {
	if d.Verdict == memory.Approve || d.Verdict == memory.ApproveAll {
		a.Approved = named
	}
	approved, err := encode(a.Approved)
	if err != nil {
		return err
	}
	a.Decision, a.DecidedBy, a.Instruction = d.Verdict, d.By, d.Instruction
	a.decidedAt, a.DecidedAt = t.at, stampOrNil(t.at)
	err = u.exec(`UPDATE approvals SET decision = ?, named = ?, approved = ?, instruction = ?, decided_by = ?, decided_at = ? WHERE id = ?`,
		a.Decision, key, approved, a.Instruction, a.DecidedBy, a.decidedAt, a.ID)
	if err != nil {
		return err
	}
	if err := u.waits(t, turn); err != nil {
		return err
	}
	return u.surface(t, turn, agent.EventApprovalResponse, approvalResponse{
		ApprovalID: a.ID, Decision: a.Decision, ApprovedCalls: a.Approved, EditInstruction: a.Instruction, ThreadID: t.ID,
	})
}

// applyDecision moves the calls: approved ones may run, the others get their result.
func (u *unit) applyDecision(t *threadRow, turn *turnRow, a *approvalRow, all []*callRow, d memory.Decision, named []string) error {
	for _, c := range all {
		if c.approvalID != a.ID || c.Status != agent.CallAwaitingApproval {
			continue
		}
		var err error
		switch {
		case d.Verdict == memory.Deny || !slices.Contains(named, c.ID):
			err = u.finish(t, turn, c, ending{status: agent.CallDenied, reason: agent.ErrDenied, text: agent.TextDenied})
		case d.Verdict == memory.Edit:
			err = u.finish(t, turn, c, ending{status: agent.CallDenied, reason: agent.ErrEdited, text: d.Instruction})
		default:
			err = u.approveCall(t, c, d.Verdict == memory.ApproveAll)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// approveCall lets a call run; remember approves its tool for the session.
func (u *unit) approveCall(t *threadRow, c *callRow, remember bool) error {
	c.Status, c.Gate = agent.CallPending, agent.GateAuto
	if remember {
		err := u.exec(`INSERT INTO approved_tools (session_id, tool_name) VALUES (?, ?) ON CONFLICT (session_id, tool_name) DO NOTHING`, t.SessionID, c.ToolName)
		if err != nil {
			return err
		}
	}
	if err := u.taskStatus(t, c.taskID, agent.TaskPending); err != nil {
		return err
	}
	return u.saveCall(t, c)
}
