package memory

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
)

// ConversationMemoryStore keeps threads, inboxes, messages, events, tasks and
// tool calls. It is also the queue: what a person sent waits in the thread's
// inbox until a turn takes it.
//
// Every method is one transaction: it happens as a whole or not at all, and a
// repeated call with the same arguments changes nothing and returns the same.
// Errors carry a code (agent.CodeOf): CodeNotFound, CodeInvalid, CodeConflict,
// CodeStale (the turn or attempt is no longer current; nothing was changed),
// CodeLimit, CodeUnavailable (the store cannot be reached, is locked or full:
// try again). All methods are safe for concurrent use, also by several
// processes where the technology allows it. Values passed in and out are copies.
type ConversationMemoryStore interface {
	Sender
	Turns
	Keeper
	Reader
	Imager
	Archiver
	Editor

	// ID is the store's own id; it is made with the store and never changes.
	ID() string
	// Close releases the store. No method may be called after it.
	Close() error
}

// Sender is what people and their programs do.
type Sender interface {
	// Send puts a message into a thread's inbox, making the thread if need be.
	// The same message id with the same content returns the first outcome,
	// with other content CodeConflict.
	//
	// A message that makes no choice (WhenBusy, Agent and Model empty) is the
	// answer to the only open question of the thread's tree. While more waits for
	// a person there, a message without WhenBusy is CodeConflict.
	Send(ctx context.Context, r SendRequest) (SendResult, error)
	// Retry puts a retry of a thread's last turn into its inbox.
	Retry(ctx context.Context, r RetryRequest) (SendResult, error)
	// Fork copies a main thread, with the sub-agents that the copied part made, up
	// to a message: a new conversation of the same session. The original is not
	// changed. Repeating a request returns the first outcome.
	Fork(ctx context.Context, r ForkRequest) (ForkResult, error)
	// RequestCancel marks the thread's open turn as to be cancelled; the first
	// request wins, and repeating it returns its outcome, also after the turn was
	// closed. Otherwise, without an open turn, or if TurnID names another turn than
	// the open one, it is CodeConflict (nothing to cancel) unless All dropped or
	// stopped something.
	RequestCancel(ctx context.Context, r CancelRequest) (CancelResult, error)
	// Decide settles an approval; the first decision wins, a repeated equal one
	// returns the first outcome, another is CodeConflict saying who and when.
	Decide(ctx context.Context, d Decision) (DecideResult, error)
	// Revoke takes back what was allowed for a session. What is not allowed is CodeNotFound.
	Revoke(ctx context.Context, userID, sessionID string, p Permission) error
	// Answer answers a question; the first answer wins, a repeated equal one
	// returns the first outcome, another is CodeConflict saying who and when.
	Answer(ctx context.Context, r AnswerRequest) (AnswerResult, error)
}

// Turns is what the workflow of a turn does through its activities.
type Turns interface {
	// TakeNext opens a turn on the oldest takeable inbox entry, or returns the
	// turn that is open already. It appends the user's message (save point 1).
	TakeNext(ctx context.Context, r TakeRequest) (Claim, error)

	// BeginModel makes an attempt of a step's model call current. If the reply
	// is stored already it is returned instead and nothing may be called.
	BeginModel(ctx context.Context, r ModelBegin) (ModelStart, error)
	// AppendChunk keeps a piece of streamed text. Offset is the byte offset in
	// the text of this attempt; a piece that is there already is ignored.
	AppendChunk(ctx context.Context, c Chunk) error
	// FailModel records what a failed attempt cost; its text stays readable
	// until the next attempt begins.
	FailModel(ctx context.Context, r ModelFailure) error
	// SaveReply stores the reply of an attempt (save point 1b), with its calls
	// under our own ids.
	SaveReply(ctx context.Context, r ReplyRecord) (StoredReply, error)

	// BeginSummary makes an attempt at a summary current, or returns the one that
	// is stored for this step and cause.
	BeginSummary(ctx context.Context, r SummaryBegin) (SummaryStart, error)
	// FailSummary records what a failed attempt cost.
	FailSummary(ctx context.Context, r SummaryFailure) error
	// SaveSummary stores a summary, with its context_summary event, and returns
	// what is stored. One that is stored already is returned as it is.
	SaveSummary(ctx context.Context, r SummaryRecord) (Summary, error)

	// BeginTool makes an attempt of a call current, or returns the final call.
	// A call found running that is not Repeatable ends as unknown.
	BeginTool(ctx context.Context, r ToolBegin) (ToolStart, error)
	// BeginTools is BeginTool for all of these calls of a turn, in one transaction; r
	// names none. What has to wait, or is final, is said of each.
	BeginTools(ctx context.Context, r ToolBegin, callIDs []string) ([]ToolStart, error)
	// NoteTool appends an event to the log while an attempt of a call runs;
	// later it is stale.
	NoteTool(ctx context.Context, n ToolNote) error
	// SaveResult makes a call's result durable. With the last result of its step
	// it may save the round too, as SaveToolRound does. A call that is final already
	// with the same attempt is left as it is.
	SaveResult(ctx context.Context, r ToolOutcome) error
	// SaveResults is SaveResult for calls of one step, in one transaction. One whose
	// result is still agent.CallPending is given back: nobody runs it any more, and it is
	// begun again. It returns the round if that was saved along with them, else nil.
	SaveResults(ctx context.Context, rs []ToolOutcome) (*RoundSaved, error)
	// SaveToolRound appends the assistant message with all its results (save
	// points 2 and 4). It refuses (CodeConflict) while a call has no result.
	SaveToolRound(ctx context.Context, r RoundRequest) (RoundSaved, error)

	// OpenApproval asks a person about the gated calls of a step.
	OpenApproval(ctx context.Context, r RoundRequest) (Approval, error)
	// StepState tells what is left to do in a step: used after waiting.
	StepState(ctx context.Context, r RoundRequest) (StepState, error)

	// OpenQuestion asks a person what a call of ask_user asks. Asking again
	// returns the question as it is.
	OpenQuestion(ctx context.Context, r QuestionRequest) (Question, error)

	// OpenDelegation creates (or resumes) a sub-thread, its task, the linked
	// tool_call event and the entry in the child's inbox. A refusal is stored
	// as the call's result.
	OpenDelegation(ctx context.Context, r DelegationRequest) (Delegation, error)
	// TakeChildResult moves the end of a foreground child from the delegator's
	// inbox to the call's result.
	TakeChildResult(ctx context.Context, r ChildResultRequest) (ChildResult, error)

	// CloseTurn ends a turn in every respect: the final answer (save point 3)
	// or partial text, results for unfinished calls, done or error event, the
	// end of its foreground descendants unless completed, the entry in the
	// delegator's inbox, and the claim of the next entry or idleness.
	CloseTurn(ctx context.Context, r CloseRequest) (Closed, error)
}

// Keeper is what workers do in the background.
type Keeper interface {
	// Overdue lists threads that need a nudge: idle with waiting entries, with
	// an untaken child result, an unsettled cancel, or a decided approval or an
	// answered question that nobody reacted to, for longer than age by the store's clock.
	// It reads what has changed: what people settled minutes ago is told by OpenTurns.
	Overdue(ctx context.Context, age time.Duration, limit int) ([]Overdue, error)
	// OpenTurns lists open turns, oldest first; the keeper compares them with open runs.
	OpenTurns(ctx context.Context, f OpenTurnFilter) ([]OpenTurn, error)
	// Load counts what is under way in the whole store.
	Load(ctx context.Context) (Load, error)
	// CleanUp takes a user's (empty: everybody's) sub-agents that ended longer
	// than age ago from lists of sub-agents and returns how many.
	CleanUp(ctx context.Context, userID string, age time.Duration) (int, error)
}

// Reader is what everybody reads. Missing threads are CodeNotFound; a user id
// that is not the owner's finds nothing. An empty user id reads everything.
type Reader interface {
	Thread(ctx context.Context, userID, threadID string) (agent.Thread, error)
	Threads(ctx context.Context, f ThreadFilter) ([]agent.Thread, error)
	// Children lists the direct sub-threads in order of creation.
	Children(ctx context.Context, threadID string) ([]agent.Thread, error)
	// Messages returns up to limit messages with seq > after (0 = all).
	Messages(ctx context.Context, threadID string, after int64, limit int) ([]agent.Message, error)
	// Events returns up to limit events with seq > after (0 = all).
	Events(ctx context.Context, threadID string, after int64, limit int) ([]agent.Event, error)
	// Stream returns what the current model call of the thread has streamed, or nil.
	Stream(ctx context.Context, threadID string) (*Streamed, error)
	// Mark says where threads stand, in one reading for all: a follower reads those
	// only whose mark is another one than before. Threads that do not exist are
	// left out.
	Mark(ctx context.Context, threadIDs []string) ([]Mark, error)
	Tasks(ctx context.Context, threadID string) ([]agent.Task, error)
	ToolCalls(ctx context.Context, threadID string) ([]agent.ToolCall, error)
	// ToolCallsOf and TasksOf are those of the named calls, in order: they read no
	// others. Calls of other threads are left out.
	ToolCallsOf(ctx context.Context, threadID string, callIDs []string) ([]agent.ToolCall, error)
	TasksOf(ctx context.Context, threadID string, callIDs []string) ([]agent.Task, error)
	// OpenCalls names the calls of which something is still to come: those of a
	// step that is not saved, and those whose sub-agent works or is about to.
	OpenCalls(ctx context.Context, threadID string) ([]string, error)
	ToolCall(ctx context.Context, callID string) (agent.ToolCall, error)
	// ToolOutput is the whole output of a call, also where the model was told
	// only a part of it.
	ToolOutput(ctx context.Context, callID string) (string, error)
	Inbox(ctx context.Context, threadID string) ([]InboxEntry, error)
	// Waiting lists the entries that wait, in order of arrival.
	Waiting(ctx context.Context, threadID string) ([]InboxEntry, error)
	// InboxBefore lists up to limit entries with a seq before one (0 = the end),
	// the newest first.
	InboxBefore(ctx context.Context, threadID string, before int64, limit int) ([]InboxEntry, error)
	// LastTurn is a thread's newest turn, nil if it has had none.
	LastTurn(ctx context.Context, threadID string) (*Turn, error)
	// Entry is one entry of an inbox, as a turn names it (Turn.EntryKind and MessageID).
	Entry(ctx context.Context, threadID string, kind EntryKind, id string) (InboxEntry, error)
	TurnsOf(ctx context.Context, threadID string) ([]Turn, error)
	Turn(ctx context.Context, turnID string) (Turn, error)
	// Stopping names those of some turns that are closed, or whose cancel is requested.
	Stopping(ctx context.Context, turnIDs []string) (closed, cancelled []string, err error)
	Approvals(ctx context.Context, f ApprovalFilter) ([]Approval, error)
	Questions(ctx context.Context, f QuestionFilter) ([]Question, error)
	// Permissions lists what was allowed for a session.
	Permissions(ctx context.Context, userID, sessionID string) ([]Permission, error)
	// ModelWaits lists the model calls of open turns whose last attempt failed and
	// which are to be made again, the one that is due first first. Its time may
	// have passed: then a worker is about to make it.
	ModelWaits(ctx context.Context, f WaitFilter) ([]agent.ModelWait, error)
	// Steps lists the step records of a turn.
	Steps(ctx context.Context, turnID string) ([]Step, error)
	// Summaries lists what a thread's model was told instead of older messages, in
	// the order it was made; the last one is in force.
	Summaries(ctx context.Context, threadID string) ([]Summary, error)
	// Waited is how long a turn, or one below it in the foreground, has waited
	// for people until now.
	Waited(ctx context.Context, turnID string) (Waited, error)
	// Spent is what the agents of a tree have used since the last message of a
	// person, which renews their budget.
	Spent(ctx context.Context, rootThreadID string) (Spent, error)
	// Search finds a user's conversations (empty: anybody's) whose topic has a text, or
	// whose messages have, in any case; the newest 50 of the last 300, each by its last
	// 2,000 messages.
	Search(ctx context.Context, userID, profile, text string) ([]Found, error)
	// Changed returns a number that grows (or merely differs) when anything
	// was committed by anyone; a cheap call for followers to poll.
	Changed(ctx context.Context) (int64, error)
}
