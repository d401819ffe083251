package rows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
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
func (s *Step) ReadAccount() Account {
	var a Account
	if s.Account == "" {
		return a
	}
	Check(memory.Damaged("", "the account of step "+agent.MessageID(s.TurnID, s.Step.Step), json.Unmarshal([]byte(s.Account), &a)))
	return a
}

// Amend changes a step's account; the caller saves the step.
func (s *Step) Amend(change func(*Account)) {
	a := s.ReadAccount()
	change(&a)
	s.Account = Must(Encode(a))
}

const (
	selectSpent    = `SELECT tokens, price, work_ms, descendants FROM budgets WHERE root_id = ?`
	selectReserved = `SELECT COUNT(*), COALESCE(SUM(tokens), 0), COALESCE(SUM(price), 0) FROM reservations WHERE root_id = ?`
)

// Spent reads what a tree has used and reserved.
func Spent(q Rower, rootID string) memory.Spent {
	var s memory.Spent
	var work int64
	q.One(selectSpent, rootID).Into(&s.Tokens, &s.Price, &work, &s.Descendants)
	s.Time = time.Duration(work) * time.Millisecond
	Check(q.Row(selectReserved, rootID).Scan(&s.Reservations, &s.ReservedTokens, &s.ReservedPrice))
	return s
}

// A worker that dies takes everything it has in flight with it, and nobody can
// tell which call killed it. So the turns it had in flight share the blame: of
// eight, each gets an eighth. A turn ends when its shares add up to
// DefaultMaxLost workers. One that kills its worker whenever it runs is in flight
// each time; the others finish, or are apart from it, because a turn that lost
// several workers waits at random, ever longer, before it tries again.

// DefaultMaxLost is how many workers a turn may kill.
const DefaultMaxLost = 5

// maxBackOff bounds the wait of a turn that lost workers.
const maxBackOff = time.Minute

// Deadly is why a turn must end: it killed too many workers. Shares are added up
// as floating point, so a little is allowed for.
func (t *Turn) Deadly(maxLost int) error {
	limit := cmp.Or(maxLost, DefaultMaxLost)
	if t.blame < float64(limit)-1e-6 {
		return nil
	}
	return agent.Errorf(agent.CodeLimit, "turn %s killed its worker %d times (%d died, what else they ran shares the blame): it is not tried again",
		t.ID, limit, t.losses)
}

// BackOff is how long a turn that lost workers still has to wait: nothing after
// the first loss, then between half and the whole of a time that doubles. Where
// in between follows from the turn, so that turns lost together come back apart.
func (t *Turn) BackOff(now int64) time.Duration {
	if t.losses < 2 {
		return 0
	}
	most := maxBackOff
	if t.losses < 7 {
		most = time.Second << (t.losses - 1)
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, t.ID, t.losses)
	half := most.Milliseconds() / 2
	until := t.lostAt + half + int64(h.Sum32())%half
	return time.Duration(max(0, until-now)) * time.Millisecond
}
