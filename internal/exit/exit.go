// Package exit says with which code a program ends.
package exit

import (
	"context"
	"errors"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Exit codes.
const (
	Done        = 0
	Failed      = 1
	Usage       = 2
	NotFound    = 3
	Conflict    = 4
	Unavailable = 5
	Waiting     = 6
	Interrupted = 130
)

// Failure ends a command with a code. One without a cause was reported already.
type Failure struct {
	Status int
	Cause  error
}

func (f *Failure) Error() string {
	if f.Cause == nil {
		return fmt.Sprintf("exit code %d", f.Status)
	}
	return f.Cause.Error()
}

func (f *Failure) Unwrap() error { return f.Cause }

// With is a failure that was reported already; nil if the code is Done.
func With(code int) error {
	if code == Done {
		return nil
	}
	return &Failure{Status: code}
}

// Reported reports whether a person was told of an error.
func Reported(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.Cause == nil
}

// Misuse is a wrong command line: what is wrong, and what to do.
func Misuse(format string, args ...any) error {
	return &Failure{Status: Usage, Cause: fmt.Errorf(format, args...)}
}

// Code is the exit code of an error.
func Code(err error) int {
	var f *Failure
	switch {
	case err == nil:
		return Done
	case errors.As(err, &f):
		return f.Status
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, memory.ErrBroken):
		return Unavailable
	}
	switch agent.CodeOf(err) {
	case agent.CodeInvalid:
		return Usage
	case agent.CodeNotFound:
		return NotFound
	case agent.CodeConflict, agent.CodeLimit, agent.CodeForeign:
		return Conflict
	case agent.CodeUnavailable:
		return Unavailable
	}
	return Failed
}

// Name is the code of an error in JSON.
func Name(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, memory.ErrBroken):
		return string(agent.CodeUnavailable)
	case Code(err) == Usage:
		return string(agent.CodeInvalid)
	}
	return string(agent.CodeOf(err))
}
