package rows

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// The columns of these rows, and the SELECT that reads them; a condition follows.
const (
	threadFixed = `user_id,profile,session_id,conversation_id,kind,agent_id,parent_id,root_id,parent_call_id,depth,ordinal,created_at`
	// threadMutable is all that a transaction may change.
	threadMutable = `workdir,agent_type,task_id,status,reason,summary,config_hash,pick_model,open_turn,updated_at,topic,message_count,` +
		`total_tokens,prompt_tokens,completion_tokens,window_prompt,window_completion,window_total,request_count,tool_call_count,` +
		`total_time_ms,total_price,last_event,last_message,last_entry,last_turn,last_child,waiting,` +
		`compactions,summarized_from,summarized_to,no_images`
	threadColumns = threadFixed + `,` + threadMutable + `,id`
	SelectThread  = `SELECT ` + threadColumns + ` FROM threads`
)

// How these rows are written.
var (
	InsertThread = InsertSQL("threads", threadColumns)
	updateThread = updateSQL("threads", threadMutable)
)

// Thread is a thread with its counters. Config is filled by withConfig only.
type Thread struct {
	agent.Thread
	Ordinal     int64
	ConfigHash  string
	PickModel   string
	CreatedMs   int64
	UpdatedMs   int64
	LastEvent   int64
	LastMessage int64
	LastEntry   int64
	LastTurn    int64
	LastChild   int64
	Waiting     int64

	SummaryFrom, SummaryTo int64
	NoImagesText           string // models, one a line

	At    int64 // this transaction's time on this thread: never before what is stored
	Dirty bool
}

// Targets are where a row's columns are read to, in their order.
func (t *Thread) Targets() []any {
	return []any{
		&t.UserID, &t.Profile, &t.SessionID, &t.ConversationID, &t.Kind, &t.AgentID, &t.ParentThreadID, &t.RootThreadID,
		&t.ParentToolCallID, &t.Depth, &t.Ordinal, &t.CreatedMs,
		&t.Workdir, &t.AgentType, &t.TaskID, &t.Status, &t.Reason, &t.Summary, &t.ConfigHash, &t.PickModel, &t.OpenTurnID, &t.UpdatedMs, &t.Topic,
		&t.MessageCount, &t.TotalTokens, &t.PromptTokens, &t.CompletionTokens, &t.ContextWindow.Prompt, &t.ContextWindow.Completion,
		&t.ContextWindow.Total, &t.RequestCount, &t.ToolCallCount, &t.TotalTimeMs, &t.TotalPrice,
		&t.LastEvent, &t.LastMessage, &t.LastEntry, &t.LastTurn, &t.LastChild, &t.Waiting, &t.Compactions, &t.SummaryFrom, &t.SummaryTo, &t.NoImagesText, &t.ID,
	}
}

// Loaded derives the fields that are not columns.
func (t *Thread) Loaded() {
	t.ChatID, t.NoImages = t.RootThreadID, strings.Fields(t.NoImagesText)
	t.CreatedAt, t.UpdatedAt = Stamp(t.CreatedMs), Stamp(t.UpdatedMs)
	if t.SummaryTo > 0 {
		t.SummarizedFrom = agent.MessageRange(t.ID, t.SummaryFrom, t.SummaryTo)
	}
}

// Work says what a thread has to do: a turn that is open, and what waits.
func (t *Thread) Work() string {
	if t.OpenTurnID == "" {
		return fmt.Sprintf("%d waiting", t.Waiting)
	}
	return fmt.Sprintf("turn %s open, %d waiting", t.OpenTurnID, t.Waiting)
}

// TurnID is the id of the turn of an inbox entry. The thread's creation is part of it:
// a session that is deleted and made again gets other ids, so that a worker which
// still holds a turn of the deleted one changes nothing.
func (t *Thread) TurnID(entry string, retry int) string {
	return agent.TurnID(t.ID+"@"+strconv.FormatInt(t.CreatedMs, 36), entry, retry)
}

// Touch marks the row as changed now.
func (t *Thread) Touch() {
	t.Dirty = true
	t.UpdatedMs = t.At
	t.UpdatedAt = Stamp(t.At)
}

// Count adds what a model call used to the thread's totals.
func (t *Thread) Count(use agent.Usage) {
	t.Touch()
	t.PromptTokens += use.PromptTokens
	t.CompletionTokens += use.CompletionTokens
	t.TotalTokens += use.TotalTokens
	t.RequestCount += use.Requests
	t.ToolCallCount += use.ToolCalls
	t.TotalPrice += use.Price
}

// Create inserts a new thread, written by this transaction.
func (u *Unit) Create(t *Thread) {
	t.At = u.Now
	t.CreatedMs, t.UpdatedMs = u.Now, u.Now
	u.Exec(InsertThread, Values(t.Targets())...)
	t.Loaded()
	u.Threads = append(u.Threads, t)
}

// View is the thread as callers see it, with its configuration.
func (u *Unit) View(t *Thread) agent.Thread {
	c := u.Store.Config(u, t.ConfigHash)
	v := t.Thread
	v.Config = c
	return v
}

// Ended holds for threads without an open turn that have had one.
const Ended = `status IN ('completed', 'failed', 'cancelled')`

// TopicLength is how much of its first message a conversation is named by.
const TopicLength = 80
