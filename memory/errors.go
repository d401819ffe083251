package memory

import (
	"errors"
	"fmt"

	"github.com/spool-agents/spool/agent"
)

// Sentinels for errors.Is. What a store returns carries the same code and says
// which turn, attempt or call it was about.
var (
	// ErrStale means that the turn or attempt named by a write is no longer
	// current. Nothing was changed; whoever holds it should stop.
	ErrStale error = agent.Errorf(agent.CodeStale, "no longer current")
	// ErrCancelRequested means that a person asked to end the turn: no further
	// model call, tool run, question or delegation begins in it.
	ErrCancelRequested error = agent.Errorf(agent.CodeConflict, "cancel requested")
)

// Stale makes an error for which errors.Is(err, ErrStale) holds.
func Stale(format string, args ...any) error {
	return agent.Wrap(ErrStale, agent.CodeStale, format, args...)
}

// CancelRequested makes an error for which errors.Is(err, ErrCancelRequested) holds.
func CancelRequested(turnID string) error {
	return agent.Wrap(ErrCancelRequested, agent.CodeConflict, "turn %s begins nothing more", turnID)
}

// ErrBroken is in the chain of an error that says that what a store was to be opened
// on, or has read, is damaged or no store at all. Trying again does not help.
var ErrBroken = errors.New("no usable store")

// FindingKind says what is wrong with rows of a store.
type FindingKind string

// Kinds of findings.
const (
	// FoundDamaged is a row that is there and cannot be read.
	FoundDamaged FindingKind = "damaged"
	// FoundLost is a row that others tell of and that is not there.
	FoundLost FindingKind = "lost"
	// FoundWrong are rows that contradict each other.
	FoundWrong FindingKind = "wrong"
)

// Finding is what an audit found in the rows of a thread.
type Finding struct {
	Kind   FindingKind
	Detail string
	// Mendable means that Repair would mend it: Detail says what it would do.
	Mendable bool
}

// RowError says which stored row cannot be read. The rest can.
type RowError struct {
	ThreadID string // may be empty
	Row      string // such as "message 5"
	Seq      int64  // of a message; 0 for other rows
	Err      error
}

// Error names the thread, the row and what is wrong with it.
func (e *RowError) Error() string {
	if e.ThreadID == "" {
		return fmt.Sprintf("%s in the store is damaged: %v", e.Row, e.Err)
	}
	return fmt.Sprintf("%s of thread %s is damaged in the store: %v", e.Row, e.ThreadID, e.Err)
}

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }

// Damaged makes the error of a row that cannot be read; nil stays nil.
func Damaged(threadID, row string, err error) error {
	if err == nil {
		return nil
	}
	return agent.Wrap(&RowError{ThreadID: threadID, Row: row, Err: err}, agent.CodeInternal,
		"verify --repair mends what it can and names the rest")
}

// IsDamaged reports whether an error is about a stored row that cannot be read.
func IsDamaged(err error) bool {
	var d *RowError
	return errors.As(err, &d)
}
