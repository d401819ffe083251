package sqlstore

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spool-agents/spool/memory"
)

const (
	entryColumns = `thread_id,seq,kind,id,state,when_busy,turn_id,taken_by,content,agent,model,message_id,retry_no,config_hash,` +
		`child_thread,child_turn,call_id,task_id,background,delegator_thread,delegator_turn,created_at,quiet,answer_schema`
	selectEntry = `SELECT ` + entryColumns + ` FROM inbox`
	// takeable is what TakeNext may open a turn on: all but the ends of foreground
	// children and quiet ones.
	takeable = `state = 'waiting' AND quiet = 0 AND (kind <> 'child' OR background = 1)`
)

var insertEntry = insertSQL("inbox", entryColumns)

// entryRow is an inbox entry with what only the store needs to know of it.
type entryRow struct {
	memory.InboxEntry
	content    string
	messageID  string
	retryNo    int
	configHash string
	created    int64
	schema     string
}

func (e *entryRow) targets() []any {
	return []any{
		&e.ThreadID, &e.Seq, &e.Kind, &e.ID, &e.State, &e.WhenBusy, &e.TurnID, &e.TakenBy, &e.content, &e.Agent, &e.Model,
		&e.messageID, &e.retryNo, &e.configHash, &e.ChildThread, &e.ChildTurn, &e.CallID, &e.TaskID, (*intBool)(&e.Background),
		&e.DelegatorThread, &e.DelegatorTurn, &e.created, (*intBool)(&e.Quiet), &e.schema,
	}
}

func (e *entryRow) values() []any {
	return []any{
		e.ThreadID, e.Seq, string(e.Kind), e.ID, string(e.State), string(e.WhenBusy), e.TurnID, e.TakenBy, e.content, e.Agent, e.Model,
		e.messageID, e.retryNo, e.configHash, e.ChildThread, e.ChildTurn, e.CallID, e.TaskID, flag(e.Background),
		e.DelegatorThread, e.DelegatorTurn, e.created, flag(e.Quiet), e.schema,
	}
}

// loaded derives the fields that are not columns.
func (e *entryRow) loaded() error {
	e.CreatedAt = stamp(e.created)
	if e.schema != "" {
		e.AnswerSchema = json.RawMessage(e.schema)
	}
	if e.content == "" {
		return nil
	}
	return memory.Damaged(e.ThreadID, fmt.Sprintf("inbox entry %d", e.Seq), json.Unmarshal([]byte(e.content), &e.Content))
}

// enter puts a new entry into a thread's inbox. Its state decides whether it
// counts as waiting; a quiet one does not.
func (u *unit) enter(t *threadRow, e *entryRow) error {
	content, err := encode(e.Content)
	if err != nil {
		return err
	}
	t.touch()
	t.lastEntry++
	if e.State == memory.EntryWaiting && !e.Quiet {
		t.waiting++
	}
	e.ThreadID, e.Seq, e.content, e.created = t.ID, t.lastEntry, content, t.at
	if err := u.exec(insertEntry, e.values()...); err != nil {
		return err
	}
	return u.refer(t.ID, content)
}

// entry finds an entry; nil if there is none.
func (u *unit) entry(where string, args ...any) (*entryRow, error) {
	e := &entryRow{}
	err := u.row(selectEntry+` WHERE `+where, args...).Scan(e.targets()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return e, e.loaded()
}

// entries finds entries in order.
func (u *unit) entries(where string, args ...any) ([]*entryRow, error) {
	rows, err := u.rows(selectEntry+` WHERE `+where+` ORDER BY thread_id, seq`, args...)
	return collect(rows, err, func(e *entryRow) []any { return e.targets() }, (*entryRow).loaded)
}

// take settles a waiting entry as taken by a turn.
func (u *unit) take(t *threadRow, e *entryRow, turnID string) error {
	return u.settle(t, e, memory.EntryTaken, turnID)
}

// drop settles a waiting entry as dropped.
func (u *unit) drop(t *threadRow, e *entryRow) error {
	return u.settle(t, e, memory.EntryDropped, "")
}

func (u *unit) settle(t *threadRow, e *entryRow, state memory.EntryState, turnID string) error {
	t.touch()
	if !e.Quiet {
		t.waiting--
	}
	e.State, e.TakenBy = state, turnID
	return u.exec(`UPDATE inbox SET state = ?, taken_by = ? WHERE thread_id = ? AND seq = ?`, string(state), turnID, e.ThreadID, e.Seq)
}

// collect reads rows into structs.
func collect[T any](rows *sql.Rows, err error, targets func(*T) []any, loaded func(*T) error) ([]*T, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []*T
	for rows.Next() {
		v := new(T)
		if err := rows.Scan(targets(v)...); err != nil {
			return nil, err
		}
		if err := loaded(v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
