package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// TakeNext opens a turn on the oldest takeable inbox entry, or returns the open one.
func (s *Store) TakeNext(ctx context.Context, r memory.TakeRequest) (claim memory.Claim, err error) {
	err = s.write(ctx, "claim", func(u *unit) error {
		claim = memory.Claim{}
		t, err := u.thread(r.ThreadID)
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
			t.touch()
		}
		if claim.Thread, err = u.view(t); err != nil {
			return err
		}
		if turn != nil {
			v := turn.Turn
			claim.Turn, claim.Step = &v, turn.saved+1
		}
		return nil
	})
	return claim, err
}

// current is the open turn, or the one opened now, or nil.
func (u *unit) current(t *threadRow, r memory.TakeRequest) (*turnRow, error) {
	if t.OpenTurnID == "" {
		return u.claim(t, r.RunID, r.Config)
	}
	turn, err := u.turn(t.OpenTurnID)
	if err != nil {
		return nil, err
	}
	if r.RunID != "" && turn.RunID != r.RunID {
		turn.RunID, turn.dirty = r.RunID, true
	}
	if r.Config == nil || turn.saved > 0 {
		return turn, nil
	}
	// Before its first save a turn may still get another snapshot: the claim
	// decides which agent answers, and only then its template is known.
	return turn, u.configure(t, &entryRow{}, r.Config)
}

// claim takes the next takeable entry of an idle thread and opens its turn.
func (u *unit) claim(t *threadRow, runID string, config *agent.SpecialistAgentConfig) (*turnRow, error) {
	if t.waiting == 0 {
		return nil, nil
	}
	e, err := u.entry(`thread_id = ? AND `+takeable+` ORDER BY seq LIMIT 1`, t.ID)
	if err != nil || e == nil {
		return nil, err
	}
	turn := &turnRow{Turn: memory.Turn{
		ID: e.TurnID, ThreadID: t.ID, EntryKind: e.Kind, MessageID: e.ID, State: memory.TurnOpen, RunID: runID,
	}, retryNo: e.retryNo, opened: t.at, schema: e.schema}
	content := e.Content
	switch e.Kind {
	case memory.EntryRetry:
		content, err = u.prepareRetry(t, turn, e)
	case memory.EntryAssign:
		turn.DelegatorThread, turn.DelegatorTurn, turn.DelegatorCall = e.DelegatorThread, e.DelegatorTurn, e.CallID
		turn.TaskID = e.TaskID
		turn.Background = e.Background
		t.configHash = or(e.configHash, t.configHash)
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
	t.lastTurn++
	turn.n = t.lastTurn
	if err := u.insertTurn(turn); err != nil {
		return nil, err
	}
	if err := u.take(t, e, turn.ID); err != nil {
		return nil, err
	}
	t.OpenTurnID, t.Status, t.Reason = turn.ID, agent.ThreadRunning, ""
	if err := u.delegatorTask(turn, agent.TaskRunning); err != nil {
		return nil, err
	}
	return turn, u.begin(t, turn, e, content)
}

// begin writes what a turn starts with: message_started and the user's message.
func (u *unit) begin(t *threadRow, turn *turnRow, e *entryRow, content agent.Content) error {
	c, err := u.s.config(u, t.configHash)
	if err != nil {
		return err
	}
	tools := c.Tools
	if tools == nil {
		tools = []string{}
	}
	if err := u.event(t, turn.ID, agent.EventMessageStarted, messageStarted{Content: content, ToolNames: tools}); err != nil {
		return err
	}
	from := t.lastMessage + 1
	taken, err := u.takeQuiet(t, turn)
	if err != nil {
		return err
	}
	if e.Kind == memory.EntryRetry {
		if taken == 0 {
			return nil
		}
		return u.appended(t, turn.ID, from, t.lastMessage)
	}
	seq, err := u.appendEntry(t, turn, e, "")
	if err != nil {
		return err
	}
	return u.appended(t, turn.ID, from, seq)
}

// takeQuiet appends the ends that waited for a turn without opening one.
func (u *unit) takeQuiet(t *threadRow, turn *turnRow) (int, error) {
	if t.lastChild == 0 {
		return 0, nil
	}
	entries, err := u.entries(`thread_id = ? AND state = 'waiting' AND quiet = 1`, t.ID)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if err := u.take(t, e, turn.ID); err != nil {
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
func (u *unit) appendEntry(t *threadRow, turn *turnRow, e *entryRow, source string) (int64, error) {
	content := e.Content
	switch e.Kind {
	case memory.EntryAssign:
		source = "agent:" + e.DelegatorThread
	case memory.EntryChild:
		source = "agent:" + e.ChildThread
		child, err := u.turn(e.ChildTurn)
		if err != nil {
			return 0, err
		}
		if content, err = u.report(t, child); err != nil {
			return 0, err
		}
	}
	return u.append(t, agent.Message{ID: agent.MessageID(e.TurnID, 0), Role: agent.RoleUser, Content: content, TurnID: turn.ID, Source: source})
}

// prepareRetry links a retry to the turn before it and returns the content it
// answers again.
func (u *unit) prepareRetry(t *threadRow, turn *turnRow, e *entryRow) (agent.Content, error) {
	turn.MessageID = e.messageID
	last, err := u.lastTurn(t)
	if err != nil || last == nil {
		return agent.Content{}, err
	}
	turn.RetryOf, turn.schema = last.ID, last.schema
	if err := u.supersede(t, last, turn.ID); err != nil {
		return agent.Content{}, err
	}
	var body string
	err = u.row(`SELECT body FROM messages WHERE thread_id = ? AND id = ?`, t.ID, userMessageID(turn)).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return agent.Content{}, nil
	}
	if err != nil {
		return agent.Content{}, err
	}
	var m agent.Message
	err = decode(body, &m)
	return m.Content, err
}

// configure applies the turn's template snapshot and the sender's choices.
func (u *unit) configure(t *threadRow, e *entryRow, config *agent.SpecialistAgentConfig) error {
	if e.Kind == memory.EntryMessage {
		t.AgentType = or(e.Agent, t.AgentType)
		t.pickModel = or(e.Model, t.pickModel)
	}
	if t.Kind != agent.KindMain || config == nil && e.Agent == "" && e.Model == "" {
		return nil
	}
	c, err := u.s.config(u, t.configHash)
	if err != nil {
		return err
	}
	if config != nil {
		c = copyConfig(*config)
		if t.AgentType == "" {
			t.AgentType = c.Name
		}
	} else if e.Agent != "" && e.Agent != c.Name { // its template is not known yet
		c = agent.SpecialistAgentConfig{Name: e.Agent}
	}
	c.Model = or(t.pickModel, c.Model)
	hash, err := u.keepConfig(c)
	if err == nil && hash != t.configHash {
		t.configHash = hash
		t.touch()
	}
	return err
}
