package sqlstore

import (
	"github.com/spool-agents/spool/agent"
)

const insertTask = `INSERT INTO tasks (id, thread_id, type, name, instruction, sub_agent, status, result, error, trigger_id, created_at, updated_at)` +
	` VALUES (?, ?, ?, ?, ?, ?, ?, '', '', ?, ?, ?)`

// newTask writes the record of a piece of work on the thread that ordered it.
func (u *unit) newTask(t *threadRow, turn *turnRow, callID, typ, name, instruction, subAgent string) error {
	return u.exec(insertTask, agent.TaskID(callID), t.ID, typ, typ+":"+name, instruction, subAgent, string(agent.TaskPending),
		userMessageID(turn), t.at, t.at)
}

// userMessageID is the message a turn answers. A retry answers that of the
// turn it repeats, whose id follows from the same entry.
func userMessageID(turn *turnRow) string {
	return agent.MessageID(agent.TurnID(turn.ThreadID, turn.MessageID, 0), 0)
}

// taskStatus moves a task along; it does nothing where there is no such task.
func (u *unit) taskStatus(t *threadRow, taskID string, status agent.TaskStatus) error {
	if taskID == "" {
		return nil
	}
	t.touch()
	return u.exec(`UPDATE tasks SET status = ?, updated_at = ? WHERE id = ?`, string(status), t.at, taskID)
}

// taskEnd ends a task with its result, or with its error.
func (u *unit) taskEnd(t *threadRow, taskID string, status agent.TaskStatus, text string) error {
	if taskID == "" {
		return nil
	}
	result, failure := text, ""
	if status != agent.TaskSuccess {
		result, failure = "", text
	}
	t.touch()
	return u.exec(`UPDATE tasks SET status = ?, result = ?, error = ?, updated_at = ? WHERE id = ?`,
		string(status), result, failure, t.at, taskID)
}

// delegatorTask moves the task a sub-agent's turn works on; main turns have none.
func (u *unit) delegatorTask(turn *turnRow, status agent.TaskStatus) error {
	if turn.TaskID == "" {
		return nil
	}
	parent, err := u.thread(turn.DelegatorThread)
	if err != nil {
		return err
	}
	return u.taskStatus(parent, turn.TaskID, status)
}

// taskOfCall is how a call's end ends its task.
func taskOfCall(s agent.CallStatus) agent.TaskStatus {
	switch s {
	case agent.CallSuccess:
		return agent.TaskSuccess
	case agent.CallAborted, agent.CallDenied:
		return agent.TaskCancelled
	}
	return agent.TaskFailed
}
