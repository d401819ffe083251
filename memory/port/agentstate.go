package port

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// AgentState is what a sub-agent did last, or does now.
type AgentState struct {
	ThreadID       string             `json:"threadId"`
	AgentID        string             `json:"agentId"`
	AgentType      string             `json:"agentType"`
	ParentThreadID string             `json:"parentThreadId"`
	RootThreadID   string             `json:"rootThreadId"`
	TaskID         string             `json:"taskId"`
	Description    string             `json:"description,omitempty"`
	Status         agent.ThreadStatus `json:"status"`
	Reason         agent.Reason       `json:"reason,omitempty"`
	// Of the latest turn; a sub-agent that is pending has had none.
	StartedAt *time.Time  `json:"startedAt,omitempty"`
	EndedAt   *time.Time  `json:"endedAt,omitempty"`
	Result    string      `json:"result,omitempty"`
	Error     string      `json:"error,omitempty"`
	Usage     agent.Usage `json:"usage"`
	Turns     int         `json:"turns"`
}

// AgentStateManager is a view of a store: which sub-agents there are, what they
// do and how they ended. It holds no state of its own, so it shows the same in
// every process and after a restart.
type AgentStateManager struct {
	Store memory.ConversationMemoryStore
	// UserID bounds the view to one user's sub-agents; empty shows all.
	UserID string
}

// Get returns a sub-agent, named by its thread id or agent id.
func (m AgentStateManager) Get(ctx context.Context, id string) (AgentState, error) {
	th, err := m.Store.Thread(ctx, m.UserID, agent.ThreadOfAgent(id))
	if err != nil {
		return AgentState{}, err
	}
	return m.state(ctx, th)
}

// GetAll lists all sub-agents but those that Cleanup removed, latest activity first.
func (m AgentStateManager) GetAll(ctx context.Context) ([]AgentState, error) {
	return m.list(ctx, memory.ThreadFilter{})
}

// GetRunning lists the sub-agents that are at work, wait for a person, or are
// about to begin.
func (m AgentStateManager) GetRunning(ctx context.Context) ([]AgentState, error) {
	return m.list(ctx, memory.ThreadFilter{Working: true})
}

// GetByParent lists the sub-agents that a thread has made.
func (m AgentStateManager) GetByParent(ctx context.Context, parentThreadID string) ([]AgentState, error) {
	return m.list(ctx, memory.ThreadFilter{Parent: parentThreadID})
}

// Cleanup takes sub-agents that ended longer than maxAge ago from the lists and
// returns how many. Their threads stay: they can be read, traced and resumed,
// and a resume brings them back.
func (m AgentStateManager) Cleanup(ctx context.Context, maxAge time.Duration) (int, error) {
	return m.Store.CleanUp(ctx, m.UserID, maxAge)
}

func (m AgentStateManager) list(ctx context.Context, f memory.ThreadFilter) ([]AgentState, error) {
	f.UserID, f.SubAgents = m.UserID, true
	threads, err := m.Store.Threads(ctx, f)
	if err != nil {
		return nil, err
	}
	states := make([]AgentState, len(threads))
	for i, th := range threads {
		if states[i], err = m.state(ctx, th); err != nil {
			return nil, err
		}
	}
	return states, nil
}

func (m AgentStateManager) state(ctx context.Context, th agent.Thread) (AgentState, error) {
	s := AgentState{
		ThreadID: th.ID, AgentID: th.AgentID, AgentType: th.AgentType, ParentThreadID: th.ParentThreadID, RootThreadID: th.RootThreadID,
		TaskID: th.TaskID, Description: th.Topic, Status: th.Status, Reason: th.Reason,
	}
	turns, err := m.Store.TurnsOf(ctx, th.ID)
	if err != nil || len(turns) == 0 {
		return s, err
	}
	last := turns[len(turns)-1]
	s.StartedAt, s.EndedAt, s.Turns = &last.OpenedAt, last.ClosedAt, len(turns)
	s.Result, s.Error, s.Usage = last.Answer, last.Error, last.Usage
	return s, nil
}
