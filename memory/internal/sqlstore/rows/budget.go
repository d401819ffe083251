package rows

import (
	"time"

	"github.com/spool-agents/spool/memory"
)

const (
	selectSpent    = `SELECT tokens, price, work_ms, descendants FROM budgets WHERE root_id = ?`
	selectReserved = `SELECT COUNT(*), COALESCE(SUM(tokens), 0), COALESCE(SUM(price), 0) FROM reservations WHERE root_id = ?`
)

// Spent reads what a tree has used and reserved.
func Spent(q Rower, rootID string) (memory.Spent, error) {
	var s memory.Spent
	var work int64
	err := q.Row(selectSpent, rootID).Scan(&s.Tokens, &s.Price, &work, &s.Descendants)
	if err != nil && !NoRows(err) {
		return s, err
	}
	s.Time = time.Duration(work) * time.Millisecond
	return s, q.Row(selectReserved, rootID).Scan(&s.Reservations, &s.ReservedTokens, &s.ReservedPrice)
}
