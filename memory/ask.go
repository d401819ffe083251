package memory

import (
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
)

// QuestionState says whether a question waits for a person.
type QuestionState string

// States of a question.
const (
	QuestionOpen     QuestionState = "open"
	QuestionAnswered QuestionState = "answered"
	QuestionAborted  QuestionState = "aborted" // its turn ended without an answer
)

// Question is what an agent asks a person by ask_user. The answer is the result
// of the call.
type Question struct {
	ID         string `json:"questionId"`
	ThreadID   string `json:"threadId"`
	RootThread string `json:"rootThreadId"`
	TurnID     string `json:"turnId"`
	Step       int    `json:"step"`
	CallID     string `json:"toolCallId"`
	// Agent asks. TaskID and Task are what a sub-agent works on; a main thread's
	// agent has none.
	Agent  string `json:"agent"`
	TaskID string `json:"taskId,omitempty"`
	Task   string `json:"task,omitempty"`
	Text   string `json:"text"`
	// Options are answers to choose from. Another answer is one too.
	Options []string      `json:"options,omitempty"`
	State   QuestionState `json:"state"`
	Answer  string        `json:"answer,omitempty"`
	// MessageID is that of the message that answered, if one did.
	MessageID  string     `json:"messageId,omitempty"`
	AnsweredBy string     `json:"answeredBy,omitempty"`
	AnsweredAt *time.Time `json:"answeredAt,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
}

// QuestionRequest asks a question for a call of ask_user.
type QuestionRequest struct {
	ThreadID string
	TurnID   string
	CallID   string
	Text     string
	Options  []string
}

// AnswerRequest answers a question, named by its id or by its call.
type AnswerRequest struct {
	UserID string `json:"-"`
	By     string `json:"-"`
	// Target is a question id or a call id.
	Target string `json:"-"`
	// Text is the answer, or the number of an option, counted from 1.
	Text string `json:"text"`
}

// AnswerResult names the thread to nudge.
type AnswerResult struct {
	Question Question
	Repeated bool
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
	// Arguments are those that the person gave approved calls, by call.
	Arguments map[string]json.RawMessage `json:"arguments,omitempty"`
}

// AskFilter selects what agents ask people; RootThread includes all descendants.
type AskFilter struct {
	// ID is that of one, or of a call that asks or waits for approval.
	ID         string
	UserID     string
	ThreadID   string
	RootThread string
	OpenOnly   bool
}

// Both kinds of asks are selected alike.
type (
	// ApprovalFilter selects approvals.
	ApprovalFilter = AskFilter
	// QuestionFilter selects questions.
	QuestionFilter = AskFilter
)

// Decision settles an approval, named by its id or by one of its calls.
type Decision struct {
	UserID string `json:"-"`
	By     string `json:"-"`
	// Target is an approval id or a call id.
	Target string `json:"-"`
	// Verdict is approve, approve_all (remembers the tool names for the
	// session), deny or edit.
	Verdict string `json:"verdict"`
	// Narrow, with approve_all, remembers of each call only what agent.NarrowRule says:
	// calls like it ask no more, other calls of its tool do.
	Narrow bool `json:"narrow,omitempty"`
	// Calls are the approved calls; empty = all. The rest are denied.
	Calls []string `json:"calls,omitempty"`
	// Instruction becomes the result of an edited call.
	Instruction string `json:"instruction,omitempty"`
	// Arguments, with approve, are JSON objects that approved calls run with in place of
	// the model's, by call. They become the call's: its model sees them, and is told.
	Arguments map[string]json.RawMessage `json:"arguments,omitempty"`
}

// Verdicts.
const (
	Approve    = "approve"
	ApproveAll = "approve_all"
	Deny       = "deny"
	Edit       = "edit"
)

// Permission is what a person allowed an agent for the rest of a session.
type Permission struct {
	// Rule is a tool, or one of its narrow rules: shell, shell(date *).
	Rule string `json:"rule"`
	// Agent and Source name the agent, and where its template came from.
	Agent  string `json:"agent"`
	Source string `json:"source"`
}

// DecideResult names the thread to nudge.
type DecideResult struct {
	Approval Approval
	Repeated bool
}
