package memory

import (
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
)

// ThreadTurn names a turn and its thread.
type ThreadTurn = agent.ThreadTurn

// TakeRequest names the thread; RunID is the workflow run that claims. Config,
// if not nil, is the template snapshot for the turn (main threads).
type TakeRequest struct {
	ThreadID string
	RunID    string
	Config   *agent.SpecialistAgentConfig
	// Workdir, if set, replaces the main thread's: the worker decides where
	// tools may work.
	Workdir string
}

// Claim is an open turn, or none.
type Claim struct {
	// Turn is nil if the inbox has nothing to take.
	Turn *Turn
	// Step is the first step whose round or answer is not saved yet (1-based).
	Step int
	// Thread is the thread as it is now.
	Thread agent.Thread
}

// TurnState is open or closed.
type TurnState string

// Turn states.
const (
	TurnOpen   TurnState = "open"
	TurnClosed TurnState = "closed"
)

// Turn is one message and all that follows until the answer.
type Turn struct {
	ID        string             `json:"id"`
	ThreadID  string             `json:"threadId"`
	EntryKind EntryKind          `json:"entryKind"`
	MessageID string             `json:"messageId"`
	RetryOf   string             `json:"retryOf,omitempty"`
	State     TurnState          `json:"state"`
	Outcome   agent.ThreadStatus `json:"outcome,omitempty"`
	Reason    agent.Reason       `json:"reason,omitempty"`
	ErrorCode string             `json:"errorCode,omitempty"`
	Error     string             `json:"error,omitempty"`
	// Answer is the final text of a completed turn.
	Answer   string      `json:"answer,omitempty"`
	Steps    int         `json:"steps"`
	Usage    agent.Usage `json:"usage"`
	NextTurn string      `json:"nextTurn,omitempty"`
	RunID    string      `json:"runId,omitempty"`
	// Fallback is the model that the turn went over to when its own failed.
	Fallback string `json:"fallback,omitempty"`
	// AnswerSchema is the JSON schema that the final answer has to have.
	AnswerSchema json.RawMessage `json:"answerSchema,omitempty"`
	// Delegator is set on turns of sub-agents.
	DelegatorThread string     `json:"delegatorThread,omitempty"`
	DelegatorTurn   string     `json:"delegatorTurn,omitempty"`
	DelegatorCall   string     `json:"delegatorCall,omitempty"`
	Background      bool       `json:"background,omitempty"`
	TaskID          string     `json:"taskId,omitempty"`
	CancelRequested *time.Time `json:"cancelRequestedAt,omitempty"`
	CancelBy        string     `json:"cancelBy,omitempty"`
	WaitedMs        int64      `json:"waitedMs,omitempty"` // time spent waiting for people
	OpenedAt        time.Time  `json:"openedAt"`
	ClosedAt        *time.Time `json:"closedAt,omitempty"`
}

// Waited is time that does not count for a turn: somebody in it, or below it in
// the foreground, waited for a person.
type Waited struct {
	Time time.Duration
	// Now means that somebody waits still.
	Now bool
}

// CloseRequest ends a turn.
type CloseRequest struct {
	ThreadID string
	TurnID   string
	// Outcome is ThreadCompleted, ThreadFailed or ThreadCancelled. A completed
	// turn's answer is the reply stored for Step.
	Outcome agent.ThreadStatus
	Step    int
	Reason  agent.Reason
	Code    string // error event code
	Message string // error event message
	// Answer replaces the stored reply's text (a turn ended by a denial).
	Answer string
	// NextConfig, if not nil, is the snapshot for a next turn claimed here.
	NextConfig *agent.SpecialistAgentConfig
}

// Closed tells what a close led to; it is the same on every repetition.
type Closed struct {
	// Already means that the turn had been closed before, maybe otherwise.
	Already bool               `json:"already,omitempty"`
	Outcome agent.ThreadStatus `json:"outcome,omitempty"`
	// Next is the turn claimed by the close (main threads), or empty: idle.
	Next string `json:"next,omitempty"`
	// Notify is the thread that got the end of this turn, or empty.
	Notify *Notify `json:"notify,omitempty"`
	// Stopped are turns of descendants closed along: their runs may end.
	Stopped []ThreadTurn `json:"stopped,omitempty"`
	// Waiting is the delegator of the oldest entry still waiting in a
	// sub-agent's inbox; it starts the next run.
	Waiting string `json:"waiting,omitempty"`
	FromSeq int64  `json:"from,omitempty"`
	ToSeq   int64  `json:"to,omitempty"`
}

// Notify names a thread to nudge.
type Notify = agent.Notify

// Load is how much is under way in a store.
type Load struct {
	// OpenTurns counts turns, those of sub-agents included.
	OpenTurns int64
	// Waiting counts inbox entries that a turn is to take.
	Waiting int64
	// Approvals and Questions count what waits for people.
	Approvals int64
	Questions int64
}

// Overdue is a thread that needs a nudge.
type Overdue struct {
	ThreadID string
	Kind     agent.ThreadKind
	// Idle means that no turn of the thread is open.
	Idle bool
	// Delegator is set for an idle sub-agent: the thread of the oldest entry.
	// Empty there means that the entry is a background one.
	Delegator string
	// CancelTurn is set when a cancel of this turn is not settled.
	CancelTurn string
	// Age is how long it has needed one, by the store's clock.
	Age time.Duration
}

// OpenTurnFilter selects a page of open turns.
type OpenTurnFilter struct {
	// Age is how long ago at least they were opened, by the store's clock.
	Age time.Duration
	// After is the last one of the page before; zero = the first page.
	After OpenTurn
	Limit int // 0 = none
}

// OpenTurn is an open turn and when it was opened.
type OpenTurn struct {
	ThreadID string
	TurnID   string
	Kind     agent.ThreadKind
	RunID    string
	OpenedAt time.Time
	// Settled means that a person settled what the turn waited for, longer than the
	// filter's age ago, and that nobody has reacted.
	Settled bool
}
