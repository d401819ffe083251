package memory

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/jsontime"
)

const (
	// metadataPrefix and a key are the key of its metadata.
	metadataPrefix = "__metadata__:"
	// oldMetadataPrefix was written by older programs.
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
	// SummarizedFrom is the key of the conversation this one continues in short.
	SummarizedFrom string `json:"summarizedFrom,omitempty"`
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
	b   Batch[json.RawMessage]
	now func() time.Time
}

func (c conversations) messages(key string) ([]agent.Message, error) {
	items, err := c.b.Get(key)
	if err != nil {
		return nil, err
	}
	out := make([]agent.Message, len(items))
	for i, item := range items {
		if err := jsontime.Unmarshal(item, &out[i]); err != nil {
			return nil, agent.Wrap(err, agent.CodeInternal, "conversation %q: item %d is not a message: export the key and repair it", key, i+1)
		}
	}
	return out, nil
}

// metadata returns what is stored about a conversation, and whether anything is.
func (c conversations) metadata(key string) (ConversationMetadata, bool, error) {
	items, err := c.b.Get(MetadataKey(key))
	if err != nil || len(items) == 0 {
		return ConversationMetadata{}, false, err
	}
	var m ConversationMetadata
	if err := jsontime.Unmarshal(items[len(items)-1], &m); err != nil {
		return ConversationMetadata{}, false, agent.Wrap(err, agent.CodeInternal, "conversation %q: its metadata cannot be read: export the key and repair it", key)
	}
	return m, true, nil
}

// complete makes what is not stored from the messages: their number always,
// times where there are none.
func complete(m *ConversationMetadata, messages []agent.Message) {
	m.MessageCount = int64(len(messages))
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

func (c conversations) get(key string) (Conversation, error) {
	messages, err := c.messages(key)
	if err != nil {
		return Conversation{}, err
	}
	m, _, err := c.metadata(key)
	if err != nil {
		return Conversation{}, err
	}
	complete(&m, messages)
	return Conversation{Messages: messages, Metadata: m}, nil
}

func (c conversations) putMetadata(key string, m ConversationMetadata) error {
	item, err := compact(m)
	if err != nil {
		return err
	}
	return c.b.Set(MetadataKey(key), []json.RawMessage{item})
}

func rawMessages(messages []agent.Message) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		item, err := compact(m)
		if err != nil {
			return nil, agent.Wrap(err, agent.CodeInvalid, "message %d (%q) cannot be written as JSON; nothing was changed", i+1, m.ID)
		}
		out[i] = item
	}
	return out, nil
}

// set replaces a conversation. Metadata without times gets them from the
// messages, and from the clock if those have none.
func (c conversations) set(key string, v Conversation) error {
	items, err := rawMessages(v.Messages)
	if err != nil {
		return err
	}
	if err := c.b.Set(key, items); err != nil {
		return err
	}
	complete(&v.Metadata, v.Messages)
	c.stamp(&v.Metadata)
	return c.putMetadata(key, v.Metadata)
}

func (c conversations) stamp(m *ConversationMetadata) {
	now := c.now().UTC()
	if m.CreatedAt.IsZero() {
		m.CreatedAt = now
	}
	if m.UpdatedAt.IsZero() {
		m.UpdatedAt = now
	}
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
	n, err := c.b.Len(key)
	if err != nil {
		return err
	}
	m.UpdatedAt = c.now().UTC()
	f(&m)
	m.MessageCount = int64(n)
	c.stamp(&m)
	return c.putMetadata(key, m)
}

// append adds messages that are not there yet, and counts.
func (c conversations) append(key string, messages []agent.Message) error {
	items, err := rawMessages(messages)
	if err != nil {
		return err
	}
	added, err := c.b.Append(key, items...)
	if err != nil || added == 0 {
		return err
	}
	return c.change(key, func(*ConversationMetadata) {})
}

func (c conversations) remove(key string) error {
	if err := c.b.Delete(key); err != nil {
		return err
	}
	return c.b.Delete(MetadataKey(key))
}

// list returns the conversations whose key is wanted, newest activity first.
func (c conversations) list(wanted func(key string) bool) ([]ConversationInfo, error) {
	keys, err := c.b.Keys()
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
		info, err := c.info(key)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	slices.SortStableFunc(out, func(a, b ConversationInfo) int {
		if n := b.Metadata.UpdatedAt.Compare(a.Metadata.UpdatedAt); n != 0 {
			return n
		}
		return strings.Compare(a.Key, b.Key)
	})
	return out, nil
}

// info reads the messages only of a conversation without metadata.
func (c conversations) info(key string) (ConversationInfo, error) {
	m, stored, err := c.metadata(key)
	if err != nil {
		return ConversationInfo{}, err
	}
	if !stored {
		v, err := c.get(key)
		return ConversationInfo{Key: key, Metadata: v.Metadata}, err
	}
	n, err := c.b.Len(key)
	m.MessageCount = int64(n)
	return ConversationInfo{Key: key, Metadata: m}, err
}
