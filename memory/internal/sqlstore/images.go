package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// imageGrace is how long an image is kept for a message that is still to be sent.
const imageGrace = 24 * time.Hour

// KeepImage keeps an image for the messages that will show it. Images kept before
// that no message ever showed are removed on the way, so that they do not pile up.
func (s *Store) KeepImage(ctx context.Context, data []byte) (name string, err error) {
	if name, err = agent.ImageName(data); err != nil {
		return "", err
	}
	err = s.write(ctx, "keep-image", func(u *unit) error {
		if err := u.dropUnused(); err != nil {
			return err
		}
		return u.exec(`INSERT INTO images (name, kept_at, body) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET kept_at = excluded.kept_at`, name, u.now, data)
	})
	return name, err
}

// Image returns the bytes of a kept image.
func (s *Store) Image(ctx context.Context, name string) (data []byte, err error) {
	err = s.read(ctx, func(q *reader) error {
		err := q.row(`SELECT body FROM images WHERE name = ?`, name).Scan(&data)
		if noRows(err) {
			return agent.Errorf(agent.CodeNotFound, "image %.80q is not kept here", clean(name))
		}
		return err
	})
	return data, err
}

// ImageNames lists the kept images in order of their names.
func (s *Store) ImageNames(ctx context.Context) (names []string, err error) {
	err = s.read(ctx, func(q *reader) error {
		names, err = list(q, "", func(name *string) []any { return []any{name} }, func(name *string) (string, error) { return *name, nil }, `SELECT name FROM images ORDER BY name`)
		return err
	})
	return names, err
}

// showable refuses a message that shows an image which is not there: nobody would
// see it. The row of each is locked, so that no deletion removes it meanwhile.
func (u *unit) showable(c agent.Content) error {
	for _, name := range slices.Sorted(slices.Values(c.Images())) { // one order, as for all locks
		there, err := u.useImage(name)
		if err != nil {
			return err
		}
		if !there {
			return agent.Errorf(agent.CodeInvalid, "the message shows %s%s, which is not kept here (any more): attach the image again", agent.ImageScheme, name)
		}
	}
	return nil
}

// useImage marks an image as shown by a message and reports whether it is there.
// Nobody removes it until this transaction ends.
func (u *unit) useImage(name string) (bool, error) {
	var keptAt int64
	err := u.row(`SELECT kept_at FROM images WHERE name = ?`+u.s.d.LockRow, name).Scan(&keptAt)
	if noRows(err) {
		return false, nil
	}
	if err != nil || keptAt == 0 {
		return true, err
	}
	return true, u.exec(`UPDATE images SET kept_at = 0 WHERE name = ?`, name)
}

// refer notes that a thread refers to the images that a text names, there or not:
// they stay as long as the thread.
func (u *unit) refer(threadID, text string) error {
	for _, name := range agent.ImagesIn(text) {
		if _, err := u.useImage(name); err != nil {
			return err
		}
		err := u.exec(`INSERT INTO image_refs (thread_id, name) VALUES (?, ?) ON CONFLICT (thread_id, name) DO NOTHING`, threadID, name)
		if err != nil {
			return err
		}
	}
	return nil
}

// release removes the images of threads that are gone, unless others refer to
// them or a message that shows them may be on its way.
func (u *unit) release(names []string) error {
	for _, name := range names {
		// Whoever sends the image now has its row: what follows sees that reference.
		err := u.row(`SELECT name FROM images WHERE name = ?`+u.s.d.LockRow, name).Scan(new(string))
		if noRows(err) {
			continue
		}
		if err == nil {
			err = u.exec(`DELETE FROM images WHERE name = ? AND kept_at = 0 AND `+unreferred, name)
		}
		if err != nil {
			return err
		}
	}
	return u.dropUnused()
}

const unreferred = `NOT EXISTS (SELECT 1 FROM image_refs r WHERE r.name = images.name)`

// dropUnused removes images that were kept for messages that never came.
func (u *unit) dropUnused() error {
	return u.exec(`DELETE FROM images WHERE kept_at > 0 AND kept_at <= ? AND `+unreferred, u.now-imageGrace.Milliseconds())
}

// lostImages reports messages whose image is gone.
func (r *repairs) lostImages() error {
	gone, err := r.strings(`SELECT name FROM image_refs WHERE thread_id = ? AND NOT EXISTS (SELECT 1 FROM images i WHERE i.name = image_refs.name) ORDER BY name`, r.t.ID)
	if err != nil || len(gone) == 0 {
		return err
	}
	messages, err := r.messages(r.t.ID)
	if err != nil {
		return nil //nolint:nilerr // readable has told of it
	}
	for _, name := range gone {
		for _, m := range messages {
			for _, shown := range m.Content.Images() {
				if shown == name {
					r.left(memory.FoundLost, "message %s (seq %d) shows %s%s, which the store does not have", m.ID, m.Seq, agent.ImageScheme, name)
				}
			}
		}
	}
	return nil
}
