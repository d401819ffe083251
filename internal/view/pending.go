package view

import "github.com/spool-agents/spool/agent"

// PendingError refuses a message because decisions or answers of a person are
// awaited.
type PendingError struct {
	Pending   []ApprovalRequest
	Questions []QuestionRequest
	err       *agent.Error
}

// NewPendingError makes a refusal that lists what is awaited.
func NewPendingError(pending []ApprovalRequest, questions []QuestionRequest, err *agent.Error) *PendingError {
	return &PendingError{Pending: pending, Questions: questions, err: err}
}

func (e *PendingError) Error() string { return e.err.Error() }

func (e *PendingError) Unwrap() error { return e.err }
