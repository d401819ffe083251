package copy

import (
	"cmp"
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// restoredForm is how the time of an import is kept.
const restoredForm = time.RFC3339Nano

// DeleteTree removes a main thread with everything below it.
func (s *Store) DeleteTree(ctx context.Context, r memory.DeleteRequest) (res memory.DeleteResult, err error) {
	err = s.write(ctx, "delete", func(u *unit) error {
		res = memory.DeleteResult{}
		t, err := u.ThreadOf(r.UserID, r.ThreadID)
		if err != nil {
			return err
		}
		if t.Kind != agent.KindMain {
			return agent.Errorf(agent.CodeInvalid, "thread %s belongs to a sub-agent, whose parent refers to it: delete the whole tree, %s", t.ID, t.RootThreadID)
		}
		res, err = u.deleteTree(t, r.IdleSince)
		return err
	})
	return res, err
}

// deleteTree deletes a thread with all below it, unless something in the tree runs or
// waits, or was active since.
func (u *unit) deleteTree(t *rows.Thread, idleSince time.Time) (memory.DeleteResult, error) {
	var res memory.DeleteResult
	ids, err := u.Strings(`SELECT id FROM threads WHERE root_id = ? ORDER BY depth, id`, t.ID)
	if err != nil {
		return res, err
	}
	for _, id := range ids {
		one, err := u.Thread(id)
		if err != nil {
			return res, err
		}
		if one.OpenTurnID != "" || one.Waiting > 0 {
			return res, agent.Errorf(agent.CodeConflict, "thread %s is at work (turn %s open, %d waiting): cancel it first (cancel --all also drops what waits); nothing was deleted",
				one.ID, cmp.Or(one.OpenTurnID, "none"), one.Waiting)
		}
		if !idleSince.IsZero() && !rows.Stamp(one.UpdatedMs).Before(idleSince) {
			return res, agent.Errorf(agent.CodeConflict, "thread %s was active at %s; nothing was deleted", one.ID, rows.Stamp(one.UpdatedMs).Format(time.RFC3339))
		}
	}
	if !idleSince.IsZero() {
		at, err := u.restoredAt(t.SessionID)
		if err != nil {
			return res, err
		}
		if !at.Before(idleSince) {
			return res, agent.Errorf(agent.CodeConflict, "session %s was restored at %s; nothing was deleted", t.SessionID, at.Format(time.RFC3339))
		}
	}
	shown, err := u.Strings(`SELECT DISTINCT name FROM image_refs WHERE thread_id IN (SELECT id FROM threads WHERE root_id = ?) ORDER BY name`, t.ID)
	if err != nil {
		return res, err
	}
	// Streamed text has no reference to its turn that would remove it too.
	err = u.Exec(`DELETE FROM chunks WHERE turn_id IN (SELECT turns.id FROM turns JOIN threads ON threads.id = turns.thread_id WHERE threads.root_id = ?)`, t.ID)
	if err != nil {
		return res, err
	}
	if err := u.Exec(`DELETE FROM threads WHERE root_id = ?`, t.ID); err != nil {
		return res, err
	}
	res.Threads, u.Removed = ids, ids
	if err := u.release(shown); err != nil {
		return res, err
	}
	if lock := u.Store.Dialect.LockParent; lock != "" {
		// Whoever makes a conversation in the session now waits, or is waited for.
		if err := u.Row(`SELECT id FROM sessions WHERE id = ?`+lock, t.SessionID).Scan(new(string)); err != nil {
			return res, err
		}
	}
	var left int
	if err := u.Row(`SELECT COUNT(*) FROM threads WHERE session_id = ?`, t.SessionID).Scan(&left); err != nil || left > 0 {
		return res, err
	}
	res.Session = true
	if err := u.Exec(`DELETE FROM meta WHERE key = ?`, restoredKey+t.SessionID); err != nil {
		return res, err
	}
	return res, u.Exec(`DELETE FROM sessions WHERE id = ?`, t.SessionID)
}

// restoredAt is when a session was imported; zero if it never was.
func (u *unit) restoredAt(sessionID string) (time.Time, error) {
	var text string
	err := u.Row(`SELECT value FROM meta WHERE key = ?`, restoredKey+sessionID).Scan(&text)
	if rows.NoRows(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(restoredForm, text)
	return at, agent.Wrap(err, agent.CodeInternal, "the time at which session %s was restored cannot be read", sessionID)
}
