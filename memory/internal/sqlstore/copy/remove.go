package copy

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// restoredForm is how the time of an import is kept.
const restoredForm = time.RFC3339Nano

// DeleteTree removes a main thread with everything below it.
func (s *Store) DeleteTree(ctx context.Context, r memory.DeleteRequest) (memory.DeleteResult, error) {
	return writing(ctx, s, "delete", func(u *unit) memory.DeleteResult {
		t := u.ThreadOf(r.UserID, r.ThreadID)
		if t.Kind != agent.KindMain {
			rows.Refuse(agent.CodeInvalid, "thread %s belongs to a sub-agent, whose parent refers to it: delete the whole tree, %s", t.ID, t.RootThreadID)
		}
		return u.deleteTree(t, r.IdleSince)
	})
}

// deleteTree deletes a thread with all below it, unless something in the tree runs or
// waits, or was active since.
func (u *unit) deleteTree(t *rows.Thread, idleSince time.Time) memory.DeleteResult {
	var res memory.DeleteResult
	ids := u.Strings(`SELECT id FROM threads WHERE root_id = ? ORDER BY depth, id`, t.ID)
	for _, id := range ids {
		one := u.Thread(id)
		if one.OpenTurnID != "" || one.Waiting > 0 {
			rows.Refuse(agent.CodeConflict, "thread %s is at work (%s): cancel it first (cancel --all also drops what waits); nothing was deleted", one.ID, one.Work())
		}
		if !idleSince.IsZero() && !rows.Stamp(one.UpdatedMs).Before(idleSince) {
			rows.Refuse(agent.CodeConflict, "thread %s was active at %s; nothing was deleted", one.ID, rows.Stamp(one.UpdatedMs).Format(time.RFC3339))
		}
	}
	if !idleSince.IsZero() {
		if at := u.restoredAt(t.SessionID); !at.Before(idleSince) {
			rows.Refuse(agent.CodeConflict, "session %s was restored at %s; nothing was deleted", t.SessionID, at.Format(time.RFC3339))
		}
	}
	shown := u.Strings(`SELECT DISTINCT name FROM image_refs WHERE thread_id IN (SELECT id FROM threads WHERE root_id = ?) ORDER BY name`, t.ID)
	// Streamed text has no reference to its turn that would remove it too.
	u.Exec(`DELETE FROM chunks WHERE turn_id IN (SELECT turns.id FROM turns JOIN threads ON threads.id = turns.thread_id WHERE threads.root_id = ?)`, t.ID)
	u.Exec(`DELETE FROM threads WHERE root_id = ?`, t.ID)
	res.Threads, u.Removed = ids, ids
	u.release(shown)
	if lock := u.Store.Dialect.LockParent; lock != "" {
		// Whoever makes a conversation in the session now waits, or is waited for.
		rows.Check(u.Row(`SELECT id FROM sessions WHERE id = ?`+lock, t.SessionID).Scan(new(string)))
	}
	var left int
	rows.Check(u.Row(`SELECT COUNT(*) FROM threads WHERE session_id = ?`, t.SessionID).Scan(&left))
	if left > 0 {
		return res
	}
	res.Session = true
	u.Exec(`DELETE FROM meta WHERE key = ?`, restoredKey+t.SessionID)
	u.Exec(`DELETE FROM sessions WHERE id = ?`, t.SessionID)
	return res
}

// restoredAt is when a session was imported; zero if it never was.
func (u *unit) restoredAt(sessionID string) time.Time {
	var text string
	if !u.One(`SELECT value FROM meta WHERE key = ?`, restoredKey+sessionID).Into(&text) {
		return time.Time{}
	}
	at, err := time.Parse(restoredForm, text)
	rows.Check(agent.Wrap(err, agent.CodeInternal, "the time at which session %s was restored cannot be read", sessionID))
	return at
}

// imageGrace is how long an image is kept for a message that is still to be sent.
const imageGrace = 24 * time.Hour

// KeepImage keeps an image for the messages that will show it. Images kept before
// that no message ever showed are removed on the way, so that they do not pile up.
func (s *Store) KeepImage(ctx context.Context, data []byte) (string, error) {
	name, err := agent.ImageName(data)
	if err != nil {
		return "", err
	}
	return name, s.write(ctx, "keep-image", func(u *unit) {
		u.dropUnused()
		u.Exec(`INSERT INTO images (name, kept_at, body) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET kept_at = excluded.kept_at`, name, u.Now, data)
	})
}

// Image returns the bytes of a kept image.
func (s *Store) Image(ctx context.Context, name string) ([]byte, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) (data []byte) {
		if !q.One(`SELECT body FROM images WHERE name = ?`, name).Into(&data) {
			rows.Refuse(agent.CodeNotFound, "image %.80q is not kept here", rows.Clean(name))
		}
		return data
	})
}

// ImageNames lists the kept images in order of their names.
func (s *Store) ImageNames(ctx context.Context) ([]string, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []string { return rows.Strings(q, `SELECT name FROM images ORDER BY name`) })
}

// release removes the images of threads that are gone, unless others refer to
// them or a message that shows them may be on its way.
func (u *unit) release(names []string) {
	for _, name := range names {
		// Whoever sends the image now has its row: what follows sees that reference.
		if !u.One(`SELECT name FROM images WHERE name = ?`+u.Store.Dialect.LockRow, name).Into(new(string)) {
			continue
		}
		u.Exec(`DELETE FROM images WHERE name = ? AND kept_at = 0 AND `+unreferred, name)
	}
	u.dropUnused()
}

const unreferred = `NOT EXISTS (SELECT 1 FROM image_refs r WHERE r.name = images.name)`

// dropUnused removes images that were kept for messages that never came.
func (u *unit) dropUnused() {
	u.Exec(`DELETE FROM images WHERE kept_at > 0 AND kept_at <= ? AND `+unreferred, u.Now-imageGrace.Milliseconds())
}
