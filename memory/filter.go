package memory

import (
	"time"
)

// ThreadFilter selects threads, newest activity first.
type ThreadFilter struct {
	UserID    string
	Profile   string
	SessionID string
	// All includes sub-agents.
	All     bool
	Root    string // only this tree
	Workdir string
	Limit   int
	Before  time.Time // paging: updatedAt before
}
