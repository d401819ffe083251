package sqlstore

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// OpenDelegation creates (or resumes) a sub-thread with its task, its link and
// its inbox entry, or stores a refusal as the call's result.
func (s *Store) OpenDelegation(ctx context.Context, r memory.DelegationRequest) (d memory.Delegation, err error) {
	err = s.write(ctx, "open-delegation", func(u *unit) error {
		d = memory.Delegation{}
		t, turn, err := u.open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		c, err := u.call(turn.ID, r.CallID)
		if err != nil {
			return err
		}
		if c.SubAgentThreadID != "" || c.Status.Final() {
			d = openedDelegation(c)
			return nil
		}
		if err := u.cancelledAbove(turn); err != nil {
			return err
		}
		if c.Status != agent.CallPending || c.Gate == agent.GateAsk {
			return agent.Errorf(agent.CodeConflict, "call %s (%s) needs a person's approval before it may run", c.ID, c.ToolName)
		}
		if !c.delegation {
			return agent.Errorf(agent.CodeConflict, "call %s (%s) was not saved as a delegation: it is run, not opened", c.ID, c.ToolName)
		}
		d, err = u.delegate(t, turn, c, r)
		return err
	})
	return d, err
}

// openedDelegation is what the first OpenDelegation of a call returned.
func openedDelegation(c *callRow) memory.Delegation {
	if c.SubAgentThreadID == "" {
		return memory.Delegation{Refused: true, Refusal: c.Result}
	}
	return memory.Delegation{ChildThread: c.SubAgentThreadID, ChildTurn: c.childTurn, TaskID: c.taskID, Background: c.background}
}

// refusal is why a delegation is not made.
type refusal struct {
	text   string
	reason agent.ErrorReason
}

func (u *unit) delegate(t *threadRow, turn *turnRow, c *callRow, r memory.DelegationRequest) (memory.Delegation, error) {
	child, no, err := u.child(t, c, r)
	if err != nil {
		return memory.Delegation{}, err
	}
	if no != nil {
		err := u.finish(t, turn, c, ending{status: agent.CallFailed, reason: no.reason, text: no.text})
		return openedDelegation(c), err
	}
	return u.assign(t, turn, c, child, r)
}

// child finds or prepares the sub-thread; a new one is not written yet.
func (u *unit) child(t *threadRow, c *callRow, r memory.DelegationRequest) (*threadRow, *refusal, error) {
	if r.Refusal != "" {
		return nil, &refusal{text: r.Refusal, reason: agent.ErrorReason(or(string(r.RefusalReason), string(agent.ErrPermissionDenied)))}, nil
	}
	if wrong := agent.CheckAgentType(r.Config.Name); wrong != nil {
		return nil, &refusal{text: "Delegation refused: " + wrong.Error(), reason: agent.ErrInvalidInput}, nil //nolint:nilerr // the model reads it
	}
	if r.Limits.MaxDepth <= 0 {
		return nil, &refusal{text: agent.RefuseDisabled(), reason: agent.ErrPermissionDenied}, nil
	}
	if depth := t.Depth + 1; depth > r.Limits.MaxDepth {
		return nil, &refusal{text: agent.RefuseDepth(depth, r.Limits.MaxDepth), reason: agent.ErrPermissionDenied}, nil
	}
	var child *threadRow
	if r.Resume != "" {
		found, no, err := u.resumed(t, r)
		if err != nil || no != nil {
			return nil, no, err
		}
		child = found
	}
	if no, err := u.overLimit(t, r.Limits, child == nil); err != nil || no != nil {
		return nil, no, err
	}
	if child != nil {
		return child, nil, nil
	}
	agentID := agent.NewAgentID(r.Config.Name, c.CreatedAt, t.ID, c.TurnID, c.ID)
	return &threadRow{Thread: agent.Thread{
		ID: agent.SubThreadID(r.Config.Name, agentID), UserID: t.UserID, Profile: t.Profile, SessionID: t.SessionID,
		ConversationID: t.ConversationID, Kind: agent.KindSubAgent, AgentType: r.Config.Name, AgentID: agentID,
		ParentThreadID: t.ID, RootThreadID: t.RootThreadID, ParentToolCallID: c.ID, Depth: t.Depth + 1,
		Status: agent.ThreadPending, Workdir: t.Workdir,
	}}, nil, nil
}

// resumed finds the sub-agent to resume: one of this thread and of this type. Whose it
// is, is known before its row is locked with its tree.
func (u *unit) resumed(t *threadRow, r memory.DelegationRequest) (*threadRow, *refusal, error) {
	var id, user, parent, kind string
	err := u.row(`SELECT id, user_id, parent_id, agent_type FROM threads WHERE id = ? OR agent_id = ? AND agent_id <> ''`, r.Resume, r.Resume).Scan(&id, &user, &parent, &kind)
	switch {
	case noRows(err) || err == nil && user != t.UserID:
		return nil, &refusal{text: agent.RefuseResumeUnknown(r.Resume), reason: agent.ErrNotFound}, nil
	case err != nil:
		return nil, nil, err
	case parent != t.ID:
		return nil, &refusal{text: agent.RefuseResumeForeign(r.Resume), reason: agent.ErrPermissionDenied}, nil
	case kind != r.Config.Name:
		return nil, &refusal{text: agent.RefuseResumeType(r.Resume, kind, r.Config.Name), reason: agent.ErrPermissionDenied}, nil
	}
	child, err := u.thread(id)
	return child, nil, err
}

// overLimit checks how many sub-agents are at work and how many were made.
func (u *unit) overLimit(t *threadRow, l memory.DelegationLimits, isNew bool) (*refusal, error) {
	if l.MaxFanOut > 0 {
		var open int
		err := u.row(`SELECT (SELECT COUNT(*) FROM inbox WHERE delegator_thread = ? AND kind = 'assign' AND state = 'waiting')`+
			` + (SELECT COUNT(*) FROM turns WHERE delegator_thread = ? AND delegator_thread <> '' AND state = 'open')`, t.ID, t.ID).Scan(&open)
		if err != nil {
			return nil, err
		}
		if open >= l.MaxFanOut {
			return &refusal{text: agent.RefuseFanOut(open, l.MaxFanOut), reason: agent.ErrPermissionDenied}, nil
		}
	}
	if l.MaxDescendants > 0 && isNew {
		used, err := spent(u, t.RootThreadID)
		if err != nil {
			return nil, err
		}
		if used.Descendants >= l.MaxDescendants {
			return &refusal{text: agent.RefuseDescendants(used.Descendants, l.MaxDescendants), reason: agent.ErrPermissionDenied}, nil
		}
	}
	return nil, nil
}

// assign writes the child, its task, the link and the entry in its inbox.
func (u *unit) assign(t *threadRow, turn *turnRow, c *callRow, child *threadRow, r memory.DelegationRequest) (memory.Delegation, error) {
	none := memory.Delegation{}
	if err := u.share(t, child, &r.Config); err != nil {
		return none, err
	}
	hash, err := u.keepConfig(r.Config)
	if err != nil {
		return none, err
	}
	c.taskID = agent.TaskID(c.ID)
	if child.created == 0 {
		t.lastChild++
		child.ordinal, child.configHash = t.lastChild, hash
		child.Topic = short(or(clean(r.Description), clean(r.Task)), topicLength)
		if err := u.create(child); err != nil {
			return none, err
		}
		if err := u.exec(spend, t.RootThreadID, 0, 0.0, 0, 1); err != nil {
			return none, err
		}
	}
	if err := u.exec(`DELETE FROM forgotten WHERE thread_id = ?`, child.ID); err != nil {
		return none, err
	}
	child.touch()
	child.TaskID = c.taskID
	task := clean(r.Task)
	if err := u.newTask(t, turn, c.ID, "agent", r.Config.Name, task, child.ID); err != nil {
		return none, err
	}
	c.Status, c.Attempts = agent.CallRunning, 1
	c.SubAgentThreadID, c.SubAgentID, c.background = child.ID, child.AgentID, r.Background
	c.childTurn = agent.TurnID(child.ID, c.ID, 0)
	if err := u.saveCall(t, c); err != nil {
		return none, err
	}
	err = u.enter(child, &entryRow{InboxEntry: memory.InboxEntry{
		Kind: memory.EntryAssign, ID: c.ID, State: memory.EntryWaiting, TurnID: c.childTurn, Content: agent.Text(task),
		CallID: c.ID, TaskID: c.taskID, Background: r.Background, DelegatorThread: t.ID, DelegatorTurn: turn.ID,
	}, configHash: hash})
	if err != nil {
		return none, err
	}
	if err := u.announce(t, turn, c); err != nil {
		return none, err
	}
	err = u.event(t, turn.ID, agent.EventSubAgentStarted, childStarted{AgentID: child.AgentID, AgentName: child.AgentType, ToolCallID: c.ID, SubAgentThread: child.ID})
	if err != nil {
		return none, err
	}
	if r.Background {
		err = u.finish(t, turn, c, ending{status: agent.CallSuccess, text: agent.DelegationResultFormatter{}.Started(child.AgentType, child.AgentID, child.ID)})
	} else {
		turn.delegations++
		turn.dirty = true
	}
	return openedDelegation(c), err
}

// share records how much of its parent's conversation a sub-agent sees: what
// was there when it was made. A resume changes nothing about it.
func (u *unit) share(t, child *threadRow, c *agent.SpecialistAgentConfig) error {
	if child.created == 0 {
		c.SharedSeq = 0
		if c.ShareContext {
			c.SharedSeq = t.lastMessage
		}
		return nil
	}
	before, err := u.s.config(u, child.configHash)
	c.ShareContext, c.SharedSeq = before.ShareContext, before.SharedSeq
	return err
}

// TakeChildResult moves the end of a foreground child to the call's result.
func (s *Store) TakeChildResult(ctx context.Context, r memory.ChildResultRequest) (res memory.ChildResult, err error) {
	err = s.write(ctx, "child-result", func(u *unit) error {
		res = memory.ChildResult{}
		t, turn, err := u.open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		c, err := u.call(turn.ID, r.CallID)
		if err != nil {
			return err
		}
		if c.SubAgentThreadID == "" && !c.Status.Final() {
			return agent.Errorf(agent.CodeConflict, "call %s has no sub-agent: its delegation was not opened", c.ID)
		}
		res.ChildThread, res.Done = c.SubAgentThreadID, true
		if c.Status.Final() {
			return nil
		}
		res.Done, err = u.takeChild(t, turn, c)
		if err != nil || res.Done {
			return err
		}
		child, err := u.thread(c.SubAgentThreadID)
		if err != nil || child.OpenTurnID != "" {
			return err
		}
		e, err := u.entry(`thread_id = ? AND kind = 'assign' AND id = ?`, child.ID, c.ID)
		res.NeedsStart = e != nil && e.State == memory.EntryWaiting
		return err
	})
	return res, err
}

// takeChild takes the child's end from the inbox, if it is there.
func (u *unit) takeChild(t *threadRow, turn *turnRow, c *callRow) (bool, error) {
	e, err := u.entry(`thread_id = ? AND kind = 'child' AND id = ?`, t.ID, c.childTurn)
	if err != nil || e == nil || e.State != memory.EntryWaiting {
		return false, err
	}
	if err := u.take(t, e, turn.ID); err != nil {
		return false, err
	}
	child, err := u.turn(e.ChildTurn)
	if err != nil {
		return false, err
	}
	o, err := u.outcome(child)
	if err != nil {
		return false, err
	}
	if err := u.childEnded(child); err != nil {
		return false, err
	}
	end := ending{status: agent.CallFailed, reason: o.ErrorReason(), text: agent.DelegationResultFormatter{}.Result(o), ms: o.Duration.Milliseconds()}
	if o.Status == agent.ThreadCompleted {
		end.status = agent.CallSuccess
	}
	return true, u.finish(t, turn, c, end)
}
