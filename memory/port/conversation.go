package port

import (
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/jsontime"
)

const (
	// metadataPrefix and a key are the key of its metadata.
	metadataPrefix = "__metadata__:"
	// oldMetadataPrefix was written by other programs.
	oldMetadataPrefix = "__metadata__"
	agentPrefix       = "agent:"
)

// Conversation is a list of messages with what is counted about it.
type Conversation struct {
	Messages []agent.Message      `json:"messages"`
	Metadata ConversationMetadata `json:"metadata"`
}

// ConversationMetadata is kept apart from messages, under MetadataKey.
type ConversationMetadata struct {
	agent.Metadata
	CreatedAt time.Time `json:"createdAt,omitzero"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

// RequestMetrics is what one model call, with the tool runs it led to, adds.
type RequestMetrics struct {
	PromptTokens     int64
	CompletionTokens int64
	// TotalTokens is the sum of both if it is 0.
	TotalTokens int64
	ToolCalls   int64
	Time        time.Duration
	Price       float64
}

func (r RequestMetrics) total() int64 {
	if r.TotalTokens != 0 {
		return r.TotalTokens
	}
	return r.PromptTokens + r.CompletionTokens
}

// ConversationInfo is an entry of a list of conversations.
type ConversationInfo struct {
	Key      string
	Metadata ConversationMetadata
}

// MetadataKey is the key under which the metadata of a conversation is kept.
func MetadataKey(key string) string { return metadataPrefix + key }

// checkConversationKey keeps metadata out of the keys of conversations.
func checkConversationKey(key string) error {
	if strings.HasPrefix(key, oldMetadataPrefix) {
		return agent.Errorf(agent.CodeInvalid, "%q is a key of metadata, not of a conversation: leave %q away", key, oldMetadataPrefix)
	}
	if err := CheckKey(key); err != nil {
		return err
	}
	return CheckKey(MetadataKey(key))
}

// isConversation tells keys of people's conversations from those of metadata
// and of sub-agents.
func isConversation(key string) bool {
	return !strings.HasPrefix(key, oldMetadataPrefix) && !strings.HasPrefix(key, agentPrefix)
}

// conversations is a unit of work on conversations.
type conversations struct {
	r   Records
	now func() time.Time
}

func (c conversations) messages(key string) ([]agent.Message, error) {
	items, err := c.r.Get(key)
	if err != nil {
		return nil, err
	}
	out := make([]agent.Message, len(items))
	for i, item := range items {
		if err := jsontime.Unmarshal(item.Body, &out[i]); err != nil {
			return nil, agent.Wrap(err, agent.CodeInternal, "conversation %q: item %d is not a message: export the key and repair it", key, i+1)
		}
	}
	return out, nil
}

// metadata returns what is stored about a conversation, and whether anything is.
// The number of messages is counted.
func (c conversations) metadata(key string) (m ConversationMetadata, stored bool, err error) {
	items, err := c.r.Get(MetadataKey(key))
	if err != nil {
		return m, false, err
	}
	if stored = len(items) > 0; stored {
		if err := jsontime.Unmarshal(items[len(items)-1].Body, &m); err != nil {
			return m, false, agent.Wrap(err, agent.CodeInternal, "conversation %q: its metadata cannot be read: export the key and repair it", key)
		}
	}
	n, err := c.r.Len(key)
	m.MessageCount = int64(n)
	return m, stored, err
}

// complete takes times that are not stored from the messages.
func complete(m *ConversationMetadata, messages []agent.Message) {
	if len(messages) == 0 {
		return
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = messages[0].Timestamp
	}
	if m.UpdatedAt.IsZero() {
		m.UpdatedAt = messages[len(messages)-1].Timestamp
	}
}

func (c conversations) get(key string) (v Conversation, stored bool, err error) {
	if v.Messages, err = c.messages(key); err != nil {
		return v, false, err
	}
	v.Metadata, stored, err = c.metadata(key)
	complete(&v.Metadata, v.Messages)
	return v, stored, err
}

// putMetadata stores metadata; times that nothing tells are the clock's.
func (c conversations) putMetadata(key string, m ConversationMetadata) error {
	now := c.now().UTC()
	if m.CreatedAt.IsZero() {
		m.CreatedAt = now
	}
	if m.UpdatedAt.IsZero() {
		m.UpdatedAt = now
	}
	return set(c.r, MetadataKey(key), []ConversationMetadata{m})
}

// set replaces a conversation.
func (c conversations) set(key string, v Conversation) error {
	if err := set(c.r, key, v.Messages); err != nil {
		return err
	}
	complete(&v.Metadata, v.Messages)
	v.Metadata.MessageCount = int64(len(v.Messages))
	return c.putMetadata(key, v.Metadata)
}

// change lets f change the metadata of a conversation; the number of messages
// is that of the rows, whatever f says.
func (c conversations) change(key string, f func(*ConversationMetadata)) error {
	m, stored, err := c.metadata(key)
	if err != nil {
		return err
	}
	if !stored { // only once: from then on it is
		messages, err := c.messages(key)
		if err != nil {
			return err
		}
		complete(&m, messages)
	}
	n := m.MessageCount
	m.UpdatedAt = c.now().UTC()
	f(&m)
	m.MessageCount = n
	return c.putMetadata(key, m)
}

// append adds messages that are not there yet, and counts.
func (c conversations) append(key string, messages []agent.Message) error {
	added, err := add(c.r, key, messages)
	if err != nil || added == 0 {
		return err
	}
	return c.change(key, func(*ConversationMetadata) {})
}

func (c conversations) remove(key string) error {
	if err := c.r.Put(key, nil); err != nil {
		return err
	}
	return c.r.Put(MetadataKey(key), nil)
}

// list returns the conversations whose key is wanted, newest activity first. It
// reads the messages only of those without metadata.
func (c conversations) list(wanted func(key string) bool) ([]ConversationInfo, error) {
	keys, err := c.r.Keys()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	out := []ConversationInfo{}
	for _, key := range keys {
		key = strings.TrimPrefix(key, metadataPrefix)
		if seen[key] || !wanted(key) {
			continue
		}
		seen[key] = true
		m, stored, err := c.metadata(key)
		if err == nil && !stored {
			var v Conversation
			v, _, err = c.get(key)
			m = v.Metadata
		}
		if err != nil {
			return nil, err
		}
		out = append(out, ConversationInfo{Key: key, Metadata: m})
	}
	slices.SortStableFunc(out, func(a, b ConversationInfo) int {
		if n := b.Metadata.UpdatedAt.Compare(a.Metadata.UpdatedAt); n != 0 {
			return n
		}
		return strings.Compare(a.Key, b.Key)
	})
	return out, nil
}

// recount makes the metadata of a conversation that was imported right.
func (c conversations) recount(key string) error {
	v, stored, err := c.get(key)
	if err != nil || !stored && len(v.Messages) == 0 {
		return err
	}
	return c.putMetadata(key, v.Metadata)
}
