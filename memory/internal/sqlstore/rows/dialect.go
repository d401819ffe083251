package rows

import (
	"context"
	"database/sql"
	"io/fs"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Queryer runs statements; *sql.Tx, *sql.Conn and *sql.DB are Queryers.
type Queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx is a write transaction. After Commit failed nothing is changed, or, when
// the connection broke in the middle, it is unknown: every operation may be
// repeated. Rollback after Commit does nothing.
type Tx interface {
	Queryer
	Commit() error
	Rollback()
}

// TimedTx is a Tx that knows when it began by the database's clock.
type TimedTx interface {
	Tx
	Now() time.Time
}

// TimedBackend is a Backend whose database has a clock. Unless Options.Clock is
// set, that clock is the store's; its transactions are TimedTx.
type TimedBackend interface {
	Backend
	Now(ctx context.Context) (time.Time, error)
}

// Backend is a database.
type Backend interface {
	// Begin waits for the right to write, or until ctx ends. The transaction
	// itself does not depend on ctx: a caller that goes away in the middle of
	// a commit must not leave its outcome open.
	Begin(ctx context.Context) (Tx, error)
	// Read runs f on a connection for reading.
	Read(ctx context.Context, f func(Queryer) error) error
	// Changed returns a number that differs after a commit of anyone.
	Changed(ctx context.Context) (int64, error)
	// Close ends all connections.
	Close() error
}

// Dialect is what differs between databases.
type Dialect struct {
	// Name of the technology, for messages.
	Name string
	// Numbered placeholders ($1) instead of ?.
	Numbered bool
	// LockTree, if not empty, is a statement with one placeholder, a thread id.
	// It locks the row of that thread's root. All writes in a tree of threads
	// are serial then, and locks are always taken in the same order.
	LockTree string
	// LockRow, if not empty, ends a SELECT that locks the rows it reads. Steps
	// are read so: a streamed piece locks its step, not its tree.
	LockRow string
	// LockParent, if not empty, ends a SELECT after which nobody can add rows that
	// refer to the row.
	LockParent string
	// LockSchema, if not empty, is a statement that makes this transaction the
	// only one that migrates.
	LockSchema string
	// Retry, if not nil, tells errors after which the transaction is to be run
	// again: it was undone because of another one.
	Retry func(err error) bool
	// Lost, if not nil, tells errors of a connection that was lost; unknown ones came
	// after the commit was asked for, so that it may have taken place.
	Lost func(err error) (lost, unknown bool)
	// Schema holds the migrations: NNN_name.sql at the top.
	Schema fs.FS
	// MapError gives a driver's error a code and says what to do; it returns
	// the error unchanged if it does not know it.
	MapError func(err error) error
	// TableExists is a query with one placeholder that counts tables of a name.
	TableExists string
}

// rebinder turns ? into $1, $2, … once per statement.
type rebinder struct {
	numbered bool
	known    sync.Map
}

func (r *rebinder) sql(query string) string {
	if !r.numbered {
		return query
	}
	if q, ok := r.known.Load(query); ok {
		return q.(string)
	}
	var b strings.Builder
	n := 0
	for _, c := range query {
		if c == '?' {
			n++
			b.WriteString("$" + strconv.Itoa(n))
			continue
		}
		b.WriteRune(c)
	}
	r.known.Store(query, b.String())
	return b.String()
}

// InsertSQL makes an INSERT of one row of a comma list of columns.
func InsertSQL(table, list string) string {
	return "INSERT INTO " + table + " (" + list + ") VALUES (" +
		strings.TrimSuffix(strings.Repeat("?,", columns(list)), ",") + ")"
}

// updateSQL makes an UPDATE by id of a comma list of columns.
func updateSQL(table, list string) string {
	return "UPDATE " + table + " SET " + strings.ReplaceAll(list, ",", " = ?,") + " = ? WHERE id = ?"
}

// columns counts those of a comma list.
func columns(list string) int { return strings.Count(list, ",") + 1 }

// Values are what stands where targets point to, as columns are written.
func Values(targets []any) []any {
	out := make([]any, len(targets))
	for i, t := range targets {
		switch v := reflect.ValueOf(t).Elem(); v.Kind() {
		case reflect.String: // also of a type of its own
			out[i] = v.String()
		case reflect.Bool:
			out[i] = Flag(v.Bool())
		default:
			out[i] = v.Interface()
		}
	}
	return out
}
