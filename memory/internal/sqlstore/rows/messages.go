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
func (u *Unit) Append(t *Thread, m agent.Message) int64 {
	t.Touch()
	t.LastMessage++
	t.MessageCount++
	m.Seq = t.LastMessage
	m.Timestamp = Stamp(t.At)
	body := Must(Encode(m))
	u.Exec(InsertMessage, t.ID, m.Seq, m.ID, body)
	u.Refer(t.ID, body)
	return m.Seq
}

// Appended tells followers which messages are new.
func (u *Unit) Appended(t *Thread, turnID string, from, to int64) {
	u.Event(t, turnID, agent.EventMemoryAppended, MemoryAppended{FromSeq: from, ToSeq: to})
}

// Supersede marks the final or partial message of a turn as replaced.
func (u *Unit) Supersede(t *Thread, old *Turn, by string) {
	if old.AnswerSeq == 0 {
		return
	}
	u.Exec(`UPDATE messages SET superseded_by = ? WHERE thread_id = ? AND seq = ?`, by, t.ID, old.AnswerSeq)
}

// SelectMessage begins a query for messages.
const SelectMessage = `SELECT seq, body, superseded_by FROM messages`

// Targets are where a row's columns are read to, in their order.
func (m *Message) Targets() []any { return []any{&m.Seq, &m.Body, &m.SupersededBy} }

// Messages are those of a thread, in order.
func (u *Unit) Messages(threadID string) []agent.Message {
	found := Find(u, (*Message).Targets, nil, SelectMessage+` WHERE thread_id = ? ORDER BY seq`, threadID)
	out := make([]agent.Message, len(found))
	for i, m := range found {
		out[i] = m.Message(threadID)
	}
	return out
}

// Message is a message as it is stored.
type Message struct {
	Body, SupersededBy string
	ID                 string
	Seq                int64
}

// Message is what people see of the row.
func (m *Message) Message(threadID string) (v agent.Message) {
	err := memory.Damaged(threadID, fmt.Sprintf("message %d", m.Seq), json.Unmarshal([]byte(m.Body), &v))
	var row *memory.RowError
	if errors.As(err, &row) {
		row.Seq = m.Seq
	}
	Check(err)
	v.SupersededBy = m.SupersededBy
	return v
}

// UseImage marks an image as shown by a message and reports whether it is there.
// Nobody removes it until this transaction ends.
func (u *Unit) UseImage(name string) bool {
	var keptAt int64
	there := u.One(`SELECT kept_at FROM images WHERE name = ?`+u.Store.Dialect.LockRow, name).Into(&keptAt)
	if keptAt == 0 {
		return there
	}
	u.Exec(`UPDATE images SET kept_at = 0 WHERE name = ?`, name)
	return true
}

// Refer notes that a thread refers to the images that a text names, there or not:
// they stay as long as the thread.
func (u *Unit) Refer(threadID, text string) {
	for _, name := range agent.ImagesIn(text) {
		u.UseImage(name)
		u.Exec(`INSERT INTO image_refs (thread_id, name) VALUES (?, ?) ON CONFLICT (thread_id, name) DO NOTHING`, threadID, name)
	}
}
