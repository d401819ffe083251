package rows

import (
	"context"
	"io/fs"
	"sort"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// migration is one step of the schema.
type migration struct {
	version int
	name    string
	script  string
	// expands means that programs which do not know this step keep the rules of the
	// store all the same.
	expands bool
}

// expands begins a migration that only adds what older programs may leave empty. They
// go on with the store then, also if they are started after it: workers of two builds
// share it during a deploy and after a rollback. What such a step makes unused is
// removed by a later one, without this line.
const expands = "-- expands\n"

// migrations reads NNN_name.sql files in order; versions count from 1 without a gap.
func migrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	var all []migration
	for i, name := range names {
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, agent.Errorf(agent.CodeInternal, "migration %s: want number %03d", name, i+1)
		}
		script, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all = append(all, migration{version: version, name: name, script: string(script), expands: strings.HasPrefix(string(script), expands)})
	}
	return all, nil
}

// migrate runs what is missing, all in one transaction: an interrupted upgrade
// leaves the old schema. A schema newer than this program is refused if a step that
// this program does not know does more than expand it.
func (s *Store) migrate(ctx context.Context) error {
	all, err := migrations(s.Dialect.Schema)
	if err != nil {
		return err
	}
	return s.Write(ctx, "migrate", func(u *Unit) {
		if s.Dialect.LockSchema != "" {
			u.Exec(s.Dialect.LockSchema)
		}
		var tables, have, needs int
		Check(u.Row(s.Dialect.TableExists, "schema_version").Scan(&tables))
		if tables == 0 {
			u.Exec(`CREATE TABLE schema_version (version INTEGER NOT NULL, applied_at BIGINT NOT NULL)`)
			u.Exec(`CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)`)
		}
		Check(u.Row(`SELECT COALESCE(MAX(version), 0) FROM schema_version`).Scan(&have))
		Check(u.Row(`SELECT COALESCE(MAX(CAST(value AS INTEGER)), 0) FROM meta WHERE key = 'schema_needs'`).Scan(&needs))
		if have > len(all) && needs > len(all) {
			Refuse(agent.CodeInvalid,
				"%s store: its schema is version %d, this program knows %d: it was used by a newer program; install that version (or newer), or name another store",
				s.Dialect.Name, have, len(all))
		}
		var rows, threads int
		Check(u.Row(`SELECT COUNT(*) FROM schema_version`).Scan(&rows))
		Check(u.Row(s.Dialect.TableExists, "threads").Scan(&threads))
		if rows != have || (have > 0) != (threads > 0) {
			Refuse(agent.CodeInvalid,
				"%s store: its table schema_version does not fit its other tables (it has %d rows, the highest version is %d): it was changed by hand or is damaged; nothing was changed; restore a backup",
				s.Dialect.Name, rows, have)
		}
		for _, m := range all[min(have, len(all)):] {
			if err := s.Dialect.MapError(Caught(func() { u.Exec(m.script) })); err != nil {
				Check(agent.Wrap(err, agent.CodeOf(err), "%s store: migration %s failed; nothing was changed (the table schema_version says that the store has version %d: if that is not so, restore a backup)",
					s.Dialect.Name, m.name, have))
			}
			u.Exec(`INSERT INTO schema_version (version, applied_at) VALUES (?, ?)`, m.version, u.Now)
			if !m.expands {
				u.Exec(`INSERT INTO meta (key, value) VALUES ('schema_needs', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, strconv.Itoa(m.version))
			}
		}
	})
}
