package rows

import (
	"encoding/json"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// The columns of these rows, and the SELECT that reads them; a condition follows.
const (
	entryColumns = `thread_id,seq,kind,id,state,when_busy,turn_id,taken_by,content,agent,model,message_id,retry_no,config_hash,` +
		`child_thread,child_turn,call_id,task_id,background,delegator_thread,delegator_turn,created_at,quiet,answer_schema`
	SelectEntry = `SELECT ` + entryColumns + ` FROM inbox`
	// Takeable is what TakeNext may open a turn on: all but the ends of foreground
	// children and quiet ones.
	Takeable = `state = 'waiting' AND quiet = 0 AND (kind <> 'child' OR background = 1)`
)

var insertEntry = InsertSQL("inbox", entryColumns)

// Entry is an inbox entry with what only the store needs to know of it.
type Entry struct {
	memory.InboxEntry
	ContentText string
	MessageID   string
	RetryNo     int
	ConfigHash  string
	created     int64
	Schema      string
}

// Targets are where a row's columns are read to, in their order.
func (e *Entry) Targets() []any {
	return []any{
		&e.ThreadID, &e.Seq, &e.Kind, &e.ID, &e.State, &e.WhenBusy, &e.TurnID, &e.TakenBy, &e.ContentText, &e.Agent, &e.Model,
		&e.MessageID, &e.RetryNo, &e.ConfigHash, &e.ChildThread, &e.ChildTurn, &e.CallID, &e.TaskID, (*IntBool)(&e.Background),
		&e.DelegatorThread, &e.DelegatorTurn, &e.created, (*IntBool)(&e.Quiet), &e.Schema,
	}
}

// Loaded derives the fields that are not columns.
func (e *Entry) Loaded() {
	e.CreatedAt = Stamp(e.created)
	if e.Schema != "" {
		e.AnswerSchema = json.RawMessage(e.Schema)
	}
	if e.ContentText == "" {
		return
	}
	Check(memory.Damaged(e.ThreadID, fmt.Sprintf("inbox entry %d", e.Seq), json.Unmarshal([]byte(e.ContentText), &e.Content)))
}

// Enter puts a new entry into a thread's inbox. Its state decides whether it
// counts as waiting; a quiet one does not.
func (u *Unit) Enter(t *Thread, e *Entry) {
	content := Must(Encode(e.Content))
	t.Touch()
	t.LastEntry++
	if e.State == memory.EntryWaiting && !e.Quiet {
		t.Waiting++
	}
	e.ThreadID, e.Seq, e.ContentText, e.created = t.ID, t.LastEntry, content, t.At
	u.Exec(insertEntry, Values(e.Targets())...)
	u.Refer(t.ID, content)
}

// Entry finds an entry; nil if there is none.
func (u *Unit) Entry(where string, args ...any) *Entry {
	e := &Entry{}
	if !u.One(SelectEntry+` WHERE `+where, args...).Into(e.Targets()...) {
		return nil
	}
	e.Loaded()
	return e
}

// Entries finds entries in order.
func (u *Unit) Entries(where string, args ...any) []*Entry {
	return Find(u, func(e *Entry) []any { return e.Targets() }, (*Entry).Loaded, SelectEntry+` WHERE `+where+` ORDER BY thread_id, seq`, args...)
}

// Take settles a waiting entry as taken by a turn.
func (u *Unit) Take(t *Thread, e *Entry, turnID string) {
	u.settle(t, e, memory.EntryTaken, turnID)
}

// Drop settles a waiting entry as dropped. A conversation that never had a turn, and for
// which nothing waits now, is cancelled: it would be pending for ever.
func (u *Unit) Drop(t *Thread, e *Entry) {
	u.settle(t, e, memory.EntryDropped, "")
	if t.Kind == agent.KindMain && t.Status == agent.ThreadPending && t.LastTurn == 0 && t.Waiting == 0 {
		t.Status = agent.ThreadCancelled
	}
}

func (u *Unit) settle(t *Thread, e *Entry, state memory.EntryState, turnID string) {
	t.Touch()
	if !e.Quiet {
		t.Waiting--
	}
	e.State, e.TakenBy = state, turnID
	u.Exec(`UPDATE inbox SET state = ?, taken_by = ? WHERE thread_id = ? AND seq = ?`, string(state), turnID, e.ThreadID, e.Seq)
}
