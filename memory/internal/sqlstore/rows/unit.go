package rows

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Unit is one write transaction: the rows it is fenced by, each loaded once and
// put back once.
type Unit struct {
	ctx     context.Context
	wait    context.Context // the caller's: until the first lock it may give up
	Store   *Store
	q       Queryer
	Now     int64    // the transaction's time, unix milliseconds
	locked  []string // roots of the trees that nobody else writes in
	Threads []*Thread
	Turns   []*Turn
	Removed []string          // threads that are deleted
	Renamed map[string]string // ids of imported calls, by thread and old id
}

// Exec runs a statement.
func (u *Unit) Exec(query string, args ...any) {
	Must(u.q.ExecContext(u.ctx, u.Store.sql.sql(query), args...))
}

// Row runs a query for one row.
func (u *Unit) Row(query string, args ...any) *sql.Row {
	return u.q.QueryRowContext(u.ctx, u.Store.sql.sql(query), args...)
}

// Rows runs a query.
func (u *Unit) Rows(query string, args ...any) *sql.Rows { return Must(u.query(query, args...)) }

// ColumnType is what the database says of a column.
type ColumnType = sql.ColumnType

func (u *Unit) query(query string, args ...any) (*sql.Rows, error) {
	return u.q.QueryContext(u.ctx, u.Store.sql.sql(query), args...)
}

// lock makes this unit the only writer of a thread's tree, and reports whether there
// is one. Few operations write in several trees: should two of them lock the same
// ones in another order, the database undoes one, which is run again.
func (u *Unit) lock(threadID string) bool {
	var root string
	// Also if somebody else makes it just now: it must not be read unlocked.
	if !(One{u.q.QueryRowContext(u.wait, u.Store.sql.sql(u.Store.Dialect.LockTree), threadID)}).Into(&root) {
		return false
	}
	u.locked = append(u.locked, root)
	return true
}

// Thread loads a thread; missing ones are CodeNotFound.
func (u *Unit) Thread(id string) *Thread { return u.ThreadOf("", id) }

// ThreadOf loads a thread for a user, "" for any; another's is CodeNotFound.
func (u *Unit) ThreadOf(userID, id string) *Thread {
	t := u.FindThread(userID, id)
	if t == nil {
		Check(NoThread(id))
	}
	return t
}

// FindThread is ThreadOf a thread that may be missing: then it is nil. The tree of
// another user is neither locked nor waited for.
func (u *Unit) FindThread(userID, id string) *Thread {
	for _, t := range u.Threads {
		if t.ID == id {
			return t.of(userID)
		}
	}
	locks := u.Store.Dialect.LockTree != ""
	if locks && userID != "" && u.ThreadRow(id).of(userID) == nil || locks && len(u.locked) == 0 && !u.lock(id) {
		return nil
	}
	t := u.ThreadRow(id).of(userID)
	if t != nil && locks && !slices.Contains(u.locked, t.RootThreadID) {
		if !u.lock(id) {
			return nil
		}
		t = u.ThreadRow(id)
	}
	if t == nil {
		return nil
	}
	t.Loaded()
	t.At = max(u.Now, t.UpdatedMs)
	u.Threads = append(u.Threads, t)
	return t
}

// ThreadRow reads a thread, without a lock; nil if there is none.
func (u *Unit) ThreadRow(id string) *Thread {
	t := &Thread{}
	if !u.One(SelectThread+` WHERE id = ?`, id).Into(t.Targets()...) {
		return nil
	}
	return t
}

// of is the thread if it is the user's, else nil.
func (t *Thread) of(userID string) *Thread {
	if t != nil && userID != "" && t.UserID != userID {
		return nil
	}
	return t
}

// FindTurn is Turn for one that may be missing: then it is nil.
func (u *Unit) FindTurn(id string) *Turn {
	for _, t := range u.Turns {
		if t.ID == id {
			return t
		}
	}
	t := &Turn{}
	if !u.One(SelectTurn+` WHERE id = ?`, id).Into(t.Targets()...) {
		return nil
	}
	t.Loaded()
	u.Turns = append(u.Turns, t)
	return t
}

// Turn loads a turn; missing ones are CodeNotFound.
func (u *Unit) Turn(id string) *Turn {
	t := u.FindTurn(id)
	if t == nil {
		Refuse(agent.CodeNotFound, "turn %q does not exist", id)
	}
	return t
}

// Open loads a thread and its turn, fenced: the turn must be the thread's open one.
func (u *Unit) Open(threadID, turnID string) (*Thread, *Turn) {
	th := u.Thread(threadID)
	if turnID == "" || th.OpenTurnID != turnID {
		Check(memory.Stale("turn %q is not the open turn of thread %s", turnID, threadID))
	}
	return th, u.Turn(turnID)
}

// Flush puts changed rows back.
func (u *Unit) Flush() {
	for _, t := range u.Turns {
		if t.Dirty {
			u.Exec(updateTurn, Values(t.columns()[columns(turnFixed):])...)
		}
	}
	for _, t := range u.Threads {
		if t.Dirty {
			u.Exec(updateThread, Values(t.Targets()[columns(threadFixed):])...)
		}
	}
}

// touched are the threads that this unit worked on.
func (u *Unit) touched() []string {
	ids := make([]string, len(u.Threads))
	for i, t := range u.Threads {
		ids[i] = t.ID
	}
	return ids
}

// NoThread says that a thread does not exist.
func NoThread(id string) error {
	return agent.Errorf(agent.CodeNotFound, "thread %q does not exist", id)
}

// Encode is JSON as text, without the escaping of HTML.
func Encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", agent.Wrap(err, agent.CodeInvalid, "a value of type %T cannot be stored", v)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// Decode reads what encode wrote; empty text leaves v as it is.
func Decode(text string, v any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return agent.Wrap(err, agent.CodeInternal, "a stored %T cannot be read", v)
	}
	return nil
}

// Clean makes a text storable everywhere: valid UTF-8 without NUL.
func Clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Short cuts a text to at most n characters.
func Short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	runes := 0
	for i := range s {
		if runes == n {
			return s[:i]
		}
		runes++
	}
	return s
}

// Stamp is a stored time.
func Stamp(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// StampOrNil is a time that may be missing (0).
func StampOrNil(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	return new(Stamp(ms))
}

// Flag is a bool as a column.
func Flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Strings reads a column of text.
func (u *Unit) Strings(query string, args ...any) []string { return Strings(u, query, args...) }

// Strings reads a column of text; it is empty, not nil, if there is nothing.
func Strings(q Rower, query string, args ...any) []string {
	all := []string{}
	for _, s := range Find(q, func(s *string) []any { return []any{s} }, nil, query, args...) {
		all = append(all, *s)
	}
	return all
}

// Find runs a query and reads its rows into structs; loaded, if not nil, derives
// the fields that are not columns.
func Find[T any](q Rower, targets func(*T) []any, loaded func(*T), query string, args ...any) []*T {
	rows, err := q.query(query, args...)
	Check(err)
	defer func() { _ = rows.Close() }()
	var all []*T
	for rows.Next() {
		v := new(T)
		Check(rows.Scan(targets(v)...))
		if loaded != nil {
			loaded(v)
		}
		all = append(all, v)
	}
	Check(rows.Err())
	return all
}
