package rows

import (
	"encoding/json"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	turnFixed = `thread_id,n,entry_kind,message_id,retry_of,retry_no,delegator_thread,delegator_turn,delegator_call,background,task_id,opened_at`
	// turnMutable is all that a transaction may change.
	turnMutable = `state,outcome,reason,error_code,error,answer,answer_seq,steps,saved,delegations,prompt_tokens,completion_tokens,` +
		`total_tokens,cached_tokens,reasoning_tokens,price,requests,tool_calls,next_turn,run_id,cancel_at,cancel_by,waited_ms,closed_at,closed,quiet,` +
		`fallback,answer_schema`
	turnColumns = turnFixed + `,` + turnMutable + `,id`
	// SelectTurn begins a SELECT of turns. What is counted of their losses is changed
	// where it is, for several turns at once.
	SelectTurn = `SELECT ` + turnColumns + `,losses,blame,lost_at FROM turns`
)

var (
	insertTurn = InsertSQL("turns", turnColumns)
	updateTurn = updateSQL("turns", turnMutable)
)

// Turn is a turn with what only the store needs to know of it.
type Turn struct {
	memory.Turn
	N           int64
	RetryNo     int
	AnswerSeq   int64
	Saved       int
	Delegations int
	CancelMs    int64
	OpenedMs    int64
	ClosedMs    int64
	Closed      string
	Quiet       bool    // its end opens no turn
	losses      int     // how many of its workers died
	blame       float64 // its share of that
	lostAt      int64
	Schema      string

	Dirty bool
}

// Targets are where a row's columns are read to, in their order.
func (t *Turn) Targets() []any {
	return []any{
		&t.ThreadID, &t.N, &t.EntryKind, &t.MessageID, &t.RetryOf, &t.RetryNo, &t.DelegatorThread, &t.DelegatorTurn, &t.DelegatorCall,
		(*IntBool)(&t.Background), &t.TaskID, &t.OpenedMs,
		&t.State, &t.Outcome, &t.Reason, &t.ErrorCode, &t.Error, &t.Answer, &t.AnswerSeq, &t.Steps, &t.Saved, &t.Delegations,
		&t.Usage.PromptTokens, &t.Usage.CompletionTokens, &t.Usage.TotalTokens, &t.Usage.CachedTokens, &t.Usage.ReasoningTokens,
		&t.Usage.Price, &t.Usage.Requests, &t.Usage.ToolCalls, &t.NextTurn, &t.RunID, &t.CancelMs, &t.CancelBy, &t.WaitedMs,
		&t.ClosedMs, &t.Closed, (*IntBool)(&t.Quiet), &t.Fallback, &t.Schema, &t.ID, &t.losses, &t.blame, &t.lostAt,
	}
}

// columns are those that this row is written with.
func (t *Turn) columns() []any { return t.Targets()[:columns(turnColumns)] }

// Loaded derives the fields that are not columns.
func (t *Turn) Loaded() {
	t.OpenedAt = Stamp(t.OpenedMs)
	t.CancelRequested = StampOrNil(t.CancelMs)
	t.ClosedAt = StampOrNil(t.ClosedMs)
	if t.Schema != "" {
		t.AnswerSchema = json.RawMessage(t.Schema)
	}
}

// Cancelled reports ErrCancelRequested if a person asked to end the turn.
func (t *Turn) Cancelled() {
	if t.CancelMs != 0 {
		Check(memory.CancelRequested(t.ID))
	}
}

// InsertTurn writes a new turn.
func (u *Unit) InsertTurn(t *Turn) {
	u.Exec(insertTurn, Values(t.columns())...)
	t.Loaded()
	u.Turns = append(u.Turns, t)
}

// RollUp adds what a child's turn used to a turn above it and to that turn's
// thread. A thread's count of tool calls stays that of its own calls.
func RollUp(t *Thread, turn *Turn, use agent.Usage) {
	turn.Usage, turn.Dirty = turn.Usage.Add(use), true
	use.ToolCalls = 0
	t.Count(use)
}

const insertTask = `INSERT INTO tasks (id, thread_id, type, name, instruction, sub_agent, status, result, error, trigger_id, created_at, updated_at)` +
	` VALUES (?, ?, ?, ?, ?, ?, ?, '', '', ?, ?, ?)`

// NewTask writes the record of a piece of work on the thread that ordered it.
func (u *Unit) NewTask(t *Thread, turn *Turn, callID, typ, name, instruction, subAgent string) {
	u.Exec(insertTask, agent.TaskID(callID), t.ID, typ, typ+":"+name, instruction, subAgent, string(agent.TaskPending),
		u.UserMessageID(turn), t.At, t.At)
}

// UserMessageID is the message a turn answers. A retry answers that of the first
// turn of its message.
func (u *Unit) UserMessageID(turn *Turn) string {
	first := turn.ID
	if turn.RetryNo > 0 {
		u.One(`SELECT turn_id FROM inbox WHERE thread_id = ? AND kind IN ('message', 'child') AND id = ?`, turn.ThreadID, turn.MessageID).Into(&first)
	}
	return agent.MessageID(first, 0)
}

// TaskStatus moves a task along; it does nothing where there is no such task.
func (u *Unit) TaskStatus(t *Thread, taskID string, status agent.TaskStatus) {
	if taskID == "" {
		return
	}
	t.Touch()
	u.Exec(`UPDATE tasks SET status = ?, updated_at = ? WHERE id = ?`, string(status), t.At, taskID)
}

// TaskEnd ends a task with its result, or with its error.
func (u *Unit) TaskEnd(t *Thread, taskID string, status agent.TaskStatus, text string) {
	if taskID == "" {
		return
	}
	result, failure := text, ""
	if status != agent.TaskSuccess {
		result, failure = "", text
	}
	t.Touch()
	u.Exec(`UPDATE tasks SET status = ?, result = ?, error = ?, updated_at = ? WHERE id = ?`,
		string(status), result, failure, t.At, taskID)
}

// DelegatorTask moves the task a sub-agent's turn works on; main turns have none.
func (u *Unit) DelegatorTask(turn *Turn, status agent.TaskStatus) {
	if turn.TaskID == "" {
		return
	}
	u.TaskStatus(u.Thread(turn.DelegatorThread), turn.TaskID, status)
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
