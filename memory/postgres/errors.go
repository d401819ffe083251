package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spool-agents/spool/agent"
)

// SQLSTATEs with a meaning of their own here.
const (
	deadlock       = "40P01"
	serialization  = "40001"
	uniqueConflict = "23505"
	missingParent  = "23503"
	lockTimeout    = "55P03"
	stalePlan      = "0A000"
)

// code is the server's SQLSTATE, empty if the error is not the server's.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// undone reports whether the server undid a transaction because of another one,
// so that it can be run again. Two unique ids at once are the same race, and so
// is a row whose parent has just been deleted: the second run finds what is there. A
// plan from before a newer program's migration is made anew then.
func undone(err error) bool {
	return slices.Contains([]string{deadlock, serialization, uniqueConflict, missingParent, stalePlan}, code(err))
}

// unknownError is a commit that the server did not answer. It has no cause to
// unwrap: it is neither a timeout nor a lost connection like one before it.
type unknownError struct{ cause error }

func (e *unknownError) Error() string { return e.cause.Error() }

// lost reports whether a connection broke or could not be made.
func lost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if c := code(err); c != "" {
		return c[:2] == "08" || c == "57P01" || c == "57P02" || c == "57P05" || c == "25P03"
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &network) || errors.As(err, &connect)
}

// meanings says what a SQLSTATE, or a class of them, means for a person. All of
// them may pass: who repeats the operation loses nothing.
var meanings = map[string]string{
	"08":          "cannot be reached: check that the server runs and that the address is right, then try again",
	"25006":       "is read-only, a standby perhaps: name the primary (target_session_attrs=read-write picks it), then try again",
	"25P03":       "ended a transaction that did nothing for too long, because this process was paused: try again",
	"28":          "refused this user: check user, password and the server's pg_hba.conf, then try again",
	"3D":          "has no such database: create it (createdb), or name another one",
	"26":          poolerText,
	"42P05":       poolerText,
	"40":          "undid the operation again and again because of other ones: try again later; nothing was changed",
	"42501":       "does not let this user do that: give it the right to create and use tables in its schema, then try again",
	"53":          "is short of memory or space: free some on the server, then try again; nothing was changed",
	"53100":       "cannot grow, the server's disk is full: free some space there, then try again; nothing was changed",
	"53300":       "has no connection left: end other programs, raise the server's max_connections or lower pool_max_conns, then try again",
	lockTimeout:   "is held by another transaction for too long: end whoever holds it (pg_stat_activity shows them), then try again; nothing was changed",
	"57014":       "cancelled the operation, by a timeout or by hand: try again; nothing was changed",
	"57P":         "is shutting down or starting: wait for it, then try again",
	"58":          "has trouble with its disk: look into the server's log, then try again",
	"unreachable": "cannot be reached: check that the server runs and that the address is right, then try again",
	"broke":       "broke the connection: nothing was changed; try again",
}

// poolerText is for statements that a pooler has prepared on another connection.
const poolerText = "is behind a pooler that gives a transaction any connection, such as pgbouncer in transaction mode: add default_query_exec_mode=exec to the URL, or let the pooler keep prepared statements (max_prepared_statements); nothing was changed"

// meaning finds the most specific text for a SQLSTATE.
func meaning(code string) string {
	for n := len(code); n >= 2; n-- {
		if text, ok := meanings[code[:n]]; ok {
			return text
		}
	}
	return ""
}

// mapError says what an error means for a person.
func mapError(name string) func(error) error {
	return func(err error) error {
		var coded *agent.Error
		if err == nil || errors.As(err, &coded) {
			return err
		}
		var unknown *unknownError
		var connect *pgconn.ConnectError
		text := meaning(code(err))
		switch {
		case errors.As(err, &unknown):
			text = "did not answer a commit, and was not reached again within 20 s, so it is not known whether the operation took place: try again, a repetition changes nothing"
		case text != "":
		case errors.As(err, &connect):
			text = meanings["unreachable"]
		case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
			text = "did not answer in time: try again; nothing was changed"
		case lost(err) || errors.Is(err, errRolledBack):
			text = meanings["broke"]
		}
		switch c := code(err); {
		case text != "":
			return agent.Wrap(err, agent.CodeUnavailable, "postgres store %s %s", name, text)
		case c == "XX001" || c == "XX002":
			return agent.Wrap(err, agent.CodeInternal, "postgres store %s is damaged: stop all programs that use it and restore a backup", name)
		case c[:min(2, len(c))] == "22":
			return agent.Wrap(err, agent.CodeInvalid, "postgres store %s cannot hold this value", name)
		}
		return err
	}
}
