package spool

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/memory"
)

// Statuses of a Reply beside those of a thread.
const (
	// StatusStored means that the message is safe but nobody runs it yet.
	StatusStored = "stored"
	// StatusQueued means that the message waits for the turn before it.
	StatusQueued = "queued"
	// StatusDropped means that a cancel dropped the message before its turn.
	StatusDropped = "dropped"
	// StatusAnswered means that the message answered the question of a sub-agent in
	// the background: there is no turn to wait for.
	StatusAnswered = "answered"
)

// Reply is what became of a message.
type Reply struct {
	SessionID      string `json:"sessionId"`
	ConversationID string `json:"conversationId"`
	ThreadID       string `json:"threadId"`
	TurnID         string `json:"turnId"`
	MessageID      string `json:"messageId"`
	// Status is that of the turn (running, waiting_for_approval, waiting_for_user,
	// completed, failed, cancelled), or one of the Status constants.
	Status    string       `json:"status"`
	Reason    agent.Reason `json:"reason,omitempty"`
	ErrorCode string       `json:"errorCode,omitempty"`
	Error     string       `json:"error,omitempty"`
	Response  string       `json:"response"`
	Usage     agent.Usage  `json:"usage"`
	// Pending and Questions are what the turn waits for from people.
	Pending   []ApprovalRequest `json:"pending,omitempty"`
	Questions []QuestionRequest `json:"questions,omitempty"`
	// Waits are the model calls of the thread's tree that are made again later, if
	// the turn runs. Status tells them.
	Waits []agent.ModelWait `json:"waits,omitempty"`
	// Answered is the question that the message answered, if it did.
	Answered *QuestionRequest   `json:"answered,omitempty"`
	State    memory.EntryState  `json:"-"`
	Repeated bool               `json:"repeated,omitempty"`
	Note     string             `json:"note,omitempty"`
	Outcome  agent.ThreadStatus `json:"-"`
}

// KeepImage keeps an image in the store and returns its name, to which the parts of
// a message refer as agent.ImageScheme and the name. Workers find it there, wherever
// they run. A message that shows it has to be sent within a day.
func (c *Client) KeepImage(ctx context.Context, data []byte) (string, error) {
	return c.store.KeepImage(ctx, data)
}

// ApprovalRequest is an open question to a person about tool calls.
type ApprovalRequest struct {
	ApprovalID string         `json:"approvalId"`
	ThreadID   string         `json:"threadId"`
	RootThread string         `json:"rootThreadId"`
	Agent      string         `json:"agent"`
	ToolCalls  []ApprovalCall `json:"toolCalls"`
}

// ApprovalCall is one of the calls an approval is about.
type ApprovalCall struct {
	ID       string `json:"id"`
	ToolName string `json:"toolName"`
	Args     any    `json:"args"`
}

// UnmarshalJSON keeps the arguments as they were written.
func (c *ApprovalCall) UnmarshalJSON(b []byte) error {
	var raw struct {
		ID       string          `json:"id"`
		ToolName string          `json:"toolName"`
		Args     json.RawMessage `json:"args"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*c = ApprovalCall{ID: raw.ID, ToolName: raw.ToolName, Args: raw.Args}
	return nil
}

// Send puts a message into a thread's inbox and, if the thread is idle, tells
// Temporal. It returns once the message is safe; Wait waits for the answer.
// Missing ids are made: a session id and a message id (UUIDv7). Repeating a Send
// with the same message id is safe.
//
// A plain message (WhenBusy, Agent and Model empty) to a thread tree with exactly
// one open question answers it: the Reply names it, and is about the turn that
// waited. While more waits for a person there, or an approval, a message with an
// empty WhenBusy is refused with a *PendingError of CodeConflict.
func (c *Client) Send(ctx context.Context, r memory.SendRequest) (Reply, error) {
	if err := c.complete(&r); err != nil {
		return Reply{}, err
	}
	began := time.Now()
	sent, err := c.store.Send(ctx, r)
	c.told.Sent(ctx, memory.EntryMessage, began, c.steered(ctx, r, sent), err)
	if err != nil {
		return Reply{}, c.withPending(ctx, r, err)
	}
	return c.sent(ctx, sent), nil
}

// complete fills what the caller left out.
func (c *Client) complete(r *memory.SendRequest) error {
	if r.UserID == "" {
		r.UserID = c.o.UserID
	}
	if r.Profile == "" {
		r.Profile = c.o.Profile
	}
	if r.MessageID == "" {
		r.MessageID = NewID()
	}
	if err := agent.CheckContent(r.Content); err != nil {
		return err
	}
	if len(r.AnswerSchema) > 0 {
		if err := tool.CheckAnswerSchema(r.AnswerSchema); err != nil {
			return err
		}
		if r.WhenBusy == "" {
			r.WhenBusy = memory.Queue // it is no answer to a question
		}
	}
	switch r.WhenBusy {
	case "", memory.Queue, memory.Steer, memory.Reject:
	default:
		return agent.Errorf(agent.CodeInvalid, "when-busy %q is not valid: use queue, steer or reject", r.WhenBusy)
	}
	if r.ThreadID != "" {
		if r.SessionID != "" || r.ConversationID != "" {
			return agent.Errorf(agent.CodeInvalid, "a thread (%s) replaces session and conversation: give one or the other", r.ThreadID)
		}
		_, err := agent.ParseThreadID(r.ThreadID)
		return err
	}
	if r.SessionID == "" {
		r.SessionID = NewID()
	}
	if r.ConversationID == "" {
		r.ConversationID = agent.DefaultConversation
	}
	if err := agent.CheckName("session", r.SessionID); err != nil {
		return err
	}
	return agent.CheckName("conversation", r.ConversationID)
}

// withPending adds the open approvals and questions to the refusal of a plain message.
func (c *Client) withPending(ctx context.Context, r memory.SendRequest, refusal error) error {
	var coded *agent.Error
	if r.WhenBusy != "" || agent.CodeOf(refusal) != agent.CodeConflict || !errors.As(refusal, &coded) {
		return refusal
	}
	id := r.ThreadID
	if id == "" {
		id = agent.MainThreadID(r.SessionID, r.ConversationID)
	}
	open, err := c.Approvals(ctx, id)
	if err != nil {
		return refusal
	}
	questions, err := c.Questions(ctx, id)
	if err != nil || len(open)+len(questions) == 0 {
		return refusal
	}
	return &PendingError{Pending: open, Questions: questions, err: coded}
}

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

// Error lists what is pending.
func (e *PendingError) Error() string { return e.err.Error() }

// Unwrap returns the coded error.
func (e *PendingError) Unwrap() error { return e.err }

// Retry puts a retry of a thread's last turn into its inbox and tells Temporal.
// An empty request id is made; repeating the same one is safe.
func (c *Client) Retry(ctx context.Context, threadID, requestID string) (Reply, error) {
	if requestID == "" {
		requestID = NewID()
	}
	if _, err := c.thread(ctx, threadID); err != nil {
		return Reply{}, err
	}
	began := time.Now()
	sent, err := c.store.Retry(ctx, memory.RetryRequest{UserID: c.o.UserID, ThreadID: threadID, RequestID: requestID})
	c.told.Sent(ctx, memory.EntryRetry, began, sent, err)
	if err != nil {
		return Reply{}, err
	}
	return c.sent(ctx, sent), nil
}

// steered names the turn that a message is steered into, for its trace.
func (c *Client) steered(ctx context.Context, r memory.SendRequest, s memory.SendResult) memory.SendResult {
	if c.told == nil || r.WhenBusy != memory.Steer || s.Idle {
		return s
	}
	if t, err := c.store.Thread(ctx, "", s.ThreadID); err == nil && t.OpenTurnID != "" {
		s.TurnID = t.OpenTurnID
	}
	return s
}

// sent nudges an idle thread and describes the outcome.
func (c *Client) sent(ctx context.Context, s memory.SendResult) Reply {
	r := c.reply(s.ThreadID, s.TurnID)
	r.MessageID, r.State, r.Repeated = s.MessageID, s.State, s.Repeated
	r.Status = StatusQueued
	if s.Idle && s.State == memory.EntryWaiting {
		r.Status = string(agent.ThreadRunning)
	}
	err := error(nil)
	if q := s.Answered; q != nil {
		asked := questionRequest(*q)
		r.Answered, r.Status = &asked, string(agent.ThreadRunning)
		if s.TurnID == "" {
			r.Status = StatusAnswered
		}
		if err := c.tellWaiting(ctx, q.ThreadID); err != nil {
			r.Status = StatusStored
			r.Note = "the answer is saved, but " + err.Error() + "; the agent goes on when Temporal and a worker are back"
		}
		return r
	}
	switch {
	case s.State != memory.EntryWaiting:
		r.Status = string(agent.ThreadRunning)
	case s.Idle:
		err = c.tell(ctx, contract.NudgeTarget{Thread: s.ThreadID})
	case c.temporal == nil:
		err = c.unreachable(nil)
	}
	if err != nil {
		r.Status = StatusStored
		r.Note = "saved, but not running: " + err.Error() + "; it runs when Temporal and a worker are back, and repeating it with the same message id is safe"
	}
	return r
}

func (c *Client) reply(threadID, turnID string) Reply {
	r := Reply{ThreadID: threadID, TurnID: turnID}
	if p, err := agent.ParseThreadID(threadID); err == nil {
		r.SessionID, r.ConversationID = p.SessionID, p.ConversationID
	}
	return r
}

// NewID makes a unique id that sorts by time (UUIDv7).
func NewID() string { return uuid.Must(uuid.NewV7()).String() }
