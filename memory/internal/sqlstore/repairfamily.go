package sqlstore

import (
	"encoding/json"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// family makes what a thread repeats of its session, its parent and the calls
// that ordered its turns the same as they say.
func (r *repairs) family() error {
	t := r.t
	kind := agent.KindMain
	if p, err := agent.ParseThreadID(t.ID); err == nil {
		kind = p.Kind
	}
	if err := r.same("kind", string(t.Kind), string(kind)); err != nil {
		return err
	}
	t.Kind = kind
	if kind == agent.KindMain {
		if err := r.same("root_id", t.RootThreadID, t.ID); err != nil {
			return err
		}
		t.RootThreadID, t.ChatID = t.ID, t.ID
		if err := r.depth(0); err != nil {
			return err
		}
		return r.sessionRow()
	}
	orders, err := r.orders()
	if err != nil {
		return err
	}
	ok, err := r.parent(orders)
	if err != nil || !ok {
		return err
	}
	parent, err := r.thread(t.ParentThreadID)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return nil // told by rule 2
	}
	if err != nil {
		return err
	}
	for _, c := range []struct {
		column string
		have   *string
		want   string
	}{
		{"user_id", &t.UserID, parent.UserID}, {"profile", &t.Profile, parent.Profile}, {"session_id", &t.SessionID, parent.SessionID},
		{"conversation_id", &t.ConversationID, parent.ConversationID}, {"root_id", &t.RootThreadID, parent.RootThreadID},
	} {
		if err := r.same(c.column, *c.have, c.want); err != nil {
			return err
		}
		*c.have = c.want
	}
	t.ChatID = t.RootThreadID
	if err := r.depth(parent.Depth + 1); err != nil {
		return err
	}
	return r.links(orders)
}

// same makes a column of the thread what others say. Few columns of threads ever
// change, and these do not.
func (r *repairs) same(column, have, want string) error {
	if have == want {
		return nil
	}
	r.did("its %s is %s, not %s", column, want, or(have, "none"))
	return r.exec(`UPDATE threads SET `+column+` = ? WHERE id = ?`, want, r.t.ID)
}

func (r *repairs) depth(want int) error {
	if r.t.Depth == want {
		return nil
	}
	r.did("its depth is %d, not %d", want, r.t.Depth)
	r.t.Depth = want
	return r.exec(`UPDATE threads SET depth = ? WHERE id = ?`, want, r.t.ID)
}

// sessionRow looks whether the session is there, and whose it is.
func (r *repairs) sessionRow() error {
	t := r.t
	var owner string
	err := r.row(`SELECT user_id FROM sessions WHERE id = ?`, t.SessionID).Scan(&owner)
	switch {
	case noRows(err):
		r.did("session %s of %s is there again", t.SessionID, t.UserID)
		return r.exec(`INSERT INTO sessions (id, user_id, profile, created_at) VALUES (?, ?, ?, ?)`, t.SessionID, t.UserID, t.Profile, t.created)
	case err != nil:
		return err
	case owner != t.UserID:
		r.left(memory.FoundWrong, "it belongs to %s, but its session %s to %s", t.UserID, t.SessionID, owner)
	}
	return nil
}

// order is a call that ordered work from a sub-agent, as its inbox or its turns tell.
type order struct{ thread, turn, call, task, childTurn string }

// orders are the calls that ordered a sub-agent's work, the one that made it first.
func (r *repairs) orders() ([]order, error) {
	const both = `SELECT delegator_thread, delegator_turn, call_id, task_id, turn_id FROM inbox WHERE thread_id = ? AND kind = 'assign' ORDER BY seq`
	rows, err := r.rows(both, r.t.ID)
	found, err := collect(rows, err, func(o *order) []any { return []any{&o.thread, &o.turn, &o.call, &o.task, &o.childTurn} }, func(*order) error { return nil })
	if err != nil {
		return nil, err
	}
	var out []order
	seen := map[string]bool{}
	for _, o := range found {
		out, seen[o.childTurn] = append(out, *o), true
	}
	for _, t := range r.turnList {
		if t.EntryKind == memory.EntryAssign && !seen[t.ID] {
			out = append(out, order{t.DelegatorThread, t.DelegatorTurn, t.DelegatorCall, t.TaskID, t.ID})
		}
	}
	return out, nil
}

// creates reports whether the log of a thread has the event that made this one.
func (r *repairs) creates(threadID, callID string) (bool, error) {
	datas, err := r.strings(`SELECT data FROM events WHERE thread_id = ? AND type = ?`, threadID, agent.EventToolCall)
	if err != nil {
		return false, err
	}
	for _, data := range datas {
		var d toolCall
		if json.Unmarshal([]byte(data), &d) == nil && d.ToolCallID == callID && d.SubAgentThread == r.t.ID {
			return true, nil
		}
	}
	return false, nil
}

// calledBy reports whether a thread has a call with this id, and which child it names.
func (r *repairs) calledBy(threadID, callID string) (child string, ok bool, err error) {
	err = r.row(`SELECT child_thread FROM tool_calls WHERE id = ? AND thread_id = ?`, callID, threadID).Scan(&child)
	if noRows(err) {
		return "", false, nil
	}
	return child, err == nil, err
}

// parent finds out who made the sub-agent. The event that created it decides:
// where the thread's own row names another one, that row is wrong. false means
// that nothing tells.
func (r *repairs) parent(orders []order) (bool, error) {
	t := r.t
	made, err := r.creates(t.ParentThreadID, t.ParentToolCallID)
	if err != nil || made {
		return true, err
	}
	for _, o := range orders {
		if made, err = r.creates(o.thread, o.call); err != nil {
			return false, err
		}
		if made {
			return true, r.adopt(o)
		}
	}
	// Without the event two others are to agree: the call and the first order.
	if len(orders) > 0 {
		o := orders[0]
		child, ok, err := r.calledBy(o.thread, o.call)
		if err != nil {
			return false, err
		}
		if ok && (child == t.ID || child == "") {
			return true, r.adopt(o)
		}
	}
	child, ok, err := r.calledBy(t.ParentThreadID, t.ParentToolCallID)
	if err != nil || ok && child == t.ID {
		return true, err
	}
	r.left(memory.FoundWrong, "nothing tells that %s made it by call %s", or(t.ParentThreadID, "nobody"), or(t.ParentToolCallID, "none"))
	return false, nil
}

// adopt makes the thread the child of the call that an order names.
func (r *repairs) adopt(o order) error {
	t := r.t
	for _, c := range []struct {
		column string
		have   *string
		want   string
	}{{"parent_id", &t.ParentThreadID, o.thread}, {"parent_call_id", &t.ParentToolCallID, o.call}} {
		if err := r.same(c.column, *c.have, c.want); err != nil {
			return err
		}
		*c.have = c.want
	}
	return nil
}

// links makes calls, events, tasks and turns name each other as the orders tell.
func (r *repairs) links(orders []order) error {
	t, latest := r.t, ""
	for _, o := range orders {
		child, ok, err := r.calledBy(o.thread, o.call)
		if err != nil {
			return err
		}
		if !ok {
			r.left(memory.FoundWrong, "turn %s was ordered by call %s of %s, which is not there", o.childTurn, or(o.call, "none"), or(o.thread, "nobody"))
			continue
		}
		if child != t.ID {
			r.did("call %s names it, not %s", o.call, or(child, "none"))
			err := r.exec(`UPDATE tool_calls SET child_thread = ?, child_agent = ?, child_turn = ? WHERE id = ?`, t.ID, t.AgentID, o.childTurn, o.call)
			if err != nil {
				return err
			}
		}
		latest = o.task
		if err := r.linkTask(o); err != nil {
			return err
		}
		if err := r.linkEvent(o); err != nil {
			return err
		}
		if err := r.linkTurn(o); err != nil {
			return err
		}
	}
	if latest != "" && t.TaskID != latest {
		r.did("its task is %s, not %s", latest, or(t.TaskID, "none"))
		t.TaskID, t.dirty = latest, true
	}
	return nil
}

func (r *repairs) linkTask(o order) error {
	var child string
	err := r.row(`SELECT sub_agent FROM tasks WHERE id = ?`, o.task).Scan(&child)
	if noRows(err) || err == nil && child == r.t.ID {
		return nil // a missing one is made by tasks
	}
	if err != nil {
		return err
	}
	r.did("task %s names it, not %s", o.task, or(child, "none"))
	return r.exec(`UPDATE tasks SET sub_agent = ? WHERE id = ?`, r.t.ID, o.task)
}

// linkEvent mends the link in the tool_call event of a call.
func (r *repairs) linkEvent(o order) error {
	rows, err := r.rows(`SELECT thread_id, seq, type, turn_id, data, at FROM events WHERE thread_id = ? AND type = ?`, o.thread, agent.EventToolCall)
	events, err := collect(rows, err,
		func(e *eventRow) []any { return []any{&e.ThreadID, &e.Seq, &e.Type, &e.TurnID, &e.data, &e.at} }, func(*eventRow) error { return nil })
	if err != nil {
		return err
	}
	for _, e := range events {
		var d toolCall
		if json.Unmarshal([]byte(e.data), &d) != nil || d.ToolCallID != o.call || d.SubAgentThread == r.t.ID {
			continue
		}
		r.did("event %d of %s names it, not %s", e.Seq, o.thread, or(d.SubAgentThread, "none"))
		d.SubAgentThread = r.t.ID
		data, err := encode(d)
		if err != nil {
			return err
		}
		if err := r.exec(`UPDATE events SET data = ? WHERE thread_id = ? AND seq = ?`, data, e.ThreadID, e.Seq); err != nil {
			return err
		}
	}
	return nil
}

// linkTurn makes a turn name the call that ordered it.
func (r *repairs) linkTurn(o order) error {
	for _, t := range r.turnList {
		if t.ID != o.childTurn {
			continue
		}
		have := order{t.DelegatorThread, t.DelegatorTurn, t.DelegatorCall, t.TaskID, t.ID}
		if have == o {
			return nil
		}
		r.did("turn %s was ordered by call %s of %s, not by %s of %s", t.ID, o.call, o.thread, or(have.call, "none"), or(have.thread, "nobody"))
		t.DelegatorThread, t.DelegatorTurn, t.DelegatorCall, t.TaskID = o.thread, o.turn, o.call, o.task
		return r.exec(`UPDATE turns SET delegator_thread = ?, delegator_turn = ?, delegator_call = ?, task_id = ? WHERE id = ?`,
			o.thread, o.turn, o.call, o.task, t.ID)
	}
	return nil
}

// toolTasks gives each call of a main thread's tools its task, in its state, and
// makes the task of each turn of a sub-agent end with it.
func (r *repairs) toolTasks() error {
	rows, err := r.rows(selectCall+` WHERE thread_id = ? AND delegation = 0 AND task_id <> '' ORDER BY created_at, step, idx`, r.t.ID)
	calls, err := collect(rows, err, (*callRow).targets, (*callRow).loaded)
	if err != nil {
		return err
	}
	states, err := r.taskStates(`thread_id = ?`, r.t.ID)
	if err != nil {
		return err
	}
	for _, c := range calls {
		state, there := states[c.taskID]
		if !there {
			turn, err := r.turn(c.TurnID)
			if err != nil {
				return err
			}
			if err := r.newTask(r.t, turn, c.ID, "tool", c.ToolName, c.args, ""); err != nil {
				return err
			}
			r.did("task %s of call %s is there again", c.taskID, c.ID)
		}
		if want := taskOfCall(c.Status); c.Status.Final() && state != want {
			if there {
				r.did("task %s is %s, as its call, not %s", c.taskID, want, or(string(state), "none"))
			}
			if err := r.taskEnd(r.t, c.taskID, want, c.Result); err != nil {
				return err
			}
		}
	}
	if states, err = r.taskStates(`id IN (SELECT task_id FROM turns WHERE thread_id = ?)`, r.t.ID); err != nil || r.t.Kind != agent.KindSubAgent {
		return err
	}
	for _, t := range r.turnList {
		state, there := states[t.TaskID]
		if want := agent.TaskStatusOf(t.Outcome); there && t.State == memory.TurnClosed && state != want {
			r.did("task %s is %s, as its turn, not %s", t.TaskID, want, state)
			if err := r.endDelegatorTask(t, or(t.Answer, t.Error)); err != nil {
				return err
			}
		}
	}
	return nil
}

// taskStates are the states of tasks by their ids.
func (r *repairs) taskStates(where, arg string) (map[string]agent.TaskStatus, error) {
	type task struct {
		id    string
		state agent.TaskStatus
	}
	rows, err := r.rows(`SELECT id, status FROM tasks WHERE `+where, arg)
	found, err := collect(rows, err, func(k *task) []any { return []any{&k.id, &k.state} }, func(*task) error { return nil })
	out := map[string]agent.TaskStatus{}
	for _, k := range found {
		out[k.id] = k.state
	}
	return out, err
}
