package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// ModelRequest is one call to a model. Messages already form a valid transcript.
type ModelRequest struct {
	Model       string
	Provider    string
	Messages    []Message
	Tools       []ToolSpec
	Temperature *float64
	TopP        *float64
	MaxTokens   *int
	Stream      bool
	// AnswerSchema, if set, is the JSON schema that the final answer has to have. A
	// model that can be held to it is; all are told in the system message.
	AnswerSchema json.RawMessage
	// Meta identifies the call for logs, fakes and idempotency headers.
	Meta CallMeta
	// Calling, if set, is called when the call goes out: what limits calls may have
	// held it back before.
	Calling func() `json:"-"`
}

// CallMeta says for whom a model call or a tool run is made.
type CallMeta struct {
	StoreID  string
	ThreadID string
	TurnID   string
	Step     int
	Attempt  int
}

// ModelReply is a complete reply. A reply that broke off is an error; what is
// returned with it is for counting only.
type ModelReply struct {
	Content      string `json:"content"`
	Reasoning    string `json:"reasoning,omitempty"`
	Calls        []Call `json:"calls,omitempty"`
	FinishReason string `json:"finishReason,omitempty"`
	Usage        Usage  `json:"usage"`
	Model        string `json:"model,omitempty"`
	// Charged, with an error, means that the provider worked on the request: it began
	// to answer, or it was left when it had the request.
	Charged bool `json:"-"`
}

// Delta is a piece of a streamed reply.
type Delta struct {
	Text      string
	Reasoning string
}

// Model answers requests. Generate calls onDelta (never concurrently, never
// after it returned) as text arrives when r.Stream is set; the reply holds the
// whole text again. A failure is a *ModelError, or ctx's error; the reply then has
// the usage that the provider reported and, as text in Content and Reasoning, all
// that had arrived, pieces of calls too. It does not retry: its caller does. Safe
// for concurrent use.
type Model interface {
	Generate(ctx context.Context, r ModelRequest, onDelta func(Delta)) (ModelReply, error)
}

// Codes of model errors.
const (
	ModelRateLimited    = "rate_limited"
	ModelOverloaded     = "overloaded"      // 5xx, 408, 409
	ModelBrokenStream   = "broken_stream"   // ended or broke before the reply was complete
	ModelIdleTimeout    = "idle_timeout"    // nothing arrived for the idle limit
	ModelUnreachable    = "unreachable"     // no connection
	ModelAuth           = "auth"            // 401, 403
	ModelBadRequest     = "bad_request"     // 400, 422
	ModelUnknown        = "model_not_found" // 404, or a text that says so
	ModelAnswerInvalid  = "answer_invalid"  // the answer does not fit the schema asked for
	ModelContextTooLong = "context_too_long"
	ModelCutOff         = "cut_off" // finish_reason length inside tool arguments
	ModelContentFilter  = "content_filter"
	ModelBadResponse    = "bad_response" // not understandable, e.g. HTML
)

// ModelError is a classified failure of a model call.
type ModelError struct {
	Code    string
	Status  int // HTTP status, 0 if none
	Message string
	// Retryable says whether the same request may succeed later.
	Retryable bool
	// RetryAfter is how long the provider asked to wait; 0 if it did not say.
	RetryAfter time.Duration
	// NotCalled means that the call was held back: the provider was not asked, as it
	// had asked another call to wait. Status and Message are those of that call.
	NotCalled bool
	// Unanswered, of a call that was held back, is for how long the provider has
	// answered nobody.
	Unanswered time.Duration
	// Limit is the context window that the provider named when it refused a request
	// as too long, in tokens; 0 if it did not say.
	Limit int64
	// NoImages says that the provider refused the request because the model takes no
	// images. Code and Retryable are what they would be otherwise.
	NoImages bool
	// Class tells retryable failures that repeat themselves, as a rule, from those that
	// pass: it bounds how often in a row they are worth a try. "" = they pass.
	Class FailureClass
	// InARow is how often calls have failed in this class, this one included; 0 if
	// the caller does not count.
	InARow int
}

// FailureClass is a kind of retryable failure that a provider's trouble of the moment
// does not explain.
type FailureClass string

// The failure classes.
const (
	ClassEmpty      FailureClass = "empty"      // a whole reply with neither text nor a call
	ClassUnreadable FailureClass = "unreadable" // what came is no reply, or a call is malformed
	ClassUnclear    FailureClass = "unclear"    // HTTP 200 with an error of no known kind
	ClassInsecure   FailureClass = "insecure"   // no TLS, or a certificate that is not valid
)

// Error names the code, the status and the provider's text.
func (e *ModelError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("model call failed (%s, HTTP %d): %s", e.Code, e.Status, e.Message)
	}
	return fmt.Sprintf("model call failed (%s): %s", e.Code, e.Message)
}

// ToolSpec describes a tool to models and to the runtime.
type ToolSpec struct {
	Name        string
	Description string
	// Schema is the JSON schema of the arguments.
	Schema json.RawMessage
	// ReadOnly tools change nothing, so they need no approval by default.
	ReadOnly bool
	// Repeatable tools may be run again (with the same idempotency key) when
	// the process that ran them died; the outcome of others is then "unknown".
	Repeatable bool
	// Timeout bounds one run; 0 means DefaultToolTimeout.
	Timeout time.Duration
	// Aside is what a run may take on top of Timeout, which its tool then keeps by
	// itself: for a server that has to be started first, or again.
	Aside time.Duration
	// Gate is what applies where no rule of an agent's policy says otherwise;
	// empty: read-only tools run at once, others ask.
	Gate Gate
}

// DefaultToolTimeout bounds the run of a tool that states none.
const DefaultToolTimeout = 2 * time.Minute

// ToolRun is one run of a tool.
type ToolRun struct {
	CallMeta
	// CallID is the call's id and the idempotency key of each of its runs.
	CallID string
	// Workdir is the thread's workspace root; tools must not leave it.
	Workdir string
	Args    json.RawMessage
	// Note tells those who follow the thread what goes on in the run, as an
	// event of its log: EventToolProgress or EventMCPStderr with its payload.
	// Notes may be thinned out. nil = nobody listens; use Tell.
	Note func(event string, payload any)
	// Keep keeps what is no text, and returns what stands for it in the text of the
	// result. what is a word for it, as image; kind its media type. nil = nothing is
	// kept; use Attach.
	Keep func(what, kind string, data []byte) string
}

// Attach calls Keep if there is one; else what there is is only named.
func (r ToolRun) Attach(what, kind string, data []byte) string {
	if r.Keep == nil {
		return fmt.Sprintf("[%s, %s, %d bytes: not shown]", what, kind, len(data))
	}
	return r.Keep(what, kind, data)
}

// Tell calls Note if there is one. Safe for concurrent use during the run.
func (r ToolRun) Tell(event string, payload any) {
	if r.Note != nil {
		r.Note(event, payload)
	}
}

// ToolProgress is the payload of EventToolProgress. Total is 0 if unknown.
type ToolProgress struct {
	ToolCallID string  `json:"toolCallId"`
	Progress   float64 `json:"progress"`
	Total      float64 `json:"total,omitempty"`
	Message    string  `json:"message,omitempty"`
}

// MCPStderr is the payload of EventMCPStderr: what a server's process wrote to
// its standard error while a call of the thread was under way.
type MCPStderr struct {
	ServerID string `json:"serverId"`
	Data     string `json:"data"`
}

// ToolResult is what the model is told. Status is CallSuccess or CallFailed.
type ToolResult struct {
	Content     string
	Status      CallStatus
	ErrorReason ErrorReason
}

// Tool is something a model can call. Run returns a ToolResult for everything
// the model should hear about, errors of the tool included; its error return is
// for faults of the runtime only. Run must stop its work when ctx ends. Safe for
// concurrent use.
type Tool interface {
	Spec() ToolSpec
	Run(ctx context.Context, r ToolRun) (ToolResult, error)
}

// Checker is a Tool that can tell of some calls beforehand that they will be
// refused, whoever approves them: a path outside the workspace, a private
// address, a server that cannot be reached. Nobody is asked about such a call.
type Checker interface {
	Tool
	// Check returns the result of a call that cannot succeed, and true. It runs
	// nothing, and lets pass what it is not sure of: Run checks again.
	Check(ctx context.Context, r ToolRun) (refusal ToolResult, refused bool)
}

// ToolOK is a successful result.
func ToolOK(content string) ToolResult { return ToolResult{Content: content, Status: CallSuccess} }

// ToolFailed is a failed result with its reason.
func ToolFailed(reason ErrorReason, format string, args ...any) ToolResult {
	return ToolResult{Content: fmt.Sprintf(format, args...), Status: CallFailed, ErrorReason: reason}
}
