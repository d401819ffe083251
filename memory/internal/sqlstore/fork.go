package sqlstore

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// cutText is why the last turn of a copied thread ended.
const cutText = "the conversation was forked before this turn had ended: go on with a message, or retry it"

// Fork copies a main thread with its sub-agents up to a message.
func (s *Store) Fork(ctx context.Context, r memory.ForkRequest) (res memory.ForkResult, err error) {
	switch {
	case r.RequestID == "" || len(r.RequestID) > memory.MaxRequestID || clean(r.RequestID) != r.RequestID:
		return res, agent.Errorf(agent.CodeInvalid, "fork request id %.40q is not possible: use 1 to %d characters", r.RequestID, memory.MaxRequestID)
	case r.ConversationID == "":
		r.ConversationID = agent.ForkName(r.ThreadID, r.RequestID)
	}
	if err := agent.CheckName("conversation", r.ConversationID); err != nil {
		return res, err
	}
	err = s.write(ctx, "fork", func(u *unit) error {
		src, err := u.owned(r.UserID, r.ThreadID)
		if err == nil && !memory.InProfile(src.Profile, r.Profile) {
			err = noThread(r.ThreadID)
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
			if err := u.fork(src, id, r); err != nil {
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
func (u *unit) forked(src *threadRow, id, at string) (bool, error) {
	_, err := u.thread(id)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var from, asked string
	err = u.row(`SELECT from_thread, at_message FROM forks WHERE thread_id = ?`, id).Scan(&from, &asked)
	if err != nil && !noRows(err) {
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
		cut      intBool
	}
	res := memory.ForkResult{SubAgents: []memory.ForkedThread{}, Cut: []string{}}
	rows, err := u.rows(`SELECT f.thread_id, f.from_thread, f.from_seq, f.cut FROM forks f JOIN threads t ON t.id = f.thread_id`+
		` WHERE t.root_id = ? ORDER BY t.depth, t.created_at, t.id`, id)
	found, err := collect(rows, err, func(f *forkRow) []any { return []any{&f.id, &f.from, &f.messages, &f.cut} }, func(*forkRow) error { return nil })
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

// fork is a copy under way. What happened in the original up to a moment is
// copied with ids of its own; nothing of the original is changed.
type fork struct {
	*unit
	id, conversation string
	at               int64 // the moment, by the original's clock
	list             []*forkThread
	threads          map[string]*forkThread // by the original's id
	turns            map[string]*turnRow    // all of the copied threads, by id
	calls            map[string]*callRow    // those that are copied
	made             map[string]string      // new ids, by old ones
	text             func(string) string    // puts new ids into texts
}

// forkThread is one thread of a fork. Its rows are those of the original.
type forkThread struct {
	src     *threadRow
	t       *threadRow // the copy
	event   int64      // what is copied of the log
	message int64      // and of the messages
	at      int64      // when that was written
	open    *turnRow   // the turn that is cut, if one is
	saved   int        // its steps that are copied

	events   []*eventRow
	messages []*messageRow
	ids      map[string]bool // of the messages
	turns    []*turnRow      // begun by then
	calls    []*callRow
	entries  []*entryRow
	// summaries are those that were made for copied steps.
	summaries []*summaryRow
	unbegun   []*entryRow // work that the copied part ordered and did not begin
	ended     []*turnRow  // ends in the background that the copied part does not tell
}

func (u *unit) fork(src *threadRow, id string, r memory.ForkRequest) error {
	f := &fork{
		unit: u, id: id, conversation: r.ConversationID, threads: map[string]*forkThread{}, turns: map[string]*turnRow{},
		calls: map[string]*callRow{}, made: map[string]string{},
	}
	root, err := f.cutMain(src, r.At)
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
		if err := f.write(one, r.At); err != nil {
			return err
		}
	}
	for i := len(f.list) - 1; i >= 0; i-- { // children end before their parents
		if err := f.settle(f.list[i]); err != nil {
			return err
		}
	}
	t := root.t
	t.at = max(u.now, t.updated)
	t.touch()
	return nil
}
