package port

import (
	"context"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// AgentSession is the conversation of a sub-agent.
type AgentSession struct {
	AgentType string `json:"agentType"`
	AgentID   string `json:"agentId"`
	Conversation
}

// AgentSessionInfo is an entry of a list of sub-agents' sessions.
type AgentSessionInfo struct {
	AgentType string
	AgentID   string
	Metadata  ConversationMetadata
}

// AgentSessionStore keeps the sessions of sub-agents by type and id, under the
// key agent:TYPE:ID, which is their thread id. Each call is one unit. Safe for
// concurrent use. A sub-agent of a running product goes on by assign_task with
// resume, which sees what was saved here.
type AgentSessionStore struct {
	p   MemoryPersistence
	now func() time.Time
}

// NewAgentSessionStore makes a store of sub-agents' sessions, on what a
// ConversationStore may use too. p is its caller's to close.
func NewAgentSessionStore(p MemoryPersistence, o ConversationOptions) *AgentSessionStore {
	return &AgentSessionStore{p: p, now: o.clock()}
}

// agentKey is the key of a session; what is no type or id is refused.
func agentKey(agentType, agentID string) (string, error) {
	key := agent.SubThreadID(agentType, agentID)
	if p, err := agent.ParseThreadID(key); err != nil || p.AgentType != agentType || p.AgentID != agentID {
		return "", agent.Errorf(agent.CodeInvalid, "agent session (%q, %q) is not possible: a type is 1 to 64 of a-z 0-9 -, an id has neither / nor :", agentType, agentID)
	}
	return key, nil
}

// Get returns a session and whether there is one.
func (s *AgentSessionStore) Get(ctx context.Context, agentType, agentID string) (out AgentSession, found bool, err error) {
	key, err := agentKey(agentType, agentID)
	if err != nil {
		return AgentSession{}, false, err
	}
	err = view(ctx, s.p, s.now, func(c conversations) {
		v, stored := c.get(key)
		if found = stored || len(v.Messages) > 0; found {
			out = AgentSession{AgentType: agentType, AgentID: agentID, Conversation: v}
		}
	})
	return out, found, err
}

// Save replaces a session; the number of messages is counted, not taken. A new
// session may be saved before it has any message.
func (s *AgentSessionStore) Save(ctx context.Context, session AgentSession) error {
	key, err := agentKey(session.AgentType, session.AgentID)
	if err != nil {
		return err
	}
	return update(ctx, s.p, s.now, func(c conversations) { c.set(key, session.Conversation) })
}

// List returns the sessions of an agent type, or of all if it is empty, newest
// activity first.
func (s *AgentSessionStore) List(ctx context.Context, agentType string) ([]AgentSessionInfo, error) {
	prefix := agentPrefix
	if agentType != "" {
		if err := agent.CheckAgentType(agentType); err != nil {
			return nil, err
		}
		prefix += agentType + ":"
	}
	var out []AgentSessionInfo
	err := view(ctx, s.p, s.now, func(c conversations) {
		out = []AgentSessionInfo{}
		for _, info := range c.list(func(key string) bool { return strings.HasPrefix(key, prefix) }) {
			if p, err := agent.ParseThreadID(info.Key); err == nil {
				out = append(out, AgentSessionInfo{AgentType: p.AgentType, AgentID: p.AgentID, Metadata: info.Metadata})
			}
		}
	})
	return out, err
}

// Delete removes a session; one that does not exist is no error.
func (s *AgentSessionStore) Delete(ctx context.Context, agentType, agentID string) error {
	key, err := agentKey(agentType, agentID)
	if err != nil {
		return err
	}
	return update(ctx, s.p, s.now, func(c conversations) { c.remove(key) })
}

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
