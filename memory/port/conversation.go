package port

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
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

// conversations is a unit of work on conversations. It ends at its first error (package
// steps).
type conversations struct {
	r   Records
	now func() time.Time
}

// view runs f on the conversations of one moment, update as their only writer.
func view(ctx context.Context, p MemoryPersistence, now func() time.Time, f func(c conversations)) error {
	return p.View(ctx, func(r Records) error { return steps.Run(func() { f(conversations{r, now}) }) })
}

func update(ctx context.Context, p MemoryPersistence, now func() time.Time, f func(c conversations)) error {
	return p.Update(ctx, func(r Records) error { return steps.Run(func() { f(conversations{r, now}) }) })
}

func (c conversations) messages(key string) []agent.Message {
	items := steps.Must(c.r.Get(key))
	out := make([]agent.Message, len(items))
	for i, item := range items {
		steps.Check(agent.Wrap(jsontime.Unmarshal(item.Body, &out[i]), agent.CodeInternal, "conversation %q: item %d is not a message: export the key and repair it", key, i+1))
	}
	return out
}

// metadata returns what is stored about a conversation, and whether anything is.
// The number of messages is counted.
func (c conversations) metadata(key string) (m ConversationMetadata, stored bool) {
	items := steps.Must(c.r.Get(MetadataKey(key)))
	if stored = len(items) > 0; stored {
		steps.Check(agent.Wrap(jsontime.Unmarshal(items[len(items)-1].Body, &m), agent.CodeInternal, "conversation %q: its metadata cannot be read: export the key and repair it", key))
	}
	m.MessageCount = int64(steps.Must(c.r.Len(key)))
	return m, stored
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

func (c conversations) get(key string) (v Conversation, stored bool) {
	v.Messages = c.messages(key)
	v.Metadata, stored = c.metadata(key)
	complete(&v.Metadata, v.Messages)
	return v, stored
}

// putMetadata stores metadata; times that nothing tells are the clock's.
func (c conversations) putMetadata(key string, m ConversationMetadata) {
	now := c.now().UTC()
	if m.CreatedAt.IsZero() {
		m.CreatedAt = now
	}
	if m.UpdatedAt.IsZero() {
		m.UpdatedAt = now
	}
	steps.Check(set(c.r, MetadataKey(key), []ConversationMetadata{m}))
}

func (c conversations) set(key string, v Conversation) {
	steps.Check(set(c.r, key, v.Messages))
	complete(&v.Metadata, v.Messages)
	v.Metadata.MessageCount = int64(len(v.Messages))
	c.putMetadata(key, v.Metadata)
}

// change lets f change the metadata of a conversation; the number of messages
// is that of the rows, whatever f says.
func (c conversations) change(key string, f func(*ConversationMetadata)) {
	m, stored := c.metadata(key)
	if !stored { // only once: from then on it is
		complete(&m, c.messages(key))
	}
	n := m.MessageCount
	m.UpdatedAt = c.now().UTC()
	f(&m)
	m.MessageCount = n
	c.putMetadata(key, m)
}

func (c conversations) remove(key string) {
	steps.Check(c.r.Put(key, nil))
	steps.Check(c.r.Put(MetadataKey(key), nil))
}

// list returns the conversations whose key is wanted, newest activity first. It
// reads the messages only of those without metadata.
func (c conversations) list(wanted func(key string) bool) []ConversationInfo {
	seen := map[string]bool{}
	out := []ConversationInfo{}
	for _, key := range steps.Must(c.r.Keys()) {
		key = strings.TrimPrefix(key, metadataPrefix)
		if seen[key] || !wanted(key) {
			continue
		}
		seen[key] = true
		m, stored := c.metadata(key)
		if !stored {
			v, _ := c.get(key)
			m = v.Metadata
		}
		out = append(out, ConversationInfo{Key: key, Metadata: m})
	}
	slices.SortStableFunc(out, func(a, b ConversationInfo) int {
		return cmp.Or(b.Metadata.UpdatedAt.Compare(a.Metadata.UpdatedAt), strings.Compare(a.Key, b.Key))
	})
	return out
}
