package rules

import (
	"slices"
	"strings"
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

// use counts what a model call or a tool has used.
func (u *Unit) use(t *rows.Thread, use agent.Usage, took time.Duration) {
	u.Exec(spend, t.RootThreadID, use.TotalTokens, use.Price, took.Milliseconds(), 0)
}

// settleReservation ends the reservation of a step; its use is counted apart.
func (u *Unit) settleReservation(turnID string, step int) {
	u.Exec(`DELETE FROM reservations WHERE turn_id = ? AND step = ?`, turnID, step)
}

// reserveFor reserves what a model call may cost before it starts, or refuses it:
// with CodeLimit when the tree's budget is used up, with ErrBudgetReserved when
// its rest is promised to other calls. A call that is alone may use the whole
// rest, so the budget is passed by at most one call.
func (u *Unit) reserveFor(t *rows.Thread, r memory.ModelBegin) {
	if !r.Budget.Limited() {
		return
	}
	// The attempt that this one replaces reserves nothing any more.
	u.settleReservation(r.TurnID, r.Step)
	s := rows.Spent(u, t.RootThreadID)
	if text := agent.RefuseBudget(s.Tokens, r.Budget.Tokens, s.Price, r.Budget.Price, s.Time, r.Budget.Time); text != "" {
		rows.Refuse(agent.CodeLimit, "%s", text)
	}
	c := u.Store.Config(u, t.ConfigHash)
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
		rows.Check(memory.ErrBudgetReserved)
	}
	u.Exec(reserve, r.TurnID, r.Step, t.RootThreadID, tokens, price)
}

// chargeLost charges an attempt that is still in flight when something else ends it:
// its worker, its turn. What it used is guessed from its stake and its text; of one
// that never showed a text nobody knows whether a call was made.
func (u *Unit) chargeLost(t *rows.Thread, turn *rows.Turn, step *rows.Step) {
	if step.State != rows.StepFlight {
		return
	}
	a := step.ReadAccount()
	if a.Stake == nil {
		return
	}
	text, reasoning := rows.Streamed(u, step.TurnID, step.Step.Step)
	use := agent.Usage{PromptTokens: a.Stake.PromptTokens, CompletionTokens: int64(agent.EstimateTokens(text + reasoning)), Requests: 1, Estimated: true}
	if most := a.Stake.MostOutput; most > 0 {
		use.CompletionTokens = min(use.CompletionTokens, most)
	}
	use.TotalTokens = use.PromptTokens + use.CompletionTokens
	use = a.Stake.Price.Apply(use)
	u.charge(t, turn, step.Step.Step, use, 0)
	step.Amend(func(a *rows.Account) { a.Earlier, a.Stake, a.InARow = a.Earlier.Add(use), nil, 0 })
}

// lostWorker says that an attempt in flight belongs to a process that is gone,
// which is not accounted for yet.
type lostWorker struct{ id string }

func (l *lostWorker) Error() string { return "worker process " + l.id + " is gone" }

// gone reports whether the process that had an attempt in flight is another one
// than that which takes it up. The same process is alive.
func gone(had, has string) error {
	if had == "" || has == "" || had == has {
		return nil
	}
	return agent.Wrap(&lostWorker{id: had}, agent.CodeUnavailable, "its attempt is to be accounted for")
}

// lostAttempt is the number of an attempt in flight that another process takes up,
// or 0: one whose loss is accounted for names no process any more.
func lostAttempt(inFlight bool, had, has string, attempt int) int {
	if inFlight && has != "" && had != has {
		return attempt
	}
	return 0
}

// tellLost says in the log that a worker was lost in a call, and what becomes of that.
func (u *Unit) tellLost(t *rows.Thread, turn *rows.Turn, call, has, then string) {
	name := func(worker, none string) string {
		if worker == "" {
			return none
		}
		short, _, _ := strings.Cut(worker, "/")
		return "worker " + short
	}
	u.Warn(t, turn, []agent.Warning{{Code: agent.WarnWorkerLost, ToolCallID: call,
		Message: name(u.gone, "a worker") + " was lost in the middle of a call, " + name(has, "another one") + " " + then + "; nothing that was stored is repeated"}})
}

// lose shares the blame for a worker among the turns that it had in flight.
func (u *Unit) lose(worker string) {
	var turns []string
	for _, in := range []string{"steps", "tool_calls"} {
		turns = append(turns, u.Strings(`UPDATE `+in+` SET worker = '' WHERE worker = ? AND worker <> '' RETURNING turn_id`, worker)...)
	}
	slices.Sort(turns)
	turns = slices.Compact(turns)
	for _, id := range turns {
		u.Exec(`UPDATE turns SET losses = losses + 1, blame = blame + ?, lost_at = ? WHERE id = ?`, 1/float64(len(turns)), u.Now, id)
	}
}
