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
	All  bool
	Root string // only this tree
	// SubAgents selects sub-agents only, without those that a clean-up removed;
	// Parent those of one thread; Working those that have not ended.
	SubAgents bool
	Parent    string
	Working   bool
	Workdir   string
	Limit     int
	Since     time.Time // updatedAt not before
	Before    time.Time // paging: updatedAt before
	// AfterID, with Before, continues a list behind the thread of this id, which
	// was active at Before.
	AfterID string
}
