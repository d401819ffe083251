package copy

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
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
			f := &fork{unit: u, id: id, conversation: r.ConversationID, threads: map[string]*forkThread{}, turns: map[string]*rows.Turn{}, calls: map[string]*rows.Call{}, made: map[string]string{}}
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

// forkResult reads what a fork made.
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

// fork is a copy under way: the rows of a tree as an export has them, cut at a
// moment, with ids of their own, loaded and closed as an import is. Nothing of
// the original is changed.
type fork struct {
	*unit
	id, conversation string
	at               int64 // the moment, by the original's clock
	list             []*forkThread
	threads          map[string]*forkThread // by the original's id
	turns            map[string]*rows.Turn  // all of the copied threads, by id
	calls            map[string]*rows.Call  // those that are copied
	made             map[string]string      // new ids, by old ones
	text             func(string) string    // puts new ids into texts
}

// forkThread is one thread of a fork. Its rows are those of the original.
type forkThread struct {
	src, t  *rows.Thread // t is the copy
	event   int64        // what is copied of the log
	message int64        // and of the messages
	at      int64        // when that was written
	open    *rows.Turn   // the turn that is cut, if one is
	saved   int          // its steps that are copied

	events   []*rows.Event
	messages []agent.Message
	ids      map[string]bool // of the messages
	turns    []*rows.Turn    // begun by then
	calls    []*rows.Call
	entries  []*rows.Entry
	taken    int64        // entries that are copied
	unbegun  bool         // the copied part ordered work that had not begun
	ended    []*rows.Turn // ends in the background that the copied part does not tell
}

// copy makes the fork of a main thread at a message.
func (f *fork) copy(src *rows.Thread, at string) {
	root := f.cutMain(src, at)
	f.add(root)
	for i := 0; i < len(f.list); i++ { // it grows: parents come before their children
		f.below(f.list[i])
	}
	f.rename()
	for _, one := range f.list {
		f.write(one, at)
	}
	f.settle()
	t := root.t
	t.At = max(f.Now, t.UpdatedMs)
	t.Touch()
}

// settle ends what the copy cannot go on with: turns that are cut, and work that
// had not begun. Ends of sub-agents that nobody was told are noted.
func (f *fork) settle() {
	end := &closing{unit: f.unit, message: cutText, passed: map[string]bool{}, told: map[string]bool{}}
	for _, one := range f.list {
		end.list = append(end.list, one.t)
		for _, turn := range append(one.ended, one.open) {
			// Had it ended when the turn above was copied, that one counts it.
			if turn != nil && turn.State == memory.TurnClosed && !f.isCut(turn.DelegatorTurn) {
				end.passed[f.newTurn(turn.ID)] = true
			}
		}
		for _, e := range one.events {
			var d rows.ChildCompleted
			if e.Type == agent.EventSubAgentCompleted && rows.Decode(e.DataText, &d) == nil {
				end.told[f.text(d.ParentToolCall)] = true
			}
		}
	}
	end.close()
	for _, one := range f.list {
		for _, src := range one.ended {
			end.tell(f.Turn(f.newTurn(src.ID)))
		}
		if one.t.Kind == agent.KindSubAgent && len(one.turns) == 0 {
			one.t.Status = agent.ThreadCancelled
		}
	}
}

// isCut reports whether a turn of the original is cut in the copy.
func (f *fork) isCut(turnID string) bool {
	turn := f.turns[turnID]
	return turn != nil && f.threads[turn.ThreadID] != nil && f.threads[turn.ThreadID].open == turn
}

// Ids that a store gives to sub-agents and turns contain a hash, so that they are
// themselves wherever they stand in a text, as in the ids of calls, tasks and
// messages. Other ids are replaced only where they are a whole JSON value.
var (
	hashedAgent = regexp.MustCompile(`^[a-z0-9-]+-\d{13,}-[0-9a-f]{12}$`)
	hashedCall  = regexp.MustCompile(`^call_[0-9a-f]{16}_\d+_\d+$`)
)

// named are columns that hold no id of what a store makes.
var named = []string{"user_id", "profile", "session_id", "conversation_id", "agent_type"}

// rename gives everything that is copied an id of its own, derived as the ids of
// new things are. Texts are given the new ids too: the model finds in what it
// was told which sub-agent to resume.
func (f *fork) rename() {
	for id := range f.turns {
		f.newTurn(id)
	}
	for _, one := range f.list {
		f.newThread(one.src.ID)
		for _, c := range one.calls {
			if !hashedCall.MatchString(c.ID) {
				id := f.newCall(c.ID)
				f.made[c.ID], f.made[agent.TaskID(c.ID)], f.made[agent.ToolMessageID(c.ID)] = id, agent.TaskID(id), agent.ToolMessageID(id)
			}
		}
		for _, e := range one.entries {
			// The turn that it would have opened, had it not been taken into a
			// running one: the id of its message follows from it.
			if f.turns[e.TurnID] == nil && e.Kind != memory.EntryRetry && e.TurnID != "" {
				f.made[e.TurnID] = agent.TurnID(f.newThread(one.src.ID), f.newEntryID(e.Kind, e.ID), 0)
			}
		}
	}
	ids := maps.Clone(f.made)
	ids["agent:"+f.list[0].src.ID] = "agent:" + f.id // the source of a message
	var whole, within []string
	for _, old := range slices.Sorted(maps.Keys(ids)) {
		switch {
		case turnForm.MatchString(old):
			within = append(within, old[1:], ids[old][1:])
		case hashedAgent.MatchString(old):
			within = append(within, old, ids[old])
		default:
			whole = append(whole, `"`+old+`"`, `"`+ids[old]+`"`)
		}
	}
	f.text = strings.NewReplacer(append(whole, within...)...).Replace
}

// newID is what stands in a copied row instead of a text.
func (f *fork) newID(s string) string {
	if made, ok := f.made[s]; ok {
		return made
	}
	return f.text(s)
}

// renameRow puts the new ids into a row.
func (f *fork) renameRow(r row) {
	for i, c := range r.cells {
		if s, ok := c.v.(string); ok && !slices.Contains(named, r.columns[i]) {
			r.cells[i].v = f.newID(s)
		}
	}
}

func (f *fork) newThread(id string) string {
	one := f.threads[id]
	switch {
	case one == nil:
		return id
	case one.src.Kind == agent.KindMain:
		f.made[id] = f.id
	case f.made[id] == "":
		created, turn := time.UnixMilli(one.src.CreatedMs), ""
		if c := f.calls[one.src.ParentToolCallID]; c != nil {
			created, turn = c.CreatedAt, f.newTurn(c.TurnID)
		}
		made := agent.NewAgentID(one.src.AgentType, created, f.newThread(one.src.ParentThreadID), turn, f.newCall(one.src.ParentToolCallID))
		f.made[one.src.AgentID], f.made[id] = made, agent.SubThreadID(one.src.AgentType, made)
	}
	return f.made[id]
}

// newCall is the id of a call, which contains that of its turn.
func (f *fork) newCall(id string) string {
	if c := f.calls[id]; c != nil {
		return agent.CallID(f.newTurn(c.TurnID), c.Step, c.Index)
	}
	hash, rest, _ := strings.Cut(strings.TrimPrefix(id, "call_"), "_")
	return "call_" + f.newTurn("t" + hash)[1:] + "_" + rest
}

func (f *fork) newTurn(id string) string {
	if made, ok := f.made[id]; ok || id == "" {
		return made
	}
	f.made[id] = agent.TurnID(f.id, id, 0)
	return f.made[id]
}

// newEntryID is the id of an inbox entry; those that people give stay.
func (f *fork) newEntryID(kind memory.EntryKind, id string) string {
	switch {
	case kind == memory.EntryAssign:
		return f.newCall(id)
	case kind == memory.EntryChild, kind == memory.EntryRetry && f.turns[id] != nil:
		return f.newTurn(id)
	}
	return id
}
