package port

import (
	"context"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
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
	err = s.p.View(ctx, func(r Records) error {
		v, stored, err := conversations{r, s.now}.get(key)
		if found = stored || len(v.Messages) > 0; found {
			out = AgentSession{AgentType: agentType, AgentID: agentID, Conversation: v}
		}
		return err
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
	return s.p.Update(ctx, func(r Records) error { return conversations{r, s.now}.set(key, session.Conversation) })
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
	err := s.p.View(ctx, func(r Records) error {
		out = []AgentSessionInfo{}
		list, err := conversations{r, s.now}.list(func(key string) bool { return strings.HasPrefix(key, prefix) })
		for _, info := range list {
			if p, err := agent.ParseThreadID(info.Key); err == nil {
				out = append(out, AgentSessionInfo{AgentType: p.AgentType, AgentID: p.AgentID, Metadata: info.Metadata})
			}
		}
		return err
	})
	return out, err
}

// Delete removes a session; one that does not exist is no error.
func (s *AgentSessionStore) Delete(ctx context.Context, agentType, agentID string) error {
	key, err := agentKey(agentType, agentID)
	if err != nil {
		return err
	}
	return s.p.Update(ctx, func(r Records) error { return conversations{r, s.now}.remove(key) })
}
