package sqlstore

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// topicLength is how much of its first message a conversation is named by.
const topicLength = 80

// Send puts a message into a thread's inbox.
func (s *Store) Send(ctx context.Context, r memory.SendRequest) (res memory.SendResult, err error) {
	if err := r.Check(); err != nil {
		return res, err
	}
	err = s.write(ctx, "send", func(u *unit) error {
		t, err := u.target(r)
		if err != nil {
			return err
		}
		res, err = u.send(t, r)
		return err
	})
	return res, err
}

// target finds or makes the thread of a message.
func (u *unit) target(r memory.SendRequest) (*threadRow, error) {
	if r.ThreadID != "" {
		t, err := u.owned(r.UserID, r.ThreadID)
		if err == nil && !memory.InProfile(t.Profile, r.Profile) {
			return nil, noThread(r.ThreadID)
		}
		if err == nil && t.Kind != agent.KindMain {
			return nil, agent.Errorf(agent.CodeInvalid, "thread %s belongs to a sub-agent, which takes work from its parent only: send to %s", t.ID, t.RootThreadID)
		}
		return t, err
	}
	id := agent.MainThreadID(r.SessionID, r.ConversationID)
	t, err := u.thread(id)
	if err == nil {
		if t.UserID != r.UserID || !memory.InProfile(t.Profile, r.Profile) {
			return nil, noThread(id)
		}
		return t, nil
	}
	if agent.CodeOf(err) != agent.CodeNotFound {
		return nil, err
	}
	if err := u.session(r, id); err != nil {
		return nil, err
	}
	t = &threadRow{Thread: agent.Thread{
		ID: id, UserID: r.UserID, Profile: r.Profile, SessionID: r.SessionID, ConversationID: r.ConversationID,
		Kind: agent.KindMain, RootThreadID: id, Status: agent.ThreadPending, Workdir: r.Workdir, AgentType: r.Agent,
	}, pickModel: r.Model}
	if t.configHash, err = u.keepConfig(agent.SpecialistAgentConfig{Name: r.Agent, Model: r.Model}); err != nil {
		return nil, err
	}
	return t, u.create(t)
}

// session makes the session of a new thread, or finds it to be another user's.
func (u *unit) session(r memory.SendRequest, threadID string) error {
	err := u.exec(`INSERT INTO sessions (id, user_id, profile, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		r.SessionID, r.UserID, r.Profile, u.now)
	if err != nil {
		return err
	}
	var owner, profile string
	if err := u.row(`SELECT user_id, profile FROM sessions WHERE id = ?`, r.SessionID).Scan(&owner, &profile); err != nil {
		return err
	}
	if owner != r.UserID || !memory.InProfile(profile, r.Profile) {
		return noThread(threadID)
	}
	return nil
}

// owned loads a thread for a person; another's is not found.
func (u *unit) owned(userID, threadID string) (*threadRow, error) {
	t, err := u.thread(threadID)
	if err == nil && userID != "" && t.UserID != userID {
		return nil, noThread(threadID)
	}
	return t, err
}

func (u *unit) send(t *threadRow, r memory.SendRequest) (memory.SendResult, error) {
	res := memory.SendResult{ThreadID: t.ID, MessageID: r.MessageID, State: memory.EntryWaiting}
	old, err := u.entry(`thread_id = ? AND kind = 'message' AND id = ?`, t.ID, r.MessageID)
	if err != nil {
		return res, err
	}
	if old != nil {
		return repeatedSend(t, old, r)
	}
	if again, err := u.repeatedAnswer(t, r); err != nil || again != nil {
		return orNone(again), err
	}
	if r.WhenBusy == "" {
		if answered, err := u.sendPlain(t, r); err != nil || answered != nil {
			return orNone(answered), err
		}
	}
	if err := u.roomFor(t, r); err != nil {
		return res, err
	}
	if err := u.showable(r.Content); err != nil {
		return res, err
	}
	e := &entryRow{InboxEntry: memory.InboxEntry{
		Kind: memory.EntryMessage, ID: r.MessageID, State: memory.EntryWaiting, WhenBusy: r.WhenBusy,
		TurnID: agent.TurnID(t.ID, r.MessageID, 0), Content: r.Content, Agent: r.Agent, Model: r.Model,
	}, schema: string(r.AnswerSchema)}
	if err := u.enter(t, e); err != nil {
		return res, err
	}
	if t.Topic == "" {
		t.Topic = line(clean(r.Content.String()), topicLength)
	}
	res.TurnID, res.Idle = e.TurnID, t.OpenTurnID == ""
	return res, nil
}

// repeatedSend is the outcome of a message id that is there already.
func repeatedSend(t *threadRow, old *entryRow, r memory.SendRequest) (memory.SendResult, error) {
	content, err := encode(r.Content)
	if err != nil {
		return memory.SendResult{}, err
	}
	if content != old.content || r.Agent != old.Agent || r.Model != old.Model || string(r.AnswerSchema) != old.schema {
		return memory.SendResult{}, usedID(t, r.MessageID)
	}
	return memory.SendResult{
		ThreadID: t.ID, TurnID: old.TurnID, MessageID: old.ID, Repeated: true, State: old.State,
		Idle: t.OpenTurnID == "" && old.State == memory.EntryWaiting,
	}, nil
}

// roomFor refuses what the sender or a limit does not want in the inbox now.
func (u *unit) roomFor(t *threadRow, r memory.SendRequest) error {
	if r.WhenBusy == memory.Reject && (t.OpenTurnID != "" || t.waiting > 0) {
		return agent.Errorf(agent.CodeConflict, "thread %s is busy (turn %s open, %d waiting): try later, or queue the message", t.ID, or(t.OpenTurnID, "none"), t.waiting)
	}
	limit := int64(r.MaxWaiting)
	if limit <= 0 {
		limit = memory.DefaultMaxWaiting
	}
	if t.waiting >= limit {
		return agent.Errorf(agent.CodeLimit, "the inbox of thread %s holds %d waiting entries, the limit is %d: wait until some are taken", t.ID, t.waiting, limit)
	}
	return nil
}

func orNone(r *memory.SendResult) memory.SendResult {
	if r == nil {
		return memory.SendResult{}
	}
	return *r
}

// Retry puts a retry of a thread's last turn into its inbox.
func (s *Store) Retry(ctx context.Context, r memory.RetryRequest) (res memory.SendResult, err error) {
	if r.RequestID == "" || len(r.RequestID) > memory.MaxRequestID || clean(r.RequestID) != r.RequestID {
		return res, agent.Errorf(agent.CodeInvalid, "retry request id %.40q is not possible: use 1 to %d characters", r.RequestID, memory.MaxRequestID)
	}
	err = s.write(ctx, "retry", func(u *unit) error {
		t, err := u.owned(r.UserID, r.ThreadID)
		if err != nil {
			return err
		}
		res, err = u.retry(t, r)
		return err
	})
	return res, err
}

func (u *unit) retry(t *threadRow, r memory.RetryRequest) (memory.SendResult, error) {
	res := memory.SendResult{ThreadID: t.ID, State: memory.EntryWaiting}
	if t.Kind != agent.KindMain {
		return res, agent.Errorf(agent.CodeInvalid, "thread %s belongs to a sub-agent: its parent resumes it", t.ID)
	}
	old, err := u.entry(`thread_id = ? AND kind = 'retry' AND id = ?`, t.ID, r.RequestID)
	if err != nil {
		return res, err
	}
	if old != nil {
		res.TurnID, res.MessageID, res.Repeated, res.State = old.TurnID, old.messageID, true, old.State
		res.Idle = t.OpenTurnID == "" && old.State == memory.EntryWaiting
		return res, nil
	}
	if t.OpenTurnID != "" || t.waiting > 0 {
		return res, agent.Errorf(agent.CodeConflict, "thread %s is busy (turn %s open, %d waiting): only the last turn can be retried, once nothing comes after it", t.ID, or(t.OpenTurnID, "none"), t.waiting)
	}
	last, err := u.lastTurn(t)
	if err != nil {
		return res, err
	}
	if last == nil {
		return res, agent.Errorf(agent.CodeConflict, "thread %s has had no turn yet: there is nothing to retry", t.ID)
	}
	e := &entryRow{InboxEntry: memory.InboxEntry{
		Kind: memory.EntryRetry, ID: r.RequestID, State: memory.EntryWaiting,
		TurnID: agent.TurnID(t.ID, last.MessageID, last.retryNo+1),
	}, messageID: last.MessageID, retryNo: last.retryNo + 1}
	if err := u.enter(t, e); err != nil {
		return res, err
	}
	res.TurnID, res.MessageID, res.Idle = e.TurnID, e.messageID, true
	return res, nil
}

// lastTurn is the newest turn of a thread; nil if it had none.
func (u *unit) lastTurn(t *threadRow) (*turnRow, error) {
	if t.lastTurn == 0 {
		return nil, nil
	}
	var id string
	if err := u.row(`SELECT id FROM turns WHERE thread_id = ? AND n = ?`, t.ID, t.lastTurn).Scan(&id); err != nil {
		return nil, err
	}
	return u.turn(id)
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
