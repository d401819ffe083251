package copy

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rules"
)

// cutText is why the last turn of a copied thread ended.
const cutText = "the conversation was forked before this turn had ended: go on with a message, or retry it"

// Fork copies a main thread with its sub-agents up to a message.
func (s *Store) Fork(ctx context.Context, r memory.ForkRequest) (res memory.ForkResult, err error) {
	switch {
	case r.RequestID == "" || len(r.RequestID) > memory.MaxRequestID || rows.Clean(r.RequestID) != r.RequestID:
		return res, agent.Errorf(agent.CodeInvalid, "fork request id %.40q is not possible: use 1 to %d characters", r.RequestID, memory.MaxRequestID)
	case r.ConversationID == "":
		r.ConversationID = agent.ForkName(r.ThreadID, r.RequestID)
	}
	if err := agent.CheckName("conversation", r.ConversationID); err != nil {
		return res, err
	}
	return writing(ctx, s, "fork", func(u *unit) (res memory.ForkResult) {
		src := u.ThreadOf(r.UserID, r.ThreadID)
		if !memory.InProfile(src.Profile, r.Profile) {
			rows.Check(rows.NoThread(r.ThreadID))
		}
		if src.Kind != agent.KindMain {
			rows.Refuse(agent.CodeInvalid, "thread %s belongs to a sub-agent, whose parent refers to it: fork the conversation, %s; its sub-agents are copied", src.ID, src.RootThreadID)
		}
		id := agent.MainThreadID(src.SessionID, r.ConversationID)
		repeated := u.forked(src, id, r.At)
		if !repeated {
			f := &fork{unit: u, id: id, conversation: r.ConversationID, calls: map[string]bool{}, said: map[string]bool{}, made: map[string]string{}}
			f.copy(src, r.At)
		}
		res = u.forkResult(id)
		res.Repeated = repeated
		return res
	})
}

// forked reports whether this very fork was made before.
func (u *unit) forked(src *rows.Thread, id, at string) bool {
	if u.FindThread("", id) == nil {
		return false
	}
	var from, asked string
	u.One(`SELECT from_thread, at_message FROM forks WHERE thread_id = ?`, id).Into(&from, &asked)
	if from != src.ID || asked != at {
		rows.Refuse(agent.CodeConflict, "conversation %s is there already, and it is not this fork: use another name or request id", id)
	}
	return true
}

func (u *unit) forkResult(id string) memory.ForkResult {
	type forkRow struct {
		id, from string
		messages int64
		cut      rows.IntBool
	}
	res := memory.ForkResult{SubAgents: []memory.ForkedThread{}, Cut: []string{}}
	found := rows.Find(u, func(f *forkRow) []any { return []any{&f.id, &f.from, &f.messages, &f.cut} }, nil, `SELECT f.thread_id, f.from_thread, f.from_seq, f.cut FROM forks f JOIN threads t ON t.id = f.thread_id`+
		` WHERE t.root_id = ? ORDER BY t.depth, t.created_at, t.id`, id)
	for _, f := range found {
		if f.id == id {
			res.ThreadID, res.FromThread, res.Messages = f.id, f.from, f.messages
		} else {
			res.SubAgents = append(res.SubAgents, memory.ForkedThread{ThreadID: f.id, FromThread: f.from})
		}
		if f.cut {
			res.Cut = append(res.Cut, f.id)
		}
	}
	return res
}

// fork is a copy under way: the messages of a tree, cut at a moment, given ids of
// their own and restored as closed turns, as those of an import are. Nothing of
// the original is changed.
type fork struct {
	*unit
	id, conversation string
	at               time.Time // the moment, by the original's clock
	list             []*forkThread
	calls, said      map[string]bool     // calls and messages that are copied
	made             map[string]string   // new ids of threads, sub-agents and turns, by old ones
	text             func(string) string // puts new ids into texts
}

// forkThread is one thread of a fork.
type forkThread struct {
	src, t   *rows.Thread // t is the copy
	turns    []*plainTurn
	messages int
	cut      bool // its last turn had not ended, or it had not begun
}

// copy makes the fork of a main thread at a message.
func (f *fork) copy(src *rows.Thread, at string) {
	all := f.Messages(src.ID)
	seq := f.messageSeq(src, at)
	n := endOfRound(all, slices.IndexFunc(all, func(m agent.Message) bool { return m.Seq == seq }))
	f.at = all[n-1].Timestamp
	if n == len(all) && src.OpenTurnID == "" {
		f.at = rows.Stamp(f.Now)
	}
	f.add(src, all, f.turnsOf(src.ID), n)
	for i := 0; i < len(f.list); i++ { // it grows: parents come before their children
		f.below(f.list[i].src.ID)
	}
	f.rename()
	for _, one := range f.list {
		f.write(one, at)
	}
	root := f.list[0].t
	for _, one := range f.list {
		for _, p := range one.turns {
			if p.Background { // nobody was told of its end: the next message tells it
				e := f.ChildEntry(root, &p.Turn)
				e.Quiet = true
				f.ChildEnded(&p.Turn)
				f.Enter(root, e)
			}
		}
	}
	root.At = max(f.Now, root.UpdatedMs)
	root.Touch()
}

// endOfRound is behind a message and the results of its calls, of which none is
// parted from its call.
func endOfRound(messages []agent.Message, i int) int {
	for i++; i < len(messages) && messages[i].Role == agent.RoleTool; i++ {
	}
	return i
}

// messageSeq finds a message by its id or by its sender's; none is the last one.
func (f *fork) messageSeq(src *rows.Thread, at string) int64 {
	if at == "" {
		if src.LastMessage == 0 {
			rows.Refuse(agent.CodeConflict, "thread %s has no message yet: there is nothing to fork", src.ID)
		}
		return src.LastMessage
	}
	e := f.Entry(`thread_id = ? AND kind = 'message' AND id = ?`, src.ID, at)
	id := at
	if e != nil {
		id = agent.MessageID(e.TurnID, 0)
	}
	var seq int64
	if !f.One(`SELECT seq FROM messages WHERE thread_id = ? AND (id = ? OR id = ?) ORDER BY seq LIMIT 1`, src.ID, at, id).Into(&seq) {
		if q := f.Ask(`root_id = ? AND message_id = ? AND message_id <> ''`, src.RootThreadID, at); q != nil {
			rows.Refuse(agent.CodeInvalid, "message %q is not in the conversation: it became the answer to question %s of %s, which is the result of call %s", at, q.ID, q.Thread, q.Call)
		}
		rows.Refuse(agent.CodeNotFound, "thread %s has no message %q: show lists them with their ids; one that waits in the inbox is not in the conversation yet", src.ID, at)
	}
	return seq
}

// below adds the sub-agents that the copied part of a thread made, each with what
// that part ordered of it: in the background up to the moment of the fork.
func (f *fork) below(parent string) {
	for _, id := range f.childIDs(parent) {
		src, taken := f.Thread(id), 0
		rows.Check(f.Row(`SELECT COUNT(*) FROM tool_calls WHERE id = ?`, src.ParentToolCallID).Scan(&taken))
		if taken > 0 && !f.calls[src.ParentToolCallID] || taken == 0 && src.CreatedAt.After(f.at) {
			continue
		}
		all, turns, n := f.Messages(id), f.turnsOf(id), 0
		for n < len(all) {
			t, end := turns[all[n].TurnID], endOfRound(all, n)
			if t == nil || t.DelegatorThread != "" && !f.calls[t.DelegatorCall] || t.Background && all[end-1].Timestamp.After(f.at) {
				break
			}
			n = end
		}
		f.add(src, all, turns, n)
	}
}

func (u *unit) turnsOf(threadID string) map[string]*rows.Turn {
	turns := map[string]*rows.Turn{}
	for _, t := range rows.Find(u, (*rows.Turn).Targets, (*rows.Turn).Loaded, rows.SelectTurn+` WHERE thread_id = ?`, threadID) {
		turns[t.ID] = t
	}
	return turns
}

// add takes the first n messages of a thread into the fork, by the turns that they
// are of.
func (f *fork) add(src *rows.Thread, all []agent.Message, turns map[string]*rows.Turn, n int) {
	one := &forkThread{src: src, messages: n, cut: n == 0}
	f.list = append(f.list, one)
	if paired, _ := pairUp(all[:n]); len(paired) != n {
		rows.Refuse(agent.CodeConflict, "calls of thread %s have no results: run verify --repair on it first", src.ID)
	}
	for i, m := range all[:n] {
		t := turns[m.TurnID]
		if t == nil {
			rows.Refuse(agent.CodeConflict, "thread %s has lost the turn of message %d: verify tells more", src.ID, m.Seq)
		}
		if i == 0 || all[i-1].TurnID != t.ID {
			p := &plainTurn{}
			p.ID, p.N, p.EntryKind, p.MessageID, p.State = t.ID, int64(len(one.turns)+1), memory.EntryMessage, t.MessageID, memory.TurnClosed
			p.Outcome, p.Reason, p.ErrorCode, p.Error, p.Usage, p.Schema = t.Outcome, t.Reason, t.ErrorCode, t.Error, t.Usage, t.Schema
			p.DelegatorThread, p.DelegatorTurn, p.DelegatorCall, p.Background = t.DelegatorThread, t.DelegatorTurn, t.DelegatorCall, t.Background
			one.turns = append(one.turns, p)
		}
		p := one.turns[len(one.turns)-1]
		p.messages = append(p.messages, m)
		f.said[m.ID] = true
		for _, c := range m.ToolCalls {
			f.calls[c.ID] = true
		}
		if one.cut = i == n-1 && (t.State != memory.TurnClosed || n < len(all) && all[n].TurnID == t.ID); !one.cut {
			continue
		}
		p.Outcome, p.Reason, p.ErrorCode, p.Error, p.Usage = agent.ThreadCancelled, "", string(agent.ThreadCancelled), cutText, agent.Usage{}
		for _, m := range p.messages {
			if m.Usage != nil {
				p.Usage = p.Usage.Add(rules.OneRequest(*m.Usage))
			}
		}
	}
}

// told reports whether a copied message tells the end of a turn.
func (f *fork) told(turnID string) bool {
	return slices.ContainsFunc(f.list, func(one *forkThread) bool { return f.said[agent.MessageID(agent.TurnID(one.src.ID, turnID, 0), 0)] })
}

// rename gives threads, sub-agents and turns ids of their own, derived as the ids
// of new things are. Those of sub-agents and turns contain a hash, so that they are
// themselves wherever they stand in a text, as in the ids of calls and messages:
// the model finds in what it was told which sub-agent to resume.
func (f *fork) rename() {
	var texts []string
	for _, one := range f.list {
		id, src := f.id, one.src
		if src.Kind == agent.KindSubAgent {
			made := agent.NewAgentID(src.AgentType, src.CreatedAt, f.made[src.ParentThreadID], "", src.ParentToolCallID)
			id = agent.SubThreadID(src.AgentType, made)
			f.made[src.AgentID] = made
			texts = append(texts, src.AgentID, made)
		} else {
			texts = append(texts, `"`+src.ID+`"`, `"`+id+`"`, `"agent:`+src.ID+`"`, `"agent:`+id+`"`) // the latter is the source of a message
		}
		f.made[src.ID] = id
		for _, p := range one.turns {
			for _, m := range append([]agent.Message{{ID: p.ID}}, p.messages...) {
				// A message may have its id from a turn that it would have opened.
				if turn, _, _ := strings.Cut(m.ID, "."); turnForm.MatchString(turn) && f.made[turn] == "" {
					f.made[turn] = agent.TurnID(f.id, turn, 0)
					texts = append(texts, turn[1:], f.made[turn][1:])
				}
			}
		}
	}
	f.text = strings.NewReplacer(texts...).Replace
}

// write restores the copy of a thread.
func (f *fork) write(one *forkThread, at string) {
	src, t := one.src, *one.src
	one.t = &t
	t.ID, t.RootThreadID, t.ConversationID, t.CreatedMs, t.At = f.made[src.ID], f.id, f.conversation, f.Now, src.CreatedMs
	t.TaskID, t.Status, t.Reason, t.OpenTurnID, t.Metadata = "", agent.ThreadCancelled, "", "", agent.Metadata{Topic: src.Topic}
	t.LastEvent, t.LastMessage, t.LastEntry, t.LastTurn, t.LastChild, t.Waiting, t.SummaryFrom, t.SummaryTo = 0, 0, 0, 0, 0, 0, 0, 0
	if src.Kind == agent.KindSubAgent {
		t.CreatedMs, t.AgentID, t.ParentThreadID, t.ParentToolCallID = src.CreatedMs, f.made[src.AgentID], f.made[src.ParentThreadID], f.text(src.ParentToolCallID)
	}
	children := map[string]*agent.Thread{}
	for _, child := range f.list {
		if child.src.ParentThreadID == src.ID {
			link := agent.Thread{ID: f.made[child.src.ID], AgentID: f.made[child.src.AgentID], CreatedAt: child.src.CreatedAt}
			children[f.text(child.src.ParentToolCallID)] = &link
		}
	}
	for _, p := range one.turns {
		f.adopt(&t, p)
		for _, m := range p.messages {
			if use := m.Usage; use != nil {
				t.ContextWindow = agent.ContextWindow{Prompt: use.PromptTokens, Completion: use.CompletionTokens, Total: rules.OneRequest(*use).TotalTokens}
			}
		}
	}
	f.restore(&t, one.turns, children)
	f.apart(&t, one)
	f.Exec(`INSERT INTO forks (thread_id, from_thread, from_seq, at_message, cut) VALUES (?, ?, ?, ?, ?)`, t.ID, src.ID, one.messages, at, rows.Flag(one.cut))
}

// adopt makes a turn one of the copy. Only one in the background whose end no copied
// message tells still has a delegator.
func (f *fork) adopt(t *rows.Thread, p *plainTurn) {
	if p.Background = p.Background && !f.told(p.ID); p.Background {
		call := f.text(p.DelegatorCall)
		p.DelegatorThread, p.DelegatorTurn, p.DelegatorCall = f.made[p.DelegatorThread], f.made[p.DelegatorTurn], cmp.Or(f.Renamed[f.made[p.DelegatorThread]+" "+call], call)
	} else {
		p.DelegatorThread, p.DelegatorTurn, p.DelegatorCall = "", "", ""
	}
	p.ID, p.ThreadID, p.MessageID = f.made[p.ID], t.ID, f.text(p.MessageID)
	for i, m := range p.messages {
		over := f.made[m.SupersededBy]
		p.messages[i] = agent.Message{}
		rows.Check(rows.Decode(f.text(rows.Must(rows.Encode(m))), &p.messages[i]))
		p.messages[i].SupersededBy = over
		if p.Outcome == agent.ThreadCompleted {
			p.Answer = p.messages[i].Content.String()
		}
	}
}

// apart copies what stands beside messages: summaries, and results as they were
// before they were cut for the model.
func (f *fork) apart(t *rows.Thread, one *forkThread) {
	for name, table := range f.dump(one.src.ID, forked) {
		table.Rows = slices.DeleteFunc(table.Rows, func(cells []cell) bool {
			r := row{table.Columns, cells}
			for column, id := range map[string]string{
				"thread_id": t.ID, "turn_id": f.made[r.text("turn_id")], "call_id": f.Renamed[t.ID+" "+f.text(r.text("call_id"))], "body": f.text(r.text("body")),
			} {
				r.set(column, id)
			}
			return r.text("call_id") == "" && (r.text("turn_id") == "" || r.text("state") != rows.StepStored || r.number("last_seq") >= t.LastMessage)
		})
		f.load(name, table, false)
		if name != "summaries" {
			continue
		}
		for _, r := range table.all() {
			t.Compactions++
			if r.text("body") != "" && r.number("to_seq") > t.SummaryTo {
				t.SummaryFrom, t.SummaryTo = r.number("from_seq"), r.number("to_seq")
			}
		}
	}
}
