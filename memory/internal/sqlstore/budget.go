package sqlstore

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

const (
	spend = `INSERT INTO budgets (root_id, tokens, price, work_ms, descendants) VALUES (?, ?, ?, ?, ?)` +
		` ON CONFLICT (root_id) DO UPDATE SET tokens = budgets.tokens + excluded.tokens, price = budgets.price + excluded.price,` +
		` work_ms = budgets.work_ms + excluded.work_ms, descendants = budgets.descendants + excluded.descendants`
	reserve = `INSERT INTO reservations (turn_id, step, root_id, tokens, price) VALUES (?, ?, ?, ?, ?)` +
		` ON CONFLICT (turn_id, step) DO UPDATE SET tokens = excluded.tokens, price = excluded.price`
	selectSpent    = `SELECT tokens, price, work_ms, descendants FROM budgets WHERE root_id = ?`
	selectReserved = `SELECT COUNT(*), COALESCE(SUM(tokens), 0), COALESCE(SUM(price), 0) FROM reservations WHERE root_id = ?`
)

// spent reads what a tree has used and reserved.
func spent(q rower, rootID string) (memory.Spent, error) {
	var s memory.Spent
	var work int64
	err := q.row(selectSpent, rootID).Scan(&s.Tokens, &s.Price, &work, &s.Descendants)
	if err != nil && !noRows(err) {
		return s, err
	}
	s.Time = time.Duration(work) * time.Millisecond
	return s, q.row(selectReserved, rootID).Scan(&s.Reservations, &s.ReservedTokens, &s.ReservedPrice)
}

// Spent reads what the agents of a tree have used since the last message of a person.
func (s *Store) Spent(ctx context.Context, rootThreadID string) (used memory.Spent, err error) {
	err = s.read(ctx, func(q *reader) error {
		if err := q.exists(rootThreadID); err != nil {
			return err
		}
		used, err = spent(q, rootThreadID)
		return err
	})
	return used, err
}

// renew begins the budget of a tree anew: a person has spoken.
func (u *unit) renew(t *threadRow) error {
	return u.exec(`DELETE FROM budgets WHERE root_id = ?`, t.RootThreadID)
}

// use counts what a model call or a tool has used.
func (u *unit) use(t *threadRow, use agent.Usage, took time.Duration) error {
	return u.exec(spend, t.RootThreadID, use.TotalTokens, use.Price, took.Milliseconds(), 0)
}

// settleReservation ends the reservation of a step; its use is counted apart.
func (u *unit) settleReservation(turnID string, step int) error {
	return u.exec(`DELETE FROM reservations WHERE turn_id = ? AND step = ?`, turnID, step)
}

// reserveFor reserves what a model call may cost before it starts, or refuses it:
// with CodeLimit when the tree's budget is used up, with ErrBudgetReserved when
// its rest is promised to other calls. A call that is alone may use the whole
// rest, so the budget is passed by at most one call.
func (u *unit) reserveFor(t *threadRow, r memory.ModelBegin) error {
	if !r.Budget.Limited() {
		return nil
	}
	// The attempt that this one replaces reserves nothing any more.
	if err := u.settleReservation(r.TurnID, r.Step); err != nil {
		return err
	}
	s, err := spent(u, t.RootThreadID)
	if err != nil {
		return err
	}
	if text := agent.RefuseBudget(s.Tokens, r.Budget.Tokens, s.Price, r.Budget.Price, s.Time, r.Budget.Time); text != "" {
		return agent.Errorf(agent.CodeLimit, "%s", text)
	}
	c, err := u.s.config(u, t.configHash)
	if err != nil {
		return err
	}
	tokens := t.ContextWindow.Total + memory.DefaultReserve
	if c.MaxTokens != nil {
		tokens = t.ContextWindow.Total + int64(*c.MaxTokens)
	}
	price := 0.0
	if s.Tokens > 0 {
		price = s.Price / float64(s.Tokens) * float64(tokens)
	}
	over := r.Budget.Tokens > 0 && s.Tokens+s.ReservedTokens+tokens > r.Budget.Tokens ||
		r.Budget.Price > 0 && s.Price+s.ReservedPrice+price > r.Budget.Price
	if over && s.Reservations > 0 {
		return memory.ErrBudgetReserved
	}
	return u.exec(reserve, r.TurnID, r.Step, t.RootThreadID, tokens, price)
}
