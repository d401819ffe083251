package sqlstore

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// restoredForm is how the time of an import is kept.
const restoredForm = time.RFC3339Nano

// DeleteTree removes a main thread with everything below it.
func (s *Store) DeleteTree(ctx context.Context, r memory.DeleteRequest) (res memory.DeleteResult, err error) {
	err = s.write(ctx, "delete", func(u *unit) error {
		res = memory.DeleteResult{}
		t, err := u.owned(r.UserID, r.ThreadID)
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

func (u *unit) deleteTree(t *threadRow, idleSince time.Time) (memory.DeleteResult, error) {
	var res memory.DeleteResult
	ids, err := u.strings(`SELECT id FROM threads WHERE root_id = ? ORDER BY depth, id`, t.ID)
	if err != nil {
		return res, err
	}
	for _, id := range ids {
		one, err := u.thread(id)
		if err != nil {
			return res, err
		}
		if one.OpenTurnID != "" || one.waiting > 0 {
			return res, agent.Errorf(agent.CodeConflict, "thread %s is at work (turn %s open, %d waiting): cancel it first (cancel --all also drops what waits); nothing was deleted",
				one.ID, or(one.OpenTurnID, "none"), one.waiting)
		}
		if !idleSince.IsZero() && !stamp(one.updated).Before(idleSince) {
			return res, agent.Errorf(agent.CodeConflict, "thread %s was active at %s; nothing was deleted", one.ID, stamp(one.updated).Format(time.RFC3339))
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
	shown, err := u.strings(`SELECT DISTINCT name FROM image_refs WHERE thread_id IN (SELECT id FROM threads WHERE root_id = ?) ORDER BY name`, t.ID)
	if err != nil {
		return res, err
	}
	// Streamed text has no reference to its turn that would remove it too.
	err = u.exec(`DELETE FROM chunks WHERE turn_id IN (SELECT turns.id FROM turns JOIN threads ON threads.id = turns.thread_id WHERE threads.root_id = ?)`, t.ID)
	if err != nil {
		return res, err
	}
	if err := u.exec(`DELETE FROM threads WHERE root_id = ?`, t.ID); err != nil {
		return res, err
	}
	res.Threads, u.removed = ids, ids
	if err := u.release(shown); err != nil {
		return res, err
	}
	if lock := u.s.d.LockParent; lock != "" {
		// Whoever makes a conversation in the session now waits, or is waited for.
		if err := u.row(`SELECT id FROM sessions WHERE id = ?`+lock, t.SessionID).Scan(new(string)); err != nil {
			return res, err
		}
	}
	var left int
	if err := u.row(`SELECT COUNT(*) FROM threads WHERE session_id = ?`, t.SessionID).Scan(&left); err != nil || left > 0 {
		return res, err
	}
	res.Session = true
	if err := u.exec(`DELETE FROM meta WHERE key = ?`, restoredKey+t.SessionID); err != nil {
		return res, err
	}
	return res, u.exec(`DELETE FROM sessions WHERE id = ?`, t.SessionID)
}

// restoredAt is when a session was imported; zero if it never was.
func (u *unit) restoredAt(sessionID string) (time.Time, error) {
	var text string
	err := u.row(`SELECT value FROM meta WHERE key = ?`, restoredKey+sessionID).Scan(&text)
	if noRows(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(restoredForm, text)
	return at, agent.Wrap(err, agent.CodeInternal, "the time at which session %s was restored cannot be read", sessionID)
}
