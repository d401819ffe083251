package rows

import (
	"database/sql"
	"errors"

	"github.com/spool-agents/spool/agent/steps"
)

// A unit of work ends at its first error, see package steps: nothing of it is committed,
// so nothing after it may count. Whoever runs the unit (Write, Look, Caught) returns the
// error.
var (
	Check  = steps.Check
	Refuse = steps.Refuse
	Caught = steps.Run
)

// Must is the value of a call, whose error ends the unit.
func Must[T any](v T, err error) T { return steps.Must(v, err) }

// One runs a query for a row that may be missing.
func (u *Unit) One(query string, args ...any) One { return One{u.Row(query, args...)} }

// One is a row that may be missing.
type One struct{ row *sql.Row }

// Into reads the row's columns, and reports whether there is one.
func (o One) Into(targets ...any) bool {
	err := o.row.Scan(targets...)
	if errors.Is(err, sql.ErrNoRows) {
		return false
	}
	Check(err)
	return true
}
