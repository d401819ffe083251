package rules

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

const (
	spend = `INSERT INTO budgets (root_id, tokens, price, work_ms, descendants) VALUES (?, ?, ?, ?, ?)` +
		` ON CONFLICT (root_id) DO UPDATE SET tokens = budgets.tokens + excluded.tokens, price = budgets.price + excluded.price,` +
		` work_ms = budgets.work_ms + excluded.work_ms, descendants = budgets.descendants + excluded.descendants`
	reserve = `INSERT INTO reservations (turn_id, step, root_id, tokens, price) VALUES (?, ?, ?, ?, ?)` +
		` ON CONFLICT (turn_id, step) DO UPDATE SET tokens = excluded.tokens, price = excluded.price`
)

// renew begins the budget of a tree anew: a person has spoken.
func (u *Unit) renew(t *rows.Thread) error {
	return u.Exec(`DELETE FROM budgets WHERE root_id = ?`, t.RootThreadID)
}

// use counts what a model call or a tool has used.
func (u *Unit) use(t *rows.Thread, use agent.Usage, took time.Duration) error {
	return u.Exec(spend, t.RootThreadID, use.TotalTokens, use.Price, took.Milliseconds(), 0)
}

// settleReservation ends the reservation of a step; its use is counted apart.
func (u *Unit) settleReservation(turnID string, step int) error {
	return u.Exec(`DELETE FROM reservations WHERE turn_id = ? AND step = ?`, turnID, step)
}

// reserveFor reserves what a model call may cost before it starts, or refuses it:
// with CodeLimit when the tree's budget is used up, with ErrBudgetReserved when
// its rest is promised to other calls. A call that is alone may use the whole
// rest, so the budget is passed by at most one call.
func (u *Unit) reserveFor(t *rows.Thread, r memory.ModelBegin) error {
	if !r.Budget.Limited() {
		return nil
	}
	// The attempt that this one replaces reserves nothing any more.
	if err := u.settleReservation(r.TurnID, r.Step); err != nil {
		return err
	}
	s, err := rows.Spent(u, t.RootThreadID)
	if err != nil {
		return err
	}
	if text := agent.RefuseBudget(s.Tokens, r.Budget.Tokens, s.Price, r.Budget.Price, s.Time, r.Budget.Time); text != "" {
		return agent.Errorf(agent.CodeLimit, "%s", text)
	}
	c, err := u.Store.Config(u, t.ConfigHash)
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
	return u.Exec(reserve, r.TurnID, r.Step, t.RootThreadID, tokens, price)
}

// chargeLost charges an attempt that is still in flight when something else ends it:
// its worker, its turn. What it used is guessed from its stake and its text; of one
// that never showed a text nobody knows whether a call was made.
func (u *Unit) chargeLost(t *rows.Thread, turn *rows.Turn, step *rows.Step) error {
	if step.State != rows.StepFlight {
		return nil
	}
	a, err := step.ReadAccount()
	if err != nil || a.Stake == nil {
		return err
	}
	text, reasoning, err := rows.Streamed(u, step.TurnID, step.Step.Step)
	if err != nil {
		return err
	}
	use := agent.Usage{PromptTokens: a.Stake.PromptTokens, CompletionTokens: int64(agent.EstimateTokens(text + reasoning)), Requests: 1, Estimated: true}
	if most := a.Stake.MostOutput; most > 0 {
		use.CompletionTokens = min(use.CompletionTokens, most)
	}
	use.TotalTokens = use.PromptTokens + use.CompletionTokens
	use = a.Stake.Price.Apply(use)
	if err := u.charge(t, turn, step.Step.Step, use, 0); err != nil {
		return err
	}
	return step.Amend(func(a *rows.Account) { a.Earlier, a.Stake, a.InARow = a.Earlier.Add(use), nil, 0 })
}
