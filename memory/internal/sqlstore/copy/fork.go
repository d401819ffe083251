package copy

import (
	"context"

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
	err = s.write(ctx, "fork", func(u *unit) error {
		src, err := u.ThreadOf(r.UserID, r.ThreadID)
		if err == nil && !memory.InProfile(src.Profile, r.Profile) {
			err = rows.NoThread(r.ThreadID)
		}
		if err != nil {
			return err
		}
		if src.Kind != agent.KindMain {
			return agent.Errorf(agent.CodeInvalid, "thread %s belongs to a sub-agent, whose parent refers to it: fork the conversation, %s; its sub-agents are copied", src.ID, src.RootThreadID)
		}
		id := agent.MainThreadID(src.SessionID, r.ConversationID)
		repeated, err := u.forked(src, id, r.At)
		if err != nil {
			return err
		}
		if !repeated {
			f := &fork{unit: u, id: id, conversation: r.ConversationID, threads: map[string]*forkThread{}, turns: map[string]*rows.Turn{}, calls: map[string]*rows.Call{}, made: map[string]string{}}
			if err := f.copy(src, r.At); err != nil {
				return err
			}
		}
		res, err = u.forkResult(id)
		res.Repeated = repeated
		return err
	})
	return res, err
}

// forked reports whether this very fork was made before.
func (u *unit) forked(src *rows.Thread, id, at string) (bool, error) {
	_, err := u.Thread(id)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var from, asked string
	err = u.Row(`SELECT from_thread, at_message FROM forks WHERE thread_id = ?`, id).Scan(&from, &asked)
	if err != nil && !rows.NoRows(err) {
		return false, err
	}
	if from != src.ID || asked != at {
		return false, agent.Errorf(agent.CodeConflict, "conversation %s is there already, and it is not this fork: use another name or request id", id)
	}
	return true, nil
}

// forkResult reads what a fork made.
func (u *unit) forkResult(id string) (memory.ForkResult, error) {
	type forkRow struct {
		id, from string
		messages int64
		cut      rows.IntBool
	}
	res := memory.ForkResult{SubAgents: []memory.ForkedThread{}, Cut: []string{}}
	found, err := rows.Find(u, func(f *forkRow) []any { return []any{&f.id, &f.from, &f.messages, &f.cut} }, nil, `SELECT f.thread_id, f.from_thread, f.from_seq, f.cut FROM forks f JOIN threads t ON t.id = f.thread_id`+
		` WHERE t.root_id = ? ORDER BY t.depth, t.created_at, t.id`, id)
	if err != nil {
		return res, err
	}
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
	return res, nil
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
func (f *fork) copy(src *rows.Thread, at string) error {
	root, err := f.cutMain(src, at)
	if err != nil {
		return err
	}
	if err := f.add(root); err != nil {
		return err
	}
	for i := 0; i < len(f.list); i++ { // it grows: parents come before their children
		if err := f.below(f.list[i]); err != nil {
			return err
		}
	}
	if err := f.rename(); err != nil {
		return err
	}
	for _, one := range f.list {
		if err := f.write(one, at); err != nil {
			return err
		}
	}
	if err := f.settle(); err != nil {
		return err
	}
	t := root.t
	t.At = max(f.Now, t.UpdatedMs)
	t.Touch()
	return nil
}

// settle ends what the copy cannot go on with: turns that are cut, and work that
// had not begun. Ends of sub-agents that nobody was told are noted.
func (f *fork) settle() error {
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
	if err := end.close(); err != nil {
		return err
	}
	for _, one := range f.list {
		for _, src := range one.ended {
			turn, err := f.Turn(f.newTurn(src.ID))
			if err != nil {
				return err
			}
			if err := end.tell(turn); err != nil {
				return err
			}
		}
		if one.t.Kind == agent.KindSubAgent && len(one.turns) == 0 {
			one.t.Status = agent.ThreadCancelled
		}
	}
	return nil
}

// isCut reports whether a turn of the original is cut in the copy.
func (f *fork) isCut(turnID string) bool {
	turn := f.turns[turnID]
	return turn != nil && f.threads[turn.ThreadID] != nil && f.threads[turn.ThreadID].open == turn
}
