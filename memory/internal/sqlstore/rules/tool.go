package rules

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
	"unicode/utf8"

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
func (s *Store) BeginTools(ctx context.Context, r memory.ToolBegin, callIDs []string) ([]memory.ToolStart, error) {
	return writing(ctx, s, "begin-tool", func(u *Unit) []memory.ToolStart {
		t, turn := u.Open(r.ThreadID, r.TurnID)
		turn.Cancelled()
		starts := make([]memory.ToolStart, len(callIDs))
		for i, id := range callIDs {
			starts[i] = u.startTool(t, turn, u.Call(turn.ID, id), r)
		}
		return starts
	})
}

func (u *Unit) startTool(t *rows.Thread, turn *rows.Turn, c *rows.Call, r memory.ToolBegin) (start memory.ToolStart) {
	lost, since := lostAttempt(c.Status == agent.CallRunning && !c.WaitsForAnswer() && !c.Delegation, c.Worker, r.Worker, c.Attempts), rows.Stamp(c.UpdatedMs)
	start.Wait = u.beginTool(t, turn, c, r)
	if lost > 0 && start.Wait == 0 {
		start.Lost, start.LostSince = lost, since
		then := "runs it again"
		if c.Status.Final() {
			then = "goes on without its result, as it may not be run twice"
		}
		u.tellLost(t, turn, c.ID, r.Worker, then)
	}
	start.Attempt, start.Final, start.Call, start.Approved = c.Attempts, c.Status.Final(), c.View(), c.ApprovalID != ""
	start.Thread = u.View(t)
	return start
}

// beginTool returns how long to wait before the call may begin.
func (u *Unit) beginTool(t *rows.Thread, turn *rows.Turn, c *rows.Call, r memory.ToolBegin) time.Duration {
	switch {
	case c.Status.Final():
		return 0
	case c.Delegation:
		rows.Refuse(agent.CodeConflict, "call %s is a delegation: it is opened, not run", c.ID)
	case c.WaitsForAnswer():
		rows.Refuse(agent.CodeConflict, "call %s is a question: a person answers it", c.ID)
	case c.Status == agent.CallAwaitingApproval || c.Gate == agent.GateAsk:
		rows.Refuse(agent.CodeConflict, "call %s (%s) needs a person's approval before it may run", c.ID, c.ToolName)
	case c.Status == agent.CallRunning && c.Fence.Repeats(r.Fence):
		return 0
	}
	before := c.Status
	if !c.Fence.Admit(r.Fence) {
		rows.Check(memory.Stale("attempt %d of activity %s is older than the current one of call %s", r.Fence.Number, r.Fence.Scope, c.ID))
	}
	if before == agent.CallRunning {
		rows.Check(gone(c.Worker, r.Worker))
	}
	if before == agent.CallRunning && !r.Repeatable {
		u.Finish(t, turn, c, Ending{Status: agent.CallUnknown, Reason: agent.ErrUnknown, Text: agent.TextUnknown})
		return 0
	}
	if before == agent.CallRunning && r.Worker != "" {
		if turn.Deadly(r.MaxLost) != nil {
			u.Finish(t, turn, c, Ending{Status: agent.CallFailed, Reason: agent.ErrUnknown, Text: agent.TextLost(c.Attempts)})
			return 0
		}
		if wait := turn.BackOff(u.Now); wait > 0 {
			return wait
		}
	}
	c.Status, c.Repeatable, c.Worker = agent.CallRunning, r.Repeatable, r.Worker
	if c.Attempts++; c.Attempts == 1 {
		u.TaskStatus(t, c.TaskID, agent.TaskRunning)
	}
	u.SaveCall(t, c)
	return 0
}

// NoteTool appends an event about a call that runs.
func (s *Store) NoteTool(ctx context.Context, n memory.ToolNote) error {
	return s.write(ctx, "note", func(u *Unit) {
		t, turn, c := u.OpenCall(n.ThreadID, n.TurnID, n.CallID)
		if c.Status != agent.CallRunning || c.Attempts != n.Attempt {
			rows.Check(memory.Stale("attempt %d of call %s is not running any more (%s, attempt %d)", n.Attempt, c.ID, c.Status, c.Attempts))
		}
		u.Event(t, turn.ID, n.Event, n.Data)
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
func (s *Store) SaveResults(ctx context.Context, rs []memory.ToolOutcome) (*memory.RoundSaved, error) {
	for _, r := range rs {
		switch r.Result.Status {
		case agent.CallSuccess, agent.CallFailed, agent.CallPending:
		default:
			return nil, agent.Errorf(agent.CodeInvalid, "result of call %s has status %q: a tool ends as success or failed", r.CallID, r.Result.Status)
		}
	}
	return writing(ctx, s, "result", func(u *Unit) (round *memory.RoundSaved) {
		for i, r := range rs {
			t, turn, c := u.OpenCall(r.ThreadID, r.TurnID, r.CallID)
			if u.saveResult(t, turn, c, r) && i == len(rs)-1 {
				round = u.saveIfLast(t, turn, c.Step)
			}
		}
		return round
	})
}

func (u *Unit) saveResult(t *rows.Thread, turn *rows.Turn, c *rows.Call, r memory.ToolOutcome) (changed bool) {
	if c.Status.Final() && c.Attempts == r.Attempt {
		return false
	}
	// A call that cannot run at all (unknown tool, bad arguments) never began.
	neverBegan := c.Status == agent.CallPending && r.Attempt == 0 && r.Result.Status == agent.CallFailed
	running := c.Status == agent.CallRunning && c.Attempts == r.Attempt && !c.Delegation && !c.WaitsForAnswer()
	if !neverBegan && !running {
		rows.Check(memory.Stale("attempt %d of call %s is not the current one (%s, attempt %d)", r.Attempt, c.ID, c.Status, c.Attempts))
	}
	if r.Result.Status == agent.CallPending {
		c.Status, c.Worker = agent.CallPending, ""
		u.SaveCall(t, c)
		return true
	}
	if r.Result.Whole != nil {
		u.saveOutput(c.ID, r.Result.Whole)
	}
	u.use(t, agent.Usage{}, r.Duration)
	u.Finish(t, turn, c, Ending{Status: r.Result.Status, Reason: r.Result.ErrorReason, Text: r.Result.Content, ms: r.Duration.Milliseconds()})
	return true
}

// outputPart is how much of an output a row holds, in bytes.
const outputPart = 1 << 20

// saveOutput stores an output part by part. Statements without results are kept for the
// next query, so each part is asked for first: the part before it is then sent and held
// no longer.
func (u *Unit) saveOutput(callID string, output *io.SectionReader) {
	buf := make([]byte, outputPart)
	for n, at := 0, int64(0); at < output.Size(); n++ {
		k, err := output.ReadAt(buf, at)
		if !errors.Is(err, io.EOF) {
			rows.Check(err)
		}
		if at+int64(k) < output.Size() { // the last character belongs to the next part
			for k--; k > outputPart-utf8.UTFMax && !utf8.RuneStart(buf[k]); k-- {
			}
		}
		if body := rows.Clean(string(buf[:k])); n == 0 {
			u.Exec(`INSERT INTO outputs (call_id, body) VALUES (?, ?) ON CONFLICT (call_id) DO NOTHING`, callID, body)
		} else if !u.One(`SELECT 1 FROM output_parts WHERE call_id = ? AND n = ?`, callID, n).Into(new(int)) {
			u.Exec(`INSERT INTO output_parts (call_id, n, body) VALUES (?, ?, ?)`, callID, n, body)
		}
		at += int64(k)
	}
}

// saveIfLast saves a step's round with the last of its results, in one
// transaction: SaveToolRound then finds it done.
func (u *Unit) saveIfLast(t *rows.Thread, turn *rows.Turn, number int) *memory.RoundSaved {
	calls := u.Calls(turn.ID, number)
	if slices.ContainsFunc(calls, func(c *rows.Call) bool { return !c.Status.Final() }) {
		return nil
	}
	step := u.Step(turn.ID, number)
	if step == nil || !step.Stored || step.Saved {
		return nil
	}
	return new(u.saveRound(t, turn, step, calls))
}
