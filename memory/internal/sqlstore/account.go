package sqlstore

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// account is what a step's attempts cost, beside its reply.
type account struct {
	// Earlier is what attempts used that gave no reply; the message has it in its total.
	Earlier agent.Usage `json:"earlier"`
	// Stake is that of the attempt in flight, from its first piece of text on.
	Stake *memory.Stake `json:"stake,omitempty"`
	// Class is that of the latest failure, InARow how many in a row had it.
	Class  agent.FailureClass `json:"class,omitempty"`
	InARow int                `json:"inARow,omitempty"`
	// Failures and Since (unix ms) are those of the current model, see memory.ModelStart.
	Failures int   `json:"failures,omitempty"`
	Since    int64 `json:"since,omitempty"`
}

// held reports whether an attempt did not fail, but was held back.
func held(r memory.ModelFailure) bool { return r.Wait != nil && r.Wait.Held }

// failed counts a failed attempt. Another model starts anew.
func (a *account) failed(r memory.ModelFailure, use agent.Usage, now int64) {
	a.Earlier, a.Stake = a.Earlier.Add(use), nil
	if held(r) {
		return
	}
	if r.Wait != nil {
		a.Failures++
		a.Since = cmp.Or(a.Since, now)
	}
	if r.Class != a.Class {
		a.InARow = 0
	}
	a.Class = r.Class
	a.InARow++
	if r.Fallback != "" {
		a.InARow, a.Failures, a.Since = 0, 0, 0
	}
}

// failing is for how long the calls of a step have failed.
func (a *account) failing(now int64) time.Duration {
	if a.Since == 0 {
		return 0
	}
	return time.Duration(max(now-a.Since, 0)) * time.Millisecond
}

func (s *stepRow) readAccount() (account, error) {
	var a account
	if s.account == "" {
		return a, nil
	}
	return a, memory.Damaged("", "the account of step "+agent.MessageID(s.TurnID, s.Step.Step), json.Unmarshal([]byte(s.account), &a))
}

// amend changes a step's account; the caller saves the step.
func (s *stepRow) amend(change func(*account)) error {
	a, err := s.readAccount()
	if err != nil {
		return err
	}
	change(&a)
	s.account, err = encode(a)
	return err
}

// chargeLost charges an attempt that is still in flight when something else ends it:
// its worker, its turn. What it used is guessed from its stake and its text; of one
// that never showed a text nobody knows whether a call was made.
func (u *unit) chargeLost(t *threadRow, turn *turnRow, step *stepRow) error {
	if step.state != stepFlight {
		return nil
	}
	a, err := step.readAccount()
	if err != nil || a.Stake == nil {
		return err
	}
	text, reasoning, err := streamed(u, step.TurnID, step.Step.Step)
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
	return step.amend(func(a *account) { a.Earlier, a.Stake, a.InARow = a.Earlier.Add(use), nil, 0 })
}
