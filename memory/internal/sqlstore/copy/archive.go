package copy

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rules"
)

// What becomes of the rows of a table.
const (
	exported = 1 << iota // they are in exports
	loaded               // an import adds them
	forked               // a fork copies them as they are
	shared               // several threads have them: one that is there stays
	whole    = exported | loaded
)

// archived are the tables that hold what belongs to a thread, in the order in
// which rows can be put back. Each condition has placeholders for the thread's
// id only.
var archived = []struct {
	table, where, order string
	use                 int
}{
	{"sessions", `id = (SELECT session_id FROM threads WHERE id = ?)`, `id`, exported | loaded | shared},
	{"approved_tools", `session_id = (SELECT session_id FROM threads WHERE id = ?)`, `tool_name`, exported},
	{"configs", `hash IN (SELECT config_hash FROM threads WHERE id = ? UNION SELECT config_hash FROM inbox WHERE thread_id = ?)`, `hash`, exported},
	{"threads", `id = ?`, `id`, whole},
	{"inbox", `thread_id = ?`, `seq`, whole},
	{"turns", `thread_id = ?`, `n`, whole},
	{"summaries", `thread_id = ?`, `turn_id, step, cause`, whole | forked},
	{"steps", `turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`, `turn_id, step`, whole},
	{"chunks", `turn_id IN (SELECT id FROM turns WHERE thread_id = ?)`, `turn_id, step, n`, exported | loaded},
	{"events", `thread_id = ?`, `seq`, whole},
	{"tool_calls", `thread_id = ?`, `id`, whole},
	{"outputs", `call_id IN (SELECT id FROM tool_calls WHERE thread_id = ?)`, `call_id`, whole | forked},
	{"output_parts", `call_id IN (SELECT id FROM tool_calls WHERE thread_id = ?)`, `call_id, n`, whole | forked},
	{"asks", `thread_id = ?`, `id`, whole},
	{"tasks", `thread_id = ?`, `id`, whole},
	{"budgets", `root_id = ?`, `root_id`, exported | loaded},
	{"forgotten", `thread_id = ?`, `thread_id`, whole},
	{"forks", `thread_id = ?`, `thread_id`, exported | loaded},
}

// archiveVersion is that of the form of ThreadRecord.Rows.
const archiveVersion = 1

// archive is the form of ThreadRecord.Rows.
type archive struct {
	Version int               `json:"version"`
	Tables  map[string]*table `json:"tables"`
}

// table is rows with the columns they have.
type table struct {
	Columns []string `json:"columns"`
	Rows    [][]cell `json:"rows"`
}

type row struct {
	columns []string
	cells   []cell
}

// all are the rows of a table; nil has none.
func (t *table) all() []row {
	if t == nil {
		return nil
	}
	found := make([]row, len(t.Rows))
	for i, cells := range t.Rows {
		found[i] = row{t.Columns, cells}
	}
	return found
}

func (r row) set(column string, v any) {
	if i := slices.Index(r.columns, column); i >= 0 {
		r.cells[i].v = v
	}
}

func (r row) get(column string) any {
	if i := slices.Index(r.columns, column); i >= 0 {
		return r.cells[i].v
	}
	return nil
}

func (r row) text(column string) string { s, _ := r.get(column).(string); return s }

func (r row) number(column string) int64 { n, _ := r.get(column).(int64); return n }

// cell is a column's value. Its JSON tells what it was: a float has a point or
// an exponent, bytes are an object.
type cell struct{ v any }

type blob struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (c cell) MarshalJSON() ([]byte, error) {
	switch v := c.v.(type) {
	case int64:
		return strconv.AppendInt(nil, v, 10), nil
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return []byte(text), nil
	case string:
		text, err := rows.Encode(v)
		return []byte(text), err
	case []byte:
		return json.Marshal(blob{v})
	}
	return nil, agent.Errorf(agent.CodeInternal, "a value of type %T cannot be exported", c.v)
}

// UnmarshalJSON implements json.Unmarshaler. What no column holds stays as it is, for
// table.check to refuse.
func (c *cell) UnmarshalJSON(raw []byte) error {
	var text string
	var b blob
	n, notWhole := strconv.ParseInt(string(raw), 10, 64)
	f, notNumber := strconv.ParseFloat(string(raw), 64)
	switch c.v = json.RawMessage(slices.Clone(raw)); {
	case notWhole == nil:
		c.v = n
	case notNumber == nil:
		c.v = f
	case raw[0] == '"' && json.Unmarshal(raw, &text) == nil:
		c.v = text
	case raw[0] == '{' && strings.Contains(string(raw), `"base64"`) && json.Unmarshal(raw, &b) == nil:
		c.v = append([]byte{}, b.Base64...) // null is an empty one, which is not NULL
	}
	return nil
}

// ExportThreads returns all that is stored of a thread, or of a tree.
func (s *Store) ExportThreads(ctx context.Context, r memory.ExportRequest) (records []memory.ThreadRecord, err error) {
	err = s.rows.Look(ctx, func(at *rows.Unit) {
		u := &unit{&rules.Unit{Unit: at}}
		records = nil
		u.ThreadOf(r.UserID, r.ThreadID)
		ids := []string{r.ThreadID}
		for i := 0; i < len(ids); i++ {
			text := rows.Must(rows.Encode(archive{Version: archiveVersion, Tables: u.dump(ids[i], exported)}))
			records = append(records, memory.ThreadRecord{Thread: u.View(u.Thread(ids[i])), Messages: u.Messages(ids[i]), Rows: json.RawMessage(text)})
			if r.Below {
				ids = append(ids, u.childIDs(ids[i])...)
			}
		}
	})
	return records, err
}

// childIDs are the sub-agents that a thread made, in that order.
func (u *unit) childIDs(threadID string) []string {
	return u.Strings(`SELECT id FROM threads WHERE parent_id = ? AND parent_id <> '' ORDER BY ordinal`, threadID)
}

// dump reads a thread's rows of the tables of one use. Tables without rows are
// left out.
func (u *unit) dump(threadID string, use int) map[string]*table {
	tables := map[string]*table{}
	for _, part := range archived {
		if part.use&use == 0 {
			continue
		}
		if t := u.dumpTable(part.table, part.where, part.order, threadID); len(t.Rows) > 0 {
			tables[part.table] = t
		}
	}
	return tables
}

// dumpTable reads rows, their columns in the order of the names: the same in
// every database.
func (u *unit) dumpTable(name, where, order, threadID string) *table {
	var columns []string
	for _, c := range u.columns(name) {
		columns = append(columns, c.Name())
	}
	slices.Sort(columns)
	args := slices.Repeat([]any{threadID}, strings.Count(where, "?"))
	found := u.Rows(`SELECT `+strings.Join(columns, ",")+` FROM `+name+` WHERE `+where+` ORDER BY `+order, args...)
	defer func() { _ = found.Close() }()
	t := &table{Columns: columns}
	targets := make([]any, len(columns))
	for found.Next() {
		cells := make([]cell, len(columns))
		for i := range cells {
			targets[i] = &cells[i].v
		}
		rows.Check(found.Scan(targets...))
		t.Rows = append(t.Rows, cells)
	}
	rows.Check(found.Err())
	return t
}

// columns are those that a table has, each with the type that the database gives it.
func (u *unit) columns(name string) []*rows.ColumnType {
	found := u.Rows(`SELECT * FROM ` + name + ` WHERE 1 = 0`)
	defer func() { _ = found.Close() }()
	types := rows.Must(found.ColumnTypes())
	rows.Check(found.Err())
	return types
}

// check refuses rows that a table cannot hold. Columns that this program does not know
// are refused, as what they mean would be lost, and values of another type than the
// column's: SQLite would keep them, and nobody could read the thread then.
func (u *unit) check(name string, t *table) {
	if t == nil {
		return
	}
	known := map[string]string{}
	for _, c := range u.columns(name) {
		known[c.Name()] = c.DatabaseTypeName()
	}
	types := make([]string, len(t.Columns))
	for i, column := range t.Columns {
		if types[i] = known[column]; types[i] == "" {
			rows.Refuse(agent.CodeInvalid, "table %s has no column %q, or has it twice: it was exported by a newer program, or edited", name, column)
		}
		delete(known, column)
	}
	for i, cells := range t.Rows {
		if len(cells) != len(t.Columns) {
			rows.Refuse(agent.CodeInvalid, "row %d of table %s has %d values, not %d", i+1, name, len(cells), len(t.Columns))
		}
		for j, c := range cells {
			if want, is := c.fits(types[j]); !is {
				rows.Refuse(agent.CodeInvalid, "table %s, row %d: column %s must be %s: restore the file, or leave its \"store\" out to import the messages alone", name, i+1, t.Columns[j], want)
			}
		}
	}
}

// fits reports whether a column of a type takes the value, and what it takes.
func (c cell) fits(columnType string) (want string, is bool) {
	switch columnType {
	case "TEXT":
		_, is = c.v.(string)
		return "text", is
	case "BLOB", "BYTEA":
		_, is = c.v.([]byte)
		return `{"base64": TEXT}`, is
	}
	n, whole := c.v.(int64)
	switch columnType {
	case "REAL", "FLOAT8":
		_, is = c.v.(float64)
		return "a number", is || whole
	case "INT4":
		whole = whole && n == int64(int32(n))
	}
	return "a whole number", whole
}

// load inserts rows.
func (u *unit) load(name string, t *table, shared bool) {
	if t == nil {
		return
	}
	insert := rows.InsertSQL(name, strings.Join(t.Columns, ","))
	if shared {
		insert += ` ON CONFLICT DO NOTHING`
	}
	for _, cells := range t.Rows {
		args := make([]any, len(cells))
		for i, c := range cells {
			args[i] = c.v
		}
		rows.Check(u.Store.NotOurs(rows.Caught(func() { u.Exec(insert, args...) }),
			"a row of %s does not fit into this store: its id is taken, or it contradicts other rows", name))
	}
}

// unknownTables names tables that this program does not know.
func (a archive) unknownTables() []string {
	known := map[string]bool{}
	for _, part := range archived {
		known[part.table] = part.use&exported != 0
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.Tables)), func(name string) bool { return known[name] })
}
