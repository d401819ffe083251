package agent

// ThreadStatus is the state of a thread, as derived in docs/state-machine.md.
type ThreadStatus string

// Thread states.
const (
	ThreadPending            ThreadStatus = "pending"
	ThreadRunning            ThreadStatus = "running"
	ThreadWaitingForUser     ThreadStatus = "waiting_for_user"
	ThreadWaitingForApproval ThreadStatus = "waiting_for_approval"
	ThreadCompleted          ThreadStatus = "completed"
	ThreadFailed             ThreadStatus = "failed"
	ThreadCancelled          ThreadStatus = "cancelled"
)

// ThreadStates are all of them.
const ThreadStates = "pending, running, waiting_for_user, waiting_for_approval, completed, failed, cancelled"

// Reason says why a thread failed.
type Reason string

// Reasons of a failed thread or turn.
const (
	ReasonError      Reason = "error"
	ReasonTimeout    Reason = "timeout"
	ReasonLimit      Reason = "limit"
	ReasonTerminated Reason = "terminated"
	ReasonCancelled  Reason = "cancelled"
	ReasonDenied     Reason = "denied"
)

// TaskStatus is the state of a task.
type TaskStatus string

// Task states.
const (
	TaskPending   TaskStatus = "pending"
	TaskRunning   TaskStatus = "running"
	TaskWaiting   TaskStatus = "waiting"
	TaskSuccess   TaskStatus = "success"
	TaskFailed    TaskStatus = "failed"
	TaskCancelled TaskStatus = "cancelled"
)

// CallStatus is the state of a tool call.
type CallStatus string

// Tool call states. Success, Failed, Unknown, Aborted and Denied are final.
const (
	CallPending          CallStatus = "pending"
	CallRunning          CallStatus = "running"
	CallAwaitingApproval CallStatus = "awaiting_approval"
	CallSuccess          CallStatus = "success"
	CallFailed           CallStatus = "failed"
	CallUnknown          CallStatus = "unknown"
	CallAborted          CallStatus = "aborted"
	CallDenied           CallStatus = "denied"
)

// Final reports whether the call has its result.
func (s CallStatus) Final() bool {
	return s == CallSuccess || s == CallFailed || s == CallUnknown || s == CallAborted || s == CallDenied
}

// NeedsPerson reports whether a thread waits for a decision or an answer.
func (s ThreadStatus) NeedsPerson() bool {
	return s == ThreadWaitingForApproval || s == ThreadWaitingForUser
}

// TaskStatusOf maps a thread's state to that of the task it works on.
func TaskStatusOf(s ThreadStatus) TaskStatus {
	switch s {
	case ThreadRunning:
		return TaskRunning
	case ThreadWaitingForUser, ThreadWaitingForApproval:
		return TaskWaiting
	case ThreadCompleted:
		return TaskSuccess
	case ThreadFailed:
		return TaskFailed
	case ThreadCancelled:
		return TaskCancelled
	}
	return TaskPending
}

// Final reports whether no turn is open in this state.
func (s ThreadStatus) Final() bool {
	return s == ThreadCompleted || s == ThreadFailed || s == ThreadCancelled
}

// ErrorReason says why a tool result is an error.
type ErrorReason string

// Error reasons of tool results.
const (
	ErrAborted          ErrorReason = "aborted"
	ErrDenied           ErrorReason = "denied"
	ErrEdited           ErrorReason = "edited"
	ErrTimeout          ErrorReason = "timeout"
	ErrNotFound         ErrorReason = "not_found"
	ErrPermissionDenied ErrorReason = "permission_denied"
	ErrInvalidInput     ErrorReason = "invalid_input"
	ErrNetwork          ErrorReason = "network_error"
	ErrRateLimit        ErrorReason = "rate_limit"
	ErrToolNotFound     ErrorReason = "tool_not_found"
	ErrValidationFailed ErrorReason = "validation_failed"
	ErrUnknown          ErrorReason = "unknown"
)

// Texts of results that no tool produced.
const (
	TextAborted = "Tool execution aborted by user"
	// TextStopped begins every text of an aborted call, TextAborted too.
	TextStopped = "Tool execution aborted"
	// TextNoResult stands in for a result that is missing in the store.
	TextNoResult = "Tool execution aborted: its result was not saved"
	TextDenied   = "Tool execution denied by user"
	// TextEdited begins the result of a call that ran with arguments of a person's.
	TextEdited  = "[A person changed the arguments of this call before it ran. The call shows those that it ran with.]"
	TextUnknown = "The process that ran this tool died before it could report a result. The tool is not marked repeatable, so it was not run again: it may or may not have taken effect."
)

// StoppedText is the result of a call that the end of its turn aborted. Only a
// cancel is a person's.
func StoppedText(outcome ThreadStatus, reason Reason) string {
	if outcome == ThreadCancelled {
		return TextAborted
	}
	switch reason {
	case ReasonTimeout:
		return TextStopped + ": the turn ran out of time"
	case ReasonLimit:
		return TextStopped + ": the turn reached a limit"
	case ReasonTerminated:
		return TextStopped + ": the turn's workflow run was terminated from outside, or lost"
	}
	return TextStopped + ": the turn failed"
}
