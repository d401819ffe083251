package rows

import "github.com/spool-agents/spool/agent"

const insertTask = `INSERT INTO tasks (id, thread_id, type, name, instruction, sub_agent, status, result, error, trigger_id, created_at, updated_at)` +
	` VALUES (?, ?, ?, ?, ?, ?, ?, '', '', ?, ?, ?)`

// NewTask writes the record of a piece of work on the thread that ordered it.
func (u *Unit) NewTask(t *Thread, turn *Turn, callID, typ, name, instruction, subAgent string) error {
	trigger, err := u.UserMessageID(turn)
	if err != nil {
		return err
	}
	return u.Exec(insertTask, agent.TaskID(callID), t.ID, typ, typ+":"+name, instruction, subAgent, string(agent.TaskPending),
		trigger, t.At, t.At)
}

// UserMessageID is the message a turn answers. A retry answers that of the first
// turn of its message.
func (u *Unit) UserMessageID(turn *Turn) (string, error) {
	first := turn.ID
	if turn.RetryNo > 0 {
		err := u.Row(`SELECT turn_id FROM inbox WHERE thread_id = ? AND kind IN ('message', 'child') AND id = ?`, turn.ThreadID, turn.MessageID).Scan(&first)
		if err != nil && !NoRows(err) {
			return "", err
		}
	}
	return agent.MessageID(first, 0), nil
}

// TaskStatus moves a task along; it does nothing where there is no such task.
func (u *Unit) TaskStatus(t *Thread, taskID string, status agent.TaskStatus) error {
	if taskID == "" {
		return nil
	}
	t.Touch()
	return u.Exec(`UPDATE tasks SET status = ?, updated_at = ? WHERE id = ?`, string(status), t.At, taskID)
}

// TaskEnd ends a task with its result, or with its error.
func (u *Unit) TaskEnd(t *Thread, taskID string, status agent.TaskStatus, text string) error {
	if taskID == "" {
		return nil
	}
	result, failure := text, ""
	if status != agent.TaskSuccess {
		result, failure = "", text
	}
	t.Touch()
	return u.Exec(`UPDATE tasks SET status = ?, result = ?, error = ?, updated_at = ? WHERE id = ?`,
		string(status), result, failure, t.At, taskID)
}

// DelegatorTask moves the task a sub-agent's turn works on; main turns have none.
func (u *Unit) DelegatorTask(turn *Turn, status agent.TaskStatus) error {
	if turn.TaskID == "" {
		return nil
	}
	parent, err := u.Thread(turn.DelegatorThread)
	if err != nil {
		return err
	}
	return u.TaskStatus(parent, turn.TaskID, status)
}

// TaskOfCall is how a call's end ends its task.
func TaskOfCall(s agent.CallStatus) agent.TaskStatus {
	switch s {
	case agent.CallSuccess:
		return agent.TaskSuccess
	case agent.CallAborted, agent.CallDenied:
		return agent.TaskCancelled
	}
	return agent.TaskFailed
}
