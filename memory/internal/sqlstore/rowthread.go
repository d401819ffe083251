package sqlstore

import (
	"strings"

	"github.com/spool-agents/spool/agent"
)

const (
	threadFixed = `user_id,profile,session_id,conversation_id,kind,agent_id,parent_id,root_id,parent_call_id,depth,ordinal,created_at`
	// threadMutable is all that a transaction may change.
	threadMutable = `workdir,agent_type,task_id,status,reason,summary,config_hash,pick_model,open_turn,updated_at,topic,message_count,` +
		`total_tokens,prompt_tokens,completion_tokens,window_prompt,window_completion,window_total,request_count,tool_call_count,` +
		`total_time_ms,total_price,last_event,last_message,last_entry,last_turn,last_child,waiting,` +
		`compactions,summarized_from,summarized_to,no_images`
	threadColumns = threadFixed + `,` + threadMutable + `,id`
	selectThread  = `SELECT ` + threadColumns + ` FROM threads`
)

var (
	insertThread = insertSQL("threads", threadColumns)
	updateThread = updateSQL("threads", threadMutable)
)

// threadRow is a thread with its counters. Config is filled by withConfig only.
type threadRow struct {
	agent.Thread
	ordinal     int64
	configHash  string
	pickModel   string
	created     int64
	updated     int64
	lastEvent   int64
	lastMessage int64
	lastEntry   int64
	lastTurn    int64
	lastChild   int64
	waiting     int64

	summarizedFrom, summarizedTo int64
	noImages                     string // models, one a line

	at    int64 // this transaction's time on this thread: never before what is stored
	dirty bool
}

func (t *threadRow) targets() []any {
	return []any{
		&t.UserID, &t.Profile, &t.SessionID, &t.ConversationID, &t.Kind, &t.AgentID, &t.ParentThreadID, &t.RootThreadID,
		&t.ParentToolCallID, &t.Depth, &t.ordinal, &t.created,
		&t.Workdir, &t.AgentType, &t.TaskID, &t.Status, &t.Reason, &t.Summary, &t.configHash, &t.pickModel, &t.OpenTurnID, &t.updated, &t.Topic,
		&t.MessageCount, &t.TotalTokens, &t.PromptTokens, &t.CompletionTokens, &t.ContextWindow.Prompt, &t.ContextWindow.Completion,
		&t.ContextWindow.Total, &t.RequestCount, &t.ToolCallCount, &t.TotalTimeMs, &t.TotalPrice,
		&t.lastEvent, &t.lastMessage, &t.lastEntry, &t.lastTurn, &t.lastChild, &t.waiting, &t.Compactions, &t.summarizedFrom, &t.summarizedTo, &t.noImages, &t.ID,
	}
}

func (t *threadRow) fixed() []any {
	return []any{t.UserID, t.Profile, t.SessionID, t.ConversationID, string(t.Kind), t.AgentID, t.ParentThreadID, t.RootThreadID,
		t.ParentToolCallID, t.Depth, t.ordinal, t.created}
}

func (t *threadRow) mutable() []any {
	return []any{
		t.Workdir, t.AgentType, t.TaskID, string(t.Status), string(t.Reason), t.Summary, t.configHash, t.pickModel, t.OpenTurnID, t.updated, t.Topic,
		t.MessageCount, t.TotalTokens, t.PromptTokens, t.CompletionTokens, t.ContextWindow.Prompt, t.ContextWindow.Completion,
		t.ContextWindow.Total, t.RequestCount, t.ToolCallCount, t.TotalTimeMs, t.TotalPrice,
		t.lastEvent, t.lastMessage, t.lastEntry, t.lastTurn, t.lastChild, t.waiting, t.Compactions, t.summarizedFrom, t.summarizedTo, t.noImages,
	}
}

// loaded derives the fields that are not columns.
func (t *threadRow) loaded() {
	t.ChatID, t.NoImages = t.RootThreadID, strings.Fields(t.noImages)
	t.CreatedAt, t.UpdatedAt = stamp(t.created), stamp(t.updated)
	if t.summarizedTo > 0 {
		t.SummarizedFrom = agent.MessageRange(t.ID, t.summarizedFrom, t.summarizedTo)
	}
}

// touch marks the row as changed now.
func (t *threadRow) touch() {
	t.dirty = true
	t.updated = t.at
	t.UpdatedAt = stamp(t.at)
}

// count adds what a model call used to the thread's totals.
func (t *threadRow) count(use agent.Usage) {
	t.touch()
	t.PromptTokens += use.PromptTokens
	t.CompletionTokens += use.CompletionTokens
	t.TotalTokens += use.TotalTokens
	t.RequestCount += use.Requests
	t.ToolCallCount += use.ToolCalls
	t.TotalPrice += use.Price
}

// create inserts a new thread, written by this transaction.
func (u *unit) create(t *threadRow) error {
	t.at = u.now
	t.created, t.updated = u.now, u.now
	if err := u.exec(insertThread, append(append(t.fixed(), t.mutable()...), t.ID)...); err != nil {
		return err
	}
	t.loaded()
	u.threads = append(u.threads, t)
	return nil
}

// view is the thread as callers see it, with its configuration.
func (u *unit) view(t *threadRow) (agent.Thread, error) {
	c, err := u.s.config(u, t.configHash)
	if err != nil {
		return agent.Thread{}, err
	}
	v := t.Thread
	v.Config = c
	return v, nil
}
