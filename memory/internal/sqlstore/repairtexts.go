package sqlstore

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// storedMessage is a message as it stands, and what is wrong with it.
type storedMessage struct {
	messageRow
	m   agent.Message
	bad string
}

// toldMessage is a message as other rows tell of it.
type toldMessage struct {
	m  agent.Message
	by string
	// weak means that only the id must be this one.
	weak bool
}

// transcript compares the conversation with what steps, turns, inbox and log
// tell of it. What is missing, damaged or changed and told elsewhere is written
// again; the rest is named, and its numbers are not given away.
func (r *repairs) transcript() error {
	rows, err := r.rows(`SELECT seq, id, superseded_by, body FROM messages WHERE thread_id = ? ORDER BY seq`, r.t.ID)
	stored, err := collect(rows, err, func(m *storedMessage) []any { return []any{&m.seq, &m.id, &m.supersededBy, &m.body} },
		func(m *storedMessage) error { m.read(); return nil })
	if err != nil {
		return err
	}
	r.texts = map[int64]*storedMessage{}
	for _, m := range stored {
		r.texts[m.seq] = m
	}
	told, err := r.told()
	if err != nil {
		return err
	}
	clear(r.texts)
	last, moved := int64(0), []*storedMessage{}
	for seq := range told {
		last = max(last, seq)
	}
	for _, e := range r.log {
		_, to := appendedBy(e)
		last = max(last, to)
	}
	for _, m := range stored {
		if m.bad == "" && m.m.Seq != m.seq && told[m.seq].m.ID != m.id {
			moved = append(moved, m)
			continue
		}
		r.texts[m.seq] = m
		last = max(last, m.seq)
	}
	if r.t.lastMessage == r.t.MessageCount {
		last = max(last, r.t.lastMessage)
	}
	if err := r.putBack(moved, told); err != nil {
		return err
	}
	for _, seq := range slices.Sorted(maps.Keys(told)) {
		if err := r.compare(seq, told[seq]); err != nil {
			return err
		}
	}
	r.gaps(last)
	for _, n := range []struct {
		name string
		have *int64
	}{{"last message", &r.t.lastMessage}, {"messageCount", &r.t.MessageCount}} {
		if *n.have != last {
			r.did("%s is %d, as its rows say, not %d", n.name, last, *n.have)
			*n.have, r.t.dirty = last, true
		}
	}
	return r.superseded()
}

// read parses the message and says what is wrong with it.
func (m *storedMessage) read() {
	var fields map[string]json.RawMessage
	err := json.Unmarshal([]byte(m.body), &fields)
	if err == nil {
		err = json.Unmarshal([]byte(m.body), &m.m)
	}
	switch {
	case err != nil:
		m.bad = "cannot be read: " + err.Error()
	case fields["content"] == nil:
		m.bad = "has no content"
	case !slices.Contains([]agent.Role{agent.RoleSystem, agent.RoleUser, agent.RoleAssistant, agent.RoleTool}, m.m.Role):
		m.bad = "has no known role"
	}
}

// putBack moves messages that stand under another number than they say.
func (r *repairs) putBack(moved []*storedMessage, told map[int64]toldMessage) error {
	for _, m := range moved {
		to := m.m.Seq
		by, known := told[to]
		if to < 1 || r.texts[to] != nil || known && by.m.ID != m.id {
			r.left(memory.FoundWrong, "message %s stands at %d and says that it is %d", m.id, m.seq, to)
			if r.texts[m.seq] == nil {
				r.texts[m.seq] = m
			}
			continue
		}
		// Out of the way first: two may have changed places.
		if err := r.exec(`UPDATE messages SET seq = ? WHERE thread_id = ? AND seq = ?`, -m.seq, r.t.ID, m.seq); err != nil {
			return err
		}
		r.texts[to] = m
	}
	for _, m := range moved {
		if r.texts[m.m.Seq] != m || m.seq == m.m.Seq {
			continue
		}
		if err := r.exec(`UPDATE messages SET seq = ? WHERE thread_id = ? AND seq = ?`, m.m.Seq, r.t.ID, -m.seq); err != nil {
			return err
		}
		r.did("message %d stands in its place again, not at %d", m.m.Seq, m.seq)
		m.seq = m.m.Seq
	}
	return nil
}

// compare makes a message what other rows tell of it.
func (r *repairs) compare(seq int64, told toldMessage) error {
	m := r.texts[seq]
	switch {
	case m == nil || m.bad != "":
	case m.m.Seq == seq && m.m.ID == m.id && (sameMessage(m.m, told.m) || told.weak && m.id == told.m.ID):
		return nil
	}
	for other, o := range r.texts {
		if other != seq && o.id == told.m.ID {
			r.left(memory.FoundWrong, "message %s stands at %d, but %s tells that it is %d", o.id, other, told.by, seq)
			return nil
		}
	}
	told.m.Seq, told.m.Timestamp = seq, stamp(r.appendedAt(seq))
	if m != nil && m.bad == "" {
		told.m.Timestamp = m.m.Timestamp
	}
	body, err := encode(told.m)
	if err != nil {
		return err
	}
	again := &storedMessage{messageRow: messageRow{seq: seq, id: told.m.ID, body: body}, m: told.m}
	if m == nil {
		r.did("message %d is in the conversation again, as %s tells", seq, told.by)
	} else {
		again.supersededBy = m.supersededBy
		r.did("message %d says again what %s tells", seq, told.by)
		if err := r.exec(`DELETE FROM messages WHERE thread_id = ? AND seq = ?`, r.t.ID, seq); err != nil {
			return err
		}
	}
	r.texts[seq] = again
	return r.exec(`INSERT INTO messages (thread_id, seq, id, superseded_by, body) VALUES (?, ?, ?, ?, ?)`, r.t.ID, seq, again.id, again.supersededBy, body)
}

// sameMessage compares what messages say.
func sameMessage(a, b agent.Message) bool {
	x, err := encode([]any{a.ID, a.Role, a.Content, a.ToolCalls, a.ToolCallID, a.Partial})
	if err != nil {
		return false
	}
	y, err := encode([]any{b.ID, b.Role, b.Content, b.ToolCalls, b.ToolCallID, b.Partial})
	return err == nil && x == y
}

// gaps names the messages up to the last that are not there or cannot be used.
func (r *repairs) gaps(last int64) {
	want := int64(1)
	for _, seq := range append(slices.Sorted(maps.Keys(r.texts)), last+1) {
		if seq > want {
			r.left(memory.FoundLost, "%s lost: no other row tells what was said", numbers("message", want, seq-1))
		}
		want = seq + 1
		m := r.texts[seq]
		switch {
		case m == nil:
		case m.bad != "":
			r.broken = true
			r.left(memory.FoundDamaged, "message %d %s", seq, m.bad)
		case m.m.ID != m.id:
			r.left(memory.FoundWrong, "message %d has two ids, %s and %s", seq, m.id, m.m.ID)
		}
	}
}

// superseded makes each answer refer to the retry that took its place.
func (r *repairs) superseded() error {
	by := map[string]string{}
	for _, t := range r.turnList {
		if t.RetryOf != "" {
			by[t.RetryOf] = t.ID
		}
	}
	for _, t := range r.turnList {
		m := r.texts[t.answerSeq]
		if m == nil || m.supersededBy == by[t.ID] || by[t.ID] == "" {
			continue
		}
		if err := r.supersedes(m, by[t.ID]); err != nil {
			return err
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(r.texts)) {
		m := r.texts[seq]
		if m.supersededBy == "" || slices.ContainsFunc(r.turnList, func(t *turnRow) bool { return t.ID == m.supersededBy }) {
			continue
		}
		if err := r.supersedes(m, ""); err != nil {
			return err
		}
	}
	return nil
}

func (r *repairs) supersedes(m *storedMessage, by string) error {
	r.did("message %d is superseded by %s, not by %s", m.seq, or(by, "none"), or(m.supersededBy, "none"))
	m.supersededBy = by
	return r.exec(`UPDATE messages SET superseded_by = ? WHERE thread_id = ? AND seq = ?`, by, r.t.ID, m.seq)
}

// appendedAt is when a message was saved, as the log tells.
func (r *repairs) appendedAt(seq int64) int64 {
	for _, e := range r.log {
		if from, to := appendedBy(e); from <= seq && seq <= to {
			return e.at
		}
	}
	return r.t.updated
}

// told is what other rows tell of messages: the records of steps with the
// results of their calls, the answers of turns, and what was taken from the inbox.
func (r *repairs) told() (map[int64]toldMessage, error) {
	told := map[int64]toldMessage{}
	rows, err := r.rows(selectCall+` WHERE thread_id = ? ORDER BY turn_id, step, idx`, r.t.ID)
	calls, err := collect(rows, err, (*callRow).targets, func(*callRow) error { return nil })
	if err != nil {
		return nil, err
	}
	byID := map[string]*callRow{}
	for _, c := range calls {
		byID[c.ID] = c
	}
	turns := map[string]*turnRow{}
	for _, t := range r.turnList {
		turns[t.ID] = t
	}
	rows, err = r.rows(selectStep+` WHERE state = 'saved' AND turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`, r.t.ID)
	steps, err := collect(rows, err, (*stepRow).targets, func(s *stepRow) error { s.loaded(); return nil })
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		turn := turns[s.TurnID]
		reply, err := s.modelReply()
		if err != nil || turn == nil || s.FromSeq < 1 {
			continue // told by readable
		}
		for i, m := range saidBy(turn, s, reply, byID) {
			told[s.FromSeq+int64(i)] = toldMessage{m: m, by: "step " + agent.MessageID(s.TurnID, s.Step.Step)}
		}
	}
	r.toldAnswers(told)
	return told, r.toldEntries(told)
}

// saidBy are the messages of a saved step, up to the first of which a row is missing.
func saidBy(turn *turnRow, s *stepRow, reply agent.ModelReply, calls map[string]*callRow) []agent.Message {
	use := reply.Usage
	m := agent.Message{ID: agent.MessageID(turn.ID, s.Step.Step), Role: agent.RoleAssistant, Content: agent.Text(reply.Content), ToolCalls: reply.Calls,
		Reasoning: reply.Reasoning, Usage: &use, TurnID: turn.ID}
	if len(reply.Calls) == 0 {
		if turn.answerSeq == s.FromSeq && (turn.Answer != reply.Content || s.reply == "") {
			m.Content, m.Reasoning, m.Usage = agent.Text(clean(turn.Answer)), "", nil
			m.Partial = s.reply == "" && turn.Outcome != agent.ThreadCompleted
		}
		return []agent.Message{m}
	}
	if reply.Content == "" {
		m.Content = agent.NullContent()
	}
	said := []agent.Message{m}
	for _, call := range reply.Calls {
		c := calls[call.ID]
		if c == nil || c.TurnID != turn.ID || !c.Status.Final() {
			break
		}
		said = append(said, agent.Message{ID: agent.ToolMessageID(c.ID), Role: agent.RoleTool, Content: agent.Text(c.Result), ToolCallID: c.ID,
			Name: c.ToolName, TurnID: turn.ID, Status: c.Status, ErrorReason: c.ErrorReason})
	}
	return said
}

// toldAnswers adds final answers that no step tells, by their event.
func (r *repairs) toldAnswers(told map[int64]toldMessage) {
	answers := map[string]assistantMessage{}
	for _, e := range r.log {
		var d assistantMessage
		if e.Type == agent.EventAssistantMessage && json.Unmarshal([]byte(e.data), &d) == nil {
			answers[e.TurnID] = d
		}
	}
	for _, t := range r.turnList {
		d, ok := answers[t.ID]
		if _, known := told[t.answerSeq]; known || t.answerSeq == 0 || !ok {
			continue
		}
		told[t.answerSeq] = toldMessage{m: agent.Message{ID: d.MessageID, Role: agent.RoleAssistant, Content: d.Content, Usage: d.Usage, TurnID: t.ID},
			by: "the assistant_message event"}
	}
}

// toldEntries adds what turns took from the inbox: of each turn the messages
// that the log tells of and no step, in the order in which they were taken.
func (r *repairs) toldEntries(told map[int64]toldMessage) error {
	seqs := map[string][]int64{}
	for _, e := range r.log {
		from, to := appendedBy(e)
		for seq := max(from, 1); seq <= to; seq++ {
			if _, known := told[seq]; !known {
				seqs[e.TurnID] = append(seqs[e.TurnID], seq)
			}
		}
	}
	taken, err := r.entries(`thread_id = ? AND state = 'taken' AND (kind = 'message' OR kind = 'assign' OR kind = 'child' AND background = 1)`, r.t.ID)
	if err != nil && !r.broken {
		return err
	}
	entries := map[string][]*entryRow{}
	for _, e := range taken {
		entries[e.TakenBy] = append(entries[e.TakenBy], e)
	}
	for turnID, list := range entries {
		if len(list) != len(seqs[turnID]) {
			continue
		}
		rank := func(e *entryRow) int64 {
			switch {
			case e.TurnID == turnID:
				return 0
			case e.Quiet:
				return e.Seq - math.MaxInt64/2
			}
			return e.Seq
		}
		slices.SortFunc(list, func(a, b *entryRow) int { return cmp.Compare(rank(a), rank(b)) })
		for i, e := range list {
			seq := seqs[turnID][i]
			have := r.texts[seq]
			if have != nil && have.bad == "" && e.Kind == memory.EntryChild {
				continue
			}
			m, weak, err := r.entryMessage(e, turnID)
			if err != nil {
				return err
			}
			if m != nil && (have == nil || have.id == m.ID) {
				told[seq] = toldMessage{m: *m, by: "the inbox", weak: weak}
			}
		}
	}
	return nil
}

// entryMessage is the message that a taken entry became. weak ones may have been
// told in other words.
func (r *repairs) entryMessage(e *entryRow, turnID string) (m *agent.Message, weak bool, err error) {
	m = &agent.Message{ID: agent.MessageID(e.TurnID, 0), Role: agent.RoleUser, Content: e.Content, TurnID: turnID}
	switch {
	case e.Kind == memory.EntryAssign:
		m.Source = "agent:" + e.DelegatorThread
	case e.Kind == memory.EntryChild:
		m.Source = "agent:" + e.ChildThread
		child, err := r.turn(e.ChildTurn)
		if err == nil {
			m.Content, err = r.report(r.t, child)
		}
		if agent.CodeOf(err) == agent.CodeNotFound {
			return nil, true, nil
		}
		return m, true, err
	case e.TurnID != turnID:
		m.Source = "steer"
	}
	return m, false, nil
}
