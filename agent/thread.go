package agent

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// ThreadKind tells a conversation's own thread from a sub-agent's.
type ThreadKind string

// Thread kinds.
const (
	KindMain     ThreadKind = "main"
	KindSubAgent ThreadKind = "subagent"
)

// Thread is a unit of memory and execution. Its ID is also its memory key and
// its Temporal workflow id.
type Thread struct {
	ID               string                `json:"id"`
	UserID           string                `json:"userId"`
	Profile          string                `json:"profile"`
	SessionID        string                `json:"sessionId"`
	ConversationID   string                `json:"conversationId,omitempty"`
	ChatID           string                `json:"chatId"`
	Kind             ThreadKind            `json:"kind"`
	AgentType        string                `json:"agentType,omitempty"`
	AgentID          string                `json:"agentId,omitempty"`
	ParentThreadID   string                `json:"parentThreadId,omitempty"`
	RootThreadID     string                `json:"rootThreadId"`
	ParentToolCallID string                `json:"parentToolCallId,omitempty"`
	TaskID           string                `json:"taskId,omitempty"`
	Depth            int                   `json:"depth"`
	Status           ThreadStatus          `json:"status"`
	Reason           Reason                `json:"reason,omitempty"`
	Summary          string                `json:"summary,omitempty"`
	Workdir          string                `json:"workdir"`
	Config           SpecialistAgentConfig `json:"config"`
	OpenTurnID       string                `json:"openTurnId,omitempty"`
	CreatedAt        time.Time             `json:"createdAt"`
	UpdatedAt        time.Time             `json:"updatedAt"`
	// NoImages are the models that were found to take no images.
	NoImages []string `json:"-"`
	Metadata
}

// Metadata is what is counted about a thread.
type Metadata struct {
	Topic            string        `json:"topic,omitempty"`
	MessageCount     int64         `json:"messageCount"`
	TotalTokens      int64         `json:"totalTokens"`
	PromptTokens     int64         `json:"promptTokens"`
	CompletionTokens int64         `json:"completionTokens"`
	ContextWindow    ContextWindow `json:"contextWindow"`
	RequestCount     int64         `json:"requestCount"`
	ToolCallCount    int64         `json:"toolCallCount"`
	TotalTimeMs      int64         `json:"totalTimeMs"`
	TotalPrice       float64       `json:"totalPrice"`
	// Compactions counts the summaries that the model has been given instead of
	// older messages, and what providers corrected by a refusal (a smaller window, no
	// images); SummarizedFrom names the messages that the latest replaces,
	// as in "s1/default#1-42". The messages are still there.
	Compactions    int64  `json:"compactions,omitempty"`
	SummarizedFrom string `json:"summarizedFrom,omitempty"`
}

// ContextWindow is the size of the last model call, in tokens.
type ContextWindow struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Total      int64 `json:"total"`
}

// SpecialistAgentConfig is the snapshot of the template values a thread runs with. A nil
// pointer means the provider's default.
type SpecialistAgentConfig struct {
	Name         string   `json:"name"`
	Description  string   `json:"description,omitempty"`
	SystemPrompt string   `json:"systemPrompt"`
	Tools        []string `json:"tools"`
	Model        string   `json:"model,omitempty"`
	Provider     string   `json:"provider,omitempty"`
	Temperature  *float64 `json:"temperature,omitempty"`
	TopP         *float64 `json:"topP,omitempty"`
	MaxTokens    *int     `json:"maxTokens,omitempty"`
	TimeoutMs    int64    `json:"timeoutMs,omitempty"`
	MaxSteps     int      `json:"maxSteps,omitempty"` // model calls of a turn; NoStepLimit = no limit
	Stream       bool     `json:"stream"`
	ShareContext bool     `json:"shareContext,omitempty"`
	// SharedSeq is set by the store when a sub-agent with ShareContext is made:
	// its model sees the parent's messages up to this one before its own. It
	// stays the same for all turns, so every step sees the same.
	SharedSeq int64 `json:"sharedSeq,omitempty"`
	// Approval is the policy per tool name or pattern: auto, ask or deny.
	Approval map[string]string `json:"approval,omitempty"`
	// Bounds are the policies of the agents above, and of what a template may not be
	// laxer than: the strictest answer of all holds, so a child is never allowed more
	// than its parent.
	Bounds []map[string]string `json:"bounds,omitempty"`
	// OnDeny says what follows when a person denies a call: OnDenyEnd (also "")
	// ends the turn, OnDenyContinue lets the model react to the denial.
	OnDeny string `json:"onDeny,omitempty"`
	// Source tells where the template came from: a file, or "built in".
	Source string `json:"source,omitempty"`
	// Unagreed means that this agent, or one above, stands in a project's file that no
	// person has agreed to: what asks asks each time.
	Unagreed bool `json:"unagreed,omitempty"`
	// Missing says, if it is not empty, why there is no agent of this name: the
	// snapshot stands for one, and a turn with it fails with CodeUnknownAgent.
	Missing string `json:"missing,omitempty"`
}

// Clone is a copy through which nobody can change the original.
func (c SpecialistAgentConfig) Clone() SpecialistAgentConfig {
	c.Tools, c.Approval, c.Bounds = slices.Clone(c.Tools), maps.Clone(c.Approval), slices.Clone(c.Bounds)
	c.Temperature, c.TopP, c.MaxTokens = copyOf(c.Temperature), copyOf(c.TopP), copyOf(c.MaxTokens)
	return c
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// CodeUnknownAgent is the error code of a turn that was sent to an agent which the
// worker does not know.
const CodeUnknownAgent = "unknown_agent"

// Values of SpecialistAgentConfig.OnDeny.
const (
	OnDenyEnd      = "end"
	OnDenyContinue = "continue"
)

// Task is the parent's record of a piece of work.
type Task struct {
	ID               string     `json:"id"`
	UserID           string     `json:"userId"`
	ChatID           string     `json:"chatId"`
	ThreadID         string     `json:"threadId"`
	Type             string     `json:"type"` // agent or tool
	Name             string     `json:"name"` // agent:NAME or tool:NAME
	Instruction      string     `json:"instruction"`
	Description      string     `json:"description,omitempty"` // the few words its call gives, if any
	SubAgentID       string     `json:"subAgentId,omitempty"`
	Status           TaskStatus `json:"status"`
	Result           string     `json:"result,omitempty"`
	Error            string     `json:"error,omitempty"`
	TriggerMessageID string     `json:"triggerMessageId"`
	CreatedAt        time.Time  `json:"createdAt"`
	UpdatedAt        time.Time  `json:"updatedAt"`
}

// SubAgent is the view of a sub-agent's thread that a chat shows.
type SubAgent struct {
	// ID is that of its thread, as tasks and calls name it.
	ID        string    `json:"id"`
	UserID    string    `json:"userId"`
	ChatID    string    `json:"chatId"`
	ThreadID  string    `json:"threadId"`
	TaskID    string    `json:"taskId"`
	Role      string    `json:"role"`
	Status    string    `json:"status"`
	Summary   string    `json:"summary,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// SubAgentOf is a sub-agent's thread as a chat shows it.
func SubAgentOf(t Thread) SubAgent {
	status := string(t.Status)
	if t.Status == ThreadPending || t.Status == ThreadRunning {
		status = "active"
	}
	return SubAgent{
		ID: t.ID, UserID: t.UserID, ChatID: t.RootThreadID, ThreadID: t.ID, TaskID: t.TaskID, Role: t.AgentType,
		Status: status, Summary: t.Summary, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}

// ToolCall is one call a model asked for, with its outcome. Its ID is ours and
// doubles as the idempotency key of every run of it.
type ToolCall struct {
	ID               string          `json:"id"`
	ThreadID         string          `json:"threadId"`
	TurnID           string          `json:"turnId"`
	Step             int             `json:"step"`
	Index            int             `json:"index"`
	ToolName         string          `json:"toolName"`
	Args             json.RawMessage `json:"args"`
	Status           CallStatus      `json:"status"`
	Gate             Gate            `json:"gate,omitempty"`
	Attempts         int             `json:"attempts"`
	Result           string          `json:"result,omitempty"`
	Error            string          `json:"error,omitempty"`
	ErrorReason      ErrorReason     `json:"errorReason,omitempty"`
	DurationMs       int64           `json:"durationMs,omitempty"`
	SubAgentThreadID string          `json:"subAgentThreadId,omitempty"`
	SubAgentID       string          `json:"subAgentId,omitempty"`
	CreatedAt        time.Time       `json:"createdAt"`
	UpdatedAt        time.Time       `json:"updatedAt"`
}

// Gate is what the approval policy says about a call.
type Gate string

// Gates.
const (
	GateAuto Gate = "auto"
	GateAsk  Gate = "ask"
	// GateAskEach asks even if a person approved the tool for the session. It is what a
	// policy decides; what is stored is GateAsk.
	GateAskEach Gate = "ask each time"
	GateDeny    Gate = "deny"
	// GateEdited is what is stored of a call that a person approved with arguments of
	// their own.
	GateEdited Gate = "edited"
)

// Stricter returns the stricter of two gates.
func (g Gate) Stricter(o Gate) Gate {
	for _, strict := range []Gate{GateDeny, GateAskEach, GateAsk} {
		if g == strict || o == strict {
			return strict
		}
	}
	return GateAuto
}

// Asks reports whether a person is asked.
func (g Gate) Asks() bool { return g == GateAsk || g == GateAskEach }

// Event is one entry of a thread's append-only log. Seq is dense and starts at 1.
type Event struct {
	ThreadID string          `json:"threadId"`
	Seq      int64           `json:"seq"`
	Type     string          `json:"type"`
	TurnID   string          `json:"turnId"`
	Data     json.RawMessage `json:"data"`
	At       time.Time       `json:"at"`
}

// Event types; their payloads stand in payload.go.
const (
	EventMessageStarted     = "message_started"
	EventToolCalls          = "tool_calls"
	EventToolCall           = "tool_call"
	EventApprovalRequired   = "tool_approval_required"
	EventApprovalResponse   = "tool_approval_response"
	EventToolResponse       = "tool_response"
	EventAssistantMessage   = "assistant_message"
	EventMemoryAppended     = "memory_appended"
	EventMemoryEdited       = "memory_edited"
	EventStreamFinish       = "stream_finish"
	EventQuestionAsked      = "question_asked"
	EventQuestionAnswered   = "question_answered"
	EventSubAgentStarted    = "sub_agent_started"
	EventSubAgentToolCall   = "sub_agent_tool_call"
	EventSubAgentToolResult = "sub_agent_tool_result"
	EventSubAgentCompleted  = "sub_agent_completed"
	EventSubAgentMetrics    = "sub_agent_metrics"
	EventContextSummary     = "context_summary"
	EventMCPStderr          = "mcp_stderr"
	EventToolProgress       = "tool_progress"
	EventWarning            = "warning"
	EventDone               = "done"
	EventError              = "error"
)

// Warning is something a person should know of a turn that goes on: the payload
// of EventWarning.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Wait is that of WarnModelWait.
	Wait *ModelWait `json:"wait,omitempty"`
	// ToolCallID is the call that WarnWorkerLost is about; empty = a model call.
	ToolCallID string `json:"toolCallId,omitempty"`
}

// Codes of warnings.
const (
	// WarnTruncated: the server read only a part of what it was sent.
	WarnTruncated = "context_truncated"
	// WarnShortened: the model saw only a part of a message.
	WarnShortened = "message_shortened"
	// WarnWindow: the model's window is too small for what every request has.
	WarnWindow = "window_too_small"
	// WarnFallback: another model goes on.
	WarnFallback = "model_fallback"
	// WarnModelWait: a model call failed or was held back, and is made again at a
	// time that Wait names. The root of a sub-agent's thread has it too.
	WarnModelWait = "model_wait"
	// WarnWorkerLost: a worker ended in the middle of a call, and another one goes on.
	WarnWorkerLost = "worker_lost"
	// WarnNoImages: the model takes no images, so it reads their names.
	WarnNoImages = "images_left_out"
	// WarnAnswerCut: an answer ends at the model's output limit.
	WarnAnswerCut = "answer_cut"
	// WarnCallAsText: an answer holds a tool call as text.
	WarnCallAsText = "tool_call_as_text"
)

// CallAsText is the warning of WarnCallAsText.
func CallAsText(tool string) Warning {
	return Warning{Code: WarnCallAsText, Message: "the model wrote a call of " + tool + " as text, so nothing was run: its server does not read the tool calls of this model; " +
		"start it with its parser for them (vLLM: --enable-auto-tool-choice --tool-call-parser NAME; llama.cpp: --jinja), or use another model"}
}

// AnswerCut is the warning of WarnAnswerCut.
func AnswerCut() Warning {
	return Warning{Code: WarnAnswerCut, Message: "the model reached its output limit: the answer is cut; raise maxTokens in the agent's file, or ask it to go on"}
}

// FinishLength is the reason with which a model ends that reached its output limit.
const FinishLength = "length"

// ThreadTurn names a turn and its thread.
type ThreadTurn struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

// Notify names a thread that something entered.
type Notify struct {
	ThreadID string `json:"threadId"`
	// RunID is the run that holds the thread's open turn, or empty if idle.
	RunID string `json:"runId,omitempty"`
}
