package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// fillWithin bounds the time in which copies are made.
const fillWithin = 12 * time.Minute

// fill writes copies of a conversation of one turn into a SQLite store, straight into its
// tables, and returns how many there was time for. They are numbered from a number on and
// have so many messages. They are the same user's if own, else a hundred others'.
func fill(ctx context.Context, path, thread, turn string, from, copies, messages int, own bool) int {
	session, _, _ := strings.Cut(thread, "/")
	db := must(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(30000)&_pragma=synchronous(OFF)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-200000)"))
	defer db.Close()
	db.SetMaxOpenConns(1)
	do := func(query string, args ...any) { must(db.ExecContext(ctx, query, args...)) }
	of := []struct{ table, column, id string }{
		{"sessions", "id", session}, {"threads", "id", thread}, {"inbox", "thread_id", thread}, {"turns", "id", turn}, {"steps", "turn_id", turn},
		{"messages", "thread_id", thread}, {"events", "thread_id", thread}, {"tool_calls", "thread_id", thread}, {"tasks", "thread_id", thread}, {"asks", "thread_id", thread},
	}
	inserts := make([]string, len(of))
	for i, o := range of {
		do(fmt.Sprintf("CREATE TEMP TABLE copied_%s AS SELECT * FROM %[1]s WHERE %s = '%s'", o.table, o.column, o.id))
		names, values := columns(ctx, db, o.table, func(name, kind string) string {
			switch {
			case name == "user_id" && !own:
				return "'user' || (i % 100)"
			case name == "opened_at":
				return "opened_at - i % 100000"
			case name == "updated_at":
				return fmt.Sprintf("updated_at - i + %d", from)
			case name != "user_id" && kind == "TEXT":
				return fmt.Sprintf("replace(replace(%s, '%s', printf('%%016x', i)), '%s', '%[3]s' || i)", name, turn[1:], session)
			}
			return name
		})
		inserts[i] = fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2) INSERT INTO %s (%s) SELECT %s FROM n, copied_%[1]s",
			o.table, strings.Join(names, ","), strings.Join(values, ","))
	}
	do(`CREATE TEMP TABLE more AS WITH RECURSIVE m (seq) AS (SELECT max(seq) + 1 FROM copied_messages UNION ALL SELECT seq + 1 FROM m WHERE seq < ?) SELECT seq FROM m`, messages)
	do(`INSERT INTO copied_messages SELECT thread_id, more.seq, id || '-' || more.seq, '', body FROM more, copied_messages m WHERE m.seq = 1`)
	do(`UPDATE copied_threads SET last_message = ?1, message_count = ?1`, messages)
	const atOnce = 1000
	begun, made := time.Now(), 0
	for made < copies && time.Since(begun) < fillWithin {
		next := min(made+atOnce, copies)
		do("BEGIN IMMEDIATE")
		for _, insert := range inserts {
			do(insert, from+made, from+next)
		}
		do("COMMIT")
		made = next
	}
	do("PRAGMA wal_checkpoint(TRUNCATE)")
	return made
}

// columns are the names of a table's columns, and what value makes of each name and type.
func columns(ctx context.Context, db *sql.DB, table string, value func(name, kind string) string) (names, values []string) {
	found := must(db.QueryContext(ctx, "SELECT name, type FROM pragma_table_info('"+table+"')"))
	defer found.Close()
	for found.Next() {
		var name, kind string
		check(found.Scan(&name, &kind))
		names, values = append(names, name), append(values, value(name, kind))
	}
	check(found.Err())
	return names, values
}
