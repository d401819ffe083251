package rules

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// BeginTool makes an attempt of a call current, or returns the final call.
func (s *Store) BeginTool(ctx context.Context, r memory.ToolBegin) (memory.ToolStart, error) {
	starts, err := s.BeginTools(ctx, r, []string{r.CallID})
	if err != nil {
		return memory.ToolStart{}, err
	}
	return starts[0], nil
}

// BeginTools is BeginTool for several calls of a turn.
func (s *Store) BeginTools(ctx context.Context, r memory.ToolBegin, callIDs []string) (starts []memory.ToolStart, err error) {
	err = s.begin(ctx, "begin-tool", func(u *Unit) error {
		starts = make([]memory.ToolStart, len(callIDs))
		t, turn, err := u.Open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		if err := turn.Cancelled(); err != nil {
			return err
		}
		for i, id := range callIDs {
			c, err := u.Call(turn.ID, id)
			if err == nil {
				starts[i], err = u.startTool(t, turn, c, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return starts, err
}

func (u *Unit) startTool(t *rows.Thread, turn *rows.Turn, c *rows.Call, r memory.ToolBegin) (start memory.ToolStart, err error) {
	lost, since := lostAttempt(c.Status == agent.CallRunning && !c.WaitsForAnswer() && !c.Delegation, c.Worker, r.Worker, c.Attempts), rows.Stamp(c.UpdatedMs)
	if start.Wait, err = u.beginTool(t, turn, c, r); err != nil {
		return start, err
	}
	if lost > 0 && start.Wait == 0 {
		start.Lost, start.LostSince = lost, since
		then := "runs it again"
		if c.Status.Final() {
			then = "goes on without its result, as it may not be run twice"
		}
		if err := u.tellLost(t, turn, c.ID, r.Worker, then); err != nil {
			return start, err
		}
	}
	start.Attempt, start.Final, start.Call, start.Approved = c.Attempts, c.Status.Final(), c.View(), c.ApprovalID != ""
	start.Thread, err = u.View(t)
	return start, err
}

// beginTool returns how long to wait before the call may begin.
func (u *Unit) beginTool(t *rows.Thread, turn *rows.Turn, c *rows.Call, r memory.ToolBegin) (time.Duration, error) {
	switch {
	case c.Status.Final():
		return 0, nil
	case c.Delegation:
		return 0, agent.Errorf(agent.CodeConflict, "call %s is a delegation: it is opened, not run", c.ID)
	case c.WaitsForAnswer():
		return 0, agent.Errorf(agent.CodeConflict, "call %s is a question: a person answers it", c.ID)
	case c.Status == agent.CallAwaitingApproval || c.Gate == agent.GateAsk:
		return 0, agent.Errorf(agent.CodeConflict, "call %s (%s) needs a person's approval before it may run", c.ID, c.ToolName)
	case c.Status == agent.CallRunning && c.Fence.Repeats(r.Fence):
		return 0, nil
	}
	before := c.Status
	ok, err := c.Fence.Admit(r.Fence)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, memory.Stale("attempt %d of activity %s is older than the current one of call %s", r.Fence.Number, r.Fence.Scope, c.ID)
	}
	if before == agent.CallRunning {
		if err := gone(c.Worker, r.Worker); err != nil {
			return 0, err
		}
	}
	if before == agent.CallRunning && !r.Repeatable {
		return 0, u.Finish(t, turn, c, Ending{Status: agent.CallUnknown, Reason: agent.ErrUnknown, Text: agent.TextUnknown})
	}
	if before == agent.CallRunning && r.Worker != "" {
		if turn.Deadly(r.MaxLost) != nil {
			return 0, u.Finish(t, turn, c, Ending{Status: agent.CallFailed, Reason: agent.ErrUnknown, Text: agent.TextLost(c.Attempts)})
		}
		if wait := turn.BackOff(u.Now); wait > 0 {
			return wait, nil
		}
	}
	c.Status, c.Repeatable, c.Worker = agent.CallRunning, r.Repeatable, r.Worker
	c.Attempts++
	if c.Attempts == 1 {
		if err := u.TaskStatus(t, c.TaskID, agent.TaskRunning); err != nil {
			return 0, err
		}
	}
	return 0, u.SaveCall(t, c)
}

// NoteTool appends an event about a call that runs.
func (s *Store) NoteTool(ctx context.Context, n memory.ToolNote) error {
	return s.write(ctx, "note", func(u *Unit) error {
		t, turn, c, err := u.OpenCall(n.ThreadID, n.TurnID, n.CallID)
		if err != nil {
			return err
		}
		if c.Status != agent.CallRunning || c.Attempts != n.Attempt {
			return memory.Stale("attempt %d of call %s is not running any more (%s, attempt %d)", n.Attempt, c.ID, c.Status, c.Attempts)
		}
		return u.Event(t, turn.ID, n.Event, n.Data)
	})
}

// SaveResult makes a call's result durable.
func (s *Store) SaveResult(ctx context.Context, r memory.ToolOutcome) error {
	if r.Result.Status == agent.CallPending {
		return agent.Errorf(agent.CodeInvalid, "call %s has no result to save", r.CallID)
	}
	_, err := s.SaveResults(ctx, []memory.ToolOutcome{r})
	return err
}

// SaveResults is SaveResult for several calls of a step.
func (s *Store) SaveResults(ctx context.Context, rs []memory.ToolOutcome) (round *memory.RoundSaved, err error) {
	for _, r := range rs {
		switch r.Result.Status {
		case agent.CallSuccess, agent.CallFailed, agent.CallPending:
		default:
			return nil, agent.Errorf(agent.CodeInvalid, "result of call %s has status %q: a tool ends as success or failed", r.CallID, r.Result.Status)
		}
	}
	err = s.write(ctx, "result", func(u *Unit) error {
		round = nil
		for i, r := range rs {
			t, turn, c, err := u.OpenCall(r.ThreadID, r.TurnID, r.CallID)
			if err != nil {
				return err
			}
			changed, err := u.saveResult(t, turn, c, r)
			if err == nil && changed && i == len(rs)-1 {
				round, err = u.saveIfLast(t, turn, c.Step)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return round, err
}

func (u *Unit) saveResult(t *rows.Thread, turn *rows.Turn, c *rows.Call, r memory.ToolOutcome) (changed bool, err error) {
	if c.Status.Final() && c.Attempts == r.Attempt {
		return false, nil
	}
	// A call that cannot run at all (unknown tool, bad arguments) never began.
	neverBegan := c.Status == agent.CallPending && r.Attempt == 0 && r.Result.Status == agent.CallFailed
	running := c.Status == agent.CallRunning && c.Attempts == r.Attempt && !c.Delegation && !c.WaitsForAnswer()
	if !neverBegan && !running {
		return false, memory.Stale("attempt %d of call %s is not the current one (%s, attempt %d)", r.Attempt, c.ID, c.Status, c.Attempts)
	}
	if r.Result.Status == agent.CallPending {
		c.Status, c.Worker = agent.CallPending, ""
		return true, u.SaveCall(t, c)
	}
	if r.Full != "" {
		err := u.Exec(`INSERT INTO outputs (call_id, body) VALUES (?, ?) ON CONFLICT (call_id) DO NOTHING`, c.ID, rows.Clean(r.Full))
		if err != nil {
			return false, err
		}
	}
	if err := u.use(t, agent.Usage{}, r.Duration); err != nil {
		return false, err
	}
	return true, u.Finish(t, turn, c, Ending{Status: r.Result.Status, Reason: r.Result.ErrorReason, Text: r.Result.Content, ms: r.Duration.Milliseconds()})
}

// saveIfLast saves a step's round with the last of its results, in one
// transaction: SaveToolRound then finds it done.
func (u *Unit) saveIfLast(t *rows.Thread, turn *rows.Turn, number int) (*memory.RoundSaved, error) {
	calls, err := u.Calls(turn.ID, number)
	if err != nil {
		return nil, err
	}
	for _, c := range calls {
		if !c.Status.Final() {
			return nil, nil
		}
	}
	step, err := u.Step(turn.ID, number)
	if err != nil || step == nil || !step.Stored || step.Saved {
		return nil, err
	}
	round, err := u.saveRound(t, turn, step, calls)
	return &round, err
}
