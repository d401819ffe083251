package copy

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
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
		return u.Exec(`INSERT INTO images (name, kept_at, body) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET kept_at = excluded.kept_at`, name, u.Now, data)
	})
	return name, err
}

// Image returns the bytes of a kept image.
func (s *Store) Image(ctx context.Context, name string) (data []byte, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		err := q.Row(`SELECT body FROM images WHERE name = ?`, name).Scan(&data)
		if rows.NoRows(err) {
			return agent.Errorf(agent.CodeNotFound, "image %.80q is not kept here", rows.Clean(name))
		}
		return err
	})
	return data, err
}

// ImageNames lists the kept images in order of their names.
func (s *Store) ImageNames(ctx context.Context) (names []string, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		names, err = rows.List(q, "", func(name *string) []any { return []any{name} }, func(name *string) (string, error) { return *name, nil }, `SELECT name FROM images ORDER BY name`)
		return err
	})
	return names, err
}

// release removes the images of threads that are gone, unless others refer to
// them or a message that shows them may be on its way.
func (u *unit) release(names []string) error {
	for _, name := range names {
		// Whoever sends the image now has its row: what follows sees that reference.
		err := u.Row(`SELECT name FROM images WHERE name = ?`+u.Store.Dialect.LockRow, name).Scan(new(string))
		if rows.NoRows(err) {
			continue
		}
		if err == nil {
			err = u.Exec(`DELETE FROM images WHERE name = ? AND kept_at = 0 AND `+unreferred, name)
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
	return u.Exec(`DELETE FROM images WHERE kept_at > 0 AND kept_at <= ? AND `+unreferred, u.Now-imageGrace.Milliseconds())
}
