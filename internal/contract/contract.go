// Package contract is the wire between starter, workflows and activities: the
// pinned names, the inputs and outputs that stand in histories, and the
// timeouts. A rename or an incompatible change here is a migration.
package contract

import (
	"time"

	"github.com/spool-agents/spool/agent"
)

// Workflow types. The workflow id is the thread id.
const (
	ConversationTurn = "ConversationTurn"
	SubAgentTurn     = "SubAgentTurn"
)

// Signals. Both are hints: what counts stands in the store.
const (
	// SignalNudge says that the thread's inbox, approvals or questions changed.
	SignalNudge = "nudge"
	// SignalCancel names a turn whose cancel was requested.
	SignalCancel = "cancel"
	// SignalWait says that the turn's model call is made again later: it is shown.
	SignalWait = "wait"
)

// Activities that touch the outside world.
const (
	CallModel = "CallModel"
	RunTool   = "RunTool"
	// SummarizeContext replaces the older part of what a model sees by a summary.
	SummarizeContext = "SummarizeContext"
	Nudge            = "Nudge"
)

// Local activities: one store transaction each.
const (
	SaveUserMessage = "SaveUserMessage"
	SaveToolRound   = "SaveToolRound"
	SaveFinalAnswer = "SaveFinalAnswer"
	SaveDenial      = "SaveDenial"
	OpenApproval    = "OpenApproval"
	StepState       = "StepState"
	OpenQuestion    = "OpenQuestion"
	QuestionState   = "QuestionState"
	TurnWaited      = "TurnWaited"
	OpenDelegation  = "OpenDelegation"
	TakeChildResult = "TakeChildResult"
	CloseTurn       = "CloseTurn"
)

// Application error types.
const (
	ErrTypeStale     = "Stale"           // turn or attempt no longer current
	ErrTypeCancelled = "CancelRequested" // the turn is to be cancelled
	ErrTypeForeign   = "ForeignStore"    // the run belongs to another store
	ErrTypeLimit     = "Limit"
	ErrTypeModel     = "Model"         // the model refused; not retryable
	ErrTypeContext   = "ContextFull"   // a summary is needed before the model is called
	ErrTypeFallback  = "ModelFallback" // another model is to be called
	ErrTypeStore     = "Unavailable"   // the store is away; retried
	ErrTypeInvalid   = "Invalid"
	ErrTypeStopping  = "WorkerStopping" // this worker ends; another one goes on
	ErrTypeDisplaced = "AttemptStale"   // another attempt of an open turn is current
	ErrTypeWaiting   = "Waiting"        // for a sub-agent or a budget; asked again soon, no slot is held
)

// StateVersion is the version of Carry that this build writes. A newer one fails the
// workflow task, so that a worker of its build takes it.
const StateVersion = 1

// NewerBuild begins what a workflow task says that fails because of a newer Carry.
const NewerBuild = "this run carries state of a newer build"

// TurnInput is the input of both workflow types. It names the thread; the claim
// returns the turn.
type TurnInput struct {
	StoreID  string `json:"store"`
	ThreadID string `json:"thread"`
	Carry    *Carry `json:"carry,omitempty"`
}

// Carry is all state that a run hands to the next when it continues as new. The
// rest is in the store.
type Carry struct {
	Version int    `json:"v"`
	TurnID  string `json:"turn"`
	// DeadlineMs is the turn's deadline in unix milliseconds, without what it
	// waits for people; 0 = none.
	DeadlineMs int64 `json:"deadline,omitempty"`
	// Parked means that the turn waits for people or for sub-agents: the run
	// records nothing until something happens.
	Parked Parked `json:"parked,omitempty"`
	// Waits is the search attribute WaitsFor as it is set, Details what a parked run
	// shows.
	Waits   string `json:"waits,omitempty"`
	Details string `json:"details,omitempty"`
}

// Parked says what a parked run waits for.
type Parked string

// Values of Parked.
const (
	ForPeople    Parked = "people"
	ForSubAgents Parked = "sub-agents"
)

// ParkedRun stands in the store for the run of a parked turn, so that the ends
// of sub-agents are signalled to whichever run there is.
const ParkedRun = "parked"

// Ref names a step; it is the input of most activities. Thread is left out of
// histories: it is the workflow's id, which an activity knows.
type Ref struct {
	Thread string `json:"thread,omitempty"`
	Turn   string `json:"turn"`
	Step   int    `json:"step,omitempty"`
	Call   string `json:"call,omitempty"`
}

// At is the reference, also of an input that embeds it.
func (r *Ref) At() *Ref { return r }

// ClaimInput is the input of SaveUserMessage.
type ClaimInput struct {
	StoreID string `json:"store"`
	Thread  string `json:"thread"`
	// Park records that the turn's run is about to park.
	Park bool `json:"park,omitempty"`
}

// ClaimOutput is an open turn, or an empty turn id.
type ClaimOutput struct {
	Turn string `json:"turn,omitempty"`
	Step int    `json:"step,omitempty"`
	// MaxSteps and TimeoutMs come from the thread's config.
	MaxSteps  int   `json:"maxSteps,omitempty"`
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// Attributes are the search attributes to set; empty if the namespace has none.
	Attributes map[string]string `json:"sa,omitempty"`
	// Seq is the thread's last message, the turn's own included.
	Seq    int64  `json:"seq,omitempty"`
	Timing Timing `json:"timing"`
	About  *About `json:"about,omitempty"`
}

// About is what Temporal's web UI shows of a turn beside what its run sees itself.
type About struct {
	Agent string `json:"agent,omitempty"`
	// Model is MODEL or MODEL@PROVIDER.
	Model string `json:"model,omitempty"`
	// Task is what a sub-agent works on, Parent the thread that ordered it.
	Task   string `json:"task,omitempty"`
	Parent string `json:"parent,omitempty"`
	// Tokens are those that the turn has used, Children its sub-agents at work, when
	// the run began.
	Tokens   int64   `json:"tokens,omitempty"`
	Children []Child `json:"children,omitempty"`
}

// Child is a sub-agent of a turn.
type Child struct {
	Agent      string `json:"agent"`
	Thread     string `json:"thread"`
	Task       string `json:"task,omitempty"`
	Background bool   `json:"background,omitempty"`
	Ended      bool   `json:"ended,omitempty"`
}

// Timing are the activity timeouts a worker decided on; recorded so that
// replay does not read them anew.
type Timing struct {
	HeartbeatMs int64 `json:"hb"`
	// MaxEvents makes a run continue as new; 0 = the constant of that name.
	MaxEvents int `json:"events,omitempty"`
	// WaitMs is how long a run waits before it parks; 0 = WaitInRun.
	WaitMs int64 `json:"wait,omitempty"`
}

// Call is what the workflow must know of a tool call.
type Call struct {
	ID       string `json:"id"`
	Delegate bool   `json:"delegate,omitempty"`
	// Question means that a person answers the call.
	Question  bool       `json:"question,omitempty"`
	Gate      agent.Gate `json:"gate,omitempty"`
	Final     bool       `json:"final,omitempty"`
	Summary   string     `json:"summary,omitempty"`
	TimeoutMs int64      `json:"timeout,omitempty"`
	// Running means that the call was started by an earlier run.
	Running bool `json:"running,omitempty"`
	Denied  bool `json:"denied,omitempty"`
	// Quick means that the call may run within a workflow task.
	Quick bool `json:"quick,omitempty"`
}

// ModelOutput is what the workflow must know of a reply.
type ModelOutput struct {
	Calls []Call `json:"calls,omitempty"`
	// Seq is the thread's last message before this step's.
	Seq int64 `json:"seq,omitempty"`
	// Tokens are those that the call used.
	Tokens int64 `json:"tokens,omitempty"`
	// End, if set, ends the turn: limit or error.
	End     agent.Reason `json:"end,omitempty"`
	Code    string       `json:"code,omitempty"`
	Message string       `json:"message,omitempty"`
}

// SummaryNeed is the detail of an error of type ErrTypeContext.
type SummaryNeed struct {
	Cause string `json:"cause"`
	// Window is the context window to fit, in tokens; 0 = the model's.
	Window int64 `json:"window,omitempty"`
}

// SummaryInput asks for the summary that a step needs.
type SummaryInput struct {
	Ref
	Need SummaryNeed `json:"need"`
}

// SummaryOutput names the messages that were replaced; none if nothing could be.
type SummaryOutput struct {
	From int64 `json:"from,omitempty"`
	To   int64 `json:"to,omitempty"`
}

// ToolOutput is what the workflow must know of a finished tool.
type ToolOutput struct {
	Status agent.CallStatus `json:"status"`
}

// DelegationOutput is an opened delegation, or a refusal that is stored already.
type DelegationOutput struct {
	Refused    bool   `json:"refused,omitempty"`
	Child      string `json:"child,omitempty"`
	Turn       string `json:"turn,omitempty"`
	Agent      string `json:"agent,omitempty"`
	Background bool   `json:"background,omitempty"`
	Final      bool   `json:"final,omitempty"`
	Task       string `json:"task,omitempty"`
}

// StepOutput is what is left to do in a step.
type StepOutput struct {
	// SinceMs is when a person was asked, in unix milliseconds.
	SinceMs   int64  `json:"since,omitempty"`
	Waiting   bool   `json:"waiting,omitempty"`
	Cancelled bool   `json:"cancelled,omitempty"`
	Calls     []Call `json:"calls,omitempty"`
}

// QuestionOutput says whether a call that asks a person has its result.
type QuestionOutput struct {
	SinceMs   int64 `json:"since,omitempty"` // when the person was asked
	Done      bool  `json:"done,omitempty"`
	Cancelled bool  `json:"cancelled,omitempty"`
}

// WaitedOutput is how long a turn has waited for people, and whether it does now.
type WaitedOutput struct {
	Ms  int64 `json:"ms,omitempty"`
	Now bool  `json:"now,omitempty"`
}

// CloseInput ends a turn.
type CloseInput struct {
	Ref
	Outcome agent.ThreadStatus `json:"outcome,omitempty"`
	Reason  agent.Reason       `json:"reason,omitempty"`
	Code    string             `json:"code,omitempty"`
	Message string             `json:"message,omitempty"`
	Answer  string             `json:"answer,omitempty"`
}

// CloseOutput is memory.Closed without what the workflow does not need.
type CloseOutput struct {
	Outcome agent.ThreadStatus `json:"outcome,omitempty"`
	Next    string             `json:"next,omitempty"`
	Notify  *agent.Notify      `json:"notify,omitempty"`
	Stopped []agent.ThreadTurn `json:"stopped,omitempty"`
	Waiting string             `json:"waiting,omitempty"`
}

// NudgeInput asks for hints to be sent to threads.
type NudgeInput struct {
	Targets []NudgeTarget `json:"targets"`
}

// NudgeTarget is a thread to hint to. A main thread without an open run gets one.
type NudgeTarget struct {
	Thread string `json:"thread"`
	// CancelTurn sends SignalCancel for that turn instead of SignalNudge.
	CancelTurn string `json:"cancel,omitempty"`
}

// CancelSignal is the payload of SignalCancel.
type CancelSignal struct {
	Turn string `json:"turn"`
}

// WaitSignal is the payload of SignalWait.
type WaitSignal struct {
	Turn string `json:"turn"`
	// For is what is waited for, in words.
	For string `json:"for"`
}

// TurnResult is the result of a run that ended idle: its last turn, if any.
type TurnResult struct {
	Turn    string             `json:"turn,omitempty"`
	Outcome agent.ThreadStatus `json:"outcome,omitempty"`
	Reason  agent.Reason       `json:"reason,omitempty"`
	Code    string             `json:"code,omitempty"`
}

// Timeouts and intervals.
const (
	// SaveTimeout bounds one try of a store transaction; SaveFor all of its
	// tries: a store that is away delays a turn and never fails it.
	SaveTimeout = 40 * time.Second
	SaveFor     = 365 * 24 * time.Hour
	// ToolGrace is added to a tool's own timeout for the activity's.
	ToolGrace = 30 * time.Second
	// PeoplePause bounds how often a turn whose time is nearly over looks whether
	// the person it waits for has answered.
	PeoplePause = 5 * time.Minute
	// WaitInRun is how long a run waits for a person, or for sub-agents only, before it parks.
	WaitInRun = 60 * time.Second
	// CancelGrace is how long a cancelled turn waits for its activities.
	CancelGrace = 300 * time.Millisecond
	// MaxEvents and MaxBytes make a run continue as new, well within Temporal's
	// limits (51,200 events, 50 MiB).
	MaxEvents = 4000
	MaxBytes  = 2 << 20
	// WorkflowTaskTimeout bounds a workflow task: after a worker's death its
	// successor gets the task after at most this long.
	WorkflowTaskTimeout = 3 * time.Second
)

// SearchAttributes are the keyword attributes that a run sets where the
// namespace has them.
var SearchAttributes = []string{"SessionId", "ConversationId", "ThreadKind", "AgentType", "ParentThreadId", "RootThreadId", "TurnId", "UserId", WaitsFor}

// WaitsFor is the search attribute that says what a turn waits for; it is not set
// while the turn works.
const (
	WaitsFor         = "WaitsFor"
	WaitsForPerson   = "person"
	WaitsForProvider = "provider"
	WaitsForChildren = "children"
)

// RoundInput asks for a step's round to be saved, once these of its calls have run.
type RoundInput struct {
	Ref
	Run []string `json:"run,omitempty"`
}

// RoundOutput tells what a saved round led to, or which of its calls are left to run.
type RoundOutput struct {
	EndTurn bool     `json:"end,omitempty"`
	Left    []string `json:"left,omitempty"`
}

// ChildOutput says whether a delegated call has its result.
type ChildOutput struct {
	Done       bool   `json:"done,omitempty"`
	NeedsStart bool   `json:"start,omitempty"`
	Child      string `json:"child,omitempty"`
}
