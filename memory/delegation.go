package memory

import (
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
