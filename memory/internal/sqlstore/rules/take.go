package rules

import (
	"cmp"
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// TakeNext opens a turn on the oldest takeable inbox entry, or returns the open one.
func (s *Store) TakeNext(ctx context.Context, r memory.TakeRequest) (memory.Claim, error) {
	return writing(ctx, s, "claim", func(u *Unit) (claim memory.Claim) {
		t := u.Thread(r.ThreadID)
		turn := u.current(t, r)
		// Not in the middle of a turn: its tools have been at work somewhere.
		if turn != nil && turn.Steps == 0 && r.Workdir != "" && r.Workdir != t.Workdir && t.Kind == agent.KindMain {
			t.Workdir = r.Workdir
			t.Touch()
		}
		claim.Thread = u.View(t)
		if turn != nil {
			claim.Turn, claim.Step = new(turn.Turn), turn.Saved+1
		}
		return claim
	})
}

// current is the open turn, or the one opened now, or nil.
func (u *Unit) current(t *rows.Thread, r memory.TakeRequest) *rows.Turn {
	if t.OpenTurnID == "" {
		return u.claim(t, r.RunID, r.Config)
	}
	turn := u.Turn(t.OpenTurnID)
	if r.RunID != "" && turn.RunID != r.RunID {
		turn.RunID, turn.Dirty = r.RunID, true
	}
	if r.Config == nil || turn.Saved > 0 {
		return turn
	}
	// Before its first save a turn may still get another snapshot: the claim
	// decides which agent answers, and only then its template is known.
	u.configure(t, &rows.Entry{}, r.Config)
	return turn
}

// claim takes the next takeable entry of an idle thread and opens its turn.
func (u *Unit) claim(t *rows.Thread, runID string, config *agent.SpecialistAgentConfig) *rows.Turn {
	if t.Waiting == 0 {
		return nil
	}
	e := u.Entry(`thread_id = ? AND `+rows.Takeable+` ORDER BY seq LIMIT 1`, t.ID)
	if e == nil {
		return nil
	}
	turn := &rows.Turn{Turn: memory.Turn{
		ID: e.TurnID, ThreadID: t.ID, EntryKind: e.Kind, MessageID: e.ID, State: memory.TurnOpen, RunID: runID,
	}, RetryNo: e.RetryNo, OpenedMs: t.At, Schema: e.Schema}
	content := e.Content
	switch e.Kind {
	case memory.EntryRetry:
		content = u.prepareRetry(t, turn, e)
	case memory.EntryAssign:
		turn.DelegatorThread, turn.DelegatorTurn, turn.DelegatorCall = e.DelegatorThread, e.DelegatorTurn, e.CallID
		turn.TaskID = e.TaskID
		turn.Background = e.Background
		t.ConfigHash = cmp.Or(e.ConfigHash, t.ConfigHash)
	}
	u.configure(t, e, config)
	if t.Kind == agent.KindMain && e.Kind != memory.EntryChild {
		u.Exec(`DELETE FROM budgets WHERE root_id = ?`, t.RootThreadID) // a person has spoken
	}
	t.LastTurn++
	turn.N = t.LastTurn
	u.InsertTurn(turn)
	u.Take(t, e, turn.ID)
	t.OpenTurnID, t.Status, t.Reason = turn.ID, agent.ThreadRunning, ""
	u.DelegatorTask(turn, agent.TaskRunning)
	u.begin(t, turn, e, content)
	return turn
}

// begin writes what a turn starts with: message_started and the user's message.
func (u *Unit) begin(t *rows.Thread, turn *rows.Turn, e *rows.Entry, content agent.Content) {
	tools := u.Store.Config(u, t.ConfigHash).Tools
	if tools == nil {
		tools = []string{}
	}
	u.Event(t, turn.ID, agent.EventMessageStarted, rows.MessageStarted{Content: content, ToolNames: tools})
	from := t.LastMessage + 1
	taken := u.takeQuiet(t, turn)
	if e.Kind != memory.EntryRetry {
		u.appendEntry(t, turn, e, "")
	} else if taken == 0 {
		return
	}
	u.Appended(t, turn.ID, from, t.LastMessage)
}

// takeQuiet appends the ends that waited for a turn without opening one.
func (u *Unit) takeQuiet(t *rows.Thread, turn *rows.Turn) int {
	if t.LastChild == 0 {
		return 0
	}
	entries := u.Entries(`thread_id = ? AND state = 'waiting' AND quiet = 1`, t.ID)
	for _, e := range entries {
		u.Take(t, e, turn.ID)
		u.appendEntry(t, turn, e, "")
	}
	return len(entries)
}

// appendEntry appends an entry's content as a message of the user role. source
// is that of a person's message.
func (u *Unit) appendEntry(t *rows.Thread, turn *rows.Turn, e *rows.Entry, source string) {
	content := e.Content
	switch e.Kind {
	case memory.EntryAssign:
		source = "agent:" + e.DelegatorThread
	case memory.EntryChild:
		source = "agent:" + e.ChildThread
		content = u.report(t, u.Turn(e.ChildTurn))
	}
	u.Append(t, agent.Message{ID: agent.MessageID(e.TurnID, 0), Role: agent.RoleUser, Content: content, TurnID: turn.ID, Source: source})
}

// prepareRetry links a retry to the turn before it and returns the content it
// answers again.
func (u *Unit) prepareRetry(t *rows.Thread, turn *rows.Turn, e *rows.Entry) agent.Content {
	turn.MessageID = e.MessageID
	last := u.LastTurn(t)
	if last == nil {
		return agent.Content{}
	}
	turn.RetryOf, turn.Schema = last.ID, last.Schema
	u.Supersede(t, last, turn.ID)
	var body string
	u.One(`SELECT body FROM messages WHERE thread_id = ? AND id = ?`, t.ID, u.UserMessageID(turn)).Into(&body)
	var m agent.Message
	rows.Check(rows.Decode(body, &m))
	return m.Content
}

// configure applies the turn's template snapshot and the sender's choices.
func (u *Unit) configure(t *rows.Thread, e *rows.Entry, config *agent.SpecialistAgentConfig) {
	if e.Kind == memory.EntryMessage {
		t.AgentType = cmp.Or(e.Agent, t.AgentType)
		t.PickModel = cmp.Or(e.Model, t.PickModel)
	}
	if t.Kind != agent.KindMain || config == nil && e.Agent == "" && e.Model == "" {
		return
	}
	c := u.Store.Config(u, t.ConfigHash)
	if config != nil {
		c = config.Clone()
		if t.AgentType == "" {
			t.AgentType = c.Name
		}
	} else if e.Agent != "" && e.Agent != c.Name { // its template is not known yet
		c = agent.SpecialistAgentConfig{Name: e.Agent}
	}
	if t.PickModel != "" {
		c.Model, c.Provider = t.PickModel, "" // a model is asked where it was named
	}
	if hash := u.KeepConfig(c); hash != t.ConfigHash {
		t.ConfigHash = hash
		t.Touch()
	}
}
