package sqlstore

import "github.com/spool-agents/spool/agent"

const insertMessage = `INSERT INTO messages (thread_id, seq, id, superseded_by, body) VALUES (?, ?, ?, '', ?)`

// append adds a message to a thread; its seq and time are given here.
func (u *unit) append(t *threadRow, m agent.Message) (int64, error) {
	t.touch()
	t.lastMessage++
	t.MessageCount++
	m.Seq = t.lastMessage
	m.Timestamp = stamp(t.at)
	body, err := encode(m)
	if err != nil {
		return 0, err
	}
	if err := u.exec(insertMessage, t.ID, m.Seq, m.ID, body); err != nil {
		return 0, err
	}
	return m.Seq, u.refer(t.ID, body)
}

// appended tells followers which messages are new.
func (u *unit) appended(t *threadRow, turnID string, from, to int64) error {
	return u.event(t, turnID, agent.EventMemoryAppended, memoryAppended{FromSeq: from, ToSeq: to})
}

// supersede marks the final or partial message of a turn as replaced.
func (u *unit) supersede(t *threadRow, old *turnRow, by string) error {
	if old.answerSeq == 0 {
		return nil
	}
	return u.exec(`UPDATE messages SET superseded_by = ? WHERE thread_id = ? AND seq = ?`, by, t.ID, old.answerSeq)
}
