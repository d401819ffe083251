package agent

import (
	"errors"
	"fmt"
)

// Code classifies an error for callers, exit codes and HTTP statuses.
type Code string

// Error codes.
const (
	CodeInvalid     Code = "invalid"     // wrong input; exit 2
	CodeNotFound    Code = "not_found"   // exit 3
	CodeConflict    Code = "conflict"    // busy, other content, already decided; exit 4
	CodeLimit       Code = "limit"       // a configured limit is reached; exit 4
	CodeUnavailable Code = "unavailable" // Temporal or the store cannot be reached; exit 5
	CodeStale       Code = "stale"       // the turn or attempt is no longer current
	CodeForeign     Code = "foreign"     // belongs to another store
	CodeInternal    Code = "internal"
)

// Error is an error with a code. Compare by CodeOf.
type Error struct {
	Code    Code
	Message string
	Cause   error
}

// Error returns the message and its cause.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap adds a code and a sentence to a cause; nil stays nil.
func Wrap(cause error, code Code, format string, args ...any) error {
	if cause == nil {
		return nil
	}
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// CodeOf returns the code of the outermost Error in err's chain, CodeInternal
// for other errors and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
