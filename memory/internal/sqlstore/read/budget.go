package read

import (
	"context"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// Spent reads what the agents of a tree have used since the last message of a person.
func (s *Store) Spent(ctx context.Context, rootThreadID string) (used memory.Spent, err error) {
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		if err := q.Exists(rootThreadID); err != nil {
			return err
		}
		used, err = rows.Spent(q, rootThreadID)
		return err
	})
	return used, err
}
