package rules

import (
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// deliver puts the end of a sub-agent's turn into its delegator's inbox.
func (u *Unit) deliver(turn *rows.Turn, closed *memory.Closed) {
	if turn.DelegatorThread == "" {
		return
	}
	u.AddUsageAbove(turn)
	target := u.Thread(turn.DelegatorThread)
	if turn.Background {
		u.ChildEnded(turn)
		target = u.reachable(target)
	}
	e := u.ChildEntry(target, turn)
	if !turn.Background && target.OpenTurnID != turn.DelegatorTurn {
		// Nobody waits for it any more. It stands there, but opens nothing.
		e.State = memory.EntryDropped
	}
	// Whatever it lands on: the turn open there may end before it is read, and
	// then it is moved on.
	e.Quiet = turn.Quiet
	u.Enter(target, e)
	if e.State == memory.EntryWaiting && !e.Quiet {
		closed.Notify = &memory.Notify{ThreadID: target.ID}
		if target.OpenTurnID != "" {
			closed.Notify.RunID = u.Turn(target.OpenTurnID).RunID
		}
	}
}

// AddUsageAbove adds what a child's turn used, once and for all, to the turn that
// ordered it. If that one was closed before, what it used was passed on without
// this: it goes on to the turn that ordered that, and so on. So a thread's totals
// hold its whole tree, whether or not anybody reads the child's end.
func (u *Unit) AddUsageAbove(child *rows.Turn) {
	for at := child; at.DelegatorThread != ""; {
		t := u.Thread(at.DelegatorThread)
		turn := u.Turn(at.DelegatorTurn)
		rows.RollUp(t, turn, child.Usage)
		if turn.State == memory.TurnOpen {
			return
		}
		at = turn
	}
}

// reachable is where the end of a background child is read: by its delegator if
// that is a main thread or at work, else by the nearest ancestor at work, else
// by the root.
func (u *Unit) reachable(t *rows.Thread) *rows.Thread {
	for t.Kind != agent.KindMain && t.OpenTurnID == "" {
		t = u.Thread(t.ParentThreadID)
	}
	return t
}

// ChildEntry is the entry that reports a child's end to a thread.
func (u *Unit) ChildEntry(target *rows.Thread, child *rows.Turn) *rows.Entry {
	o := u.outcomeFor(target, child)
	return &rows.Entry{InboxEntry: memory.InboxEntry{
		Kind: memory.EntryChild, ID: child.ID, State: memory.EntryWaiting, TurnID: agent.TurnID(target.ID, child.ID, 0),
		Content: agent.Text(agent.DelegationResultFormatter{}.Result(o)), ChildThread: child.ThreadID, ChildTurn: child.ID,
		CallID: child.DelegatorCall, TaskID: child.TaskID, Background: child.Background,
		DelegatorThread: child.DelegatorThread, DelegatorTurn: child.DelegatorTurn,
	}}
}

// outcomeFor is the end of a child as a thread reads it, which need not be
// the one that ordered it.
func (u *Unit) outcomeFor(target *rows.Thread, child *rows.Turn) agent.SpecialistAgentResult {
	o := u.Outcome(child)
	if child.DelegatorThread == target.ID {
		return o
	}
	t := u.Thread(child.DelegatorThread)
	o.StartedBy = t.AgentID
	for t.ParentThreadID != target.ID && t.ParentThreadID != "" {
		t = u.Thread(t.ParentThreadID)
	}
	o.Through = t.AgentID
	return o
}

// report is what a thread's model reads of the end of a background child: in
// short if it has read that end with task_output.
func (u *Unit) report(t *rows.Thread, child *rows.Turn) agent.Content {
	o := u.outcomeFor(t, child)
	results := u.Strings(`SELECT result FROM tool_calls WHERE thread_id = ? AND created_at >= ? AND name = ? AND status = ?`,
		t.ID, child.OpenedMs, agent.ToolTaskOutput, string(agent.CallSuccess))
	read := o
	read.Background = false
	// The numbers in it may have grown since: they hold the sub-agent's own ones.
	want := withoutNumbers(rows.Clean(agent.DelegationResultFormatter{}.Result(read)))
	if !slices.ContainsFunc(results, func(r string) bool { return withoutNumbers(r) == want }) {
		return agent.Text(agent.DelegationResultFormatter{}.Result(o))
	}
	return agent.Text(agent.DelegationResultFormatter{}.Seen(o))
}

// withoutNumbers leaves the line out that says what a sub-agent used.
func withoutNumbers(text string) string {
	before, rest, _ := strings.Cut(text, "\nduration: ")
	_, after, _ := strings.Cut(rest, "\n")
	return before + "\n" + after
}

// claimNext is what follows a closed turn: a main thread takes its next entry or
// becomes idle, a sub-agent's next turn is started by its delegator.
func (u *Unit) claimNext(t *rows.Thread, turn *rows.Turn, r memory.CloseRequest, closed *memory.Closed) {
	if t.Kind == agent.KindSubAgent {
		u.MoveReports(t)
		closed.Waiting = u.nextDelegator(t)
		return
	}
	// Nobody runs a turn whose run is gone: a next one claimed here would stand
	// open without a run. The sweep starts it instead.
	if r.Reason == agent.ReasonTerminated {
		return
	}
	if next := u.claim(t, turn.RunID, r.NextConfig); next != nil {
		closed.Next, turn.NextTurn = next.ID, next.ID
	}
}

// MoveReports moves the ends of background children that a sub-agent did not read
// before its turn closed to the thread that reads them now.
func (u *Unit) MoveReports(t *rows.Thread) {
	for _, e := range u.Entries(`thread_id = ? AND kind = 'child' AND background = 1 AND state = 'waiting'`, t.ID) {
		target := u.reachable(t)
		moved := u.ChildEntry(target, u.Turn(e.ChildTurn))
		content := rows.Must(rows.Encode(moved.Content))
		t.Touch()
		target.Touch()
		if !e.Quiet {
			t.Waiting--
			target.Waiting++
		}
		target.LastEntry++
		u.Exec(`UPDATE inbox SET thread_id = ?, seq = ?, turn_id = ?, content = ?, created_at = ? WHERE thread_id = ? AND seq = ?`,
			target.ID, target.LastEntry, moved.TurnID, content, target.At, e.ThreadID, e.Seq)
	}
}

// nextDelegator is who ordered the oldest work waiting in a sub-agent's inbox.
func (u *Unit) nextDelegator(t *rows.Thread) string {
	if t.Waiting == 0 {
		return ""
	}
	e := u.Entry(`thread_id = ? AND `+rows.Takeable+` ORDER BY seq LIMIT 1`, t.ID)
	if e == nil {
		return ""
	}
	return e.DelegatorThread
}

// EndUnstarted ends work in the background that its child has not begun, as a
// turn that was cancelled before its first step, and reports it to its delegator.
func (u *Unit) EndUnstarted(e *rows.Entry) {
	t := u.Thread(e.ThreadID)
	u.Drop(t, e)
	t.LastTurn++
	turn := &rows.Turn{Turn: memory.Turn{
		ID: e.TurnID, ThreadID: t.ID, EntryKind: e.Kind, MessageID: e.ID, State: memory.TurnClosed, Outcome: agent.ThreadCancelled,
		DelegatorThread: e.DelegatorThread, DelegatorTurn: e.DelegatorTurn, DelegatorCall: e.CallID, TaskID: e.TaskID, Background: e.Background,
	}, N: t.LastTurn, OpenedMs: t.At, ClosedMs: t.At, Quiet: true}
	u.InsertTurn(turn)
	if t.OpenTurnID == "" {
		t.Status, t.Reason = agent.ThreadCancelled, ""
	}
	r := memory.CloseRequest{Outcome: agent.ThreadCancelled, Message: "cancelled before it began"}
	u.endEvent(t, turn, r)
	closed := memory.Closed{Outcome: agent.ThreadCancelled}
	u.deliver(turn, &closed)
	u.Remember(turn, closed)
}
