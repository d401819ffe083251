package memory

import (
	"time"

	"github.com/spool-agents/spool/agent"
)

// Cause says why a thread's context was summarised.
type Cause string

// Causes. There is at most one summary per cause and step of a turn, so that no
// step summarises without end.
const (
	// CauseFull: by our count the next request would not have fitted.
	CauseFull Cause = "full"
	// CauseRefused: the provider refused a request as too long.
	CauseRefused Cause = "refused"
)

// Valid reports whether there is such a cause.
func (c Cause) Valid() bool { return c == CauseFull || c == CauseRefused }

// Summary is what a model reads instead of a thread's older messages. The
// messages, the log and the links stay as they are.
type Summary struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	Step     int    `json:"step"`
	Cause    Cause  `json:"cause"`
	// ReplacesFrom and ReplacesTo are the first and last message (seq) that the
	// text stands for; with 0 to 0 it is only what a sub-agent was shown of its
	// parent's conversation. What came before ReplacesFrom is replaced, too.
	ReplacesFrom int64 `json:"replacesFrom"`
	ReplacesTo   int64 `json:"replacesTo"`
	// Text is empty if nothing could be left out.
	Text string `json:"summary"`
	// LastSeq is the thread's last message when the summary was made.
	LastSeq int64 `json:"lastSeq"`
	// Window is the context window it was made for, in tokens: where a provider
	// refused a request it is smaller than what was known of the model.
	Window    int64       `json:"window,omitempty"`
	Model     string      `json:"model,omitempty"`
	Usage     agent.Usage `json:"usage"`
	Attempts  int         `json:"attempts"`
	CreatedAt time.Time   `json:"createdAt"`
}

// SummaryBegin starts an attempt at a summary.
type SummaryBegin struct {
	ThreadID string
	TurnID   string
	Step     int
	Cause    Cause
	Fence    Fence
	// MaxLost is how many attempts may be lost with their worker; 0 = 5.
	MaxLost int
	Budget  Budget // as in ModelBegin
}

// SummaryStart is a current attempt, or the stored summary.
type SummaryStart struct {
	Attempt int
	Stored  *Summary
	Thread  agent.Thread
	Turn    Turn
}

// SummaryRecord is a summary that an attempt made. Place, cause and attempt are
// those of its begin.
type SummaryRecord struct {
	Summary
	Attempt  int
	Duration time.Duration
}

// SummaryFailure is a failed attempt.
type SummaryFailure struct {
	ThreadID string
	TurnID   string
	Step     int
	Cause    Cause
	Attempt  int
	Usage    agent.Usage
	Duration time.Duration
	// NotCalled and Wait are as in ModelFailure: the wait is one of the step's call.
	NotCalled bool
	Wait      *agent.ModelWait
}
