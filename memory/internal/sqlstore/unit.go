package sqlstore

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

// unit is one write transaction: the rows it is fenced by, each loaded once and
// put back once.
type unit struct {
	ctx     context.Context
	wait    context.Context // the caller's: until the first lock it may give up
	s       *Store
	q       Queryer
	now     int64    // the transaction's time, unix milliseconds
	locked  []string // roots of the trees that nobody else writes in
	threads []*threadRow
	turns   []*turnRow
	removed []string          // threads that are deleted
	renamed map[string]string // ids of imported calls, by thread and old id
}

func (u *unit) exec(query string, args ...any) error {
	_, err := u.q.ExecContext(u.ctx, u.s.sql.sql(query), args...)
	return err
}

func (u *unit) row(query string, args ...any) *sql.Row {
	return u.q.QueryRowContext(u.ctx, u.s.sql.sql(query), args...)
}

func (u *unit) rows(query string, args ...any) (*sql.Rows, error) {
	return u.q.QueryContext(u.ctx, u.s.sql.sql(query), args...)
}

// lock makes this unit the only writer of a thread's tree; a missing thread is
// CodeNotFound. Few operations write in several trees: should two of them lock
// the same ones in another order, the database undoes one, which is run again.
func (u *unit) lock(threadID string) error {
	var root string
	err := u.q.QueryRowContext(u.wait, u.s.sql.sql(u.s.d.LockTree), threadID).Scan(&root)
	if errors.Is(err, sql.ErrNoRows) {
		// Also if somebody else makes it just now: it must not be read unlocked.
		return noThread(threadID)
	}
	if err == nil {
		u.locked = append(u.locked, root)
	}
	return err
}

// thread loads a thread; missing ones are CodeNotFound.
func (u *unit) thread(id string) (*threadRow, error) {
	for _, t := range u.threads {
		if t.ID == id {
			return t, nil
		}
	}
	locks := u.s.d.LockTree != ""
	if locks && len(u.locked) == 0 {
		if err := u.lock(id); err != nil {
			return nil, err
		}
	}
	t, err := u.loadThread(id)
	if err != nil {
		return nil, err
	}
	if locks && !slices.Contains(u.locked, t.RootThreadID) {
		if err := u.lock(id); err != nil {
			return nil, err
		}
		if t, err = u.loadThread(id); err != nil {
			return nil, err
		}
	}
	t.loaded()
	t.at = max(u.now, t.updated)
	u.threads = append(u.threads, t)
	return t, nil
}

func (u *unit) loadThread(id string) (*threadRow, error) {
	t := &threadRow{}
	err := u.row(selectThread+` WHERE id = ?`, id).Scan(t.targets()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noThread(id)
	}
	return t, err
}

// turn loads a turn; missing ones are CodeNotFound.
func (u *unit) turn(id string) (*turnRow, error) {
	for _, t := range u.turns {
		if t.ID == id {
			return t, nil
		}
	}
	t := &turnRow{}
	err := u.row(selectTurn+` WHERE id = ?`, id).Scan(t.targets()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, agent.Errorf(agent.CodeNotFound, "turn %q does not exist", id)
	}
	if err != nil {
		return nil, err
	}
	t.loaded()
	u.turns = append(u.turns, t)
	return t, nil
}

// open loads a thread and its turn, fenced: the turn must be the thread's open one.
func (u *unit) open(threadID, turnID string) (*threadRow, *turnRow, error) {
	th, err := u.thread(threadID)
	if err != nil {
		return nil, nil, err
	}
	if turnID == "" || th.OpenTurnID != turnID {
		return nil, nil, memory.Stale("turn %q is not the open turn of thread %s", turnID, threadID)
	}
	turn, err := u.turn(turnID)
	return th, turn, err
}

// flush puts changed rows back.
func (u *unit) flush() error {
	for _, t := range u.turns {
		if t.dirty {
			if err := u.exec(updateTurn, append(t.mutable(), t.ID)...); err != nil {
				return err
			}
		}
	}
	for _, t := range u.threads {
		if t.dirty {
			if err := u.exec(updateThread, append(t.mutable(), t.ID)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// touched are the threads that this unit worked on.
func (u *unit) touched() []string {
	ids := make([]string, len(u.threads))
	for i, t := range u.threads {
		ids[i] = t.ID
	}
	return ids
}

func noThread(id string) error {
	return agent.Errorf(agent.CodeNotFound, "thread %q does not exist", id)
}

// encode is JSON as text, without the escaping of HTML.
func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", agent.Wrap(err, agent.CodeInvalid, "a value of type %T cannot be stored", v)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// decode reads what encode wrote; empty text leaves v as it is.
func decode(text string, v any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return agent.Wrap(err, agent.CodeInternal, "a stored %T cannot be read", v)
	}
	return nil
}

// clean makes a text storable everywhere: valid UTF-8 without NUL.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// short cuts a text to at most n characters.
func short(s string, n int) string {
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

func stamp(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// stampOrNil is a time that may be missing (0).
func stampOrNil(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := stamp(ms)
	return &t
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
