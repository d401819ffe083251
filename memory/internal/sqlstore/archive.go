package sqlstore

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// archived are the tables that hold what belongs to a thread, in the order in
// which rows can be put back. Each condition has placeholders for the thread's
// id only. Messages are kept apart, in a form that other programs read.
var archived = []struct {
	table, where, order string
	shared              bool // several threads have the row
}{
	{"sessions", `id = (SELECT session_id FROM threads WHERE id = ?)`, `id`, true},
	{"approved_tools", `session_id = (SELECT session_id FROM threads WHERE id = ?)`, `tool_name`, true},
	{"configs", `hash IN (SELECT config_hash FROM threads WHERE id = ? UNION SELECT config_hash FROM inbox WHERE thread_id = ?)`, `hash`, true},
	{"threads", `id = ?`, `id`, false},
	{"inbox", `thread_id = ?`, `seq`, false},
	{"turns", `thread_id = ?`, `n`, false},
	{"summaries", `thread_id = ?`, `turn_id, step, cause`, false},
	{"steps", `turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`, `turn_id, step`, false},
	{"chunks", `turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`, `turn_id, step, n`, false},
	{"events", `thread_id = ?`, `seq`, false},
	{"tool_calls", `thread_id = ?`, `id`, false},
	{"outputs", `call_id IN (SELECT id FROM tool_calls WHERE thread_id = ?)`, `call_id`, false},
	{"asks", `thread_id = ?`, `id`, false},
	{"tasks", `thread_id = ?`, `id`, false},
	{"budgets", `root_id = ?`, `root_id`, false},
	{"reservations", `turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`, `turn_id, step`, false},
	{"forgotten", `thread_id = ?`, `thread_id`, false},
	{"forks", `thread_id = ?`, `thread_id`, false},
}

// archiveVersion is that of the form of ThreadRecord.Rows.
const archiveVersion = 1

// archive is the form of ThreadRecord.Rows.
type archive struct {
	Version int                     `json:"version"`
	Tables  map[string]archiveTable `json:"tables"`
}

// archiveTable is rows with the columns they have.
type archiveTable struct {
	Columns []string            `json:"columns"`
	Rows    [][]json.RawMessage `json:"rows"`
}

// look runs f on the state of one moment and changes nothing.
func (s *Store) look(ctx context.Context, f func(*unit) error) error {
	tx, err := s.b.Begin(ctx)
	if err != nil {
		return s.fail("read", err)
	}
	defer tx.Rollback()
	return s.fail("read", f(&unit{ctx: context.WithoutCancel(ctx), wait: ctx, s: s, q: tx, now: s.began(tx).UnixMilli()}))
}

// ExportThreads returns all that is stored of a thread, or of a tree.
func (s *Store) ExportThreads(ctx context.Context, r memory.ExportRequest) (records []memory.ThreadRecord, err error) {
	err = s.look(ctx, func(u *unit) error {
		records = nil
		if _, err := u.owned(r.UserID, r.ThreadID); err != nil {
			return err
		}
		ids := []string{r.ThreadID}
		for i := 0; i < len(ids); i++ {
			record, err := u.record(ids[i])
			if err != nil {
				return err
			}
			records = append(records, record)
			if !r.Below {
				continue
			}
			below, err := u.strings(`SELECT id FROM threads WHERE parent_id = ? AND parent_id <> '' ORDER BY ordinal`, ids[i])
			if err != nil {
				return err
			}
			ids = append(ids, below...)
		}
		return nil
	})
	return records, err
}

// record reads all of one thread.
func (u *unit) record(threadID string) (memory.ThreadRecord, error) {
	var record memory.ThreadRecord
	t, err := u.thread(threadID)
	if err != nil {
		return record, err
	}
	if record.Thread, err = u.view(t); err != nil {
		return record, err
	}
	if record.Messages, err = u.messages(threadID); err != nil {
		return record, err
	}
	a := archive{Version: archiveVersion, Tables: map[string]archiveTable{}}
	for _, part := range archived {
		table, err := u.dump(part.table, part.where, part.order, threadID)
		if err != nil {
			return record, err
		}
		if len(table.Rows) > 0 {
			a.Tables[part.table] = table
		}
	}
	rows, err := encode(a)
	record.Rows = json.RawMessage(rows)
	return record, err
}

func (u *unit) messages(threadID string) ([]agent.Message, error) {
	rows, err := u.rows(`SELECT seq, body, superseded_by FROM messages WHERE thread_id = ? ORDER BY seq`, threadID)
	found, err := collect(rows, err, func(m *messageRow) []any { return []any{&m.seq, &m.body, &m.supersededBy} }, func(*messageRow) error { return nil })
	if err != nil {
		return nil, err
	}
	out := make([]agent.Message, len(found))
	for i, m := range found {
		if out[i], err = m.message(threadID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// dump reads rows of a table, columns in the order of their names: the same in
// every database.
func (u *unit) dump(table, where, order, threadID string) (archiveTable, error) {
	args := slices.Repeat([]any{threadID}, strings.Count(where, "?"))
	rows, err := u.rows(`SELECT * FROM `+table+` WHERE `+where+` ORDER BY `+order, args...)
	if err != nil {
		return archiveTable{}, err
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		return archiveTable{}, err
	}
	out := archiveTable{Columns: slices.Sorted(slices.Values(names))}
	values := make([]any, len(names))
	targets := make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return archiveTable{}, err
		}
		row := make([]json.RawMessage, len(names))
		for i, name := range names {
			at, _ := slices.BinarySearch(out.Columns, name)
			if row[at], err = dumpValue(values[i]); err != nil {
				return archiveTable{}, agent.Wrap(err, agent.CodeInternal, "column %s.%s cannot be exported", table, name)
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out, rows.Err()
}

// blob is how bytes stand in JSON.
type blob struct {
	Base64 []byte `json:"base64"`
}

// dumpValue is a column's value as JSON that tells what it was.
func dumpValue(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case int64:
		return json.RawMessage(strconv.FormatInt(v, 10)), nil
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return json.RawMessage(text), nil
	case string:
		text, err := encode(v)
		return json.RawMessage(text), err
	case []byte:
		return json.Marshal(blob{v})
	}
	return nil, agent.Errorf(agent.CodeInternal, "a value of type %T", v)
}

// loadValue is the reverse of dumpValue.
func loadValue(raw json.RawMessage) (any, error) {
	switch {
	case len(raw) > 0 && raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	case len(raw) > 0 && raw[0] == '{':
		var b blob
		err := json.Unmarshal(raw, &b)
		if b.Base64 == nil {
			b.Base64 = []byte{}
		}
		return b.Base64, err
	case strings.ContainsAny(string(raw), ".eE"):
		return strconv.ParseFloat(string(raw), 64)
	}
	return strconv.ParseInt(string(raw), 10, 64)
}

// unknownTables names tables that this program does not know.
func (a archive) unknownTables() []string {
	known := map[string]bool{}
	for _, part := range archived {
		known[part.table] = true
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.Tables)), func(name string) bool { return known[name] })
}
