package copy

import (
	"encoding/json"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// cutMain finds how much of the conversation is copied: everything up to the end
// of the save point that wrote the message, so that a call is never parted from
// its result, and the end of the turn if that follows at once.
func (f *fork) cutMain(src *rows.Thread, at string) *forkThread {
	one := &forkThread{src: src}
	seq := f.messageSeq(src, at)
	f.read(one)
	last := ""
	for _, e := range one.events {
		from, to := appendedBy(e)
		if from <= seq && seq <= to {
			one.message, one.event, one.at, last = to, e.Seq, e.AtMs, e.TurnID
		}
	}
	turn := f.turns[last]
	if turn == nil {
		rows.Refuse(agent.CodeConflict, "the log of thread %s does not tell when message %d was saved: run verify --repair on it first", src.ID, seq)
	}
	end := one.endOf(turn.ID)
	switch {
	case one.message == src.LastMessage && src.OpenTurnID == "":
		one.event, one.at = src.LastEvent, f.Now // all of it
		turn = one.turns[len(one.turns)-1]
	case end != nil && one.lastOf(turn.ID) == one.message:
		one.event, one.at = max(one.event, end.Seq), end.AtMs
	default:
		one.open = turn
	}
	one.turns = slices.DeleteFunc(one.turns, func(t *rows.Turn) bool { return t.N > turn.N })
	f.at = one.at
	return one
}

// messageSeq finds a message by its id or by its sender's; none is the last one.
func (f *fork) messageSeq(src *rows.Thread, at string) int64 {
	if at == "" {
		if src.LastMessage == 0 {
			rows.Refuse(agent.CodeConflict, "thread %s has no message yet: there is nothing to fork", src.ID)
		}
		return src.LastMessage
	}
	e := f.Entry(`thread_id = ? AND kind = 'message' AND id = ?`, src.ID, at)
	id := at
	if e != nil {
		id = agent.MessageID(e.TurnID, 0)
	}
	var seq int64
	if !f.One(`SELECT seq FROM messages WHERE thread_id = ? AND (id = ? OR id = ?) ORDER BY seq LIMIT 1`, src.ID, at, id).Into(&seq) {
		if q := f.Ask(`root_id = ? AND message_id = ? AND message_id <> ''`, src.RootThreadID, at); q != nil {
			rows.Refuse(agent.CodeInvalid, "message %q is not in the conversation: it became the answer to question %s of %s, which is the result of call %s", at, q.ID, q.Thread, q.Call)
		}
		rows.Refuse(agent.CodeNotFound, "thread %s has no message %q: show lists them with their ids; one that waits in the inbox is not in the conversation yet", src.ID, at)
	}
	return seq
}

// read reads the log, the turns, calls and entries of a thread.
func (f *fork) read(one *forkThread) {
	one.events, one.turns, one.calls = f.Written(one.src.ID)
	for _, t := range one.turns {
		f.turns[t.ID] = t
	}
	one.entries = f.Entries(`thread_id = ?`, one.src.ID)
}

// add takes a thread into the fork, of which it is known how much is copied, and
// drops what is later. Each saved step has written one message.
func (f *fork) add(one *forkThread) {
	f.list = append(f.list, one)
	f.threads[one.src.ID] = one
	one.events = slices.DeleteFunc(one.events, func(e *rows.Event) bool { return e.Seq > one.event })
	one.messages = f.Messages(one.src.ID)
	one.messages = slices.DeleteFunc(one.messages, func(m agent.Message) bool { return m.Seq > one.message })
	one.ids = map[string]bool{}
	for _, m := range one.messages {
		one.ids[m.ID] = true
		if one.open != nil && m.TurnID == one.open.ID && m.Role == agent.RoleAssistant {
			one.saved++
		}
	}
	one.calls = slices.DeleteFunc(one.calls, func(c *rows.Call) bool { return !one.holds(c.TurnID, c.Step) })
	for _, c := range one.calls {
		f.calls[c.ID] = c
	}
}

// has reports whether a turn is copied.
func (one *forkThread) has(turnID string) bool {
	return slices.ContainsFunc(one.turns, func(t *rows.Turn) bool { return t.ID == turnID })
}

// holds reports whether a step is copied.
func (one *forkThread) holds(turnID string, step int) bool {
	return one.has(turnID) && (one.open == nil || one.open.ID != turnID || step <= one.saved)
}

// endOf is the event that closed a turn; nil if there is none.
func (one *forkThread) endOf(turnID string) *rows.Event {
	for _, e := range one.events {
		if e.TurnID == turnID && (e.Type == agent.EventDone || e.Type == agent.EventError) {
			return e
		}
	}
	return nil
}

// lastOf is the last message that a turn has saved.
func (one *forkThread) lastOf(turnID string) (last int64) {
	for _, e := range one.events {
		if _, to := appendedBy(e); e.TurnID == turnID {
			last = max(last, to)
		}
	}
	return last
}

// appendedBy are the messages that an event tells to be saved; 0, 0 for others.
func appendedBy(e *rows.Event) (from, to int64) {
	if e.Type != agent.EventMemoryAppended {
		return 0, 0
	}
	var d rows.MemoryAppended
	if json.Unmarshal([]byte(e.DataText), &d) != nil {
		return 0, 0
	}
	return d.FromSeq, d.ToSeq
}

// below adds the sub-agents that the copied part of a thread made.
func (f *fork) below(parent *forkThread) {
	ids := f.childIDs(parent.src.ID)
	made := map[string]bool{}
	for _, e := range parent.events {
		var d rows.ToolCallEvent
		if e.Type == agent.EventToolCall && json.Unmarshal([]byte(e.DataText), &d) == nil && d.SubAgentThread != "" {
			made[d.SubAgentThread] = true
		}
	}
	for _, id := range ids {
		if !made[id] {
			continue
		}
		src := f.Thread(id)
		child := &forkThread{src: src}
		f.read(child)
		f.cutChild(child)
		f.add(child)
		f.unsettled(child)
	}
}

// cutChild finds how much of a sub-agent is copied: the turns that the copied
// part of its delegator ordered. One whose end is told there is copied whole; of
// another, in the background, what was saved at the moment of the fork.
func (f *fork) cutChild(one *forkThread) {
	begun := 0
	for _, t := range one.turns {
		c := f.calls[t.DelegatorCall]
		if t.DelegatorThread != "" && c == nil {
			break
		}
		end := one.endOf(t.ID)
		told := t.DelegatorThread == "" || !t.Background && c.Status.Final() || f.told(t.ID)
		if end != nil && (told || end.AtMs <= f.at) {
			one.event, one.at = end.Seq, end.AtMs
			begun++
			continue
		}
		for _, e := range one.events {
			if _, to := appendedBy(e); to > 0 && e.TurnID == t.ID && e.AtMs <= f.at {
				one.event, one.at, one.open = e.Seq, e.AtMs, t
			}
		}
		if one.open != nil {
			begun++
		}
		break
	}
	one.turns = one.turns[:begun]
	for _, e := range one.events { // what its own sub-agents did after its last turn
		if one.open != nil || e.Seq <= one.event {
			continue
		}
		if e.AtMs > f.at || e.TurnID != "" && !one.has(e.TurnID) {
			break
		}
		one.event, one.at = e.Seq, e.AtMs
	}
	for _, e := range one.events {
		if _, to := appendedBy(e); e.Seq <= one.event {
			one.message = max(one.message, to)
		}
	}
	one.at = max(one.at, one.src.CreatedMs)
}

// told reports whether a copied message tells the end of a turn.
func (f *fork) told(turnID string) bool {
	for _, above := range f.list {
		for _, e := range above.entries {
			if e.Kind == memory.EntryChild && e.ChildTurn == turnID {
				return above.tells(e)
			}
		}
	}
	return false
}

// tells reports whether the copied part of a thread took an entry.
func (one *forkThread) tells(e *rows.Entry) bool {
	return e.State == memory.EntryTaken && one.ids[agent.MessageID(e.TurnID, 0)]
}

// waits reports whether an entry is work in the background that somebody ordered
// and nobody dropped.
func (one *forkThread) waits(e *rows.Entry) bool {
	return e.Kind == memory.EntryAssign && e.Background && e.State != memory.EntryDropped
}

// unsettled finds what was ordered from a sub-agent and had not begun, or ended
// in the background without being told.
func (f *fork) unsettled(one *forkThread) {
	one.unbegun = slices.ContainsFunc(one.entries, func(e *rows.Entry) bool {
		return one.waits(e) && !one.has(e.TurnID) && f.calls[e.CallID] != nil
	})
	for _, t := range one.turns {
		if t != one.open && t.Background && !f.told(t.ID) {
			one.ended = append(one.ended, t)
		}
	}
}
