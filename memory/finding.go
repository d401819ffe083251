package memory

import (
	"errors"
	"fmt"

	"github.com/spool-agents/spool/agent"
)

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
