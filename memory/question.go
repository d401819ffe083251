package memory

import "time"

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
	Agent  string        `json:"agent"`
	TaskID string        `json:"taskId,omitempty"`
	Task   string        `json:"task,omitempty"`
	Text   string        `json:"text"`
	State  QuestionState `json:"state"`
	Answer string        `json:"answer,omitempty"`
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
}

// AnswerRequest answers a question, named by its id or by its call.
type AnswerRequest struct {
	UserID string `json:"-"`
	By     string `json:"-"`
	// Target is a question id or a call id.
	Target string `json:"-"`
	Text   string `json:"text"`
}

// AnswerResult names the thread to nudge.
type AnswerResult struct {
	Question Question
	Repeated bool
}
