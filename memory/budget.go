package memory

import (
	"time"

	"github.com/spool-agents/spool/agent"
)

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
