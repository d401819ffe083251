package rows

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/spool-agents/spool/agent"
)

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
