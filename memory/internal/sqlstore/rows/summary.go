package rows

import "github.com/spool-agents/spool/memory"

// SummaryMutable are the columns that change.
const (
	SummaryMutable = `state,attempt,failed,fence,scope,number,from_seq,to_seq,last_seq,body,tokens,model,used,created_at`
	SummaryColumns = SummaryMutable + `,thread_id,turn_id,step,cause`
	SelectSummary  = `SELECT ` + SummaryColumns + ` FROM summaries`
)

// Summary is a summary under way or stored.
type Summary struct {
	memory.Summary
	State   string
	Failed  int
	Fence   fence
	Used    string
	Created int64
}

// Targets are where a row's columns are read to, in their order.
func (s *Summary) Targets() []any {
	return []any{
		&s.State, &s.Attempts, &s.Failed, &s.Fence.seen, &s.Fence.Scope, &s.Fence.Number, &s.ReplacesFrom, &s.ReplacesTo, &s.LastSeq,
		&s.Text, &s.Window, &s.Model, &s.Used, &s.Created, &s.ThreadID, &s.TurnID, &s.Step, &s.Cause,
	}
}

// ViewSummary is a summary as callers see it.
func ViewSummary(s *Summary) (memory.Summary, error) {
	s.CreatedAt = Stamp(s.Created)
	return s.Summary, Decode(s.Used, &s.Summary.Usage)
}
