package sqlstore

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// structured are the columns that hold JSON, with what names the row.
var structured = []struct {
	what, query string
}{
	{"inbox entry %s", `SELECT CAST(seq AS TEXT), content FROM inbox WHERE thread_id = ? ORDER BY seq`},
	{"turn %s", `SELECT id, closed FROM turns WHERE thread_id = ? ORDER BY n`},
	{"reply %s", `SELECT turn_id || '.' || CAST(step AS TEXT), reply FROM steps WHERE turn_id IN (SELECT id FROM turns WHERE thread_id = ?) ORDER BY turn_id, step`},
	{"round %s", `SELECT turn_id || '.' || CAST(step AS TEXT), round FROM steps WHERE turn_id IN (SELECT id FROM turns WHERE thread_id = ?) ORDER BY turn_id, step`},
	{"the arguments of call %s", `SELECT id, args FROM tool_calls WHERE thread_id = ? ORDER BY id`},
	{"the configuration %s", `SELECT config_hash, COALESCE((SELECT body FROM configs WHERE hash = config_hash), 'missing') FROM threads WHERE config_hash <> '' AND id = ?`},
	{"the configuration %s of an inbox entry", `SELECT config_hash, COALESCE((SELECT body FROM configs WHERE hash = config_hash), 'missing') FROM inbox WHERE config_hash <> '' AND thread_id = ? ORDER BY seq`},
	{"the usage of summary %s", `SELECT turn_id || '.' || CAST(step AS TEXT), used FROM summaries WHERE thread_id = ? ORDER BY turn_id, step`},
}

// missing stands for the body of a row that is not there.
const missing = "missing"

// readable looks for rows that cannot be read, and loads the log and the turns.
func (r *repairs) readable() error {
	id := r.t.ID
	for _, s := range structured {
		rows, err := r.rows(s.query, id)
		type pair struct{ key, body string }
		found, err := collect(rows, err, func(p *pair) []any { return []any{&p.key, &p.body} }, func(*pair) error { return nil })
		if err != nil {
			return err
		}
		for _, p := range found {
			switch {
			case p.body == missing:
				r.broken = true
				r.left(memory.FoundLost, s.what+" is lost", p.key)
			case p.body != "" && !json.Valid([]byte(p.body)):
				r.broken = true
				r.left(memory.FoundDamaged, s.what+" cannot be read", p.key)
			}
		}
	}
	rows, err := r.rows(`SELECT thread_id, seq, type, turn_id, data, at FROM events WHERE thread_id = ? ORDER BY seq`, id)
	r.log, err = collect(rows, err,
		func(e *eventRow) []any { return []any{&e.ThreadID, &e.Seq, &e.Type, &e.TurnID, &e.data, &e.at} }, func(*eventRow) error { return nil })
	if err != nil {
		return err
	}
	for _, e := range r.log {
		if !json.Valid([]byte(e.data)) {
			r.broken = true
			r.left(memory.FoundDamaged, "event %d (%s) cannot be read", e.Seq, e.Type)
		}
	}
	rows, err = r.rows(selectTurn+` WHERE thread_id = ? ORDER BY n`, id)
	r.turnList, err = collect(rows, err, (*turnRow).targets, func(t *turnRow) error { t.loaded(); return nil })
	return err
}

// lost looks for turns, inbox entries, steps and calls that other rows tell of.
func (r *repairs) lost() error {
	if err := r.lostTurnRows(); err != nil {
		return err
	}
	if err := r.lostInbox(); err != nil {
		return err
	}
	if err := r.lostImages(); err != nil {
		return err
	}
	return r.lostSteps()
}

func (r *repairs) lostTurnRows() error {
	known := map[string]bool{"": true}
	want := int64(1)
	for _, t := range r.turnList {
		known[t.ID] = true
		if t.n > want {
			r.lostTurns = true
			r.left(memory.FoundLost, "%s lost", numbers("turn", want, t.n-1))
		}
		want = t.n + 1
	}
	told := map[string]bool{}
	tell := func(id string) {
		if !known[id] && !told[id] {
			told[id], r.lostTurns = true, true
			r.left(memory.FoundLost, "turn %s is lost: other rows tell of it", id)
		}
	}
	for _, e := range r.log {
		switch e.Type {
		case agent.EventMessageStarted, agent.EventMemoryAppended, agent.EventDone, agent.EventError:
			tell(e.TurnID)
		}
	}
	ids, err := r.strings(`SELECT DISTINCT turn_id FROM tool_calls WHERE thread_id = ?`, r.t.ID)
	for _, id := range ids {
		tell(id)
	}
	return err
}

// lostInbox: the inbox of a main thread has no gaps, and what opened a turn
// stands in the inbox. Turns that were imported from messages had no entry.
func (r *repairs) lostInbox() error {
	type entry struct {
		seq    int64
		turnID string
	}
	rows, err := r.rows(`SELECT seq, turn_id FROM inbox WHERE thread_id = ? ORDER BY seq`, r.t.ID)
	entries, err := collect(rows, err, func(e *entry) []any { return []any{&e.seq, &e.turnID} }, func(*entry) error { return nil })
	if err != nil {
		return err
	}
	undelivered, err := r.strings(`SELECT id FROM turns WHERE id IN (SELECT child_turn FROM tool_calls WHERE thread_id = ? AND child_turn <> '') AND `+endsNowhere, r.t.ID)
	if err != nil {
		return err
	}
	gone := r.t.lastEntry - int64(len(entries))
	want, opens := int64(1), map[string]bool{}
	gap := func(to int64) {
		// Entries of sub-agents move, and ends of children are delivered again.
		if r.t.Kind == agent.KindMain && to >= want && gone > int64(len(undelivered)) {
			r.lostEntries = true
			r.left(memory.FoundLost, "%s lost, with what was sent then if no turn took it", numbers("inbox entry", want, to))
		}
	}
	for _, e := range entries {
		gap(e.seq - 1)
		want, opens[e.turnID] = e.seq+1, true
	}
	gap(r.t.lastEntry)
	begun, err := r.strings(`SELECT turn_id FROM steps WHERE step = 1 AND turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`, r.t.ID)
	if err != nil || r.lostEntries {
		return err
	}
	for _, t := range r.turnList {
		if !opens[t.ID] && slices.Contains(begun, t.ID) {
			r.lostEntries = true
			r.left(memory.FoundLost, "the inbox entry that opened turn %s is lost", t.ID)
		}
	}
	return nil
}

// lostSteps: each saved step of a turn that came from the inbox has its record,
// and each call that a message names its row.
func (r *repairs) lostSteps() error {
	short, err := r.strings(`SELECT id FROM turns WHERE thread_id = ? AND saved > (SELECT COUNT(*) FROM steps WHERE steps.turn_id = turns.id AND step <= saved)`+
		` AND EXISTS (SELECT 1 FROM inbox WHERE inbox.thread_id = turns.thread_id AND inbox.turn_id = turns.id) ORDER BY n`, r.t.ID)
	if err != nil {
		return err
	}
	for _, id := range short {
		r.left(memory.FoundLost, "step records of turn %s are lost", id)
	}
	calls, err := r.strings(`SELECT id FROM tool_calls WHERE thread_id = ?`, r.t.ID)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, id := range calls {
		known[id] = true
	}
	for _, e := range r.log {
		var d toolCalls
		if e.Type != agent.EventToolCalls || json.Unmarshal([]byte(e.data), &d) != nil {
			continue
		}
		for _, c := range d.ToolCalls {
			if !known[c.ID] {
				known[c.ID], r.lostCalls = true, true
				r.left(memory.FoundLost, "call %s (%s) is lost: event %d tells of it", c.ID, c.Function.Name, e.Seq)
			}
		}
	}
	return nil
}

// numbers says which of a numbered kind, with a verb.
func numbers(what string, from, to int64) string {
	if from == to {
		return fmt.Sprintf("%s %d is", what, from)
	}
	if what == "inbox entry" {
		what = "inbox entrie"
	}
	return fmt.Sprintf("%ss %d to %d are", what, from, to)
}
