package port

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
)

// ConversationOptions of a ConversationStore or an AgentSessionStore; the zero
// value is what programs use.
type ConversationOptions struct {
	// Now is the clock, for tests; nil = the system's.
	Now func() time.Time
}

func (o ConversationOptions) clock() func() time.Time {
	if o.Now != nil {
		return o.Now
	}
	return time.Now
}

// ConversationStore keeps conversations by keys (a thread id, or a name such as
// "cli"): messages under the key, metadata under MetadataKey of it, both changed in
// the same write. Each call is one unit. Safe for concurrent use.
type ConversationStore struct {
	p   MemoryPersistence
	now func() time.Time
}

// NewConversationStore makes a store of conversations. p is its caller's to close.
func NewConversationStore(p MemoryPersistence, o ConversationOptions) *ConversationStore {
	return &ConversationStore{p: p, now: o.clock()}
}

func (s *ConversationStore) update(ctx context.Context, key string, f func(c conversations)) error {
	if err := checkConversationKey(key); err != nil {
		return err
	}
	return update(ctx, s.p, s.now, f)
}

// GetConversation returns messages and metadata. A conversation that does not
// exist is empty. Where no times are stored they are those of the first and the
// last message.
func (s *ConversationStore) GetConversation(ctx context.Context, key string) (out Conversation, err error) {
	if err := checkConversationKey(key); err != nil {
		return Conversation{}, err
	}
	err = view(ctx, s.p, s.now, func(c conversations) { out, _ = c.get(key) })
	return out, err
}

// SetConversation replaces messages and metadata; the number of messages is
// counted, not taken.
func (s *ConversationStore) SetConversation(ctx context.Context, key string, v Conversation) error {
	return s.update(ctx, key, func(c conversations) { c.set(key, v) })
}

// AppendMessages adds messages behind those that are there and counts anew. It
// is idempotent by message id, see MemoryPort.Append; a repetition changes nothing.
func (s *ConversationStore) AppendMessages(ctx context.Context, key string, messages ...agent.Message) error {
	return s.update(ctx, key, func(c conversations) {
		if steps.Must(add(c.r, key, messages)) > 0 {
			c.change(key, func(*ConversationMetadata) {})
		}
	})
}

// UpdateMetadata lets f change the metadata. f may run more than once.
func (s *ConversationStore) UpdateMetadata(ctx context.Context, key string, f func(*ConversationMetadata)) error {
	return s.update(ctx, key, func(c conversations) { c.change(key, f) })
}

// IncrementTokens adds to the totals of tokens.
func (s *ConversationStore) IncrementTokens(ctx context.Context, key string, prompt, completion int64) error {
	return s.UpdateMetadata(ctx, key, func(m *ConversationMetadata) {
		m.PromptTokens += prompt
		m.CompletionTokens += completion
		m.TotalTokens += prompt + completion
	})
}

// RecordRequestMetrics adds a model call to the totals and makes it the size of
// the context window.
func (s *ConversationStore) RecordRequestMetrics(ctx context.Context, key string, r RequestMetrics) error {
	return s.UpdateMetadata(ctx, key, func(m *ConversationMetadata) {
		m.PromptTokens += r.PromptTokens
		m.CompletionTokens += r.CompletionTokens
		m.TotalTokens += r.total()
		m.RequestCount++
		m.ToolCallCount += r.ToolCalls
		m.TotalTimeMs += r.Time.Milliseconds()
		m.TotalPrice += r.Price
		m.ContextWindow = agent.ContextWindow{Prompt: r.PromptTokens, Completion: r.CompletionTokens, Total: r.total()}
	})
}

// UpdateTopic sets the topic.
func (s *ConversationStore) UpdateTopic(ctx context.Context, key, topic string) error {
	return s.UpdateMetadata(ctx, key, func(m *ConversationMetadata) { m.Topic = topic })
}

// DeleteConversation removes messages and metadata.
func (s *ConversationStore) DeleteConversation(ctx context.Context, key string) error {
	return s.update(ctx, key, func(c conversations) { c.remove(key) })
}

// ListConversations returns people's conversations, newest activity first; none
// of sub-agents, no metadata.
func (s *ConversationStore) ListConversations(ctx context.Context) (out []ConversationInfo, err error) {
	err = view(ctx, s.p, s.now, func(c conversations) {
		out = c.list(func(key string) bool {
			return !strings.HasPrefix(key, oldMetadataPrefix) && !strings.HasPrefix(key, agentPrefix)
		})
	})
	return out, err
}

// ExportSnapshot returns everything: conversations, sub-agents, metadata.
func (s *ConversationStore) ExportSnapshot(ctx context.Context) (MemorySnapshot[json.RawMessage], error) {
	return NewPersistedMemory[json.RawMessage](s.p).ExportSnapshot(ctx)
}

// ImportSnapshot sets every key of a snapshot and counts anew. Metadata under
// the older "__metadata__KEY" becomes "__metadata__:KEY"; what is in the
// newer form wins. A snapshot with anything in it that is no message changes
// nothing.
func (s *ConversationStore) ImportSnapshot(ctx context.Context, snapshot MemorySnapshot[json.RawMessage]) error {
	named := MemorySnapshot[json.RawMessage]{}
	for _, key := range slices.Sorted(maps.Keys(snapshot)) {
		name := key
		if rest, old := strings.CutPrefix(key, oldMetadataPrefix); old && !strings.HasPrefix(key, metadataPrefix) {
			name = MetadataKey(rest)
			if _, newer := snapshot[name]; newer {
				continue
			}
		}
		named[name] = snapshot[key]
	}
	return update(ctx, s.p, s.now, func(c conversations) {
		for key, items := range named {
			steps.Check(set(c.r, key, items))
		}
		for key := range named {
			key = strings.TrimPrefix(key, metadataPrefix)
			if v, stored := c.get(key); stored || len(v.Messages) > 0 {
				c.putMetadata(key, v.Metadata)
			}
		}
	})
}
