package memory

import (
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Fence identifies a Temporal activity attempt. Within one scope a lower number
// never becomes current after a higher one, so that a worker that wakes up late
// cannot displace its successor.
type Fence struct {
	Scope  string // run id + activity id
	Number int    // Temporal's attempt
}

// ModelBegin starts an attempt of a model call.
type ModelBegin struct {
	ThreadID string
	TurnID   string
	Step     int
	Fence    Fence
	// Worker names the process that makes the attempt. An attempt in flight that
	// another process takes up has lost its worker. The turns that a lost worker
	// had in flight share the blame for it. Without a name nothing is counted.
	Worker string
	// MaxLost ends the turn (CodeLimit) at a blame of that many workers; 0 = 5.
	MaxLost int
	// Budget is that of the whole tree. The call reserves a part of it before it
	// starts; used up it is CodeLimit, reserved by others ErrBudgetReserved.
	Budget Budget
}

// ModelStart is a current attempt, or the stored reply.
type ModelStart struct {
	Attempt int
	Stored  *StoredReply
	Thread  agent.Thread
	Turn    Turn
	// LastCode and LastErr are those of the latest attempt that failed.
	LastCode string
	LastErr  string
	// LastClass is that of the latest failure, InARow how many in a row had it.
	LastClass agent.FailureClass
	InARow    int
	// Failures is how many calls of the step's current model failed and were to be made
	// again, Failing how long ago the first did.
	Failures int
	Failing  time.Duration
	// Steered counts entries that were taken into the turn by this write.
	Steered int
	// Wait, if not 0, means that nothing was begun: the turn lost workers of late,
	// so it is to try again after that time.
	Wait time.Duration
	// Lost is the attempt before this one if it was lost with its worker, else 0.
	Lost int
}

// Chunk is a piece of streamed text of (message id, attempt).
type Chunk struct {
	ThreadID string
	TurnID   string
	Step     int
	Attempt  int
	// Offset is the byte offset of Text; ReasoningOffset that of Reasoning.
	Offset          int
	Text            string
	ReasoningOffset int
	Reasoning       string
	// Stake, if not nil, is kept with the first piece. An attempt that ends without
	// a report, because its worker or its turn ended, is charged by it and by the text
	// that is there; without one it is not charged.
	Stake *Stake
}

// Stake is what an attempt under way costs: its request, by our count, and the price
// of what the model makes.
type Stake struct {
	PromptTokens int64 `json:"promptTokens"`
	// MostOutput bounds what the model makes, in tokens; 0 = not known.
	MostOutput int64       `json:"mostOutput,omitempty"`
	Price      agent.Price `json:"price"`
}

// ModelFailure is a failed attempt.
type ModelFailure struct {
	ThreadID string
	TurnID   string
	Step     int
	Attempt  int
	Code     string
	Message  string
	Class    agent.FailureClass
	Usage    agent.Usage
	Duration time.Duration
	// NotCalled means that the attempt ended before the model was called.
	NotCalled bool
	// Fallback, if set, is the model that the turn goes on with.
	Fallback string
	// NoImages, if set, is a model that was found to take no images: the thread keeps it.
	NoImages string
	// Warnings are for people; each becomes an event.
	Warnings []agent.Warning
	// Wait, if set, says when the call is made again. It becomes an event too, on
	// the thread and its root, unless it is a short one after no call (NotCalled). An
	// attempt that was held back (Wait.Held) did not fail: it only waits.
	Wait *agent.ModelWait
}

// WaitFilter selects model calls that wait; RootThread includes all descendants.
type WaitFilter struct {
	UserID     string
	ThreadID   string
	RootThread string
}

// ReplyRecord is the reply of an attempt.
type ReplyRecord struct {
	ThreadID string
	TurnID   string
	Step     int
	Attempt  int
	Reply    agent.ModelReply
	// Gates says per call, in order, what the approval policy wants, and
	// Delegations which calls are assign_task.
	Gates       []agent.Gate
	Delegations []bool
	// Refusals holds, per call, the result of one that cannot run whatever a person
	// says; its Status is empty for the others. May be shorter than the calls.
	Refusals []agent.ToolResult
	Duration time.Duration
	// Warnings are for people; each becomes an event.
	Warnings []agent.Warning
}

// StoredReply is a step's reply as stored.
type StoredReply struct {
	Reply agent.ModelReply
	// Calls have our ids; empty means that the reply is the final answer.
	Calls []agent.ToolCall
}

// ToolBegin starts an attempt of a tool call.
type ToolBegin struct {
	ThreadID   string
	TurnID     string
	CallID     string
	Fence      Fence
	Repeatable bool
	Worker     string // as in ModelBegin
	MaxLost    int    // as in ModelBegin; the call then ends as failed
}

// ToolStart is a current attempt, or the final call.
type ToolStart struct {
	Attempt int
	Final   bool
	Call    agent.ToolCall
	// Approved says that a person approved the call.
	Approved bool
	Thread   agent.Thread
	Wait     time.Duration // as in ModelStart
	// Lost is the attempt before that was lost with its worker, else 0; LostSince is
	// when it had begun.
	Lost      int
	LostSince time.Time
}

// ToolOutcome is the result of a tool run. Result.Content is what the model reads,
// Result.Whole the output, if it is longer.
type ToolOutcome struct {
	ThreadID string
	TurnID   string
	CallID   string
	Attempt  int
	Result   agent.ToolResult
	Duration time.Duration
}

// ToolNote is what a tool under way says: an event of its thread's log.
type ToolNote struct {
	ThreadID string
	TurnID   string
	CallID   string
	Attempt  int
	Event    string
	Data     json.RawMessage
}

// RoundRequest names a step.
type RoundRequest struct {
	ThreadID string
	TurnID   string
	Step     int
}

// RoundSaved tells what was appended.
type RoundSaved struct {
	FromSeq int64 `json:"from"`
	ToSeq   int64 `json:"to"`
	Results int   `json:"results"`
	Denied  int   `json:"denied,omitempty"`
	// EndTurn means that a person denied a call and the turn ends with it.
	EndTurn bool `json:"end,omitempty"`
}

// StepState is what is left to do in a step.
type StepState struct {
	// Open approvals of the step.
	Waiting bool
	Calls   []agent.ToolCall
	// Cancelled means that a cancel of the turn is pending.
	Cancelled bool
}

// Streamed is the text of a model call under way.
type Streamed struct {
	MessageID string
	TurnID    string
	Step      int
	Attempt   int
	Text      string
	Reasoning string
	// Stored means that the reply is complete and stored, but its message not yet.
	Stored bool
}

// Mark is where a thread stands. As long as it is the same, the thread has no other
// event and has streamed no more.
type Mark struct {
	ThreadID  string
	LastEvent int64 // seq
	// Idle means that no turn is open and nothing waits to open one.
	Idle bool
	// Waiting is how many entries of its inbox wait, Asks for how much its tree waits
	// from people.
	Waiting, Asks int
	// TurnID is the open turn. The others tell how far its current model call is;
	// they are zero if none is under way.
	TurnID          string
	Step, Attempt   int
	Stored          bool
	Text, Reasoning int // bytes
}

// Step is a step record: one model call and its round.
type Step struct {
	TurnID   string
	Step     int
	Attempt  int
	Failed   int // attempts that ended in an error
	Stored   bool
	Saved    bool // its messages are appended
	FromSeq  int64
	ToSeq    int64
	LastCode string
	LastErr  string
	// FinishReason is the provider's, of a stored reply: "length" means that the
	// answer was cut at the model's limit.
	FinishReason string
}
