package rawstore

import (
	"context"
	"embed"
	"io/fs"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

//go:embed schema/*.sql
var schema embed.FS

// migrate brings the tables up to date, all in one transaction. They have a
// version of their own, so that they can stand in the file of a whole store.
func (s *SQL) migrate(ctx context.Context) error {
	names, err := fs.Glob(schema, "schema/*.sql") // sorted
	if err != nil {
		return err
	}
	return s.in(ctx, unit{db: s.write, lock: s.d.Lock}, func(m memory.Records) error {
		r := m.(*records) // what in gives
		tables, err := r.number(s.d.TableExists, "memory_items_version")
		if err != nil {
			return err
		}
		if tables == 0 {
			if err := r.exec(`CREATE TABLE memory_items_version (version INTEGER NOT NULL)`); err != nil {
				return err
			}
		}
		have, err := r.number(`SELECT COALESCE(MAX(version), 0) FROM memory_items_version`)
		if err != nil {
			return err
		}
		if have > len(names) {
			return agent.Errorf(agent.CodeInvalid, "%s: its tables have version %d, this program knows %d: they were used by a newer program; install that version (or newer), or name another place", s.d.Name, have, len(names))
		}
		for i, name := range names[have:] {
			script, err := fs.ReadFile(schema, name)
			if err != nil {
				return err
			}
			if err := r.exec(string(script)); err != nil {
				return agent.Wrap(err, agent.CodeOf(err), "%s: migration %s failed; nothing was changed", s.d.Name, name)
			}
			if err := r.exec(`INSERT INTO memory_items_version (version) VALUES (?)`, have+i+1); err != nil {
				return err
			}
		}
		return nil
	})
}
