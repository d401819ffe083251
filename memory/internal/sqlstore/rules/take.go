package rules

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// TakeNext opens a turn on the oldest takeable inbox entry, or returns the open one.
func (s *Store) TakeNext(ctx context.Context, r memory.TakeRequest) (claim memory.Claim, err error) {
	err = s.write(ctx, "claim", func(u *Unit) error {
		claim = memory.Claim{}
		t, err := u.Thread(r.ThreadID)
		if err != nil {
			return err
		}
		turn, err := u.current(t, r)
		if err != nil {
			return err
		}
		// Not in the middle of a turn: its tools have been at work somewhere.
		if turn != nil && turn.Steps == 0 && r.Workdir != "" && r.Workdir != t.Workdir && t.Kind == agent.KindMain {
			t.Workdir = r.Workdir
			t.Touch()
		}
		if claim.Thread, err = u.View(t); err != nil {
			return err
		}
		if turn != nil {
			v := turn.Turn
			claim.Turn, claim.Step = &v, turn.Saved+1
		}
		return nil
	})
	return claim, err
}

// current is the open turn, or the one opened now, or nil.
func (u *Unit) current(t *rows.Thread, r memory.TakeRequest) (*rows.Turn, error) {
	if t.OpenTurnID == "" {
		return u.claim(t, r.RunID, r.Config)
	}
	turn, err := u.Turn(t.OpenTurnID)
	if err != nil {
		return nil, err
	}
	if r.RunID != "" && turn.RunID != r.RunID {
		turn.RunID, turn.Dirty = r.RunID, true
	}
	if r.Config == nil || turn.Saved > 0 {
		return turn, nil
	}
	// Before its first save a turn may still get another snapshot: the claim
	// decides which agent answers, and only then its template is known.
	return turn, u.configure(t, &rows.Entry{}, r.Config)
}

// claim takes the next takeable entry of an idle thread and opens its turn.
func (u *Unit) claim(t *rows.Thread, runID string, config *agent.SpecialistAgentConfig) (*rows.Turn, error) {
	if t.Waiting == 0 {
		return nil, nil
	}
	e, err := u.Entry(`thread_id = ? AND `+rows.Takeable+` ORDER BY seq LIMIT 1`, t.ID)
	if err != nil || e == nil {
		return nil, err
	}
	turn := &rows.Turn{Turn: memory.Turn{
		ID: e.TurnID, ThreadID: t.ID, EntryKind: e.Kind, MessageID: e.ID, State: memory.TurnOpen, RunID: runID,
	}, RetryNo: e.RetryNo, OpenedMs: t.At, Schema: e.Schema}
	content := e.Content
	switch e.Kind {
	case memory.EntryRetry:
		content, err = u.prepareRetry(t, turn, e)
	case memory.EntryAssign:
		turn.DelegatorThread, turn.DelegatorTurn, turn.DelegatorCall = e.DelegatorThread, e.DelegatorTurn, e.CallID
		turn.TaskID = e.TaskID
		turn.Background = e.Background
		t.ConfigHash = cmp.Or(e.ConfigHash, t.ConfigHash)
	}
	if err != nil {
		return nil, err
	}
	if err := u.configure(t, e, config); err != nil {
		return nil, err
	}
	if t.Kind == agent.KindMain && e.Kind != memory.EntryChild {
		if err := u.renew(t); err != nil {
			return nil, err
		}
	}
	t.LastTurn++
	turn.N = t.LastTurn
	if err := u.InsertTurn(turn); err != nil {
		return nil, err
	}
	if err := u.Take(t, e, turn.ID); err != nil {
		return nil, err
	}
	t.OpenTurnID, t.Status, t.Reason = turn.ID, agent.ThreadRunning, ""
	if err := u.DelegatorTask(turn, agent.TaskRunning); err != nil {
		return nil, err
	}
	return turn, u.begin(t, turn, e, content)
}

// begin writes what a turn starts with: message_started and the user's message.
func (u *Unit) begin(t *rows.Thread, turn *rows.Turn, e *rows.Entry, content agent.Content) error {
	c, err := u.Store.Config(u, t.ConfigHash)
	if err != nil {
		return err
	}
	tools := c.Tools
	if tools == nil {
		tools = []string{}
	}
	if err := u.Event(t, turn.ID, agent.EventMessageStarted, rows.MessageStarted{Content: content, ToolNames: tools}); err != nil {
		return err
	}
	from := t.LastMessage + 1
	taken, err := u.takeQuiet(t, turn)
	if err != nil {
		return err
	}
	if e.Kind == memory.EntryRetry {
		if taken == 0 {
			return nil
		}
		return u.Appended(t, turn.ID, from, t.LastMessage)
	}
	seq, err := u.appendEntry(t, turn, e, "")
	if err != nil {
		return err
	}
	return u.Appended(t, turn.ID, from, seq)
}

// takeQuiet appends the ends that waited for a turn without opening one.
func (u *Unit) takeQuiet(t *rows.Thread, turn *rows.Turn) (int, error) {
	if t.LastChild == 0 {
		return 0, nil
	}
	entries, err := u.Entries(`thread_id = ? AND state = 'waiting' AND quiet = 1`, t.ID)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if err := u.Take(t, e, turn.ID); err != nil {
			return 0, err
		}
		if _, err := u.appendEntry(t, turn, e, ""); err != nil {
			return 0, err
		}
	}
	return len(entries), nil
}

// appendEntry appends an entry's content as a message of the user role. source
// is that of a person's message.
func (u *Unit) appendEntry(t *rows.Thread, turn *rows.Turn, e *rows.Entry, source string) (int64, error) {
	content := e.Content
	switch e.Kind {
	case memory.EntryAssign:
		source = "agent:" + e.DelegatorThread
	case memory.EntryChild:
		source = "agent:" + e.ChildThread
		child, err := u.Turn(e.ChildTurn)
		if err != nil {
			return 0, err
		}
		if content, err = u.report(t, child); err != nil {
			return 0, err
		}
	}
	return u.Append(t, agent.Message{ID: agent.MessageID(e.TurnID, 0), Role: agent.RoleUser, Content: content, TurnID: turn.ID, Source: source})
}

// prepareRetry links a retry to the turn before it and returns the content it
// answers again.
func (u *Unit) prepareRetry(t *rows.Thread, turn *rows.Turn, e *rows.Entry) (agent.Content, error) {
	turn.MessageID = e.MessageID
	last, err := u.LastTurn(t)
	if err != nil || last == nil {
		return agent.Content{}, err
	}
	turn.RetryOf, turn.Schema = last.ID, last.Schema
	if err := u.Supersede(t, last, turn.ID); err != nil {
		return agent.Content{}, err
	}
	first, err := u.UserMessageID(turn)
	if err != nil {
		return agent.Content{}, err
	}
	var body string
	err = u.Row(`SELECT body FROM messages WHERE thread_id = ? AND id = ?`, t.ID, first).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return agent.Content{}, nil
	}
	if err != nil {
		return agent.Content{}, err
	}
	var m agent.Message
	err = rows.Decode(body, &m)
	return m.Content, err
}

// configure applies the turn's template snapshot and the sender's choices.
func (u *Unit) configure(t *rows.Thread, e *rows.Entry, config *agent.SpecialistAgentConfig) error {
	if e.Kind == memory.EntryMessage {
		t.AgentType = cmp.Or(e.Agent, t.AgentType)
		t.PickModel = cmp.Or(e.Model, t.PickModel)
	}
	if t.Kind != agent.KindMain || config == nil && e.Agent == "" && e.Model == "" {
		return nil
	}
	c, err := u.Store.Config(u, t.ConfigHash)
	if err != nil {
		return err
	}
	if config != nil {
		c = rows.CopyConfig(*config)
		if t.AgentType == "" {
			t.AgentType = c.Name
		}
	} else if e.Agent != "" && e.Agent != c.Name { // its template is not known yet
		c = agent.SpecialistAgentConfig{Name: e.Agent}
	}
	if t.PickModel != "" {
		c.Model, c.Provider = t.PickModel, "" // a model is asked where it was named
	}
	hash, err := u.KeepConfig(c)
	if err == nil && hash != t.ConfigHash {
		t.ConfigHash = hash
		t.Touch()
	}
	return err
}
