package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	// At says where the model was asked, if its client does; also with an error.
	At ModelPlace `json:"-"`
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
	// Quick tools are ReadOnly and Repeatable and end within a second, nearly always.
	// They run in the workflow task that follows the model's reply, which costs no
	// activity of their own; one that takes longer is ended and gets one.
	Quick bool
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
	// Workdir is the folder that the thread works in; tools must not leave it.
	Workdir string
	// Workspace is the folder that Workdir has to lie in when it is opened; "" = any.
	Workspace string
	// Home is Spool's own folder, which no file tool reaches; "" = there is none.
	Home string
	// Private are files and folders elsewhere that no file tool reaches either: the store,
	// tokens and keys, where settings name them.
	Private []string
	// Approved says that a person approved this call. Without it nothing is written to
	// what decides what agents may do.
	Approved bool
	// Named tells whether the conversation names a host, to decide about a call;
	// nil = it names none.
	Named func(host string) bool
	// Reads says what the agent's rules say about showing what is in a file; nil = they
	// say nothing.
	Reads func(path string) Gate
	Args  json.RawMessage
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

// ToolResult is what the model reads. Status is CallSuccess or CallFailed.
type ToolResult struct {
	Content string
	// Whole, if not nil, is the text in place of Content: one that is too long to be held.
	// If it is a file, whoever has stored it closes it.
	Whole       *io.SectionReader
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
