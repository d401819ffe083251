package memory

import (
	"time"

	"github.com/spool-agents/spool/agent"
)

// DelegationRequest opens a delegation for a call.
type DelegationRequest struct {
	ThreadID string
	TurnID   string
	CallID   string
	// Refusal, if not empty, is stored as the call's failed result.
	Refusal       string
	RefusalReason agent.ErrorReason
	// Config is the child's snapshot; its Name is the agent type.
	Config      agent.SpecialistAgentConfig
	Task        string
	Description string
	// Resume is the thread id or agent id of an existing child, or empty.
	Resume     string
	Background bool
	Limits     DelegationLimits
}

// DelegationLimits are checked in the transaction. Zero MaxDepth disables
// delegation; zero elsewhere means no limit.
type DelegationLimits struct {
	MaxDepth       int
	MaxFanOut      int // open foreground and background children of one thread
	MaxDescendants int // made in the whole tree since the last message of a person
}

// Delegation is an opened delegation, or a refusal.
type Delegation struct {
	// Refused means that the call has its (failed) result and nothing was made.
	Refused bool
	// Refusal is the text of that result.
	Refusal     string
	ChildThread string
	ChildTurn   string
	TaskID      string
	Background  bool
}

// ChildResultRequest asks for the end of a foreground child.
type ChildResultRequest struct {
	ThreadID string
	TurnID   string
	CallID   string
}

// ChildResult says whether the call has its result now.
type ChildResult struct {
	Done bool
	// NeedsStart means that the child's entry still waits and no turn of the
	// child is open: the delegator should start a run.
	NeedsStart  bool
	ChildThread string
}

// Budget is what the agents of a tree of threads may use, all together, from one
// message of a person on the root thread to the next. Zero fields have no limit.
type Budget struct {
	Tokens int64
	Price  float64 // US dollars
	// Time is that of model calls and tools, added up: neither waiting for people
	// nor for sub-agents counts, and work done in parallel counts each.
	Time time.Duration
}

// Limited reports whether there is any limit.
func (b Budget) Limited() bool { return b.Tokens > 0 || b.Price > 0 || b.Time > 0 }

// Spent is what the agents of a tree have used since the last message of a
// person, and what calls under way have reserved.
type Spent struct {
	Tokens         int64
	Price          float64
	Time           time.Duration
	Descendants    int // sub-agents made
	ReservedTokens int64
	ReservedPrice  float64
	Reservations   int
}

// ErrBudgetReserved means that the rest of a budget is reserved by calls under
// way: they will settle, so try again soon. Nothing was changed.
var ErrBudgetReserved error = agent.Errorf(agent.CodeUnavailable, "the rest of the budget is reserved by model calls under way")

// DefaultReserve is how many tokens of an answer a model call reserves when its
// agent does not bound them.
const DefaultReserve = 4096
