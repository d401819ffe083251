package spool

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/follow"
	"github.com/spool-agents/spool/internal/view"
)

// What a client shows.
type (
	// Reply is what became of a message.
	Reply = view.Reply
	// View is a thread with everything that belongs to it.
	View = view.View
	// ShowOptions say what of a thread a View holds.
	ShowOptions = view.ShowOptions
	// Node is a thread in the tree of a conversation.
	Node = view.Node
	// Link is how a Node hangs on its parent.
	Link = view.Link
	// LinkCall is one call that gave a sub-agent work.
	LinkCall = view.LinkCall
	// Ancestor is a thread on the way up.
	Ancestor = view.Ancestor
	// MessagePage is a page of messages with the tool calls and tasks that belong to it.
	MessagePage = view.MessagePage
	// Spans are how a turn and its sub-agents spent their time.
	Spans = view.Spans
	// Span is a stretch of a turn.
	Span = view.Span
	// Sent is what a model call was sent, and what came of it.
	Sent = view.Sent
	// ApprovalRequest is an approval that waits for a person.
	ApprovalRequest = view.ApprovalRequest
	// ApprovalCall is one call that an ApprovalRequest asks about.
	ApprovalCall = view.ApprovalCall
	// QuestionRequest is a question that waits for a person.
	QuestionRequest = view.QuestionRequest
	// TurnError is what ended a turn that failed or was cancelled.
	TurnError = view.TurnError
	// PendingError refuses a message because decisions or answers of a person are
	// awaited.
	PendingError = view.PendingError
)

// What a follower gets.
type (
	// Update is one event, or one piece of text, of a thread.
	Update = follow.Update
	// TextUpdate is a piece of streamed text.
	TextUpdate = follow.TextUpdate
	// Cursor is a place in what a thread emits.
	Cursor = follow.Cursor
	// FollowOptions say what to follow and how long.
	FollowOptions = follow.Options
)

// Statuses of a Reply beside those of a thread.
const (
	StatusStored   = view.StatusStored   // the message is safe, but nobody runs it yet
	StatusQueued   = view.StatusQueued   // it waits for the turn before it
	StatusDropped  = view.StatusDropped  // a cancel dropped it before its turn
	StatusAnswered = view.StatusAnswered // it answered a sub-agent in the background: there is no turn to wait for
)

// Kinds of spans.
const (
	SpanModel    = view.SpanModel
	SpanWait     = view.SpanWait
	SpanTool     = view.SpanTool
	SpanAgent    = view.SpanAgent
	SpanApproval = view.SpanApproval
	SpanQuestion = view.SpanQuestion
	SpanLost     = view.SpanLost
)

// ParseCursor reads `seq` or `seq:attempt:offset`; empty is the beginning.
func ParseCursor(s string) (Cursor, error) { return follow.ParseCursor(s) }

// CheckPage checks the cursor of a page of threads.
func CheckPage(after string) error { return view.CheckPage(after) }

// NewPendingError makes a refusal that lists what is awaited.
func NewPendingError(pending []ApprovalRequest, questions []QuestionRequest, err *agent.Error) *PendingError {
	return view.NewPendingError(pending, questions, err)
}
