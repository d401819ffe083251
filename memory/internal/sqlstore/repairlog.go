package sqlstore

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// eventNumbers compares the number of the last event with the log. A log that is
// shorter than its number was cut, unless it ends as that of a thread at rest:
// what is written again takes the numbers of what is gone, and the rest of them
// is not given away.
func (r *repairs) eventNumbers() error {
	t, last := r.t, int64(0)
	if n := len(r.log); n > 0 {
		last = r.log[n-1].Seq
	}
	r.cutAt, r.cutTo = last, max(last, t.lastEvent)
	if last < t.lastEvent {
		whole, err := r.complete()
		if err != nil {
			return err
		}
		if !whole {
			t.lastEvent = last
			return nil
		}
	}
	if t.lastEvent != last {
		r.did("last event is %d, as its rows say, not %d", last, t.lastEvent)
		t.lastEvent, t.dirty = last, true
	}
	r.cutTo = last
	return nil
}

// complete reports whether nothing can be missing behind the log: the thread is
// at rest, the log ends with the end of its last turn, and it tells the end of
// each sub-agent in the background.
func (r *repairs) complete() (bool, error) {
	if len(r.log) == 0 || len(r.turnList) == 0 {
		return len(r.log) == 0 && len(r.turnList) == 0 && r.t.lastMessage == 0, nil
	}
	e, turn := r.log[len(r.log)-1], r.turnList[len(r.turnList)-1]
	if turn.State != memory.TurnClosed || e.TurnID != turn.ID || e.Type != agent.EventDone && e.Type != agent.EventError {
		return false, nil
	}
	calls, err := r.strings(`SELECT c.id FROM tool_calls c JOIN turns n ON n.id = c.child_turn WHERE c.thread_id = ? AND c.background = 1`, r.t.ID)
	if err != nil {
		return false, err
	}
	for _, id := range calls {
		if !slices.ContainsFunc(r.log, func(e *eventRow) bool {
			var d childCompleted
			return e.Type == agent.EventSubAgentCompleted && json.Unmarshal([]byte(e.data), &d) == nil && d.ParentToolCall == id
		}) {
			return false, nil
		}
	}
	return true, nil
}

// cut names the events that were behind the log and could not be written again.
func (r *repairs) cut() error {
	if err := r.fillLog(); err != nil {
		return err
	}
	if r.t.lastEvent < r.cutTo {
		r.left(memory.FoundLost, "%s lost", numbers("event", r.t.lastEvent+1, r.cutTo))
		r.t.lastEvent = r.cutTo
		// A number that is not given away is no change.
	}
	return nil
}

// fillLog gives events that were written again the numbers of those that are
// missing further up, if they are as many: then they are the ones.
func (r *repairs) fillLog() error {
	var free []int64
	want := int64(1)
	for _, e := range r.log {
		for ; want < e.Seq && len(free) <= len(r.log); want++ {
			free = append(free, want)
		}
		want = e.Seq + 1
	}
	again := r.t.lastEvent - r.cutAt
	if r.cutTo != r.cutAt || again == 0 || int64(len(free)) != again {
		return nil
	}
	for i, seq := range free {
		if err := r.exec(`UPDATE events SET seq = ? WHERE thread_id = ? AND seq = ?`, seq, r.t.ID, r.cutAt+1+int64(i)); err != nil {
			return err
		}
	}
	r.t.lastEvent = r.cutAt
	return nil
}

// answers gives messages the events that tell of them.
func (r *repairs) answers() error {
	told, final := map[int64]bool{}, map[string]bool{}
	for _, e := range r.log {
		from, to := appendedBy(e)
		for seq := max(from, 1); seq <= min(to, r.t.lastMessage); seq++ {
			told[seq] = true
		}
		var d assistantMessage
		if e.Type == agent.EventAssistantMessage && json.Unmarshal([]byte(e.data), &d) == nil {
			final[d.MessageID] = true
		}
	}
	answers := map[int64]*turnRow{}
	for _, t := range r.turnList {
		if t.answerSeq > 0 && t.State == memory.TurnClosed && t.Outcome == agent.ThreadCompleted {
			answers[t.answerSeq] = t
		}
	}
	seqs := slices.Sorted(maps.Keys(r.texts))
	for i := 0; i < len(seqs); i++ {
		from, m := seqs[i], r.texts[seqs[i]].m
		if turn := answers[from]; turn != nil && !final[m.ID] {
			err := r.event(r.t, turn.ID, agent.EventAssistantMessage, assistantMessage{MessageID: m.ID, Content: m.Content, Usage: m.Usage})
			if err != nil {
				return err
			}
			r.did("the log has the answer of turn %s again", turn.ID)
		}
		if told[from] {
			continue
		}
		for i+1 < len(seqs) && !told[seqs[i+1]] && r.texts[seqs[i+1]].m.Role == agent.RoleTool {
			i++
		}
		if err := r.appended(r.t, m.TurnID, from, seqs[i]); err != nil {
			return err
		}
		r.did("the log tells again that %s saved", numbers("message", from, seqs[i]))
	}
	return nil
}
