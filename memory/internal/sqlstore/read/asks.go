package read

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
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
func listAsks[V any](ctx context.Context, s *Store, kind string, f memory.AskFilter, view func(*rows.Reader, *rows.Ask) V) ([]V, error) {
	where, args := peopleFilter(f.UserID, f.ThreadID, f.RootThread, "kind = '"+kind+"'")
	if f.OpenOnly {
		where += " AND outcome = ''"
	}
	if f.ID != "" {
		where, args = where+" AND "+rows.AskNamed, append(args, f.ID, rows.QuestionID(f.ID), f.ID)
	}
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) []V {
		return rows.List(q, "", (*rows.Ask).Targets, func(a *rows.Ask) V { return view(q, a) }, rows.SelectAsk+` WHERE `+where+rows.OrderAsks, args...)
	})
}

// Approvals lists approvals in order of creation.
func (s *Store) Approvals(ctx context.Context, f memory.ApprovalFilter) ([]memory.Approval, error) {
	return listAsks(ctx, s, rows.AskApproval, f, func(q *rows.Reader, a *rows.Ask) memory.Approval {
		v := a.Approval()
		v.ToolCalls = rows.List(q, "", (*rows.Call).Targets, viewCall, rows.SelectCall+` WHERE turn_id = ? AND step = ? AND approval_id = ? ORDER BY idx`, a.Turn, a.Step, a.ID)
		return v
	})
}

// Questions lists questions in order of creation.
func (s *Store) Questions(ctx context.Context, f memory.QuestionFilter) ([]memory.Question, error) {
	return listAsks(ctx, s, rows.AskQuestion, f, func(_ *rows.Reader, a *rows.Ask) memory.Question { return a.Question() })
}

// ModelWaits lists the model calls that are to be made again.
func (s *Store) ModelWaits(ctx context.Context, f memory.WaitFilter) ([]agent.ModelWait, error) {
	where, args := peopleFilter(f.UserID, "", f.RootThread)
	if f.ThreadID != "" {
		where, args = where+" AND t.id = ?", append(args, f.ThreadID)
	}
	waits, err := rows.Reading(ctx, s.rows, func(q *rows.Reader) (waits []agent.ModelWait) {
		for _, text := range rows.Strings(q, `SELECT s.wait FROM steps s JOIN turns n ON n.id = s.turn_id JOIN threads t ON t.id = n.thread_id AND t.open_turn = n.id`+
			` WHERE s.state = 'failed' AND s.wait <> '' AND `+where, args...) {
			var w agent.ModelWait
			rows.Check(rows.Decode(text, &w))
			waits = append(waits, w)
		}
		return waits
	})
	slices.SortFunc(waits, func(a, b agent.ModelWait) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ThreadID, b.ThreadID))
	})
	return waits, err
}

// Waited is how long a turn, or a turn below it in the foreground, has waited
// for people. What was waited for at the same time counts once.
func (s *Store) Waited(ctx context.Context, turnID string) (w memory.Waited, err error) {
	now, err := s.rows.Now(ctx)
	if err != nil {
		return w, err
	}
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) (w memory.Waited) {
		var root string
		if !q.One(`SELECT t.root_id FROM turns n JOIN threads t ON t.id = n.thread_id WHERE n.id = ?`, turnID).Into(&root) {
			noTurn(turnID)
		}
		last := int64(0) // until when time is counted
		for _, p := range rows.Find(q, (*pause).targets, nil, `SELECT turn_id, created_at, settled_at FROM asks WHERE root_id = ? ORDER BY created_at`, root) {
			if !foregroundOf(q, p.turn, turnID) {
				continue
			}
			if p.until == 0 {
				p.until, w.Now = now.UnixMilli(), true
			}
			if from := max(p.from, last); p.until > from {
				w.Time += time.Duration(p.until-from) * time.Millisecond
				last = p.until
			}
		}
		return w
	})
}

// pause is how long a turn waited for one decision or answer; until is 0 while it
// does.
type pause struct {
	turn        string
	from, until int64
}

func (p *pause) targets() []any { return []any{&p.turn, &p.from, &p.until} }

// foregroundOf reports whether a turn is another one, or somebody waits for it
// on behalf of that.
func foregroundOf(q rows.Rower, turnID, above string) bool {
	for id := turnID; id != ""; {
		if id == above {
			return true
		}
		var background bool
		if !q.One(`SELECT delegator_turn, background FROM turns WHERE id = ?`, id).Into(&id, (*rows.IntBool)(&background)) || background {
			return false
		}
	}
	return false
}

// Permissions lists what was allowed for a session.
func (s *Store) Permissions(ctx context.Context, userID, sessionID string) ([]memory.Permission, error) {
	return rows.Reading(ctx, s.rows, func(q *rows.Reader) (list []memory.Permission) {
		for _, key := range rows.Strings(q, `SELECT tool_name FROM approved_tools WHERE`+rows.OfSession+` ORDER BY tool_name`, sessionID, userID, userID) {
			if p, ok := rows.ParsePermission(key); ok {
				list = append(list, p)
			}
		}
		return list
	})
}
