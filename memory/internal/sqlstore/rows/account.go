package rows

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Account is what a step's attempts cost, beside its reply.
type Account struct {
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

// Held reports whether an attempt did not fail, but was held back.
func Held(r memory.ModelFailure) bool { return r.Wait != nil && r.Wait.Held }

// Failed counts a failed attempt. Another model starts anew.
func (a *Account) Failed(r memory.ModelFailure, use agent.Usage, now int64) {
	a.Earlier, a.Stake = a.Earlier.Add(use), nil
	if Held(r) {
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

// Failing is for how long the calls of a step have failed.
func (a *Account) Failing(now int64) time.Duration {
	if a.Since == 0 {
		return 0
	}
	return time.Duration(max(now-a.Since, 0)) * time.Millisecond
}

// ReadAccount reads the step's account; an empty one if it has none.
func (s *Step) ReadAccount() (Account, error) {
	var a Account
	if s.Account == "" {
		return a, nil
	}
	return a, memory.Damaged("", "the account of step "+agent.MessageID(s.TurnID, s.Step.Step), json.Unmarshal([]byte(s.Account), &a))
}

// Amend changes a step's account; the caller saves the step.
func (s *Step) Amend(change func(*Account)) error {
	a, err := s.ReadAccount()
	if err != nil {
		return err
	}
	change(&a)
	s.Account, err = Encode(a)
	return err
}
