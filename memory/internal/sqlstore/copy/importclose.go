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
	message string          // why a turn ended
	list    []*rows.Thread  // parents before their children
	passed  map[string]bool // turns whose use the turns above have already
	told    map[string]bool // calls whose sub-agent's end is in the log already
	dropped []memory.Dropped
}

// leaveOut notes what an import leaves out.
func (c *closing) leaveOut(threadID, what string) {
	c.dropped = append(c.dropped, memory.Dropped{ThreadID: threadID, What: what})
}

func (c *closing) close() error {
	for _, t := range c.list {
		if err := c.closeOpen(t); err != nil {
			return err
		}
		if err := c.closeInbox(t); err != nil {
			return err
		}
	}
	for _, t := range c.list {
		if err := c.settleAsked(t); err != nil {
			return err
		}
		// Nobody makes a failed model call again.
		if err := c.Exec(`UPDATE steps SET wait = '' WHERE wait <> '' AND turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`, t.ID); err != nil {
			return err
		}
	}
	return nil
}

// closeOpen ends a turn that is open as cancelled, with the turns of sub-agents
// in the foreground below it.
func (c *closing) closeOpen(t *rows.Thread) error {
	if t.OpenTurnID == "" {
		return nil
	}
	turn, err := c.Turn(t.OpenTurnID)
	if err != nil || turn.ThreadID != t.ID || turn.State != memory.TurnOpen {
		return agent.Errorf(agent.CodeInvalid, "thread %s is at work on turn %s, which is not an open one of its own", t.ID, t.OpenTurnID)
	}
	if turn.DelegatorThread != "" && !turn.Background {
		return agent.Errorf(agent.CodeInvalid, "turn %s of thread %s is open, and the turn that waits for it is not: export the whole conversation", turn.ID, t.ID)
	}
	switch t.Status {
	case agent.ThreadWaitingForApproval:
		c.leaveOut(t.ID, "an approval that nobody had decided: it ended as aborted")
	case agent.ThreadWaitingForUser:
		c.leaveOut(t.ID, "a question that nobody had answered: it ended as aborted")
	}
	closed := memory.Closed{Outcome: agent.ThreadCancelled}
	if err := c.End(t, turn, memory.CloseRequest{ThreadID: t.ID, Outcome: agent.ThreadCancelled, Message: c.message}, &closed); err != nil {
		return err
	}
	for _, one := range append([]memory.ThreadTurn{{ThreadID: t.ID}}, closed.Stopped...) {
		c.leaveOut(one.ThreadID, "the turn that was open: it ended as cancelled")
	}
	if err := c.Remember(turn, closed); err != nil {
		return err
	}
	return c.tell(turn)
}

// tell notes the end of a sub-agent's turn in the background for the next message
// of the conversation, and adds what it used to the turns above.
func (c *closing) tell(turn *rows.Turn) error {
	if turn.DelegatorThread == "" {
		return nil
	}
	if !c.passed[turn.ID] {
		if err := c.AddUsageAbove(turn); err != nil {
			return err
		}
	}
	if !c.told[turn.DelegatorCall] {
		if err := c.ChildEnded(turn); err != nil {
			return err
		}
	}
	t, err := c.Thread(turn.ThreadID)
	if err != nil {
		return err
	}
	root, err := c.Thread(t.RootThreadID)
	if err != nil {
		return err
	}
	e, err := c.ChildEntry(root, turn)
	if err != nil {
		return err
	}
	e.Quiet = true
	return c.Enter(root, e)
}

// closeInbox drops what waits in an inbox. Work in the background that had not
// begun ends as cancelled. What a sub-agent in the background has answered is told
// with the next message.
func (c *closing) closeInbox(t *rows.Thread) error {
	entries, err := c.Entries(`thread_id = ? AND state = 'waiting'`, t.ID)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Kind == memory.EntryChild && e.Background && c.ended(e):
			if e.Quiet {
				continue
			}
			t.Waiting--
			t.Touch()
			err = c.Exec(`UPDATE inbox SET quiet = 1 WHERE thread_id = ? AND seq = ?`, t.ID, e.Seq)
		case e.Kind == memory.EntryAssign && e.Background:
			c.leaveOut(t.ID, "work that it had not begun: it ended as cancelled")
			err = c.EndUnstarted(e)
		default:
			c.leaveOut(t.ID, fmt.Sprintf("an entry that waited (%s %s)", e.Kind, e.ID))
			err = c.Drop(t, e)
		}
		if err != nil {
			return err
		}
	}
	if t.Kind == agent.KindSubAgent {
		return c.MoveReports(t)
	}
	return nil
}

// ended reports whether an entry tells the end of a turn that has ended.
func (c *closing) ended(e *rows.Entry) bool {
	turn, err := c.Turn(e.ChildTurn)
	return err == nil && turn.State == memory.TurnClosed && turn.ThreadID == e.ChildThread
}

// settleAsked says in a log that what it asks people is settled: nobody can
// decide or answer it any more.
func (c *closing) settleAsked(t *rows.Thread) error {
	log, err := rows.Find(c, func(e *rows.Event) []any { return []any{&e.Type, &e.DataText} }, nil, `SELECT type, data FROM events WHERE thread_id = ? AND type IN (?, ?, ?, ?) ORDER BY seq`, t.ID,
		agent.EventApprovalRequired, agent.EventApprovalResponse, agent.EventQuestionAsked, agent.EventQuestionAnswered)
	if err != nil {
		return err
	}
	settled := map[string]bool{}
	for i := len(log) - 1; i >= 0; i-- { // a settlement stands behind what it settles
		var a rows.ApprovalRequired
		var q rows.QuestionAsked
		if err := rows.Decode(log[i].DataText, &a); err != nil {
			return err
		}
		if err := rows.Decode(log[i].DataText, &q); err != nil {
			return err
		}
		switch id := a.ApprovalID + q.QuestionID; {
		case settled[id]:
		case log[i].Type == agent.EventQuestionAsked:
			err = c.Event(t, "", agent.EventQuestionAnswered, rows.QuestionAnswered{QuestionID: q.QuestionID, State: string(memory.QuestionAborted), Agent: q.Agent, ThreadID: q.ThreadID})
		case log[i].Type == agent.EventApprovalRequired:
			err = c.Event(t, "", agent.EventApprovalResponse, rows.ApprovalResponse{ApprovalID: a.ApprovalID, Decision: rows.OutcomeAborted, ThreadID: a.ThreadID})
		default:
			settled[id] = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkClosed refuses rows that contradict their threads so that something is
// still open.
func (c *closing) checkClosed() error {
	if err := c.Flush(); err != nil {
		return err
	}
	for _, t := range c.list {
		for what, query := range map[string]string{
			"an open turn":       `SELECT COUNT(*) FROM turns WHERE thread_id = ? AND state <> 'closed'`,
			"a waiting entry":    `SELECT COUNT(*) FROM inbox WHERE thread_id = ? AND state NOT IN ('taken', 'dropped') AND (kind <> 'child' OR quiet <> 1)`,
			"an open approval":   `SELECT COUNT(*) FROM asks WHERE thread_id = ? AND kind = 'approval' AND outcome = ''`,
			"an open question":   `SELECT COUNT(*) FROM asks WHERE thread_id = ? AND kind <> 'approval' AND outcome NOT IN ('answered', 'aborted')`,
			"an unfinished call": `SELECT COUNT(*) FROM tool_calls WHERE thread_id = ? AND status NOT IN ('success', 'failed', 'unknown', 'aborted', 'denied')`,
		} {
			var left int
			if err := c.Row(query, t.ID).Scan(&left); err != nil {
				return err
			}
			if left > 0 {
				return agent.Errorf(agent.CodeInvalid, "the rows of thread %s contradict each other: %s is left where nothing is at work; leave its \"store\" out to import the messages alone", t.ID, what)
			}
		}
		if t.Waiting != 0 || !t.Status.Final() && t.Status != agent.ThreadPending {
			return agent.Errorf(agent.CodeInvalid, "the rows of thread %s contradict each other: it is %s, and %d entries wait; leave its \"store\" out to import the messages alone", t.ID, t.Status, t.Waiting)
		}
	}
	return nil
}
