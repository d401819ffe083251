package memory

import (
	"cmp"
	"time"

	"github.com/spool-agents/spool/agent"
)

// ThreadFilter selects threads, newest activity first.
type ThreadFilter struct {
	UserID    string
	Profile   string
	SessionID string
	// Prefix is what the threads' ids begin with; of a sub-agent also its agent id, the last
	// 12 characters of that, or the id of the call that began it. Status is theirs.
	Prefix string
	Status agent.ThreadStatus
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

// Found is a conversation that a search has found.
type Found struct {
	agent.Thread
	// Snippet is what stands around the text, in the message Seq; it is empty if the text
	// stands in the topic only.
	Snippet string `json:"snippet,omitempty"`
	Seq     int64  `json:"seq,omitempty"`
}

// DefaultProfile is that of people and threads that name none.
const DefaultProfile = "default"

// InProfile reports whether what has one profile is seen from another: what names
// none is in the default one, and who names none sees all.
func InProfile(has, from string) bool {
	return from == "" || cmp.Or(has, DefaultProfile) == from
}
