package read

import (
	"context"
	"strings"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// peopleFilter is the condition of a list of what a person's threads ask or wait for.
func peopleFilter(userID, threadID, root string, more ...string) (where string, args []any) {
	conditions := append([]string{"1 = 1"}, more...)
	for _, c := range [][2]string{{userID, "user_id = ?"}, {threadID, "thread_id = ?"}, {root, "root_id = ?"}} {
		if c[0] != "" {
			conditions, args = append(conditions, c[1]), append(args, c[0])
		}
	}
	return strings.Join(conditions, " AND "), args
}

// listAsks lists asks of a kind in order of creation.
func listAsks[V any](ctx context.Context, s *Store, kind string, f memory.AskFilter, view func(*rows.Reader, *rows.Ask) (V, error)) (views []V, err error) {
	where, args := peopleFilter(f.UserID, f.ThreadID, f.RootThread, "kind = '"+kind+"'")
	if f.OpenOnly {
		where += " AND outcome = ''"
	}
	if f.ID != "" {
		where, args = where+" AND (id = ? OR id = ?)", append(args, f.ID, rows.QuestionID(f.ID))
	}
	err = s.rows.Read(ctx, func(q *rows.Reader) error {
		views, err = rows.List(q, "", (*rows.Ask).Targets, func(a *rows.Ask) (V, error) { return view(q, a) }, rows.SelectAsk+` WHERE `+where+rows.OrderAsks, args...)
		return err
	})
	return views, err
}

// Approvals lists approvals in order of creation.
func (s *Store) Approvals(ctx context.Context, f memory.ApprovalFilter) ([]memory.Approval, error) {
	return listAsks(ctx, s, rows.AskApproval, f, func(q *rows.Reader, a *rows.Ask) (v memory.Approval, err error) {
		if v, err = a.Approval(); err == nil {
			v.ToolCalls, err = rows.List(q, "", (*rows.Call).Targets, viewCall, rows.SelectCall+` WHERE turn_id = ? AND step = ? AND approval_id = ? ORDER BY idx`, a.Turn, a.Step, a.ID)
		}
		return v, err
	})
}

// Questions lists questions in order of creation.
func (s *Store) Questions(ctx context.Context, f memory.QuestionFilter) ([]memory.Question, error) {
	return listAsks(ctx, s, rows.AskQuestion, f, func(_ *rows.Reader, a *rows.Ask) (memory.Question, error) { return a.Question(), nil })
}

// Permissions lists what was allowed for a session.
func (s *Store) Permissions(ctx context.Context, userID, sessionID string) (list []memory.Permission, err error) {
	err = s.rows.Look(ctx, func(u *rows.Unit) error {
		list = nil
		keys, err := u.Strings(`SELECT tool_name FROM approved_tools WHERE`+rows.OfSession+` ORDER BY tool_name`, sessionID, userID, userID)
		for _, key := range keys {
			if p, ok := rows.ParsePermission(key); ok {
				list = append(list, p)
			}
		}
		return err
	})
	return list, err
}
