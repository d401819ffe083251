package copy

import (
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// closing ends what copied threads cannot go on with. Nobody runs a turn of a
// copy, nobody decides or answers in it, and nothing of it opens a turn.
type closing struct {
	*unit
	list    []*rows.Thread // parents before their children
	dropped []memory.Dropped
}

// leaveOut notes what an import leaves out.
func (c *closing) leaveOut(threadID, what string) {
	c.dropped = append(c.dropped, memory.Dropped{ThreadID: threadID, What: what})
}

func (c *closing) close() {
	for _, t := range c.list {
		c.closeOpen(t)
		c.closeInbox(t)
	}
	for _, t := range c.list {
		if !t.Status.Final() { // nothing is left of what it is at: its state is that of its last turn
			t.Status, t.Reason, t.Dirty = agent.ThreadCancelled, "", true
			if last := c.LastTurn(t); last != nil {
				t.Status, t.Reason = last.Outcome, last.Reason
			}
		}
		c.settleAsked(t)
		// Nobody makes a failed model call again.
		c.Exec(`UPDATE steps SET wait = '' WHERE wait <> '' AND turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`, t.ID)
	}
}

// closeOpen ends a turn that is open as cancelled, with the turns of sub-agents
// in the foreground below it.
func (c *closing) closeOpen(t *rows.Thread) {
	if t.OpenTurnID == "" {
		return
	}
	turn := c.FindTurn(t.OpenTurnID)
	if turn == nil || turn.ThreadID != t.ID || turn.State != memory.TurnOpen {
		rows.Refuse(agent.CodeInvalid, "thread %s is at work on turn %s, which is not an open one of its own", t.ID, t.OpenTurnID)
	}
	if turn.DelegatorThread != "" && !turn.Background {
		rows.Refuse(agent.CodeInvalid, "turn %s of thread %s is open, and the turn that waits for it is not: export the whole conversation", turn.ID, t.ID)
	}
	switch t.Status {
	case agent.ThreadWaitingForApproval:
		c.leaveOut(t.ID, "an approval that nobody had decided: it ended as aborted")
	case agent.ThreadWaitingForUser:
		c.leaveOut(t.ID, "a question that nobody had answered: it ended as aborted")
	}
	closed := memory.Closed{Outcome: agent.ThreadCancelled}
	c.End(t, turn, memory.CloseRequest{ThreadID: t.ID, Outcome: agent.ThreadCancelled, Message: importedText}, &closed)
	for _, one := range append([]memory.ThreadTurn{{ThreadID: t.ID}}, closed.Stopped...) {
		c.leaveOut(one.ThreadID, "the turn that was open: it ended as cancelled")
	}
	c.Remember(turn, closed)
	c.tell(turn)
}

// tell notes the end of a sub-agent's turn in the background for the next message
// of the conversation, and adds what it used to the turns above.
func (c *closing) tell(turn *rows.Turn) {
	if turn.DelegatorThread == "" {
		return
	}
	c.AddUsageAbove(turn)
	c.ChildEnded(turn)
	root := c.Thread(c.Thread(turn.ThreadID).RootThreadID)
	e := c.ChildEntry(root, turn)
	e.Quiet = true
	c.Enter(root, e)
}

// closeInbox drops what waits in an inbox. Work in the background that had not
// begun ends as cancelled. What a sub-agent in the background has answered is told
// with the next message.
func (c *closing) closeInbox(t *rows.Thread) {
	for _, e := range c.Entries(`thread_id = ? AND state = 'waiting'`, t.ID) {
		switch {
		case e.Kind == memory.EntryChild && e.Background && c.ended(e):
			if e.Quiet {
				continue
			}
			t.Waiting--
			t.Touch()
			c.Exec(`UPDATE inbox SET quiet = 1 WHERE thread_id = ? AND seq = ?`, t.ID, e.Seq)
		case e.Kind == memory.EntryAssign && e.Background:
			c.leaveOut(t.ID, "work that it had not begun: it ended as cancelled")
			c.EndUnstarted(e)
		default:
			c.leaveOut(t.ID, fmt.Sprintf("an entry that waited (%s %s)", e.Kind, e.ID))
			c.Drop(t, e)
		}
	}
	if t.Kind == agent.KindSubAgent {
		c.MoveReports(t)
	}
}

// ended reports whether an entry tells the end of a turn that has ended.
func (c *closing) ended(e *rows.Entry) bool {
	turn := c.FindTurn(e.ChildTurn)
	return turn != nil && turn.State == memory.TurnClosed && turn.ThreadID == e.ChildThread
}

// settleAsked says in a log that what it asks people is settled: nobody can
// decide or answer it any more.
func (c *closing) settleAsked(t *rows.Thread) {
	log := rows.Find(c, (*rows.Event).Targets, nil, rows.SelectEvent+` WHERE thread_id = ? AND type IN (?, ?, ?, ?) ORDER BY seq`, t.ID,
		agent.EventApprovalRequired, agent.EventApprovalResponse, agent.EventQuestionAsked, agent.EventQuestionAnswered)
	settled := map[string]bool{}
	for i := len(log) - 1; i >= 0; i-- { // a settlement stands behind what it settles
		var a rows.ApprovalRequired
		var q rows.QuestionAsked
		rows.Check(rows.Decode(log[i].DataText, &a))
		rows.Check(rows.Decode(log[i].DataText, &q))
		switch id := a.ApprovalID + q.QuestionID; {
		case settled[id]:
		case log[i].Type == agent.EventQuestionAsked:
			c.Event(t, "", agent.EventQuestionAnswered, rows.QuestionAnswered{QuestionID: q.QuestionID, State: string(memory.QuestionAborted), Agent: q.Agent, ThreadID: q.ThreadID})
		case log[i].Type == agent.EventApprovalRequired:
			c.Event(t, "", agent.EventApprovalResponse, rows.ApprovalResponse{ApprovalID: a.ApprovalID, Decision: rows.OutcomeAborted, ThreadID: a.ThreadID})
		default:
			settled[id] = true
		}
	}
}

// checkClosed refuses rows that contradict their threads so that something is
// still open.
func (c *closing) checkClosed() {
	c.Flush()
	for _, t := range c.list {
		for what, query := range map[string]string{
			"an open turn":       `SELECT COUNT(*) FROM turns WHERE thread_id = ? AND state <> 'closed'`,
			"a waiting entry":    `SELECT COUNT(*) FROM inbox WHERE thread_id = ? AND state NOT IN ('taken', 'dropped') AND (kind <> 'child' OR quiet <> 1)`,
			"an open approval":   `SELECT COUNT(*) FROM asks WHERE thread_id = ? AND kind = 'approval' AND outcome = ''`,
			"an open question":   `SELECT COUNT(*) FROM asks WHERE thread_id = ? AND kind <> 'approval' AND outcome NOT IN ('answered', 'aborted')`,
			"an unfinished call": `SELECT COUNT(*) FROM tool_calls WHERE thread_id = ? AND status NOT IN ('success', 'failed', 'unknown', 'aborted', 'denied')`,
		} {
			var left int
			rows.Check(c.Row(query, t.ID).Scan(&left))
			if left > 0 {
				rows.Refuse(agent.CodeInvalid, "the rows of thread %s contradict each other: %s is left where nothing is at work; leave its \"store\" out to import the messages alone", t.ID, what)
			}
		}
		if t.Waiting != 0 || !t.Status.Final() {
			rows.Refuse(agent.CodeInvalid, "the rows of thread %s contradict each other: it is %s, and %d entries wait; leave its \"store\" out to import the messages alone", t.ID, t.Status, t.Waiting)
		}
	}
}
