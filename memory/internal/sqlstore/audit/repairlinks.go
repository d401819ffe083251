package audit

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// link is what rows repeat of the rows that they belong to. find gives, of a
// thread, ids of rows, what they say and what is so.
type link struct{ what, find, fix string }

// links in the order in which they build on each other: who ordered the work of a
// sub-agent, what it has from its parent, and what its parent's rows name.
var links = func() []link {
	list := []link{
		{"its parent is", ordered("parent_id", "thread_id", "MIN"), `UPDATE threads SET parent_id = ? WHERE id = ?`},
		{"its creating call is", ordered("parent_call_id", "id", "MIN"), `UPDATE threads SET parent_call_id = ? WHERE id = ?`},
		{"its task is", ordered("task_id", "task_id", "MAX"), `UPDATE threads SET task_id = ? WHERE id = ?`},
		{"its kind is", `SELECT id, kind, 'main' FROM threads WHERE id = ? AND parent_id = '' AND kind <> 'main'`, `UPDATE threads SET kind = ? WHERE id = ?`},
		{"its kind is", `SELECT id, kind, 'subagent' FROM threads WHERE id = ? AND parent_id <> '' AND kind <> 'subagent'`, `UPDATE threads SET kind = ? WHERE id = ?`},
		{"its root is", `SELECT id, root_id, id FROM threads WHERE id = ? AND parent_id = '' AND root_id <> id`, `UPDATE threads SET root_id = ? WHERE id = ?`},
		{"its depth is", `SELECT t.id, CAST(t.depth AS TEXT), CAST(COALESCE(p.depth + 1, 0) AS TEXT) FROM threads t LEFT JOIN threads p ON p.id = t.parent_id` +
			` WHERE t.id = ? AND t.depth <> COALESCE(p.depth + 1, 0)`, `UPDATE threads SET depth = CAST(CAST(? AS TEXT) AS INTEGER) WHERE id = ?`},
	}
	for _, column := range []string{"user_id", "profile", "session_id", "conversation_id", "root_id"} {
		list = append(list, link{"its " + column + " is", `SELECT t.id, t.` + column + `, p.` + column + ` FROM threads t JOIN threads p ON p.id = t.parent_id` +
			` WHERE t.id = ? AND t.` + column + ` <> p.` + column, `UPDATE threads SET ` + column + ` = ? WHERE id = ?`})
	}
	for _, same := range [][2]string{{"delegator_thread", "thread_id"}, {"delegator_turn", "turn_id"}, {"delegator_call", "id"}, {"task_id", "task_id"}} {
		column, of := same[0], same[1]
		list = append(list, link{"the " + column + " of turn %s is", `SELECT n.id, n.` + column + `, c.` + of + ` FROM turns n JOIN tool_calls c ON c.id = n.message_id` +
			` WHERE n.thread_id = ? AND n.entry_kind = 'assign' AND n.` + column + ` <> c.` + of, `UPDATE turns SET ` + column + ` = ? WHERE id = ?`})
	}
	const begun = ` FROM tool_calls c JOIN turns n ON n.id = c.child_turn JOIN tasks k ON k.id = c.task_id WHERE c.thread_id = ? AND c.child_turn <> ''`
	return append(list,
		link{"the sub-agent of call %s is", `SELECT c.id, c.child_thread, n.thread_id` + begun + ` AND c.child_thread <> n.thread_id`, `UPDATE tool_calls SET child_thread = ? WHERE id = ?`},
		link{"the sub-agent of task %s is", `SELECT k.id, k.sub_agent, n.thread_id` + begun + ` AND k.sub_agent <> n.thread_id`, `UPDATE tasks SET sub_agent = ? WHERE id = ?`})
}()

// ordered compares a column of a sub-agent with one of the first (MIN) or latest
// (MAX) call that ordered its work.
func ordered(column, of, which string) string {
	return `SELECT t.id, t.` + column + `, c.` + of + ` FROM threads t JOIN inbox i ON i.thread_id = t.id JOIN tool_calls c ON c.id = i.id` +
		` WHERE t.id = ? AND t.` + column + ` <> c.` + of + ` AND i.seq = (SELECT ` + which + `(seq) FROM inbox WHERE thread_id = ? AND kind = 'assign')`
}

// links makes what the thread's rows repeat of others the same as these say.
func (r *repairs) links() error {
	type wrong struct{ id, have, want string }
	for _, l := range links {
		list, err := rows.Find(r, func(w *wrong) []any { return []any{&w.id, &w.have, &w.want} }, nil, l.find, r.ids(l.find)...)
		if err != nil {
			return err
		}
		for _, w := range list {
			if err := r.Exec(l.fix, w.want, w.id); err != nil {
				return err
			}
			r.did(strings.ReplaceAll(l.what, "%s", w.id)+" %s, not %s", w.want, cmp.Or(w.have, "none"))
		}
	}
	if len(r.found) == 0 {
		return nil
	}
	fresh, err := r.LoadThread(r.t.ID)
	if err != nil {
		return err
	}
	fresh.At = r.t.At
	*r.t = *fresh
	r.t.Loaded()
	return nil
}

// eventLinks makes tool_call events name the sub-agents of their calls.
func (r *repairs) eventLinks() error {
	children := map[string]string{}
	for _, c := range r.callList {
		children[c.ID] = c.SubAgentThreadID
	}
	for _, e := range r.eventList {
		var d rows.ToolCallEvent
		if e.Type != agent.EventToolCall || json.Unmarshal([]byte(e.DataText), &d) != nil || children[d.ToolCallID] == "" || children[d.ToolCallID] == d.SubAgentThread {
			continue
		}
		child := children[d.ToolCallID]
		r.did("the sub-agent of event %d is %s, not %s", e.Seq, cmp.Or(child, "none"), cmp.Or(d.SubAgentThread, "none"))
		d.SubAgentThread = child
		data, err := rows.Encode(d)
		if err != nil {
			return err
		}
		if err := r.Exec(`UPDATE events SET data = ? WHERE thread_id = ? AND seq = ?`, data, r.t.ID, e.Seq); err != nil {
			return err
		}
	}
	return nil
}
