package copy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

const (
	// codeAdded and noAnswerAdded tell of a turn made of messages that nothing answers.
	codeAdded     = "added"
	noAnswerAdded = "this message was added without an answer"
	// maxKept bounds ids of messages that come from elsewhere.
	maxKept = 512
)

// memoryEdited is the payload of the event of an edit.
type memoryEdited struct {
	Appended     int   `json:"appended"`
	ReplacedFrom int64 `json:"replacedFrom,omitempty"`
	ReplacedTo   int64 `json:"replacedTo,omitempty"`
	Metadata     bool  `json:"metadata,omitempty"`
}

// EditThreads changes what threads at rest remember.
func (s *Store) EditThreads(ctx context.Context, r memory.EditRequest) error {
	for _, e := range r.Edits {
		if err := checkEdit(e); err != nil {
			return err
		}
	}
	return s.write(ctx, "edit", func(u *unit) {
		for _, id := range slices.Sorted(maps.Keys(r.Seen)) {
			u.unchanged(r, id)
		}
		// Main threads first: with them goes what is below.
		for _, deletes := range []bool{true, false} {
			for _, e := range r.Edits {
				p := rows.Must(agent.ParseThreadID(e.ThreadID))
				if (e.Delete && p.Kind == agent.KindMain) == deletes {
					u.edit(r, p, e)
				}
			}
		}
	})
}

// unchanged refuses edits that rely on what is not so any more.
func (u *unit) unchanged(r memory.EditRequest, id string) {
	last := int64(-1)
	if t := u.FindThread(r.UserID, id); t != nil {
		last = t.LastEvent
	}
	if last != r.Seen[id] {
		rows.Check(memory.Stale("thread %s was changed meanwhile, and nothing was done: read it again and repeat", id))
	}
}

func (u *unit) edit(r memory.EditRequest, p agent.ParsedThreadID, e memory.ThreadEdit) {
	t := u.FindThread(r.UserID, e.ThreadID)
	if t == nil && e.Delete {
		return
	}
	if t == nil {
		t = u.editNew(r, p, e)
	}
	switch {
	case !memory.InProfile(t.Profile, r.Profile):
		rows.Refuse(agent.CodeConflict, "thread %s belongs to profile %q; nothing was changed", t.ID, t.Profile)
	case e.Delete && t.Kind == agent.KindMain:
		before := u.Removed
		res := u.deleteTree(t, time.Time{})
		u.Removed = append(before, res.Threads...)
		u.Threads = slices.DeleteFunc(u.Threads, func(t *rows.Thread) bool { return slices.Contains(res.Threads, t.ID) })
		return
	case t.OpenTurnID != "" || t.Waiting > 0:
		rows.Refuse(agent.CodeConflict, "thread %s is at work (%s): wait for its end or cancel it; nothing was changed", t.ID, t.Work())
	}
	var done memoryEdited
	if e.Delete || e.Replace {
		u.replace(t, e.Messages, &done)
	} else {
		u.addNew(t, e.Messages, &done)
	}
	if e.Metadata != nil {
		done.Metadata = u.editMetadata(t, *e.Metadata)
	}
	if done != (memoryEdited{}) {
		u.Event(t, "", agent.EventMemoryEdited, done)
	}
	switch {
	case e.Delete: // a sub-agent is taken from lists
		u.Exec(`INSERT INTO forgotten (thread_id, at) VALUES (?, ?) ON CONFLICT (thread_id) DO NOTHING`, t.ID, u.Now)
	case done.Appended > 0:
		u.Exec(`DELETE FROM forgotten WHERE thread_id = ?`, t.ID)
	}
}

// editNew makes a conversation, to which messages are to be added.
func (u *unit) editNew(r memory.EditRequest, p agent.ParsedThreadID, e memory.ThreadEdit) *rows.Thread {
	switch {
	case p.Kind != agent.KindMain:
		rows.Refuse(agent.CodeInvalid, "sub-agent %s does not exist: an agent makes it by assign_task; nothing was changed", e.ThreadID)
	case len(e.Messages) == 0:
		rows.Refuse(agent.CodeNotFound, "conversation %s does not exist: its first message makes it; nothing was changed", e.ThreadID)
	case r.UserID == "":
		rows.Refuse(agent.CodeInvalid, "conversation %s does not exist, and nobody is named whose it is to be; nothing was changed", e.ThreadID)
	}
	return u.Target(memory.SendRequest{UserID: r.UserID, Profile: r.Profile, SessionID: p.SessionID, ConversationID: p.ConversationID})
}

// remembered are the messages of a thread that were not superseded.
func (u *unit) remembered(threadID string) []agent.Message {
	return slices.DeleteFunc(u.Messages(threadID), func(m agent.Message) bool { return m.SupersededBy != "" })
}

// addNew appends messages whose ids the thread does not know.
func (u *unit) addNew(t *rows.Thread, messages []agent.Message, done *memoryEdited) {
	var added []agent.Message
	for _, m := range messages {
		old := u.remembers(t.ID, m.ID)
		if old == nil {
			added = append(added, m)
		} else if !saysTheSame(*old, m) {
			rows.Refuse(agent.CodeConflict, "thread %s already holds another message with id %q: give the new one an id of its own; nothing was changed", t.ID, m.ID)
		}
	}
	u.addTurns(t, added, done)
}

// remembers finds a message by its id, without reading the thread: only an id that
// a superseded message has is looked for among all.
func (u *unit) remembers(threadID, id string) *agent.Message {
	m := rows.Message{}
	if !u.One(`SELECT seq, body, superseded_by FROM messages WHERE thread_id = ? AND id = ?`, threadID, id).Into(&m.Seq, &m.Body, &m.SupersededBy) {
		return nil
	}
	if m.SupersededBy == "" {
		return new(m.Message(threadID))
	}
	live := u.remembered(threadID)
	for i := range live {
		if memory.OriginalID(live[i].ID) == id {
			return &live[i]
		}
	}
	return nil
}

// replace makes messages all that a thread remembers: what differs from them, and
// all behind it, is superseded.
func (u *unit) replace(t *rows.Thread, messages []agent.Message, done *memoryEdited) {
	live := u.remembered(t.ID)
	cut := 0
	for cut < min(len(live), len(messages)) && saysTheSame(live[cut], messages[cut]) && (messages[cut].ID == "" || memory.OriginalID(live[cut].ID) == messages[cut].ID) {
		cut++
	}
	// A call is not parted from its results.
	for cut < len(live) && live[cut].Role == agent.RoleTool || cut < len(messages) && messages[cut].Role == agent.RoleTool {
		cut--
	}
	last := t.LastMessage
	u.addTurns(t, messages[cut:], done)
	if cut == len(live) {
		return
	}
	turn := u.LastTurn(t)
	done.ReplacedFrom, done.ReplacedTo = live[cut].Seq, last
	u.Exec(`UPDATE messages SET superseded_by = ? WHERE thread_id = ? AND superseded_by = '' AND seq BETWEEN ? AND ?`, turn.ID, t.ID, live[cut].Seq, last)
	if t.SummaryTo < live[cut].Seq {
		return
	}
	u.Exec(`DELETE FROM summaries WHERE thread_id = ? AND state = 'stored' AND body <> '' AND to_seq >= ?`, t.ID, live[cut].Seq)
	t.SummaryFrom, t.SummaryTo = 0, 0
	u.One(`SELECT from_seq, to_seq FROM summaries WHERE thread_id = ? AND state = 'stored' AND body <> '' ORDER BY to_seq DESC LIMIT 1`, t.ID).Into(&t.SummaryFrom, &t.SummaryTo)
}

// addTurns appends messages as closed turns.
func (u *unit) addTurns(t *rows.Thread, messages []agent.Message, done *memoryEdited) {
	n := int(t.LastTurn) + 1
	messages = slices.Clone(messages)
	for i := range messages {
		m := &messages[i]
		if m.ID == "" {
			m.ID = agent.MessageID(agent.TurnID(t.ID, "edit", n), i)
		}
		var taken int
		rows.Check(u.Row(`SELECT COUNT(*) FROM messages WHERE thread_id = ? AND id = ?`, t.ID, m.ID).Scan(&taken))
		if taken > 0 {
			m.ID = fmt.Sprintf("%s~edit%d", m.ID, n)
		}
	}
	for _, p := range plainTurns(t.ID, messages) {
		p.N = t.LastTurn + 1
		p.ID = agent.TurnID(t.ID, "edit "+p.MessageID, int(p.N))
		if p.ErrorCode == codeImported {
			p.ErrorCode, p.Error = codeAdded, noAnswerAdded
		}
		u.restoreTurn(t, p, nil)
	}
	done.Appended = len(messages)
}

// editMetadata takes what people may say of a thread. What was used counts as used
// by its last turn, so that the totals are still those of the turns.
func (u *unit) editMetadata(t *rows.Thread, m agent.Metadata) (changed bool) {
	if topic := rows.Short(rows.Clean(m.Topic), rows.TopicLength); topic != t.Topic {
		t.Topic, changed = topic, true
	}
	if m.ContextWindow != (agent.ContextWindow{}) && m.ContextWindow != t.ContextWindow {
		t.ContextWindow, changed = m.ContextWindow, true
	}
	more := agent.Usage{
		PromptTokens: max(0, m.PromptTokens-t.PromptTokens), CompletionTokens: max(0, m.CompletionTokens-t.CompletionTokens),
		TotalTokens: max(0, m.TotalTokens-t.TotalTokens), Requests: max(0, m.RequestCount-t.RequestCount), Price: max(0, m.TotalPrice-t.TotalPrice),
	}
	if more == (agent.Usage{}) {
		return changed
	}
	turn := u.LastTurn(t)
	if turn == nil {
		rows.Refuse(agent.CodeConflict, "thread %s has had no turn that could have used anything; nothing was changed", t.ID)
	}
	turn.Usage, turn.Dirty = turn.Usage.Add(more), true
	t.Count(more)
	return true
}

// checkEdit refuses what cannot stand in a thread: results that do not directly
// follow their calls, calls without a result.
func checkEdit(e memory.ThreadEdit) error {
	refuse := func(m agent.Message, what string, args ...any) error {
		return agent.Errorf(agent.CodeInvalid, "thread %s: message %q %s; nothing was changed", e.ThreadID, m.ID, fmt.Sprintf(what, args...))
	}
	wanted := map[string]bool{}
	for i, m := range e.Messages {
		switch {
		case len(m.ID) > maxKept || rows.Clean(m.ID) != m.ID:
			return refuse(m, "has an id that is not possible: use at most %d characters", maxKept)
		case !slices.Contains([]agent.Role{agent.RoleSystem, agent.RoleUser, agent.RoleAssistant, agent.RoleTool}, m.Role):
			return refuse(m, "has no role: use system, user, assistant or tool")
		case m.Role == agent.RoleTool && !wanted[m.ToolCallID]:
			return refuse(m, "is the result of call %q, which is not made directly before it: add both together", m.ToolCallID)
		case m.Role != agent.RoleTool && len(wanted) > 0, len(m.ToolCalls) > 0 && m.Role != agent.RoleAssistant:
			return refuse(m, "stands where results of calls belong: add each call with its result")
		}
		delete(wanted, m.ToolCallID)
		for _, c := range m.ToolCalls {
			wanted[c.ID] = true
		}
		if len(wanted) > 0 && i == len(e.Messages)-1 {
			return refuse(m, "leaves a call without its result: add each call with its result")
		}
	}
	return nil
}

// saysTheSame compares what was said. Ids of calls may have been made unique.
func saysTheSame(a, b agent.Message) bool {
	calls := func(m agent.Message) (out []agent.CallFunction) {
		for _, c := range m.ToolCalls {
			out = append(out, c.Function)
		}
		return out
	}
	x, err := rows.Encode([]any{a.Role, a.Content, calls(a)})
	if err != nil {
		return false
	}
	y, err := rows.Encode([]any{b.Role, b.Content, calls(b)})
	return err == nil && x == y
}
