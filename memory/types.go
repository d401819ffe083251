package memory

import (
	"time"

	"github.com/spool-agents/spool/agent"
)

// WhenBusy says what happens to a message while a turn runs.
type WhenBusy string

// Choices of a sender.
const (
	Queue  WhenBusy = "queue"  // a later turn, in order
	Steer  WhenBusy = "steer"  // into the running turn, before its next model call
	Reject WhenBusy = "reject" // refused with CodeConflict
)

// SendRequest is one message of a person.
type SendRequest struct {
	UserID         string
	Profile        string
	SessionID      string
	ConversationID string
	// ThreadID, if set, must exist and replaces session and conversation.
	ThreadID  string
	MessageID string
	Content   agent.Content
	Workdir   string
	// Agent and Model override the thread's; empty keeps them.
	Agent    string
	Model    string
	WhenBusy WhenBusy
	// MaxWaiting bounds the inbox; 0 = DefaultMaxWaiting. More is CodeLimit.
	MaxWaiting int
}

// DefaultMaxWaiting bounds a thread's waiting inbox entries.
const DefaultMaxWaiting = 1000

// SendResult tells what became of a message.
type SendResult struct {
	ThreadID  string
	TurnID    string
	MessageID string
	// Idle means no turn was open, so the thread needs a nudge.
	Idle bool
	// Repeated means that this message id was there already.
	Repeated bool
	State    EntryState
}

// RetryRequest asks for a retry of a thread's last turn. RequestID makes it idempotent.
type RetryRequest struct {
	UserID    string
	ThreadID  string
	RequestID string
}

// CancelRequest asks to end an open turn.
type CancelRequest struct {
	UserID   string
	ThreadID string
	TurnID   string // empty = whichever is open
	By       string
	// All also drops waiting entries and cancels background descendants.
	All bool
}

// CancelResult names the turns that are to be told.
type CancelResult struct {
	TurnID string
	// Turns are all turns with a cancel pending: this one, and with All those
	// of background descendants.
	Turns   []ThreadTurn
	Dropped int
}

// ThreadTurn names a turn and its thread.
type ThreadTurn struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

// TakeRequest names the thread; RunID is the workflow run that claims. Config,
// if not nil, is the template snapshot for the turn (main threads).
type TakeRequest struct {
	ThreadID string
	RunID    string
	Config   *agent.AgentConfig
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

// EntryKind says what an inbox entry is.
type EntryKind string

// Inbox entry kinds.
const (
	EntryMessage EntryKind = "message" // a person's message
	EntryRetry   EntryKind = "retry"   // retry of the last turn
	EntryAssign  EntryKind = "assign"  // work from a delegator (sub-agent threads)
	EntryChild   EntryKind = "child"   // the end of a child's turn
)

// EntryState is the state of an inbox entry.
type EntryState string

// Inbox entry states.
const (
	EntryWaiting EntryState = "waiting"
	EntryTaken   EntryState = "taken"
	EntryDropped EntryState = "dropped"
)

// InboxEntry is one thing that waits for, or was taken by, a turn.
type InboxEntry struct {
	ThreadID string     `json:"threadId"`
	Seq      int64      `json:"seq"`
	Kind     EntryKind  `json:"kind"`
	ID       string     `json:"id"` // message id, request id, call id or child turn id
	State    EntryState `json:"state"`
	WhenBusy WhenBusy   `json:"whenBusy,omitempty"`
	// TurnID is the turn this entry will open (fixed when it enters).
	TurnID  string        `json:"turnId"`
	TakenBy string        `json:"takenBy,omitempty"`
	Content agent.Content `json:"content"`
	Agent   string        `json:"agent,omitempty"`
	Model   string        `json:"model,omitempty"`
	// For child entries: whose end this is, and for which call.
	ChildThread string `json:"childThread,omitempty"`
	ChildTurn   string `json:"childTurn,omitempty"`
	CallID      string `json:"callId,omitempty"`
	TaskID      string `json:"taskId,omitempty"`
	Background  bool   `json:"background,omitempty"`
	// For assign entries: who delegated.
	DelegatorThread string    `json:"delegatorThread,omitempty"`
	DelegatorTurn   string    `json:"delegatorTurn,omitempty"`
	CreatedAt       time.Time `json:"createdAt"`
}

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
	// MaxLost ends the turn (CodeLimit) after that many attempts that neither
	// failed nor stored a reply, that is, that killed their worker; 0 = 5.
	MaxLost int
}

// ModelStart is a current attempt, or the stored reply.
type ModelStart struct {
	Attempt int
	Stored  *StoredReply
	Thread  agent.Thread
	Turn    Turn
	// Steered counts entries that were taken into the turn by this write.
	Steered int
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
}

// ModelFailure is a failed attempt.
type ModelFailure struct {
	ThreadID string
	TurnID   string
	Step     int
	Attempt  int
	Code     string
	Message  string
	Usage    agent.Usage
	Duration time.Duration
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
	Duration    time.Duration
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
	MaxLost    int // as in ModelBegin; the call then ends as failed
}

// ToolStart is a current attempt, or the final call.
type ToolStart struct {
	Attempt int
	Final   bool
	Call    agent.ToolCall
	Thread  agent.Thread
}

// ToolOutcome is the result of a tool run. Result is what the model is told,
// Full the whole output if it is longer.
type ToolOutcome struct {
	ThreadID string
	TurnID   string
	CallID   string
	Attempt  int
	Result   agent.ToolResult
	Full     string
	Duration time.Duration
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

// Approval is a question about a batch of calls.
type Approval struct {
	ID          string           `json:"approvalId"`
	ThreadID    string           `json:"threadId"`
	RootThread  string           `json:"rootThreadId"`
	TurnID      string           `json:"turnId"`
	Step        int              `json:"step"`
	Agent       string           `json:"agent"`
	ToolCalls   []agent.ToolCall `json:"toolCalls"`
	Decision    string           `json:"decision,omitempty"`
	DecidedBy   string           `json:"decidedBy,omitempty"`
	DecidedAt   *time.Time       `json:"decidedAt,omitempty"`
	CreatedAt   time.Time        `json:"createdAt"`
	Approved    []string         `json:"approvedCalls,omitempty"`
	Instruction string           `json:"editInstruction,omitempty"`
}

// ApprovalFilter selects approvals; RootThread includes all descendants.
type ApprovalFilter struct {
	UserID     string
	ThreadID   string
	RootThread string
	OpenOnly   bool
}

// Decision settles an approval, named by its id or by one of its calls.
type Decision struct {
	UserID string
	By     string
	// Target is an approval id or a call id.
	Target string
	// Verdict is approve, approve_all (remembers the tool names for the
	// session), deny or edit.
	Verdict string
	// Calls are the approved calls; empty = all. The rest are denied.
	Calls []string
	// Instruction becomes the result of an edited call.
	Instruction string
}

// Verdicts.
const (
	Approve    = "approve"
	ApproveAll = "approve_all"
	Deny       = "deny"
	Edit       = "edit"
)

// DecideResult names the thread to nudge.
type DecideResult struct {
	Approval Approval
	Repeated bool
}

// DelegationRequest opens a delegation for a call.
type DelegationRequest struct {
	ThreadID string
	TurnID   string
	CallID   string
	// Refusal, if not empty, is stored as the call's failed result.
	Refusal       string
	RefusalReason agent.ErrorReason
	// Config is the child's snapshot; its Name is the agent type.
	Config      agent.AgentConfig
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
	MaxDescendants int // of the whole tree
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
	NextConfig *agent.AgentConfig
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
type Notify struct {
	ThreadID string `json:"threadId"`
	// RunID is the run that holds the thread's open turn, or empty if idle.
	RunID string `json:"runId,omitempty"`
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
	Since      time.Time
}

// OpenTurn is an open turn and when it last moved.
type OpenTurn struct {
	ThreadID string
	TurnID   string
	Kind     agent.ThreadKind
	RunID    string
	OpenedAt time.Time
}

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
}
