package rows

import (
	"database/sql"

	"github.com/spool-agents/spool/agent"
)

// A unit of work ends at its first error: nothing of it is committed, so nothing
// after it may count. Its steps therefore return no errors. They end the unit by
// Check, Must or Refuse, and whoever runs the unit (Write, Look, Caught) returns
// the error. No unit starts goroutines.

// aborted is what the panic of a unit that ends carries.
type aborted struct{ err error }

// Check ends the unit with an error, unless it is nil.
func Check(err error) {
	if err != nil {
		panic(aborted{err})
	}
}

// Must is the value of a call, whose error ends the unit.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Refuse ends the unit with an error of its own.
func Refuse(code agent.Code, format string, args ...any) {
	Check(agent.Errorf(code, format, args...))
}

// Caught is the error that f ends with; other panics pass.
func Caught(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case aborted:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// One runs a query for a row that may be missing.
func (u *Unit) One(query string, args ...any) One { return One{u.Row(query, args...)} }

// One is a row that may be missing.
type One struct{ row *sql.Row }

// Into reads the row's columns, and reports whether there is one.
func (o One) Into(targets ...any) bool {
	err := o.row.Scan(targets...)
	if NoRows(err) {
		return false
	}
	Check(err)
	return true
}
