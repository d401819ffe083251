package rows

import (
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
)

// MaxEventResult is the longest result that a tool_response event repeats; a longer
// one is referred to by its message.
const MaxEventResult = 2048

// childText bounds what the events on a parent repeat of its child.
const childText = 1024

// Payloads of the events, as CHECKLIST appendix B names their fields.
type (
	// MessageStarted is the payload of agent.EventMessageStarted.
	MessageStarted struct {
		Content   agent.Content `json:"content"`
		ToolNames []string      `json:"toolNames"`
	}
	// ToolCallsEvent is the payload of agent.EventToolCalls.
	ToolCallsEvent struct {
		ToolCalls []agent.Call `json:"toolCalls"`
		Usage     *agent.Usage `json:"usage,omitempty"`
	}
	// StreamFinish is the payload of agent.EventStreamFinish.
	StreamFinish struct {
		MessageID    string      `json:"messageId"`
		FinishReason string      `json:"finishReason"`
		Usage        agent.Usage `json:"usage"`
		// Model is the one that answered, as its provider names it.
		Model string `json:"model,omitempty"`
	}
	// ToolCallEvent is the payload of agent.EventToolCall.
	ToolCallEvent struct {
		Intent         string          `json:"intent"`
		Arguments      json.RawMessage `json:"arguments"`
		ToolCallID     string          `json:"toolCallId"`
		SubAgentThread string          `json:"sub_agent_thread_id,omitempty"`
		// Gate is set if the call does not run by itself.
		Gate agent.Gate `json:"gate,omitempty"`
	}
	// ApprovalCall is a call in the payload of agent.EventApprovalRequired.
	ApprovalCall struct {
		ID       string          `json:"id"`
		ToolName string          `json:"toolName"`
		Args     json.RawMessage `json:"args"`
	}
	// ApprovalRequired is the payload of agent.EventApprovalRequired.
	ApprovalRequired struct {
		ApprovalID string         `json:"approvalId"`
		ToolCalls  []ApprovalCall `json:"toolCalls"`
		Agent      string         `json:"agent"`
		ThreadID   string         `json:"threadId"`
	}
	// ApprovalResponse is the payload of agent.EventApprovalResponse.
	ApprovalResponse struct {
		ApprovalID      string                     `json:"approvalId"`
		Decision        string                     `json:"decision"`
		ApprovedCalls   []string                   `json:"approvedCalls,omitempty"`
		EditInstruction string                     `json:"editInstruction,omitempty"`
		Arguments       map[string]json.RawMessage `json:"arguments,omitempty"`
		ThreadID        string                     `json:"threadId"`
	}
	// QuestionAsked is the payload of agent.EventQuestionAsked.
	QuestionAsked struct {
		QuestionID string   `json:"questionId"`
		Agent      string   `json:"agent"`
		Text       string   `json:"text"`
		Options    []string `json:"options,omitempty"`
		TaskID     string   `json:"taskId,omitempty"`
		Task       string   `json:"task,omitempty"`
		ToolCallID string   `json:"toolCallId"`
		ThreadID   string   `json:"threadId"`
	}
	// QuestionAnswered is the payload of agent.EventQuestionAnswered.
	QuestionAnswered struct {
		QuestionID string `json:"questionId"`
		AnsweredBy string `json:"answeredBy"`
		State      string `json:"state"`
		Agent      string `json:"agent"`
		Answer     string `json:"answer,omitempty"`
		ThreadID   string `json:"threadId"`
	}
	// ToolResponseEvent is the payload of agent.EventToolResponse.
	ToolResponseEvent struct {
		ToolCallID string           `json:"toolCallId"`
		Name       string           `json:"name"`
		Status     agent.CallStatus `json:"status"`
		Result     *string          `json:"result,omitempty"`
		// A longer one is ResultRef, the id of its message, with its beginning and size.
		ResultRef      string            `json:"resultRef,omitempty"`
		Preview        string            `json:"preview,omitempty"`
		Size           int               `json:"size,omitempty"`
		ErrorReason    agent.ErrorReason `json:"errorReason,omitempty"`
		DurationMs     int64             `json:"durationMs"`
		SubAgentThread string            `json:"sub_agent_thread_id,omitempty"`
	}
	// AssistantMessageEvent is the payload of agent.EventAssistantMessage.
	AssistantMessageEvent struct {
		MessageID string        `json:"messageId"`
		Content   agent.Content `json:"content"`
		Usage     *agent.Usage  `json:"usage,omitempty"`
	}
	// MemoryAppended is the payload of agent.EventMemoryAppended.
	MemoryAppended struct {
		FromSeq int64 `json:"fromSeq"`
		ToSeq   int64 `json:"toSeq"`
	}
	// TurnDone is the payload of agent.EventDone.
	TurnDone struct {
		ResponseTimeMs int64       `json:"responseTimeMs"`
		Usage          agent.Usage `json:"usage"`
	}
	// ContextSummaryEvent is the payload of agent.EventContextSummary.
	ContextSummaryEvent struct {
		ReplacesFrom int64  `json:"replacesFrom"`
		ReplacesTo   int64  `json:"replacesTo"`
		Summary      string `json:"summary"`
	}
	// TurnError is the payload of agent.EventError.
	TurnError struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
	}
)

// Payloads of the events on a parent about its child. parentToolCallId tells
// parallel children of one type apart.
type (
	// ChildStarted is the payload of agent.EventSubAgentStarted.
	ChildStarted struct {
		AgentID        string `json:"agentId"`
		AgentName      string `json:"agentName"`
		ToolCallID     string `json:"toolCallId"`
		SubAgentThread string `json:"sub_agent_thread_id"`
	}
	// ChildToolCall is the payload of agent.EventSubAgentToolCall.
	ChildToolCall struct {
		AgentID        string          `json:"agentId"`
		ToolCallID     string          `json:"toolCallId"`
		ToolName       string          `json:"toolName"`
		Arguments      json.RawMessage `json:"arguments"`
		ParentToolCall string          `json:"parentToolCallId"`
	}
	// ChildToolResult is the payload of agent.EventSubAgentToolResult.
	ChildToolResult struct {
		AgentID        string           `json:"agentId"`
		ToolCallID     string           `json:"toolCallId"`
		ToolName       string           `json:"toolName"`
		DurationMs     int64            `json:"durationMs"`
		Status         agent.CallStatus `json:"status"`
		ParentToolCall string           `json:"parentToolCallId"`
	}
	// ChildCompleted is the payload of agent.EventSubAgentCompleted.
	ChildCompleted struct {
		AgentID        string             `json:"agentId"`
		AgentName      string             `json:"agentName"`
		Status         agent.ThreadStatus `json:"status"`
		Reason         agent.Reason       `json:"reason,omitempty"`
		Result         string             `json:"result"`
		DurationMs     int64              `json:"durationMs"`
		ParentToolCall string             `json:"parentToolCallId"`
		SubAgentThread string             `json:"sub_agent_thread_id"`
	}
	childMetrics struct {
		AgentID        string       `json:"agentId"`
		Metrics        childNumbers `json:"metrics"`
		ParentToolCall string       `json:"parentToolCallId"`
	}
	childNumbers struct {
		DurationMs int64       `json:"durationMs"`
		Usage      agent.Usage `json:"usage"`
	}
)

// InsertEvent is the payload of an event.
const InsertEvent = `INSERT INTO events (thread_id, seq, type, turn_id, data, at) VALUES (?, ?, ?, ?, ?, ?)`

// Warn appends what people should know of a turn.
func (u *Unit) Warn(t *Thread, turn *Turn, warnings []agent.Warning) {
	for _, w := range warnings {
		w.Message = Clean(w.Message)
		u.Event(t, turn.ID, agent.EventWarning, w)
	}
}

// Event appends to a thread's log.
func (u *Unit) Event(t *Thread, turnID, typ string, data any) {
	body := Must(Encode(data))
	t.Touch()
	t.LastEvent++
	u.Exec(InsertEvent, t.ID, t.LastEvent, typ, turnID, body, t.At)
}

// JSONArgs makes a call's arguments a JSON value: nothing is an empty object, what is
// not JSON a string, and also what is too deep or long to stand in other documents.
func JSONArgs(arguments string) json.RawMessage {
	if arguments == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(arguments)) && agent.Said.Check([]byte(arguments)) == nil {
		return json.RawMessage(arguments)
	}
	text, err := Encode(arguments)
	if err != nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(text)
}

// SmallArgs is JSONArgs cut to what fits into a parent's event.
func SmallArgs(args json.RawMessage) json.RawMessage {
	if len(args) <= childText {
		return args
	}
	text, err := Encode(Short(string(args), childText) + "…")
	if err != nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(text)
}

// ToParent appends an event about a child's turn to its delegator's log.
func (u *Unit) ToParent(child *Turn, typ string, data any) {
	u.Event(u.Thread(child.DelegatorThread), child.DelegatorTurn, typ, data)
}

// ChildEnded appends sub_agent_completed and sub_agent_metrics to the delegator's log.
func (u *Unit) ChildEnded(child *Turn) {
	th := u.Thread(child.ThreadID)
	result := child.Answer
	if child.Outcome != agent.ThreadCompleted {
		result = child.Error
	}
	took := child.ClosedMs - child.OpenedMs
	u.ToParent(child, agent.EventSubAgentCompleted, ChildCompleted{
		AgentID: th.AgentID, AgentName: th.AgentType, Status: child.Outcome, Reason: child.Reason, Result: Short(result, childText), DurationMs: took,
		ParentToolCall: child.DelegatorCall, SubAgentThread: th.ID,
	})
	u.ToParent(child, agent.EventSubAgentMetrics, childMetrics{
		AgentID: th.AgentID, Metrics: childNumbers{DurationMs: took, Usage: child.Usage}, ParentToolCall: child.DelegatorCall,
	})
}

// ChildNeverBegan appends sub_agent_completed for work that a child has not begun.
func (u *Unit) ChildNeverBegan(e *Entry, status agent.ThreadStatus, why string) {
	th := u.Thread(e.ThreadID)
	u.Event(u.Thread(e.DelegatorThread), e.DelegatorTurn, agent.EventSubAgentCompleted, ChildCompleted{
		AgentID: th.AgentID, AgentName: th.AgentType, Status: status, Result: Short(why, childText), ParentToolCall: e.CallID, SubAgentThread: th.ID,
	})
}

// Outcome is the end of a child's turn in the vocabulary of agent.
func (u *Unit) Outcome(child *Turn) agent.SpecialistAgentResult {
	th := u.Thread(child.ThreadID)
	return agent.SpecialistAgentResult{
		AgentType: th.AgentType, AgentID: th.AgentID, ThreadID: th.ID, Status: child.Outcome, Reason: child.Reason, Error: child.Error,
		Duration: time.Duration(child.ClosedMs-child.OpenedMs) * time.Millisecond, Usage: child.Usage, Answer: child.Answer,
		Background: child.Background,
	}
}

// Event is an event as it is stored.
type Event struct {
	agent.Event
	DataText string
	AtMs     int64
}

// SelectEvent begins a query for events.
const SelectEvent = `SELECT thread_id, seq, type, turn_id, data, at FROM events`

// Targets are where a row's columns are read to, in their order.
func (e *Event) Targets() []any {
	return []any{&e.ThreadID, &e.Seq, &e.Type, &e.TurnID, &e.DataText, &e.AtMs}
}

// Written is a thread's log with its turns and calls, in their order.
func (u *Unit) Written(threadID string) (log []*Event, turns []*Turn, calls []*Call) {
	log = Find(u, (*Event).Targets, nil, SelectEvent+` WHERE thread_id = ? ORDER BY seq`, threadID)
	turns = Find(u, (*Turn).Targets, (*Turn).Loaded, SelectTurn+` WHERE thread_id = ? ORDER BY n`, threadID)
	calls = Find(u, (*Call).Targets, (*Call).Loaded, SelectCall+` WHERE thread_id = ? ORDER BY created_at, turn_id, step, idx`, threadID)
	return log, turns, calls
}
