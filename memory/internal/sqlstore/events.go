package sqlstore

import (
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
)

// eventResult is the longest result that a tool_response event repeats; a longer
// one is referred to by its message.
const eventResult = 2048

// childText bounds what the events on a parent repeat of its child.
const childText = 1024

// Payloads of the events, as CHECKLIST appendix B names their fields.
type (
	messageStarted struct {
		Content   agent.Content `json:"content"`
		ToolNames []string      `json:"toolNames"`
	}
	toolCalls struct {
		ToolCalls []agent.Call `json:"toolCalls"`
		Usage     *agent.Usage `json:"usage,omitempty"`
	}
	streamFinish struct {
		MessageID    string      `json:"messageId"`
		FinishReason string      `json:"finishReason"`
		Usage        agent.Usage `json:"usage"`
		// Model is the one that answered, as its provider names it.
		Model string `json:"model,omitempty"`
	}
	toolCall struct {
		Intent         string          `json:"intent"`
		Arguments      json.RawMessage `json:"arguments"`
		ToolCallID     string          `json:"toolCallId"`
		SubAgentThread string          `json:"sub_agent_thread_id,omitempty"`
		// Gate is set if the call does not run by itself.
		Gate agent.Gate `json:"gate,omitempty"`
	}
	approvalCall struct {
		ID       string          `json:"id"`
		ToolName string          `json:"toolName"`
		Args     json.RawMessage `json:"args"`
	}
	approvalRequired struct {
		ApprovalID string         `json:"approvalId"`
		ToolCalls  []approvalCall `json:"toolCalls"`
		Agent      string         `json:"agent"`
		ThreadID   string         `json:"threadId"`
	}
	approvalResponse struct {
		ApprovalID      string   `json:"approvalId"`
		Decision        string   `json:"decision"`
		ApprovedCalls   []string `json:"approvedCalls,omitempty"`
		EditInstruction string   `json:"editInstruction,omitempty"`
		ThreadID        string   `json:"threadId"`
	}
	questionAsked struct {
		QuestionID string `json:"questionId"`
		Agent      string `json:"agent"`
		Text       string `json:"text"`
		TaskID     string `json:"taskId,omitempty"`
		Task       string `json:"task,omitempty"`
		ToolCallID string `json:"toolCallId"`
		ThreadID   string `json:"threadId"`
	}
	questionAnswered struct {
		QuestionID string `json:"questionId"`
		AnsweredBy string `json:"answeredBy"`
		State      string `json:"state"`
		Agent      string `json:"agent"`
		Answer     string `json:"answer,omitempty"`
		ThreadID   string `json:"threadId"`
	}
	toolResponse struct {
		ToolCallID     string            `json:"toolCallId"`
		Name           string            `json:"name"`
		Status         agent.CallStatus  `json:"status"`
		Result         *string           `json:"result,omitempty"`
		ResultRef      string            `json:"resultRef,omitempty"`
		ErrorReason    agent.ErrorReason `json:"errorReason,omitempty"`
		DurationMs     int64             `json:"durationMs"`
		SubAgentThread string            `json:"sub_agent_thread_id,omitempty"`
	}
	assistantMessage struct {
		MessageID string        `json:"messageId"`
		Content   agent.Content `json:"content"`
		Usage     *agent.Usage  `json:"usage,omitempty"`
	}
	memoryAppended struct {
		FromSeq int64 `json:"fromSeq"`
		ToSeq   int64 `json:"toSeq"`
	}
	turnDone struct {
		ResponseTimeMs int64       `json:"responseTimeMs"`
		Usage          agent.Usage `json:"usage"`
	}
	contextSummary struct {
		ReplacesFrom int64  `json:"replacesFrom"`
		ReplacesTo   int64  `json:"replacesTo"`
		Summary      string `json:"summary"`
	}
	turnError struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
	}
)

// Payloads of the events on a parent about its child. parentToolCallId tells
// parallel children of one type apart.
type (
	childStarted struct {
		AgentID        string `json:"agentId"`
		AgentName      string `json:"agentName"`
		ToolCallID     string `json:"toolCallId"`
		SubAgentThread string `json:"sub_agent_thread_id"`
	}
	childToolCall struct {
		AgentID        string          `json:"agentId"`
		ToolCallID     string          `json:"toolCallId"`
		ToolName       string          `json:"toolName"`
		Arguments      json.RawMessage `json:"arguments"`
		ParentToolCall string          `json:"parentToolCallId"`
	}
	childToolResult struct {
		AgentID        string           `json:"agentId"`
		ToolCallID     string           `json:"toolCallId"`
		ToolName       string           `json:"toolName"`
		DurationMs     int64            `json:"durationMs"`
		Status         agent.CallStatus `json:"status"`
		ParentToolCall string           `json:"parentToolCallId"`
	}
	childCompleted struct {
		AgentID        string             `json:"agentId"`
		AgentName      string             `json:"agentName"`
		Status         agent.ThreadStatus `json:"status"`
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

const insertEvent = `INSERT INTO events (thread_id, seq, type, turn_id, data, at) VALUES (?, ?, ?, ?, ?, ?)`

// warn appends what people should know of a turn.
func (u *unit) warn(t *threadRow, turn *turnRow, warnings []agent.Warning) error {
	for _, w := range warnings {
		w.Message = clean(w.Message)
		if err := u.event(t, turn.ID, agent.EventWarning, w); err != nil {
			return err
		}
	}
	return nil
}

// event appends to a thread's log.
func (u *unit) event(t *threadRow, turnID, typ string, data any) error {
	body, err := encode(data)
	if err != nil {
		return err
	}
	t.touch()
	t.lastEvent++
	return u.exec(insertEvent, t.ID, t.lastEvent, typ, turnID, body, t.at)
}

// jsonArgs makes a call's arguments a JSON value: nothing is an empty object,
// what is not JSON a string.
func jsonArgs(arguments string) json.RawMessage {
	if arguments == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(arguments)) {
		return json.RawMessage(arguments)
	}
	text, err := encode(arguments)
	if err != nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(text)
}

// smallArgs is jsonArgs cut to what fits into a parent's event.
func smallArgs(args json.RawMessage) json.RawMessage {
	if len(args) <= childText {
		return args
	}
	text, err := encode(short(string(args), childText) + "…")
	if err != nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(text)
}

// toParent appends an event about a child's turn to its delegator's log.
func (u *unit) toParent(child *turnRow, typ string, data any) error {
	parent, err := u.thread(child.DelegatorThread)
	if err != nil {
		return err
	}
	return u.event(parent, child.DelegatorTurn, typ, data)
}

// childEnded appends sub_agent_completed and sub_agent_metrics to the delegator's log.
func (u *unit) childEnded(child *turnRow) error {
	th, err := u.thread(child.ThreadID)
	if err != nil {
		return err
	}
	result := child.Answer
	if child.Outcome != agent.ThreadCompleted {
		result = child.Error
	}
	took := child.closedMs - child.opened
	err = u.toParent(child, agent.EventSubAgentCompleted, childCompleted{
		AgentID: th.AgentID, AgentName: th.AgentType, Status: child.Outcome, Result: short(result, childText), DurationMs: took,
		ParentToolCall: child.DelegatorCall, SubAgentThread: th.ID,
	})
	if err != nil {
		return err
	}
	return u.toParent(child, agent.EventSubAgentMetrics, childMetrics{
		AgentID: th.AgentID, Metrics: childNumbers{DurationMs: took, Usage: child.Usage}, ParentToolCall: child.DelegatorCall,
	})
}

// outcome is the end of a child's turn in the vocabulary of agent.
func (u *unit) outcome(child *turnRow) (agent.SpecialistAgentResult, error) {
	th, err := u.thread(child.ThreadID)
	if err != nil {
		return agent.SpecialistAgentResult{}, err
	}
	return agent.SpecialistAgentResult{
		AgentType: th.AgentType, AgentID: th.AgentID, ThreadID: th.ID, Status: child.Outcome, Reason: child.Reason, Error: child.Error,
		Duration: time.Duration(child.closedMs-child.opened) * time.Millisecond, Usage: child.Usage, Answer: child.Answer,
		Background: child.Background,
	}, nil
}
