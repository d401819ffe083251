package sqlstore

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
	// What is counted of a turn's losses is changed where it is, for several
	// turns at once.
	selectTurn = `SELECT ` + turnColumns + `,losses,blame,lost_at FROM turns`
)

var (
	insertTurn = insertSQL("turns", turnColumns)
	updateTurn = updateSQL("turns", turnMutable)
)

// turnRow is a turn with what only the store needs to know of it.
type turnRow struct {
	memory.Turn
	n           int64
	retryNo     int
	answerSeq   int64
	saved       int
	delegations int
	cancelAt    int64
	opened      int64
	closedMs    int64
	closed      string
	quiet       bool    // its end opens no turn
	losses      int     // how many of its workers died
	blame       float64 // its share of that
	lostAt      int64
	schema      string

	dirty bool
}

func (t *turnRow) targets() []any {
	return []any{
		&t.ThreadID, &t.n, &t.EntryKind, &t.MessageID, &t.RetryOf, &t.retryNo, &t.DelegatorThread, &t.DelegatorTurn, &t.DelegatorCall,
		(*intBool)(&t.Background), &t.TaskID, &t.opened,
		&t.State, &t.Outcome, &t.Reason, &t.ErrorCode, &t.Error, &t.Answer, &t.answerSeq, &t.Steps, &t.saved, &t.delegations,
		&t.Usage.PromptTokens, &t.Usage.CompletionTokens, &t.Usage.TotalTokens, &t.Usage.CachedTokens, &t.Usage.ReasoningTokens,
		&t.Usage.Price, &t.Usage.Requests, &t.Usage.ToolCalls, &t.NextTurn, &t.RunID, &t.cancelAt, &t.CancelBy, &t.WaitedMs,
		&t.closedMs, &t.closed, (*intBool)(&t.quiet), &t.Fallback, &t.schema, &t.ID, &t.losses, &t.blame, &t.lostAt,
	}
}

func (t *turnRow) fixed() []any {
	return []any{t.ThreadID, t.n, string(t.EntryKind), t.MessageID, t.RetryOf, t.retryNo, t.DelegatorThread, t.DelegatorTurn,
		t.DelegatorCall, flag(t.Background), t.TaskID, t.opened}
}

func (t *turnRow) mutable() []any {
	return []any{
		string(t.State), string(t.Outcome), string(t.Reason), t.ErrorCode, t.Error, t.Answer, t.answerSeq, t.Steps, t.saved, t.delegations,
		t.Usage.PromptTokens, t.Usage.CompletionTokens, t.Usage.TotalTokens, t.Usage.CachedTokens, t.Usage.ReasoningTokens,
		t.Usage.Price, t.Usage.Requests, t.Usage.ToolCalls, t.NextTurn, t.RunID, t.cancelAt, t.CancelBy, t.WaitedMs,
		t.closedMs, t.closed, flag(t.quiet), t.Fallback, t.schema,
	}
}

// loaded derives the fields that are not columns.
func (t *turnRow) loaded() {
	t.OpenedAt = stamp(t.opened)
	t.CancelRequested = stampOrNil(t.cancelAt)
	t.ClosedAt = stampOrNil(t.closedMs)
	if t.schema != "" {
		t.AnswerSchema = json.RawMessage(t.schema)
	}
}

// cancelled reports ErrCancelRequested if a person asked to end the turn.
func (t *turnRow) cancelled() error {
	if t.cancelAt != 0 {
		return memory.CancelRequested(t.ID)
	}
	return nil
}

// insert writes a new turn.
func (u *unit) insertTurn(t *turnRow) error {
	if err := u.exec(insertTurn, append(append(t.fixed(), t.mutable()...), t.ID)...); err != nil {
		return err
	}
	t.loaded()
	u.turns = append(u.turns, t)
	return nil
}

// rollUp adds what a child's turn used to a turn above it and to that turn's
// thread. A thread's count of tool calls stays that of its own calls.
func rollUp(t *threadRow, turn *turnRow, use agent.Usage) {
	turn.Usage, turn.dirty = turn.Usage.Add(use), true
	use.ToolCalls = 0
	t.count(use)
}
