package sqlstore

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// restoredKey and a session's id are the key in meta of when it was imported
// last: until then it was not active, but it was not abandoned either.
const restoredKey = "restored:"

// ImportThreads adds threads as they were.
func (s *Store) ImportThreads(ctx context.Context, r memory.ImportRequest) (res memory.ImportResult, err error) {
	err = s.write(ctx, "import", func(u *unit) error {
		res = memory.ImportResult{}
		for _, record := range r.Threads {
			added, err := u.restore(r, record)
			if err != nil {
				return agent.Wrap(err, agent.CodeOf(s.fail("import", err)), "thread %s cannot be imported", record.Thread.ID)
			}
			if !added {
				res.Present = append(res.Present, record.Thread.ID)
				continue
			}
			res.Added = append(res.Added, record.Thread.ID)
			err = u.exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
				restoredKey+record.Thread.SessionID, stamp(u.now).Format(restoredForm))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return res, err
}

// restore adds one thread, or reports that it is there as it should be.
func (u *unit) restore(r memory.ImportRequest, record memory.ThreadRecord) (added bool, err error) {
	plain := len(record.Rows) == 0
	if plain {
		record.Messages = pairUp(record.Messages)
		record.Thread.UserID, record.Thread.Profile = or(r.UserID, record.Thread.UserID), or(r.Profile, record.Thread.Profile)
	}
	if err := checkRecord(r, record.Thread); err != nil {
		return false, err
	}
	there, err := u.thread(record.Thread.ID)
	switch {
	case err == nil:
		return false, u.sameThread(there, record, plain)
	case agent.CodeOf(err) != agent.CodeNotFound:
		return false, err
	}
	if err := u.parentOf(record.Thread); err != nil {
		return false, err
	}
	if plain {
		return true, u.restorePlain(r, record)
	}
	var a archive
	if err := json.Unmarshal(record.Rows, &a); err != nil {
		return false, agent.Wrap(err, agent.CodeInvalid, "its rows cannot be read")
	}
	if a.Version != archiveVersion || len(a.unknownTables()) > 0 {
		return false, agent.Errorf(agent.CodeInvalid, "it was exported by a newer program (version %d, tables %s): import it with that program, or leave its \"store\" out to import the messages alone",
			a.Version, strings.Join(a.unknownTables(), ", "))
	}
	if err := checkArchive(a, record.Thread); err != nil {
		return false, err
	}
	for _, part := range archived {
		if err := u.load(part.table, a.Tables[part.table], part.shared); err != nil {
			return false, err
		}
	}
	if err := u.sessionOf(record.Thread); err != nil {
		return false, err
	}
	if err := u.loadMessages(record); err != nil {
		return false, err
	}
	if err := u.refer(record.Thread.ID, string(record.Rows)); err != nil {
		return false, err
	}
	_, err = u.thread(record.Thread.ID)
	return true, err
}

// checkRecord refuses ids that do not fit together, and other users' threads.
func checkRecord(r memory.ImportRequest, t agent.Thread) error {
	p, err := agent.ParseThreadID(t.ID)
	switch {
	case err != nil:
		return err
	case t.UserID == "":
		return agent.Errorf(agent.CodeInvalid, "it has no user: name one")
	case r.UserID != "" && t.UserID != r.UserID:
		return agent.Errorf(agent.CodeInvalid, "it belongs to user %q: import it as that user", t.UserID)
	case p.Kind != t.Kind, p.Kind == agent.KindMain && (p.SessionID != t.SessionID || p.ConversationID != t.ConversationID),
		p.Kind == agent.KindSubAgent && (p.AgentType != t.AgentType || p.AgentID != t.AgentID),
		(p.Kind == agent.KindSubAgent) != (t.ParentThreadID != ""),
		p.Kind == agent.KindMain && t.RootThreadID != t.ID:
		return agent.Errorf(agent.CodeInvalid, "its ids contradict each other")
	}
	return agent.CheckName("session", t.SessionID)
}

// parentOf makes sure that a sub-agent gets a parent, its own user's.
func (u *unit) parentOf(t agent.Thread) error {
	if t.Kind == agent.KindMain {
		return nil
	}
	parent, err := u.thread(t.ParentThreadID)
	if agent.CodeOf(err) == agent.CodeNotFound || err == nil && parent.UserID != t.UserID {
		return agent.Errorf(agent.CodeInvalid, "its parent %s is not there: import it with its parent", t.ParentThreadID)
	}
	if err == nil && (parent.RootThreadID != t.RootThreadID || parent.SessionID != t.SessionID || parent.Depth+1 != t.Depth) {
		return agent.Errorf(agent.CodeInvalid, "it does not fit below its parent %s (root %s, session %s, depth %d)", parent.ID, parent.RootThreadID, parent.SessionID, parent.Depth)
	}
	return err
}

// sessionOf makes sure that the session is the thread's user's.
func (u *unit) sessionOf(t agent.Thread) error {
	var owner string
	err := u.row(`SELECT user_id FROM sessions WHERE id = ?`, t.SessionID).Scan(&owner)
	if noRows(err) {
		return agent.Errorf(agent.CodeInvalid, "its session %s is missing", t.SessionID)
	}
	if err == nil && owner != t.UserID {
		return agent.Errorf(agent.CodeConflict, "the id of its session, %s, is taken", t.SessionID)
	}
	return err
}

// sameThread compares a thread that is there with one to be imported.
func (u *unit) sameThread(there *threadRow, record memory.ThreadRecord, plain bool) error {
	if there.UserID != record.Thread.UserID {
		return agent.Errorf(agent.CodeConflict, "its id is taken")
	}
	have, err := u.record(there.ID)
	if err != nil {
		return err
	}
	same, err := sameMessages(have.Messages, record.Messages, plain)
	if err != nil {
		return err
	}
	if !plain && same {
		if same, err = sameValues(record.Rows, have.Rows); err != nil {
			return agent.Wrap(err, agent.CodeInvalid, "its rows cannot be read")
		}
	}
	if !same {
		return agent.Errorf(agent.CodeConflict, "it is there already, with other content: delete it first, or keep what is there")
	}
	return nil
}

// sameValues compares what JSON means: a file may spell it in another way, such as
// \u0026 for &.
func sameValues(a, b json.RawMessage) (bool, error) {
	var values [2]any
	for i, raw := range []json.RawMessage{a, b} {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(&values[i]); err != nil {
			return false, err
		}
	}
	return reflect.DeepEqual(values[0], values[1]), nil
}

// sameMessages compares transcripts; of plain ones only what people see.
func sameMessages(a, b []agent.Message, plain bool) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if plain && a[i].Role == b[i].Role && a[i].Content.String() == b[i].Content.String() {
			continue
		}
		x, err := encode(a[i])
		if err != nil {
			return false, err
		}
		y, err := encode(b[i])
		if err != nil || x != y {
			return false, err
		}
	}
	return true, nil
}

// checkArchive refuses rows that belong to another thread.
func checkArchive(a archive, t agent.Thread) error {
	turns, err := a.column("turns", "id")
	if err != nil {
		return err
	}
	calls, err := a.column("tool_calls", "id")
	if err != nil {
		return err
	}
	only := []string{t.ID}
	for _, c := range []struct {
		table, column string
		allowed       []string
	}{
		{"threads", "id", only}, {"threads", "user_id", []string{t.UserID}}, {"threads", "session_id", []string{t.SessionID}},
		{"threads", "parent_id", []string{t.ParentThreadID}}, {"threads", "root_id", []string{t.RootThreadID}}, {"threads", "kind", []string{string(t.Kind)}},
		{"sessions", "id", []string{t.SessionID}}, {"sessions", "user_id", []string{t.UserID}}, {"approved_tools", "session_id", []string{t.SessionID}},
		{"inbox", "thread_id", only}, {"turns", "thread_id", only}, {"events", "thread_id", only}, {"tool_calls", "thread_id", only},
		{"asks", "thread_id", only}, {"asks", "user_id", []string{t.UserID}}, {"asks", "root_id", []string{t.RootThreadID}},
		{"asks", "turn_id", turns}, {"asks", "call_id", append([]string{""}, calls...)},
		{"tasks", "thread_id", only}, {"budgets", "root_id", only}, {"forgotten", "thread_id", only}, {"forks", "thread_id", only}, {"summaries", "thread_id", only},
		{"steps", "turn_id", turns}, {"chunks", "turn_id", turns}, {"summaries", "turn_id", turns}, {"reservations", "turn_id", turns}, {"reservations", "root_id", []string{t.RootThreadID}},
		{"tool_calls", "turn_id", turns}, {"outputs", "call_id", calls},
	} {
		values, err := a.column(c.table, c.column)
		if err != nil {
			return err
		}
		for _, v := range values {
			if !slices.Contains(c.allowed, v) {
				return agent.Errorf(agent.CodeInvalid, "a row of %s has %s %q, which is not its own", c.table, c.column, v)
			}
		}
	}
	hashes, err := a.column("configs", "hash")
	if err != nil {
		return err
	}
	bodies, err := a.column("configs", "body")
	if err != nil {
		return err
	}
	for i, body := range bodies {
		if configHash(body) != hashes[i] {
			return agent.Errorf(agent.CodeInvalid, "a snapshot of its configuration was changed")
		}
	}
	if len(a.Tables["threads"].Rows) != 1 || len(a.Tables["sessions"].Rows) != 1 {
		return agent.Errorf(agent.CodeInvalid, "its rows are not those of one thread of one session")
	}
	return nil
}

// column reads a column of text.
func (a archive) column(table, name string) ([]string, error) {
	rows := a.Tables[table]
	at := slices.Index(rows.Columns, name)
	var out []string
	for _, row := range rows.Rows {
		if at < 0 || at >= len(row) {
			return nil, agent.Errorf(agent.CodeInvalid, "the rows of %s have no column %s", table, name)
		}
		v, err := loadValue(row[at])
		text, ok := v.(string)
		if err != nil || !ok {
			return nil, agent.Errorf(agent.CodeInvalid, "column %s.%s holds %.40s where a text belongs", table, name, row[at])
		}
		out = append(out, text)
	}
	return out, nil
}

// load inserts rows. Columns that this program does not know are refused: what
// they mean would be lost.
func (u *unit) load(table string, rows archiveTable, shared bool) error {
	if len(rows.Rows) == 0 {
		return nil
	}
	known, err := u.columns(table)
	if err != nil {
		return err
	}
	for _, name := range rows.Columns {
		if !slices.Contains(known, name) {
			return agent.Errorf(agent.CodeInvalid, "table %s has no column %q: it was exported by a newer program", table, name)
		}
	}
	insert := insertSQL(table, strings.Join(rows.Columns, ","))
	if shared {
		insert += ` ON CONFLICT DO NOTHING`
	}
	for _, row := range rows.Rows {
		if len(row) != len(rows.Columns) {
			return agent.Errorf(agent.CodeInvalid, "a row of %s has %d values, not %d", table, len(row), len(rows.Columns))
		}
		args := make([]any, len(row))
		for i, raw := range row {
			if args[i], err = loadValue(raw); err != nil {
				return agent.Wrap(err, agent.CodeInvalid, "column %s.%s cannot be read", table, rows.Columns[i])
			}
		}
		if err := u.exec(insert, args...); err != nil {
			return err
		}
	}
	return nil
}

// columns are those that a table has.
func (u *unit) columns(table string) ([]string, error) {
	rows, err := u.rows(`SELECT * FROM ` + table + ` WHERE 1 = 0`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	return names, rows.Err()
}

// loadMessages inserts messages under the seq that they have.
func (u *unit) loadMessages(record memory.ThreadRecord) error {
	for i, m := range record.Messages {
		if m.Seq != int64(i+1) {
			return agent.Errorf(agent.CodeInvalid, "message %d has seq %d: restore the file, or leave its \"store\" out to number its messages anew", i+1, m.Seq)
		}
		superseded := m.SupersededBy
		m.SupersededBy = ""
		body, err := encode(m)
		if err != nil {
			return err
		}
		err = u.exec(`INSERT INTO messages (thread_id, seq, id, superseded_by, body) VALUES (?, ?, ?, ?, ?)`,
			record.Thread.ID, m.Seq, m.ID, superseded, body)
		if err != nil {
			return err
		}
		if err := u.refer(record.Thread.ID, body); err != nil {
			return err
		}
	}
	return nil
}
