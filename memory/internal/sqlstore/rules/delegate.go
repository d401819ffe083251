package rules

import (
	"cmp"
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// OpenDelegation creates (or resumes) a sub-thread with its task, its link and
// its inbox entry, or stores a refusal as the call's result.
func (s *Store) OpenDelegation(ctx context.Context, r memory.DelegationRequest) (memory.Delegation, error) {
	return writing(ctx, s, "open-delegation", func(u *Unit) memory.Delegation {
		t, turn, c := u.OpenCall(r.ThreadID, r.TurnID, r.CallID)
		if c.SubAgentThreadID != "" || c.Status.Final() {
			return openedDelegation(c)
		}
		u.cancelledAbove(turn)
		if c.Status != agent.CallPending || c.Gate == agent.GateAsk {
			rows.Refuse(agent.CodeConflict, "call %s (%s) needs a person's approval before it may run", c.ID, c.ToolName)
		}
		if !c.Delegation {
			rows.Refuse(agent.CodeConflict, "call %s (%s) was not saved as a delegation: it is run, not opened", c.ID, c.ToolName)
		}
		child, no := u.child(t, c, r)
		if no != nil {
			u.Finish(t, turn, c, Ending{Status: agent.CallFailed, Reason: no.reason, Text: no.text})
			return openedDelegation(c)
		}
		return u.assign(t, turn, c, child, r)
	})
}

// openedDelegation is what the first OpenDelegation of a call returned.
func openedDelegation(c *rows.Call) memory.Delegation {
	if c.SubAgentThreadID == "" {
		return memory.Delegation{Refused: true, Refusal: c.Result}
	}
	return memory.Delegation{ChildThread: c.SubAgentThreadID, ChildTurn: c.ChildTurn, TaskID: c.TaskID, Background: c.Background}
}

// refusal is why a delegation is not made.
type refusal struct {
	text   string
	reason agent.ErrorReason
}

// child finds or prepares the sub-thread; a new one is not written yet.
func (u *Unit) child(t *rows.Thread, c *rows.Call, r memory.DelegationRequest) (*rows.Thread, *refusal) {
	if r.Refusal != "" {
		return nil, &refusal{text: r.Refusal, reason: agent.ErrorReason(cmp.Or(string(r.RefusalReason), string(agent.ErrPermissionDenied)))}
	}
	if wrong := agent.CheckAgentType(r.Config.Name); wrong != nil {
		return nil, &refusal{text: "Delegation refused: " + wrong.Error(), reason: agent.ErrInvalidInput}
	}
	if r.Limits.MaxDepth <= 0 {
		return nil, &refusal{text: agent.RefuseDisabled(), reason: agent.ErrPermissionDenied}
	}
	if depth := t.Depth + 1; depth > r.Limits.MaxDepth {
		return nil, &refusal{text: agent.RefuseDepth(depth, r.Limits.MaxDepth), reason: agent.ErrPermissionDenied}
	}
	if r.Resume != "" {
		child, no := u.resumed(t, r)
		return child, cmp.Or(no, u.overLimit(t, r.Limits, false))
	}
	if no := u.overLimit(t, r.Limits, true); no != nil {
		return nil, no
	}
	agentID := agent.NewAgentID(r.Config.Name, c.CreatedAt, t.ID, c.TurnID, c.ID)
	return &rows.Thread{Thread: agent.Thread{
		ID: agent.SubThreadID(r.Config.Name, agentID), UserID: t.UserID, Profile: t.Profile, SessionID: t.SessionID,
		ConversationID: t.ConversationID, Kind: agent.KindSubAgent, AgentType: r.Config.Name, AgentID: agentID,
		ParentThreadID: t.ID, RootThreadID: t.RootThreadID, ParentToolCallID: c.ID, Depth: t.Depth + 1,
		Status: agent.ThreadPending, Workdir: t.Workdir,
	}}, nil
}

// resumed finds the sub-agent to resume: one of this thread and of this type. Whose it
// is, is known before its row is locked with its tree.
func (u *Unit) resumed(t *rows.Thread, r memory.DelegationRequest) (*rows.Thread, *refusal) {
	var id, user, parent, kind string
	there := u.One(`SELECT id, user_id, parent_id, agent_type FROM threads WHERE id = ? OR agent_id = ? AND agent_id <> ''`, r.Resume, r.Resume).Into(&id, &user, &parent, &kind)
	switch {
	case !there || user != t.UserID:
		return nil, &refusal{text: agent.RefuseResumeUnknown(r.Resume), reason: agent.ErrNotFound}
	case parent != t.ID:
		return nil, &refusal{text: agent.RefuseResumeForeign(r.Resume), reason: agent.ErrPermissionDenied}
	case kind != r.Config.Name:
		return nil, &refusal{text: agent.RefuseResumeType(r.Resume, kind, r.Config.Name), reason: agent.ErrPermissionDenied}
	}
	return u.Thread(id), nil
}

// overLimit checks how many sub-agents are at work and how many were made.
func (u *Unit) overLimit(t *rows.Thread, l memory.DelegationLimits, isNew bool) *refusal {
	if l.MaxFanOut > 0 {
		var open int
		rows.Check(u.Row(`SELECT (SELECT COUNT(*) FROM inbox WHERE delegator_thread = ? AND kind = 'assign' AND state = 'waiting')`+
			` + (SELECT COUNT(*) FROM turns WHERE delegator_thread = ? AND delegator_thread <> '' AND state = 'open')`, t.ID, t.ID).Scan(&open))
		if open >= l.MaxFanOut {
			return &refusal{text: agent.RefuseFanOut(open, l.MaxFanOut), reason: agent.ErrPermissionDenied}
		}
	}
	if l.MaxDescendants > 0 && isNew {
		if used := rows.Spent(u, t.RootThreadID).Descendants; used >= l.MaxDescendants {
			return &refusal{text: agent.RefuseDescendants(used, l.MaxDescendants), reason: agent.ErrPermissionDenied}
		}
	}
	return nil
}

// assign writes the child, its task, the link and the entry in its inbox.
func (u *Unit) assign(t *rows.Thread, turn *rows.Turn, c *rows.Call, child *rows.Thread, r memory.DelegationRequest) memory.Delegation {
	u.share(t, child, &r.Config)
	hash := u.KeepConfig(r.Config)
	c.TaskID = agent.TaskID(c.ID)
	if child.CreatedMs == 0 {
		t.LastChild++
		child.Ordinal, child.ConfigHash = t.LastChild, hash
		child.Topic = rows.Short(cmp.Or(rows.Clean(r.Description), rows.Clean(r.Task)), rows.TopicLength)
		u.Create(child)
		u.Exec(spend, t.RootThreadID, 0, 0.0, 0, 1)
	}
	u.Exec(`DELETE FROM forgotten WHERE thread_id = ?`, child.ID)
	child.Touch()
	child.TaskID = c.TaskID
	task := rows.Clean(r.Task)
	u.NewTask(t, turn, c.ID, "agent", r.Config.Name, task, child.ID)
	c.Status, c.Attempts = agent.CallRunning, 1
	c.SubAgentThreadID, c.SubAgentID, c.Background = child.ID, child.AgentID, r.Background
	c.ChildTurn = agent.TurnID(child.ID, c.ID, 0)
	u.SaveCall(t, c)
	u.Enter(child, &rows.Entry{InboxEntry: memory.InboxEntry{
		Kind: memory.EntryAssign, ID: c.ID, State: memory.EntryWaiting, TurnID: c.ChildTurn, Content: agent.Text(task),
		CallID: c.ID, TaskID: c.TaskID, Background: r.Background, DelegatorThread: t.ID, DelegatorTurn: turn.ID,
	}, ConfigHash: hash})
	u.Announce(t, turn, c)
	u.Event(t, turn.ID, agent.EventSubAgentStarted, rows.ChildStarted{AgentID: child.AgentID, AgentName: child.AgentType, ToolCallID: c.ID, SubAgentThread: child.ID})
	if r.Background {
		u.Finish(t, turn, c, Ending{Status: agent.CallSuccess, Text: agent.DelegationResultFormatter{}.Started(child.AgentType, child.AgentID, child.ID)})
	} else {
		turn.Delegations, turn.Dirty = turn.Delegations+1, true
	}
	return openedDelegation(c)
}

// share records how much of its parent's conversation a sub-agent sees: what
// was there when it was made. A resume changes nothing about it.
func (u *Unit) share(t, child *rows.Thread, c *agent.SpecialistAgentConfig) {
	if child.CreatedMs == 0 {
		c.SharedSeq = 0
		if c.ShareContext {
			c.SharedSeq = t.LastMessage
		}
		return
	}
	before := u.Store.Config(u, child.ConfigHash)
	c.ShareContext, c.SharedSeq = before.ShareContext, before.SharedSeq
}

// TakeChildResult moves the end of a foreground child to the call's result.
func (s *Store) TakeChildResult(ctx context.Context, r memory.ChildResultRequest) (memory.ChildResult, error) {
	return writing(ctx, s, "child-result", func(u *Unit) (res memory.ChildResult) {
		t, turn, c := u.OpenCall(r.ThreadID, r.TurnID, r.CallID)
		if c.SubAgentThreadID == "" && !c.Status.Final() {
			rows.Refuse(agent.CodeConflict, "call %s has no sub-agent: its delegation was not opened", c.ID)
		}
		res.ChildThread, res.Done = c.SubAgentThreadID, true
		if c.Status.Final() {
			return res
		}
		if res.Done = u.takeChild(t, turn, c); res.Done {
			return res
		}
		child := u.Thread(c.SubAgentThreadID)
		if child.OpenTurnID != "" {
			return res
		}
		e := u.Entry(`thread_id = ? AND kind = 'assign' AND id = ?`, child.ID, c.ID)
		res.NeedsStart = e != nil && e.State == memory.EntryWaiting
		return res
	})
}

// takeChild takes the child's end from the inbox, if it is there.
func (u *Unit) takeChild(t *rows.Thread, turn *rows.Turn, c *rows.Call) bool {
	e := u.Entry(`thread_id = ? AND kind = 'child' AND id = ?`, t.ID, c.ChildTurn)
	if e == nil || e.State != memory.EntryWaiting {
		return false
	}
	u.Take(t, e, turn.ID)
	child := u.Turn(e.ChildTurn)
	o := u.Outcome(child)
	u.ChildEnded(child)
	end := Ending{Status: agent.CallFailed, Reason: o.ErrorReason(), Text: agent.DelegationResultFormatter{}.Result(o), ms: o.Duration.Milliseconds()}
	if o.Status == agent.ThreadCompleted {
		end.Status = agent.CallSuccess
	}
	u.Finish(t, turn, c, end)
	return true
}
