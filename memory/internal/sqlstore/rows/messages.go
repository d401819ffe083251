package rows

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// InsertMessage inserts such a row; its values follow the order of the columns.
const InsertMessage = `INSERT INTO messages (thread_id, seq, id, superseded_by, body) VALUES (?, ?, ?, '', ?)`

// Append adds a message to a thread; its seq and time are given here.
func (u *Unit) Append(t *Thread, m agent.Message) (int64, error) {
	t.Touch()
	t.LastMessage++
	t.MessageCount++
	m.Seq = t.LastMessage
	m.Timestamp = Stamp(t.At)
	body, err := Encode(m)
	if err != nil {
		return 0, err
	}
	if err := u.Exec(InsertMessage, t.ID, m.Seq, m.ID, body); err != nil {
		return 0, err
	}
	return m.Seq, u.Refer(t.ID, body)
}

// Appended tells followers which messages are new.
func (u *Unit) Appended(t *Thread, turnID string, from, to int64) error {
	return u.Event(t, turnID, agent.EventMemoryAppended, MemoryAppended{FromSeq: from, ToSeq: to})
}

// Supersede marks the final or partial message of a turn as replaced.
func (u *Unit) Supersede(t *Thread, old *Turn, by string) error {
	if old.AnswerSeq == 0 {
		return nil
	}
	return u.Exec(`UPDATE messages SET superseded_by = ? WHERE thread_id = ? AND seq = ?`, by, t.ID, old.AnswerSeq)
}

// Messages are those of a thread, in order.
func (u *Unit) Messages(threadID string) ([]agent.Message, error) {
	found, err := Find(u, func(m *Message) []any { return []any{&m.Seq, &m.Body, &m.SupersededBy} }, nil, `SELECT seq, body, superseded_by FROM messages WHERE thread_id = ? ORDER BY seq`, threadID)
	if err != nil {
		return nil, err
	}
	out := make([]agent.Message, len(found))
	for i, m := range found {
		if out[i], err = m.Message(threadID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Message is a message as it is stored.
type Message struct {
	Body, SupersededBy string
	ID                 string
	Seq                int64
}

// Message is what people see of the row.
func (m *Message) Message(threadID string) (v agent.Message, err error) {
	if err := json.Unmarshal([]byte(m.Body), &v); err != nil {
		err := memory.Damaged(threadID, fmt.Sprintf("message %d", m.Seq), err)
		var row *memory.RowError
		if errors.As(err, &row) {
			row.Seq = m.Seq
		}
		return v, err
	}
	v.SupersededBy = m.SupersededBy
	return v, nil
}
