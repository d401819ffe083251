package sqlstore

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// results appends the results that are missing behind the last message. Further
// up nothing can be put in: seq has no gaps.
func (r *repairs) results() error {
	messages, err := r.messages(r.t.ID)
	if err != nil {
		return err
	}
	at := len(messages) - 1
	given := map[string]bool{}
	for ; at >= 0 && messages[at].Role == agent.RoleTool; at-- {
		given[messages[at].ToolCallID] = true
	}
	if at < 0 {
		return nil
	}
	from := r.t.lastMessage + 1
	for _, c := range messages[at].ToolCalls {
		if given[c.ID] {
			continue
		}
		m := agent.Message{
			ID: agent.ToolMessageID(c.ID), Role: agent.RoleTool, ToolCallID: c.ID, Name: c.Function.Name, TurnID: messages[at].TurnID,
			Content: agent.Text(agent.TextUnknown), Status: agent.CallUnknown, ErrorReason: agent.ErrUnknown,
		}
		call := &callRow{}
		err := r.row(selectCall+` WHERE id = ?`, c.ID).Scan(call.targets()...)
		switch {
		case noRows(err):
		case err != nil:
			return err
		case call.Status.Final():
			m.Content, m.Status, m.ErrorReason = agent.Text(call.Result), call.Status, call.ErrorReason
		}
		if _, err := r.append(r.t, m); err != nil {
			return err
		}
		r.did("call %s has its result in the conversation again", c.ID)
	}
	if r.t.lastMessage < from {
		return nil
	}
	return r.appended(r.t, messages[at].TurnID, from, r.t.lastMessage)
}

// settled ends what only open turns may have: open approvals and questions,
// reservations.
func (r *repairs) settled() error {
	open, err := asks(r, `thread_id = ? AND outcome = '' AND turn_id NOT IN (SELECT id FROM turns WHERE state = 'open')`, r.t.ID)
	if err != nil {
		return err
	}
	for _, a := range open {
		if err := r.exec(`UPDATE asks SET outcome = ?, settled_at = ? WHERE id = ?`, outcomeAborted, r.t.at, a.id); err != nil {
			return err
		}
		r.did("%s %s is settled as aborted: its turn is closed", a.kind, a.id)
	}
	const lost = ` FROM reservations WHERE turn_id IN (SELECT id FROM turns WHERE thread_id = ? AND state = 'closed')`
	var n int
	if err := r.row(`SELECT COUNT(*)`+lost, r.t.ID).Scan(&n); err != nil || n == 0 {
		return err
	}
	r.did("%d reservations of closed turns are given back", n)
	return r.exec(`DELETE`+lost, r.t.ID)
}

// creation links a sub-agent to the call that made it, and its turns to tasks.
func (r *repairs) creation() error {
	t := r.t
	if t.Kind != agent.KindSubAgent {
		return nil
	}
	parent, err := r.thread(t.ParentThreadID)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return nil // nothing can be done about it here
	}
	if err != nil {
		return err
	}
	logged, err := r.logged(parent.ID)
	if err != nil {
		return err
	}
	if !logged[agent.EventToolCall+t.ParentToolCallID+t.ID] && !logged[agent.EventToolCall+t.ParentToolCallID] {
		c := &callRow{}
		err := r.row(selectCall+` WHERE id = ? AND thread_id = ? AND child_thread = ?`, t.ParentToolCallID, parent.ID, t.ID).Scan(c.targets()...)
		switch {
		case noRows(err):
		case err != nil:
			return err
		default:
			if err := c.loaded(); err != nil {
				return err
			}
			err = r.event(parent, c.TurnID, agent.EventToolCall, toolCall{Intent: c.ToolName, Arguments: c.Args, ToolCallID: c.ID, SubAgentThread: t.ID})
			if err != nil {
				return err
			}
			r.did("the log of %s has the event that made it again", parent.ID)
		}
	}
	return r.tasks()
}

// tasks makes the tasks of a sub-agent's turns that are missing.
func (r *repairs) tasks() error {
	ids, err := r.strings(`SELECT id FROM turns WHERE thread_id = ? AND entry_kind = 'assign' AND task_id <> ''`+
		` AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = turns.task_id) ORDER BY n`, r.t.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		turn, err := r.turn(id)
		if err != nil {
			return err
		}
		delegator, err := r.thread(turn.DelegatorThread)
		if err != nil {
			return err
		}
		above, err := r.turn(turn.DelegatorTurn)
		if err != nil {
			return err
		}
		e, err := r.entry(`thread_id = ? AND kind = 'assign' AND id = ?`, r.t.ID, turn.MessageID)
		if err != nil {
			return err
		}
		instruction := ""
		if e != nil {
			instruction = e.Content.String()
		}
		if err := r.newTask(delegator, above, turn.DelegatorCall, "agent", r.t.AgentType, instruction, r.t.ID); err != nil {
			return err
		}
		r.did("task %s of turn %s is there again", turn.TaskID, turn.ID)
		if turn.State != memory.TurnClosed {
			if err := r.taskStatus(delegator, turn.TaskID, agent.TaskRunning); err != nil {
				return err
			}
			continue
		}
		if err := r.endDelegatorTask(turn, or(turn.Answer, turn.Error)); err != nil {
			return err
		}
	}
	return nil
}

// endsNowhere is the condition of turns of sub-agents whose end was delivered
// and does not stand in any inbox.
const endsNowhere = `entry_kind = 'assign' AND state = 'closed'` +
	` AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.thread_id IN (SELECT o.id FROM threads o JOIN threads me ON o.root_id = me.root_id WHERE me.id = turns.thread_id)` +
	` AND inbox.kind = 'child' AND inbox.id = turns.id)` +
	` AND (background = 1 OR NOT EXISTS (SELECT 1 FROM tool_calls c WHERE c.id = turns.delegator_call` +
	` AND c.status IN ('success', 'failed', 'unknown', 'aborted', 'denied')))`

// childEnds delivers the ends of a sub-agent's turns that stand nowhere.
func (r *repairs) childEnds() error {
	if r.t.Kind != agent.KindSubAgent {
		return nil
	}
	ids, err := r.strings(`SELECT id FROM turns WHERE thread_id = ? AND `+endsNowhere+` ORDER BY n`, r.t.ID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		turn, err := r.turn(id)
		if err != nil {
			return err
		}
		var closed memory.Closed
		if err := r.deliver(turn, &closed); err != nil {
			if agent.CodeOf(err) == agent.CodeNotFound {
				continue
			}
			return err
		}
		r.did("the end of turn %s is delivered to %s", id, turn.DelegatorThread)
		if err := r.fillInbox(id); err != nil {
			return err
		}
	}
	return nil
}

// fillInbox gives an entry that was just delivered the number of one that is gone.
func (r *repairs) fillInbox(childTurn string) error {
	e, err := r.entry(`kind = 'child' AND id = ?`, childTurn)
	if err != nil || e == nil {
		return err
	}
	target, err := r.thread(e.ThreadID)
	if err != nil || target.Kind != agent.KindMain {
		return err
	}
	var free int64
	err = r.row(`SELECT COALESCE(MIN(n), 0) FROM (SELECT 1 AS n UNION ALL SELECT seq + 1 FROM inbox WHERE thread_id = ?) AS next`+
		` WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE thread_id = ? AND seq = n)`, target.ID, target.ID).Scan(&free)
	if err != nil || free == 0 || free >= e.Seq {
		return err
	}
	target.lastEntry, target.dirty = target.lastEntry-1, true
	return r.exec(`UPDATE inbox SET seq = ? WHERE thread_id = ? AND seq = ?`, free, target.ID, e.Seq)
}
