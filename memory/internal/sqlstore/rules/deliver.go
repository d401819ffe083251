package rules

import (
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// deliver puts the end of a sub-agent's turn into its delegator's inbox.
func (u *Unit) deliver(turn *rows.Turn, closed *memory.Closed) error {
	if turn.DelegatorThread == "" {
		return nil
	}
	if err := u.AddUsageAbove(turn); err != nil {
		return err
	}
	target, err := u.Thread(turn.DelegatorThread)
	if err != nil {
		return err
	}
	if turn.Background {
		if err := u.ChildEnded(turn); err != nil {
			return err
		}
		if target, err = u.reachable(target); err != nil {
			return err
		}
	}
	e, err := u.ChildEntry(target, turn)
	if err != nil {
		return err
	}
	if !turn.Background && target.OpenTurnID != turn.DelegatorTurn {
		// Nobody waits for it any more. It stands there, but opens nothing.
		e.State = memory.EntryDropped
	}
	// Whatever it lands on: the turn open there may end before it is read, and
	// then it is moved on.
	e.Quiet = turn.Quiet
	if err := u.Enter(target, e); err != nil || e.State != memory.EntryWaiting || e.Quiet {
		return err
	}
	closed.Notify, err = u.notify(target)
	return err
}

// AddUsageAbove adds what a child's turn used, once and for all, to the turn that
// ordered it. If that one was closed before, what it used was passed on without
// this: it goes on to the turn that ordered that, and so on. So a thread's totals
// hold its whole tree, whether or not anybody reads the child's end.
func (u *Unit) AddUsageAbove(child *rows.Turn) error {
	for at := child; at.DelegatorThread != ""; {
		t, err := u.Thread(at.DelegatorThread)
		if err != nil {
			return err
		}
		turn, err := u.Turn(at.DelegatorTurn)
		if err != nil {
			return err
		}
		rows.RollUp(t, turn, child.Usage)
		if turn.State == memory.TurnOpen {
			return nil
		}
		at = turn
	}
	return nil
}

// reachable is where the end of a background child is read: by its delegator if
// that is a main thread or at work, else by the nearest ancestor at work, else
// by the root.
func (u *Unit) reachable(t *rows.Thread) (*rows.Thread, error) {
	for t.Kind != agent.KindMain && t.OpenTurnID == "" {
		parent, err := u.Thread(t.ParentThreadID)
		if err != nil {
			return nil, err
		}
		t = parent
	}
	return t, nil
}

// ChildEntry is the entry that reports a child's end to a thread.
func (u *Unit) ChildEntry(target *rows.Thread, child *rows.Turn) (*rows.Entry, error) {
	o, err := u.outcomeFor(target, child)
	if err != nil {
		return nil, err
	}
	return &rows.Entry{InboxEntry: memory.InboxEntry{
		Kind: memory.EntryChild, ID: child.ID, State: memory.EntryWaiting, TurnID: agent.TurnID(target.ID, child.ID, 0),
		Content: agent.Text(agent.DelegationResultFormatter{}.Result(o)), ChildThread: child.ThreadID, ChildTurn: child.ID,
		CallID: child.DelegatorCall, TaskID: child.TaskID, Background: child.Background,
		DelegatorThread: child.DelegatorThread, DelegatorTurn: child.DelegatorTurn,
	}}, nil
}

// outcomeFor is the end of a child as a thread reads it, which need not be
// the one that ordered it.
func (u *Unit) outcomeFor(target *rows.Thread, child *rows.Turn) (agent.SpecialistAgentResult, error) {
	o, err := u.Outcome(child)
	if err != nil || child.DelegatorThread == target.ID {
		return o, err
	}
	t, err := u.Thread(child.DelegatorThread)
	if err != nil {
		return o, err
	}
	o.StartedBy = t.AgentID
	for t.ParentThreadID != target.ID && t.ParentThreadID != "" {
		if t, err = u.Thread(t.ParentThreadID); err != nil {
			return o, err
		}
	}
	o.Through = t.AgentID
	return o, nil
}

// report is what a thread's model reads of the end of a background child: in
// short if it has read that end with task_output.
func (u *Unit) report(t *rows.Thread, child *rows.Turn) (agent.Content, error) {
	o, err := u.outcomeFor(t, child)
	if err != nil {
		return agent.Content{}, err
	}
	read := o
	read.Background = false
	seen, err := u.readAlready(t, child, agent.DelegationResultFormatter{}.Result(read))
	if err != nil || !seen {
		return agent.Text(agent.DelegationResultFormatter{}.Result(o)), err
	}
	return agent.Text(agent.DelegationResultFormatter{}.Seen(o)), nil
}

// readAlready reports whether a thread's model got this text from task_output.
// The numbers in it may have grown since: they hold the sub-agent's own ones.
func (u *Unit) readAlready(t *rows.Thread, child *rows.Turn, text string) (bool, error) {
	results, err := u.Strings(`SELECT result FROM tool_calls WHERE thread_id = ? AND created_at >= ? AND name = ? AND status = ?`,
		t.ID, child.OpenedMs, agent.ToolTaskOutput, string(agent.CallSuccess))
	want := withoutNumbers(rows.Clean(text))
	return slices.ContainsFunc(results, func(r string) bool { return withoutNumbers(r) == want }), err
}

// withoutNumbers leaves the line out that says what a sub-agent used.
func withoutNumbers(text string) string {
	before, rest, _ := strings.Cut(text, "\nduration: ")
	_, after, _ := strings.Cut(rest, "\n")
	return before + "\n" + after
}

// notify names a thread with the run that holds its open turn.
func (u *Unit) notify(t *rows.Thread) (*memory.Notify, error) {
	n := &memory.Notify{ThreadID: t.ID}
	if t.OpenTurnID == "" {
		return n, nil
	}
	turn, err := u.Turn(t.OpenTurnID)
	if err != nil {
		return nil, err
	}
	n.RunID = turn.RunID
	return n, nil
}

// claimNext is what follows a closed turn: a main thread takes its next entry or
// becomes idle, a sub-agent's next turn is started by its delegator.
func (u *Unit) claimNext(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest, closed *memory.Closed) error {
	if t.Kind == agent.KindSubAgent {
		if err := u.MoveReports(t); err != nil {
			return err
		}
		var err error
		closed.Waiting, err = u.nextDelegator(t)
		return err
	}
	// Nobody runs a turn whose run is gone: a next one claimed here would stand
	// open without a run. The sweep starts it instead.
	if r.Reason == agent.ReasonTerminated {
		return nil
	}
	next, err := u.claim(t, turn.RunID, r.NextConfig)
	if err != nil || next == nil {
		return err
	}
	closed.Next, turn.NextTurn = next.ID, next.ID
	return nil
}

// MoveReports moves the ends of background children that a sub-agent did not read
// before its turn closed to the thread that reads them now.
func (u *Unit) MoveReports(t *rows.Thread) error {
	entries, err := u.Entries(`thread_id = ? AND kind = 'child' AND background = 1 AND state = 'waiting'`, t.ID)
	if err != nil {
		return err
	}
	for _, e := range entries {
		target, err := u.reachable(t)
		if err != nil {
			return err
		}
		child, err := u.Turn(e.ChildTurn)
		if err != nil {
			return err
		}
		moved, err := u.ChildEntry(target, child)
		if err != nil {
			return err
		}
		content, err := rows.Encode(moved.Content)
		if err != nil {
			return err
		}
		t.Touch()
		target.Touch()
		if !e.Quiet {
			t.Waiting--
			target.Waiting++
		}
		target.LastEntry++
		err = u.Exec(`UPDATE inbox SET thread_id = ?, seq = ?, turn_id = ?, content = ?, created_at = ? WHERE thread_id = ? AND seq = ?`,
			target.ID, target.LastEntry, moved.TurnID, content, target.At, e.ThreadID, e.Seq)
		if err != nil {
			return err
		}
	}
	return nil
}

// nextDelegator is who ordered the oldest work waiting in a sub-agent's inbox.
func (u *Unit) nextDelegator(t *rows.Thread) (string, error) {
	if t.Waiting == 0 {
		return "", nil
	}
	e, err := u.Entry(`thread_id = ? AND `+rows.Takeable+` ORDER BY seq LIMIT 1`, t.ID)
	if err != nil || e == nil {
		return "", err
	}
	return e.DelegatorThread, nil
}

// EndUnstarted ends work in the background that its child has not begun, as a
// turn that was cancelled before its first step, and reports it to its delegator.
func (u *Unit) EndUnstarted(e *rows.Entry) error {
	t, err := u.Thread(e.ThreadID)
	if err != nil {
		return err
	}
	if err := u.Drop(t, e); err != nil {
		return err
	}
	t.LastTurn++
	turn := &rows.Turn{Turn: memory.Turn{
		ID: e.TurnID, ThreadID: t.ID, EntryKind: e.Kind, MessageID: e.ID, State: memory.TurnClosed, Outcome: agent.ThreadCancelled,
		DelegatorThread: e.DelegatorThread, DelegatorTurn: e.DelegatorTurn, DelegatorCall: e.CallID, TaskID: e.TaskID, Background: e.Background,
	}, N: t.LastTurn, OpenedMs: t.At, ClosedMs: t.At, Quiet: true}
	if err := u.InsertTurn(turn); err != nil {
		return err
	}
	if t.OpenTurnID == "" {
		t.Status, t.Reason = agent.ThreadCancelled, ""
	}
	r := memory.CloseRequest{Outcome: agent.ThreadCancelled, Message: "cancelled before it began"}
	if err := u.endEvent(t, turn, r); err != nil {
		return err
	}
	closed := memory.Closed{Outcome: agent.ThreadCancelled}
	if err := u.deliver(turn, &closed); err != nil {
		return err
	}
	return u.Remember(turn, closed)
}
