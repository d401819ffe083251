package sqlstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	approvalColumns = `id,thread_id,root_id,user_id,turn_id,step,agent,decision,named,approved,instruction,decided_by,decided_at,created_at`
	selectApproval  = `SELECT ` + approvalColumns + ` FROM approvals`
	// decisionAborted settles the approvals of a turn that ended without them.
	decisionAborted = "aborted"
)

var insertApproval = insertSQL("approvals", approvalColumns)

// approvalRow is an approval with what only the store needs to know of it.
type approvalRow struct {
	memory.Approval
	userID    string
	named     string
	approved  string
	decidedAt int64
	created   int64
}

func (a *approvalRow) targets() []any {
	return []any{&a.ID, &a.ThreadID, &a.RootThread, &a.userID, &a.TurnID, &a.Step, &a.Agent, &a.Decision, &a.named, &a.approved,
		&a.Instruction, &a.DecidedBy, &a.decidedAt, &a.created}
}

// loaded derives the fields that are not columns.
func (a *approvalRow) loaded() error {
	a.CreatedAt, a.DecidedAt = stamp(a.created), stampOrNil(a.decidedAt)
	return decode(a.approved, &a.Approved)
}

// approvalID is the id of the one approval a step can ask for.
func approvalID(turnID string, step int) string {
	return "appr_" + strings.TrimPrefix(turnID, "t") + "_" + strconv.Itoa(step)
}

// OpenApproval asks a person about the gated calls of a step.
func (s *Store) OpenApproval(ctx context.Context, r memory.RoundRequest) (a memory.Approval, err error) {
	err = s.write(ctx, "approval", func(u *unit) error {
		t, turn, err := u.open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		calls, err := u.calls(turn.ID, r.Step)
		if err != nil {
			return err
		}
		row, err := u.approval(`turn_id = ? AND step = ?`, turn.ID, r.Step)
		if err != nil {
			return err
		}
		if row == nil {
			if row, err = u.ask(t, turn, r.Step, calls); err != nil {
				return err
			}
		}
		a = row.Approval
		a.ToolCalls = asked(calls, row.ID)
		return nil
	})
	return a, err
}

// approval finds an approval; nil if there is none.
func (u *unit) approval(where string, args ...any) (*approvalRow, error) {
	a := &approvalRow{}
	err := u.row(selectApproval+` WHERE `+where, args...).Scan(a.targets()...)
	if noRows(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return a, a.loaded()
}

// asked are the calls an approval is about.
func asked(calls []*callRow, approvalID string) []agent.ToolCall {
	var about []agent.ToolCall
	for _, c := range calls {
		if c.approvalID == approvalID {
			about = append(about, c.view())
		}
	}
	return about
}

func (u *unit) ask(t *threadRow, turn *turnRow, step int, calls []*callRow) (*approvalRow, error) {
	if err := turn.cancelled(); err != nil {
		return nil, err
	}
	id := approvalID(turn.ID, step)
	var about []approvalCall
	for _, c := range calls {
		if c.Status != agent.CallPending || c.Gate != agent.GateAsk {
			continue
		}
		c.Status, c.approvalID = agent.CallAwaitingApproval, id
		if err := u.saveCall(t, c); err != nil {
			return nil, err
		}
		if err := u.taskStatus(t, c.taskID, agent.TaskWaiting); err != nil {
			return nil, err
		}
		about = append(about, approvalCall{ID: c.ID, ToolName: c.ToolName, Args: c.Args})
	}
	if about == nil {
		return nil, agent.Errorf(agent.CodeConflict, "step %d of turn %s has no call that needs an approval", step, turn.ID)
	}
	name, err := u.agentName(t)
	if err != nil {
		return nil, err
	}
	a := &approvalRow{Approval: memory.Approval{ID: id, ThreadID: t.ID, RootThread: t.RootThreadID, TurnID: turn.ID, Step: step, Agent: name}, created: t.at}
	if err := a.loaded(); err != nil {
		return nil, err
	}
	err = u.exec(insertApproval, id, t.ID, t.RootThreadID, t.UserID, turn.ID, step, name, "", "", "", "", "", 0, t.at)
	if err != nil {
		return nil, err
	}
	if err := u.waits(t, turn); err != nil {
		return nil, err
	}
	return a, u.surface(t, turn, agent.EventApprovalRequired, approvalRequired{ApprovalID: id, ToolCalls: about, Agent: name, ThreadID: t.ID})
}

// agentName is who asks, as a person reads it.
func (u *unit) agentName(t *threadRow) (string, error) {
	if t.AgentType != "" {
		return t.AgentType, nil
	}
	c, err := u.s.config(u, t.configHash)
	return or(c.Name, "orchestrator"), err
}

// surface writes an event on a thread, and on its root too: that is where people look.
func (u *unit) surface(t *threadRow, turn *turnRow, typ string, data any) error {
	if err := u.event(t, turn.ID, typ, data); err != nil || t.RootThreadID == t.ID {
		return err
	}
	root, err := u.thread(t.RootThreadID)
	if err != nil {
		return err
	}
	return u.event(root, root.OpenTurnID, typ, data)
}

// StepState tells what is left to do in a step.
func (s *Store) StepState(ctx context.Context, r memory.RoundRequest) (state memory.StepState, err error) {
	err = s.read(ctx, func(q *reader) error {
		var open, cancelAt int64
		err := q.row(`SELECT (SELECT COUNT(*) FROM approvals WHERE turn_id = n.id AND step = ? AND decision = ''), n.cancel_at`+
			` FROM turns n JOIN threads t ON t.id = n.thread_id AND t.open_turn = n.id WHERE n.id = ? AND t.id = ?`, r.Step, r.TurnID, r.ThreadID).Scan(&open, &cancelAt)
		if noRows(err) {
			if err := q.exists(r.ThreadID); err != nil {
				return err
			}
			return memory.Stale("turn %q is not the open turn of thread %s", r.TurnID, r.ThreadID)
		}
		if err != nil {
			return err
		}
		rows, err := q.rows(selectCall+` WHERE turn_id = ? AND step = ? ORDER BY idx`, r.TurnID, r.Step)
		calls, err := collect(rows, err, (*callRow).targets, (*callRow).loaded)
		state = memory.StepState{Waiting: open > 0, Calls: callViews(calls), Cancelled: cancelAt != 0}
		return err
	})
	return state, err
}
