package rules

import (
	"context"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// Send puts a message into a thread's inbox.
func (s *Store) Send(ctx context.Context, r memory.SendRequest) (res memory.SendResult, err error) {
	if err := r.Check(); err != nil {
		return res, err
	}
	return writing(ctx, s, "send", func(u *Unit) memory.SendResult {
		t := u.Target(r)
		res := memory.SendResult{ThreadID: t.ID, MessageID: r.MessageID, State: memory.EntryWaiting}
		if old := u.Entry(`thread_id = ? AND kind = 'message' AND id = ?`, t.ID, r.MessageID); old != nil {
			return repeatedSend(t, old, r)
		}
		if again := u.repeatedAnswer(t, r); again != nil {
			return *again
		}
		if r.WhenBusy == "" {
			if answered := u.sendPlain(t, r); answered != nil {
				return *answered
			}
		}
		u.roomFor(t, r)
		u.showable(r.Content)
		e := &rows.Entry{InboxEntry: memory.InboxEntry{
			Kind: memory.EntryMessage, ID: r.MessageID, State: memory.EntryWaiting, WhenBusy: r.WhenBusy,
			TurnID: t.TurnID(r.MessageID, 0), Content: r.Content, Agent: r.Agent, Model: r.Model,
		}, Schema: string(r.AnswerSchema)}
		u.Enter(t, e)
		if t.Topic == "" {
			t.Topic = line(rows.Clean(r.Content.String()), rows.TopicLength)
		}
		res.TurnID, res.Idle = e.TurnID, t.OpenTurnID == ""
		return res
	})
}

// Target finds or makes the thread of a message.
func (u *Unit) Target(r memory.SendRequest) *rows.Thread {
	if r.ThreadID != "" {
		t := u.ThreadOf(r.UserID, r.ThreadID)
		if !memory.InProfile(t.Profile, r.Profile) {
			rows.Check(rows.NoThread(r.ThreadID))
		}
		if t.Kind != agent.KindMain {
			rows.Refuse(agent.CodeInvalid, "thread %s belongs to a sub-agent, which takes work from its parent only: send to %s", t.ID, t.RootThreadID)
		}
		return t
	}
	id := agent.MainThreadID(r.SessionID, r.ConversationID)
	if t := u.FindThread(r.UserID, id); t != nil {
		if t.UserID != r.UserID || !memory.InProfile(t.Profile, r.Profile) {
			taken(r.SessionID)
		}
		return t
	}
	u.Session(r)
	t := &rows.Thread{Thread: agent.Thread{
		ID: id, UserID: r.UserID, Profile: r.Profile, SessionID: r.SessionID, ConversationID: r.ConversationID,
		Kind: agent.KindMain, RootThreadID: id, Status: agent.ThreadPending, Workdir: r.Workdir, AgentType: r.Agent,
	}, PickModel: r.Model}
	t.ConfigHash = u.KeepConfig(agent.SpecialistAgentConfig{Name: r.Agent, Model: r.Model})
	u.Create(t)
	return t
}

// newest is no name of a session: where a person types an id, it stands for the newest
// conversation.
const newest = "latest"

// taken refuses the name of a session that is another user's, or another profile's.
func taken(session string) {
	rows.Refuse(agent.CodeConflict, "the session name %s cannot be used: choose another", session)
}

// Session makes the session of a new thread, or finds it to be another user's.
func (u *Unit) Session(r memory.SendRequest) {
	var owner, profile string
	if r.SessionID == newest && !u.One(`SELECT user_id FROM sessions WHERE id = ?`, r.SessionID).Into(&owner) {
		rows.Refuse(agent.CodeInvalid, "no session can be called %s, which stands for the newest conversation: choose another name", newest)
	}
	for try := 1; ; try++ {
		u.Exec(`INSERT INTO sessions (id, user_id, profile, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			r.SessionID, r.UserID, r.Profile, u.Now)
		// A session that was there may be deleted between the two: then it is made anew.
		if u.One(`SELECT user_id, profile FROM sessions WHERE id = ?`, r.SessionID).Into(&owner, &profile) || try == 3 {
			break
		}
	}
	if owner != r.UserID || !memory.InProfile(profile, r.Profile) {
		taken(r.SessionID)
	}
}

// repeatedSend is the outcome of a message id that is there already.
func repeatedSend(t *rows.Thread, old *rows.Entry, r memory.SendRequest) memory.SendResult {
	content := rows.Must(rows.Encode(r.Content))
	if content != old.ContentText || r.Agent != old.Agent || r.Model != old.Model || string(r.AnswerSchema) != old.Schema {
		rows.Check(usedID(t, r.MessageID))
	}
	return memory.SendResult{
		ThreadID: t.ID, TurnID: old.TurnID, MessageID: old.ID, Repeated: true, State: old.State,
		Idle: t.OpenTurnID == "" && old.State == memory.EntryWaiting,
	}
}

// roomFor refuses what the sender or a limit does not want in the inbox now.
func (u *Unit) roomFor(t *rows.Thread, r memory.SendRequest) {
	if r.WhenBusy == memory.Reject && (t.OpenTurnID != "" || t.Waiting > 0) {
		rows.Refuse(agent.CodeConflict, "thread %s is busy (%s): try later, or queue the message", t.ID, t.Work())
	}
	limit := int64(r.MaxWaiting)
	if limit <= 0 {
		limit = memory.DefaultMaxWaiting
	}
	if t.Waiting >= limit {
		rows.Refuse(agent.CodeLimit, "the inbox of thread %s holds %d waiting entries, the limit is %d: wait until some are taken", t.ID, t.Waiting, limit)
	}
}

// Retry puts a retry of a thread's last turn into its inbox.
func (s *Store) Retry(ctx context.Context, r memory.RetryRequest) (res memory.SendResult, err error) {
	if r.RequestID == "" || len(r.RequestID) > memory.MaxRequestID || rows.Clean(r.RequestID) != r.RequestID {
		return res, agent.Errorf(agent.CodeInvalid, "retry request id %.40q is not possible: use 1 to %d characters", r.RequestID, memory.MaxRequestID)
	}
	return writing(ctx, s, "retry", func(u *Unit) memory.SendResult {
		t := u.ThreadOf(r.UserID, r.ThreadID)
		res := memory.SendResult{ThreadID: t.ID, State: memory.EntryWaiting}
		if t.Kind != agent.KindMain {
			rows.Refuse(agent.CodeInvalid, "thread %s belongs to a sub-agent, which only its parent can have try again: tell %s to go on with agent %s (resume %s)", t.ID, t.RootThreadID, t.AgentType, t.AgentID)
		}
		if old := u.Entry(`thread_id = ? AND kind = 'retry' AND id = ?`, t.ID, r.RequestID); old != nil {
			res.TurnID, res.MessageID, res.Repeated, res.State = old.TurnID, old.MessageID, true, old.State
			res.Idle = t.OpenTurnID == "" && old.State == memory.EntryWaiting
			return res
		}
		if t.OpenTurnID != "" || t.Waiting > 0 {
			rows.Refuse(agent.CodeConflict, "thread %s is busy (%s): only the last turn can be retried, once nothing comes after it", t.ID, t.Work())
		}
		last := u.LastTurn(t)
		if last == nil {
			rows.Refuse(agent.CodeConflict, "thread %s has had no turn yet: there is nothing to retry", t.ID)
		}
		e := &rows.Entry{InboxEntry: memory.InboxEntry{
			Kind: memory.EntryRetry, ID: r.RequestID, State: memory.EntryWaiting,
			TurnID: t.TurnID(last.MessageID, last.RetryNo+1),
		}, MessageID: last.MessageID, RetryNo: last.RetryNo + 1}
		u.Enter(t, e)
		res.TurnID, res.MessageID, res.Idle = e.TurnID, e.MessageID, true
		return res
	})
}

// LastTurn is the newest turn of a thread; nil if it had none.
func (u *Unit) LastTurn(t *rows.Thread) *rows.Turn {
	if t.LastTurn == 0 {
		return nil
	}
	var id string
	rows.Check(u.Row(`SELECT id FROM turns WHERE thread_id = ? AND n = ?`, t.ID, t.LastTurn).Scan(&id))
	return u.Turn(id)
}

// showable refuses a message that shows an image which is not there: nobody would
// see it. The row of each is locked, so that no deletion removes it meanwhile.
func (u *Unit) showable(c agent.Content) {
	for _, name := range slices.Sorted(slices.Values(c.Images())) { // one order, as for all locks
		if !u.UseImage(name) {
			rows.Refuse(agent.CodeInvalid, "the message shows %s%s, which is not kept here (any more): attach the image again", agent.ImageScheme, name)
		}
	}
}
