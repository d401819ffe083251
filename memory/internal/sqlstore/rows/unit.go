package rows

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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
func (u *Unit) Exec(query string, args ...any) error {
	_, err := u.q.ExecContext(u.ctx, u.Store.sql.sql(query), args...)
	return err
}

// Row runs a query for one row.
func (u *Unit) Row(query string, args ...any) *sql.Row {
	return u.q.QueryRowContext(u.ctx, u.Store.sql.sql(query), args...)
}

// Rows runs a query.
func (u *Unit) Rows(query string, args ...any) (*sql.Rows, error) {
	return u.q.QueryContext(u.ctx, u.Store.sql.sql(query), args...)
}

// lock makes this unit the only writer of a thread's tree; a missing thread is
// CodeNotFound. Few operations write in several trees: should two of them lock
// the same ones in another order, the database undoes one, which is run again.
func (u *Unit) lock(threadID string) error {
	var root string
	err := u.q.QueryRowContext(u.wait, u.Store.sql.sql(u.Store.Dialect.LockTree), threadID).Scan(&root)
	if errors.Is(err, sql.ErrNoRows) {
		// Also if somebody else makes it just now: it must not be read unlocked.
		return NoThread(threadID)
	}
	if err == nil {
		u.locked = append(u.locked, root)
	}
	return err
}

// Thread loads a thread; missing ones are CodeNotFound.
func (u *Unit) Thread(id string) (*Thread, error) {
	for _, t := range u.Threads {
		if t.ID == id {
			return t, nil
		}
	}
	locks := u.Store.Dialect.LockTree != ""
	if locks && len(u.locked) == 0 {
		if err := u.lock(id); err != nil {
			return nil, err
		}
	}
	t, err := u.LoadThread(id)
	if err != nil {
		return nil, err
	}
	if locks && !slices.Contains(u.locked, t.RootThreadID) {
		if err := u.lock(id); err != nil {
			return nil, err
		}
		if t, err = u.LoadThread(id); err != nil {
			return nil, err
		}
	}
	t.Loaded()
	t.At = max(u.Now, t.UpdatedMs)
	u.Threads = append(u.Threads, t)
	return t, nil
}

// ThreadOf loads a thread for a user, "" for any. Another's is not found, and its
// tree is neither locked nor waited for.
func (u *Unit) ThreadOf(userID, id string) (*Thread, error) {
	own := func(t *Thread, err error) (*Thread, error) {
		if err == nil && userID != "" && t.UserID != userID {
			return nil, NoThread(id)
		}
		return t, err
	}
	if userID != "" && u.Store.Dialect.LockTree != "" {
		if _, err := own(u.LoadThread(id)); err != nil {
			return nil, err
		}
	}
	return own(u.Thread(id))
}

// LoadThread reads a thread; missing ones are CodeNotFound.
func (u *Unit) LoadThread(id string) (*Thread, error) {
	t := &Thread{}
	err := u.Row(SelectThread+` WHERE id = ?`, id).Scan(t.Targets()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, NoThread(id)
	}
	return t, err
}

// Turn loads a turn; missing ones are CodeNotFound.
func (u *Unit) Turn(id string) (*Turn, error) {
	for _, t := range u.Turns {
		if t.ID == id {
			return t, nil
		}
	}
	t := &Turn{}
	err := u.Row(SelectTurn+` WHERE id = ?`, id).Scan(t.Targets()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, agent.Errorf(agent.CodeNotFound, "turn %q does not exist", id)
	}
	if err != nil {
		return nil, err
	}
	t.Loaded()
	u.Turns = append(u.Turns, t)
	return t, nil
}

// Open loads a thread and its turn, fenced: the turn must be the thread's open one.
func (u *Unit) Open(threadID, turnID string) (*Thread, *Turn, error) {
	th, err := u.Thread(threadID)
	if err != nil {
		return nil, nil, err
	}
	if turnID == "" || th.OpenTurnID != turnID {
		return nil, nil, memory.Stale("turn %q is not the open turn of thread %s", turnID, threadID)
	}
	turn, err := u.Turn(turnID)
	return th, turn, err
}

// Flush puts changed rows back.
func (u *Unit) Flush() error {
	for _, t := range u.Turns {
		if t.Dirty {
			if err := u.Exec(updateTurn, Values(t.columns()[columns(turnFixed):])...); err != nil {
				return err
			}
		}
	}
	for _, t := range u.Threads {
		if t.Dirty {
			if err := u.Exec(updateThread, Values(t.Targets()[columns(threadFixed):])...); err != nil {
				return err
			}
		}
	}
	return nil
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
	t := Stamp(ms)
	return &t
}

// Flag is a bool as a column.
func Flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Strings reads a column of text.
func (u *Unit) Strings(query string, args ...any) ([]string, error) {
	rows, err := u.Rows(query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// Find runs a query and reads its rows into structs; loaded, if not nil, derives
// the fields that are not columns.
func Find[T any](q Rower, targets func(*T) []any, loaded func(*T) error, query string, args ...any) ([]*T, error) {
	rows, err := q.Rows(query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []*T
	for rows.Next() {
		v := new(T)
		if err := rows.Scan(targets(v)...); err != nil {
			return nil, err
		}
		if loaded != nil {
			if err := loaded(v); err != nil {
				return nil, err
			}
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// NoRows reports whether a query found nothing.
func NoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }
