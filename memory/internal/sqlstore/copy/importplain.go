package copy

import (
	"cmp"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rules"
)

// Texts of turns that are made from messages alone.
const (
	codeImported = "imported"
	noAnswer     = "the conversation was imported without an answer to this message"
	noResult     = "(no result was kept)"
)

// plainTurn is a message of a person, or of a delegator, with what follows it.
type plainTurn struct {
	rows.Turn
	messages []agent.Message
}

// restorePlain adds a thread of which nothing but messages is known.
func (u *unit) restorePlain(r memory.ImportRequest, record memory.ThreadRecord) {
	t := &rows.Thread{Thread: record.Thread, CreatedMs: record.Thread.CreatedAt.UnixMilli(), UpdatedMs: record.Thread.UpdatedAt.UnixMilli()}
	t.Status, t.Reason, t.OpenTurnID, t.Metadata = agent.ThreadCompleted, "", "", agent.Metadata{Topic: record.Thread.Topic}
	t.At = t.CreatedMs
	err := rows.Caught(func() {
		u.Session(memory.SendRequest{SessionID: t.SessionID, UserID: t.UserID, Profile: t.Profile})
	})
	rows.Check(agent.Wrap(err, agent.CodeConflict, "the id of its session, %s, is taken", t.SessionID))
	t.ConfigHash = u.KeepConfig(agent.SpecialistAgentConfig{Name: t.AgentType})
	children := map[string]*agent.Thread{}
	for i, child := range r.Threads {
		if child.Thread.ParentThreadID == t.ID && child.Thread.ParentToolCallID != "" {
			children[child.Thread.ParentToolCallID] = &r.Threads[i].Thread
		}
	}
	turns := plainTurns(t.ID, record.Messages)
	for i, p := range turns {
		if i == len(turns)-1 {
			p.Usage = plainUsage(record)
		}
	}
	u.restore(t, turns, children)
	// What happened while the turns were written is not activity.
	t.UpdatedMs, t.Dirty = min(record.Thread.UpdatedAt.UnixMilli(), u.Now), true
	t.Loaded()
}

// restore adds a thread with closed turns; children are its sub-agents, by the
// calls that made them.
func (u *unit) restore(t *rows.Thread, turns []*plainTurn, children map[string]*agent.Thread) {
	u.belowParent(t)
	u.Exec(rows.InsertThread, rows.Values(t.Targets())...)
	t.Loaded()
	u.Threads = append(u.Threads, t)
	for _, p := range turns {
		u.restoreTurn(t, p, children)
	}
}

// belowParent links a sub-agent to the call that made it. Where none is known,
// the parent's log says so with an event of its own.
func (u *unit) belowParent(t *rows.Thread) {
	if t.Kind == agent.KindMain {
		return
	}
	parent := u.Thread(t.ParentThreadID)
	parent.LastChild++
	parent.Dirty = true
	t.Ordinal = parent.LastChild
	if id, ok := u.Renamed[parent.ID+" "+t.ParentToolCallID]; ok {
		t.ParentToolCallID = id
		return
	}
	var linked int
	rows.Check(u.Row(`SELECT COUNT(*) FROM tool_calls WHERE id = ? AND thread_id = ? AND child_thread = ?`, t.ParentToolCallID, parent.ID, t.ID).Scan(&linked))
	if linked > 0 {
		return
	}
	t.ParentToolCallID = agent.CallID(agent.TurnID(parent.ID, t.ID, 0), 0, 0)
	before := parent.UpdatedMs
	parent.At = max(parent.UpdatedMs, t.CreatedMs)
	u.Event(parent, "", agent.EventToolCall, rows.ToolCallEvent{
		Intent: agent.ToolAssignTask, Arguments: rows.JSONArgs(""), ToolCallID: t.ParentToolCallID, SubAgentThread: t.ID,
	})
	parent.UpdatedMs = before
	parent.Loaded()
}

// plainUsage is what is known of a thread's use as that of its last turn.
func plainUsage(record memory.ThreadRecord) agent.Usage {
	m := record.Thread.Metadata
	use := agent.Usage{PromptTokens: m.PromptTokens, CompletionTokens: m.CompletionTokens, TotalTokens: m.TotalTokens, Price: m.TotalPrice, Requests: m.RequestCount}
	for _, one := range append([]agent.Message{{Usage: &use}}, record.Messages...) {
		if v := one.Usage; v != nil && (min(v.PromptTokens, v.CompletionTokens, v.TotalTokens, v.Requests) < 0 || v.Price < 0) {
			rows.Refuse(agent.CodeInvalid, "it counts less than 0 tokens, requests or money, in all or in the usage of message %q: put 0 there", one.ID)
		}
	}
	if use.TotalTokens != 0 {
		return use
	}
	for _, message := range record.Messages {
		if message.Usage != nil {
			use = use.Add(rules.OneRequest(*message.Usage))
		}
	}
	use.ToolCalls = 0
	return use
}

// pairUp makes a list in which each call is followed by its one result. What has
// none gets a text that says so; a result without its call stays as a text.
// strays counts those.
func pairUp(messages []agent.Message) (out []agent.Message, strays int) {
	asText := func(m agent.Message) agent.Message {
		if m.Role == agent.RoleTool {
			m.Role, m.ToolCallID, m.Name = agent.RoleAssistant, "", ""
			strays++
		}
		return m
	}
	for len(messages) > 0 {
		m := asText(messages[0])
		messages = messages[1:]
		if m.Role != agent.RoleAssistant {
			m.ToolCalls = nil
		}
		out = append(out, m)
		n := 0
		for len(m.ToolCalls) > 0 && n < len(messages) && messages[n].Role == agent.RoleTool {
			n++
		}
		results := slices.Clone(messages[:n])
		messages = messages[n:]
		for _, c := range m.ToolCalls {
			result := agent.Message{Role: agent.RoleTool, ToolCallID: c.ID, Content: agent.Text(noResult), Timestamp: m.Timestamp, Status: agent.CallUnknown, ErrorReason: agent.ErrUnknown}
			if i := slices.IndexFunc(results, func(r agent.Message) bool { return r.ToolCallID == c.ID }); i >= 0 {
				result = results[i]
				results = slices.Delete(results, i, i+1)
			}
			out = append(out, result)
		}
		for _, stray := range results {
			out = append(out, asText(stray))
		}
	}
	return out, strays
}

// plainTurns divides messages into turns: each of a person begins one. Turns get
// ids of their own.
func plainTurns(threadID string, messages []agent.Message) []*plainTurn {
	var turns []*plainTurn
	for _, m := range messages {
		begins := m.Role == agent.RoleUser && m.Source != "steer"
		if len(turns) == 0 || begins && slices.ContainsFunc(turns[len(turns)-1].messages, func(o agent.Message) bool { return o.Role != agent.RoleSystem }) {
			p := &plainTurn{}
			p.ThreadID, p.N, p.EntryKind, p.State = threadID, int64(len(turns)+1), memory.EntryMessage, memory.TurnClosed
			turns = append(turns, p)
		}
		p := turns[len(turns)-1]
		if p.MessageID == "" && m.Role != agent.RoleSystem {
			p.MessageID = m.ID
		}
		p.messages = append(p.messages, m)
	}
	ids := map[string]bool{}
	for _, p := range turns {
		p.MessageID = cmp.Or(p.MessageID, codeImported)
		p.ID = agent.TurnID(threadID, p.MessageID, int(p.N))
		for i := range p.messages {
			m := &p.messages[i]
			m.TurnID, m.SupersededBy = p.ID, ""
			if m.ID == "" || ids[m.ID] {
				m.ID = agent.MessageID(p.ID, i)
			}
			ids[m.ID] = true
		}
		last := p.messages[len(p.messages)-1]
		p.Outcome, p.Answer = agent.ThreadCompleted, last.Content.String()
		if last.Role != agent.RoleAssistant || len(last.ToolCalls) > 0 || last.Partial {
			p.Outcome, p.Reason, p.ErrorCode, p.Error, p.Answer = agent.ThreadFailed, agent.ReasonError, codeImported, noAnswer, ""
		}
	}
	return turns
}

// restoreTurn writes a closed turn with its messages, calls and log.
func (u *unit) restoreTurn(t *rows.Thread, p *plainTurn, children map[string]*agent.Thread) {
	first := p.messages[0]
	p.OpenedMs = u.plainTime(t, first)
	u.InsertTurn(&p.Turn)
	u.Event(t, p.ID, agent.EventMessageStarted, rows.MessageStarted{Content: first.Content, ToolNames: []string{}})
	for i := 0; i < len(p.messages); i++ {
		m := p.messages[i]
		m.TurnID = p.ID
		u.plainTime(t, m)
		if m.Role == agent.RoleAssistant {
			p.Steps++
		}
		results := p.messages[i+1 : i+1+len(m.ToolCalls)]
		u.restoreCalls(t, p, &m, results, children)
		from := t.LastMessage + 1
		for _, m := range append([]agent.Message{m}, results...) {
			u.restoreMessage(t, m)
		}
		i += len(results)
		u.Appended(t, p.ID, from, t.LastMessage)
		if i == len(p.messages)-1 && p.Outcome == agent.ThreadCompleted {
			p.AnswerSeq = t.LastMessage
			u.Event(t, p.ID, agent.EventAssistantMessage, rows.AssistantMessageEvent{MessageID: m.ID, Content: m.Content, Usage: m.Usage})
		}
	}
	p.Saved, p.ClosedMs, p.ClosedAt, p.Dirty = p.Steps, t.At, rows.StampOrNil(t.At), true
	t.Status, t.Reason = p.Outcome, p.Reason
	t.LastTurn = p.N
	t.TotalTimeMs += p.ClosedMs - p.OpenedMs
	use := p.Usage
	use.ToolCalls = 0
	t.Count(use)
	u.Remember(&p.Turn, memory.Closed{Outcome: p.Outcome})
	if p.Outcome == agent.ThreadCompleted {
		u.Event(t, p.ID, agent.EventDone, rows.TurnDone{ResponseTimeMs: p.ClosedMs - p.OpenedMs, Usage: p.Usage})
		return
	}
	u.Event(t, p.ID, agent.EventError, rows.TurnError{Code: p.ErrorCode, Message: p.Error, Retryable: true})
}

// plainTime moves the thread's time to that of a message, never back.
func (u *unit) plainTime(t *rows.Thread, m agent.Message) int64 {
	if !m.Timestamp.IsZero() {
		t.At = max(t.At, m.Timestamp.UnixMilli())
	}
	return t.At
}

// restoreMessage appends a message with its own id and time.
func (u *unit) restoreMessage(t *rows.Thread, m agent.Message) {
	t.Touch()
	t.LastMessage++
	t.MessageCount++
	m.Seq = t.LastMessage
	if m.Timestamp.IsZero() {
		m.Timestamp = rows.Stamp(t.At)
	}
	m.Content.Value = rows.Clean(m.Content.Value)
	u.insertMessage(t.ID, m)
}

// restoreCalls writes the calls of a message, and makes their ids unique in the
// store: other programs take over those of providers, which repeat.
func (u *unit) restoreCalls(t *rows.Thread, p *plainTurn, m *agent.Message, results []agent.Message, children map[string]*agent.Thread) {
	if len(m.ToolCalls) == 0 {
		return
	}
	m.ToolCalls = slices.Clone(m.ToolCalls)
	var found []*rows.Call
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		var taken int
		rows.Check(u.Row(`SELECT COUNT(*) FROM tool_calls WHERE id = ?`, c.ID).Scan(&taken))
		old := c.ID
		if taken > 0 || old == "" {
			c.ID = agent.CallID(p.ID, p.Steps, i)
		}
		row := &rows.Call{ToolCall: agent.ToolCall{
			ID: c.ID, ThreadID: t.ID, TurnID: p.ID, Step: p.Steps, Index: i, ToolName: c.Function.Name, Status: agent.CallPending, Gate: agent.GateAuto, Attempts: 1,
		}, ArgsText: string(rows.JSONArgs(c.Function.Arguments)), CreatedMs: t.At, UpdatedMs: t.At}
		if u.Renamed == nil {
			u.Renamed = map[string]string{}
		}
		u.Renamed[t.ID+" "+old] = c.ID
		if child := children[old]; child != nil {
			row.SubAgentThreadID, row.SubAgentID, row.Delegation = child.ID, child.AgentID, true
			t.At = max(t.At, child.CreatedAt.UnixMilli())
		}
		u.Exec(rows.InsertCall, rows.Values(row.Targets())...)
		row.Loaded()
		results[i].ToolCallID, results[i].Name, results[i].TurnID = c.ID, c.Function.Name, p.ID
		if !results[i].Status.Final() {
			results[i].Status = agent.CallSuccess
		}
		found = append(found, row)
	}
	p.Usage.ToolCalls += int64(len(found))
	t.ToolCallCount += int64(len(found))
	u.Event(t, p.ID, agent.EventToolCalls, rows.ToolCallsEvent{ToolCalls: m.ToolCalls, Usage: m.Usage})
	for _, row := range found {
		u.Announce(t, &p.Turn, row)
	}
	for i, row := range found {
		u.plainTime(t, results[i])
		u.Finish(t, &p.Turn, row, rules.Ending{Status: results[i].Status, Reason: results[i].ErrorReason, Text: results[i].Content.String()})
	}
}
