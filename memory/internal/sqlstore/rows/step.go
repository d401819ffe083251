package rows

import (
	"encoding/json"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// States of a model call.
const (
	StepFlight = "flight"
	StepFailed = "failed"
	StepStored = "stored"
	StepSaved  = "saved"
)

// The columns of these rows, and the SELECT that reads them; a condition follows.
const (
	stepMutable = `state,attempt,failed,fence,scope,number,text_len,reasoning_len,reply,duration_ms,from_seq,to_seq,round,last_code,last_err,worker,account,wait`
	stepColumns = stepMutable + `,turn_id,step`
	SelectStep  = `SELECT ` + stepColumns + ` FROM steps`
)

// How these rows are written.
var (
	InsertStep = InsertSQL("steps", stepColumns)
	updateStep = updateSQL("steps", stepMutable)[:len(updateSQL("steps", stepMutable))-len("id = ?")] + `turn_id = ? AND step = ?`
)

// Step is a model call and its round.
type Step struct {
	memory.Step
	State        string
	Fence        fence
	textLen      int
	reasoningLen int
	Reply        string
	DurationMs   int64
	Round        string
	Worker       string // the process that has the attempt in flight
	Account      string // an account, or empty
	Wait         string // JSON: what the failed attempt's successor waits for
}

// Targets are where a row's columns are read to, in their order.
func (s *Step) Targets() []any {
	return []any{
		&s.State, &s.Attempt, &s.Failed, &s.Fence.seen, &s.Fence.Scope, &s.Fence.Number, &s.textLen, &s.reasoningLen, &s.Reply,
		&s.DurationMs, &s.FromSeq, &s.ToSeq, &s.Round, &s.LastCode, &s.LastErr, &s.Worker, &s.Account, &s.Wait, &s.TurnID, &s.Step.Step,
	}
}

// Loaded derives the fields that are not columns.
func (s *Step) Loaded() {
	s.Saved = s.State == StepSaved
	s.Stored = s.Saved || s.State == StepStored
}

// ModelReply is the stored reply.
func (s *Step) ModelReply() agent.ModelReply {
	var r agent.ModelReply
	if s.Reply == "" {
		return r
	}
	Check(memory.Damaged("", "the reply of step "+agent.MessageID(s.TurnID, s.Step.Step), json.Unmarshal([]byte(s.Reply), &r)))
	return r
}

// Step loads a step; nil if it has not begun.
func (u *Unit) Step(turnID string, step int) *Step {
	s := &Step{}
	if !u.One(SelectStep+` WHERE turn_id = ? AND step = ?`+u.Store.Dialect.LockRow, turnID, step).Into(s.Targets()...) {
		return nil
	}
	s.Loaded()
	return s
}

// SaveStep puts a changed step back.
func (u *Unit) SaveStep(s *Step) {
	u.Exec(updateStep, Values(s.Targets())...)
}

// DropChunks deletes the streamed text of a step.
func (u *Unit) DropChunks(s *Step) {
	if s.textLen == 0 && s.reasoningLen == 0 {
		return
	}
	s.textLen, s.reasoningLen = 0, 0
	u.Exec(`DELETE FROM chunks WHERE turn_id = ? AND step = ?`, s.TurnID, s.Step.Step)
}

// fence is the activity attempt that made an attempt current, and the highest
// number seen of each scope before.
type fence struct {
	memory.Fence
	seen string // JSON object; empty = no scope before the current one
}

// Repeats reports whether f is the very Begin that made the attempt current.
// Without a scope nothing can be told apart, so every Begin is a new one.
func (f *fence) Repeats(n memory.Fence) bool { return n.Scope != "" && f.Fence == n }

// Admit makes n current, or reports false when a higher number of its scope was
// current before.
func (f *fence) Admit(n memory.Fence) bool {
	if f.Scope == n.Scope {
		if n.Scope != "" && n.Number < f.Number {
			return false
		}
		f.Fence = n
		return true
	}
	seen := map[string]int{}
	Check(Decode(f.seen, &seen))
	if n.Number < seen[n.Scope] && n.Scope != "" {
		return false
	}
	if f.Scope != "" {
		seen[f.Scope] = max(seen[f.Scope], f.Number)
		f.seen = string(Must(json.Marshal(seen)))
	}
	f.Fence = n
	return true
}

// LockStep makes this unit the only writer of a step. Whoever ends an attempt
// locks the step too, so what was fenced before is read again after it.
func (u *Unit) LockStep(turnID string, step int) {
	if u.Store.Dialect.LockRow == "" {
		return
	}
	// Where there is none, the fence finds nothing either.
	One{u.q.QueryRowContext(u.wait, u.Store.sql.sql(`SELECT 1 FROM steps WHERE turn_id = ? AND step = ?`+u.Store.Dialect.LockRow), turnID, step)}.Into(new(int))
}

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
func ViewSummary(s *Summary) memory.Summary {
	s.CreatedAt = Stamp(s.Created)
	Check(Decode(s.Used, &s.Summary.Usage))
	return s.Summary
}
