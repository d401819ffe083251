package follow

import (
	"context"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
)

func messagesOf(ctx context.Context, store memory.Reader, sub bool, e agent.Event) []agent.Message {
	switch e.Type {
	case agent.EventMemoryAppended:
		return appended(ctx, store, sub, e)
	case agent.EventMessageStarted:
		return superseded(ctx, store, sub, e)
	}
	return nil
}

func appended(ctx context.Context, store memory.Reader, sub bool, e agent.Event) []agent.Message {
	d := read(&e)
	if d.FromSeq < 1 || d.ToSeq < d.FromSeq {
		return nil // an event without a range has no messages
	}
	out := steps.Must(store.Messages(ctx, e.ThreadID, d.FromSeq-1, int(d.ToSeq-d.FromSeq+1)))
	for i := range out {
		if sub {
			out[i].SubAgentID = e.ThreadID
		} else {
			out[i].MessageID = sentAs(ctx, store, e.ThreadID, out[i])
		}
	}
	return out
}

// sentAs is the id that its sender gave to a person's message; "" for others.
func sentAs(ctx context.Context, store memory.Reader, threadID string, m agent.Message) string {
	if !fromPerson(&m) {
		return ""
	}
	if turn, there := steps.Found(store.Turn(ctx, m.TurnID)); there && m.ID == agent.MessageID(turn.ID, 0) {
		return turn.MessageID
	}
	one := []agent.Message{m} // it was taken into a running turn
	steps.Check(NameSenders(ctx, store, threadID, one))
	return one[0].MessageID
}

// superseded is the answer that a turn, if it is a retry, makes void: the message
// saved last before it began.
func superseded(ctx context.Context, store memory.Reader, sub bool, e agent.Event) []agent.Message {
	if turn, there := steps.Found(store.Turn(ctx, e.TurnID)); !there || turn.RetryOf == "" { // or an imported one
		return nil
	}
	for end := e.Seq; end > 1; {
		after := max(0, end-1-page)
		for _, old := range slices.Backward(steps.Must(store.Events(ctx, e.ThreadID, after, int(end-1-after)))) {
			if old.Type == agent.EventMemoryAppended {
				return slices.DeleteFunc(appended(ctx, store, sub, old), func(m agent.Message) bool { return m.SupersededBy != e.TurnID })
			}
		}
		end = after + 1
	}
	return nil
}

// AddSenders gives messages the ids that their senders gave them, as far as the
// entries tell, and returns how many of a person's messages have none.
func AddSenders(messages []agent.Message, entries []memory.InboxEntry) (unknown int) {
	sent := make(map[string]string, len(entries)) // our id of a message -> its sender's
	for _, e := range entries {
		if e.Kind == memory.EntryMessage {
			sent[agent.MessageID(e.TurnID, 0)] = e.ID
		}
	}
	for i := range messages {
		m := &messages[i]
		if m.MessageID == "" {
			m.MessageID = sent[m.ID]
		}
		if m.MessageID == "" && fromPerson(m) {
			unknown++
		}
	}
	return unknown
}

func fromPerson(m *agent.Message) bool {
	return m.Role == agent.RoleUser && !strings.HasPrefix(m.Source, "agent:")
}

// NameSenders is AddSenders for messages near the end of a thread: it reads the
// inbox from its end, until all are known.
func NameSenders(ctx context.Context, store memory.Reader, threadID string, messages []agent.Message) error {
	unknown := AddSenders(messages, nil)
	for before, limit := int64(0), max(unknown, 20); unknown > 0; limit *= 2 {
		entries, err := store.InboxBefore(ctx, threadID, before, limit)
		if err != nil || len(entries) == 0 {
			return err
		}
		unknown, before = AddSenders(messages, entries), entries[len(entries)-1].Seq
	}
	return nil
}
