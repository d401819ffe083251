package memory

import (
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
)

// WhenBusy says what happens to a message while a turn runs.
type WhenBusy string

// Choices of a sender.
const (
	Queue  WhenBusy = "queue"  // a later turn, in order
	Steer  WhenBusy = "steer"  // into the running turn, before its next model call; after its last one as Queue
	Reject WhenBusy = "reject" // refused with CodeConflict
)

// SendRequest is one message of a person: in Go, and as JSON over HTTP, where the
// server says whose it is. Either ThreadID or SessionID and ConversationID name the
// conversation.
type SendRequest struct {
	UserID         string `json:"-"`
	Profile        string `json:"-"`
	SessionID      string `json:"sessionId,omitempty"`
	ConversationID string `json:"conversationId,omitempty"`
	// ThreadID, if set, must exist and replaces session and conversation.
	ThreadID  string        `json:"threadId,omitempty"`
	MessageID string        `json:"messageId,omitempty"`
	Content   agent.Content `json:"content"`
	Workdir   string        `json:"workdir,omitempty"`
	// Agent and Model override the thread's; empty keeps them.
	Agent    string   `json:"agent,omitempty"`
	Model    string   `json:"model,omitempty"`
	WhenBusy WhenBusy `json:"whenBusy,omitempty"`
	// AnswerSchema, if set, is the JSON schema that the turn's final answer has to
	// have. A steered message cannot have one.
	AnswerSchema json.RawMessage `json:"answerSchema,omitempty"`
	// MaxWaiting bounds the inbox; 0 = DefaultMaxWaiting. More is CodeLimit.
	MaxWaiting int `json:"-"`
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
	// Answered is the question that the message answered; it entered no inbox.
	// TurnID is then the thread's turn that was held up, empty if none was (the
	// question is that of a sub-agent in the background).
	Answered *Question
}

// RetryRequest asks for a retry of a thread's last turn. RequestID makes it idempotent.
type RetryRequest struct {
	UserID    string
	ThreadID  string
	RequestID string
}

// CancelRequest asks to end an open turn.
type CancelRequest struct {
	UserID   string `json:"-"`
	ThreadID string `json:"-"`
	TurnID   string `json:"turnId,omitempty"` // empty = whichever is open
	By       string `json:"-"`
	// All also drops waiting messages and cancels background descendants. The ends
	// of those open no turn: they come with the next message.
	All bool `json:"all,omitempty"`
}

// CancelResult names the turns whose runs are to be nudged.
type CancelResult struct {
	TurnID string
	// By and At are who asked first, and when.
	By string
	At time.Time
	// Repeated means that the turn was closed already, after an earlier request.
	Repeated bool
	// Turns are all turns with a cancel pending: this one, and with All those
	// of background descendants.
	Turns []ThreadTurn
	// Dropped counts the waiting messages that All dropped, Stopped the background
	// sub-agents that it stopped, and Running those that go on.
	Dropped int
	Stopped int
	Running int
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
	// AnswerSchema is the JSON schema that the answer has to have.
	AnswerSchema json.RawMessage `json:"answerSchema,omitempty"`
	// For child entries: whose end this is, and for which call.
	ChildThread string `json:"childThread,omitempty"`
	ChildTurn   string `json:"childTurn,omitempty"`
	CallID      string `json:"callId,omitempty"`
	TaskID      string `json:"taskId,omitempty"`
	Background  bool   `json:"background,omitempty"`
	// For assign entries: who delegated.
	DelegatorThread string `json:"delegatorThread,omitempty"`
	DelegatorTurn   string `json:"delegatorTurn,omitempty"`
	// Quiet entries open no turn: the next one, or the next model call of the open
	// one, takes them along.
	Quiet     bool      `json:"quiet,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}
