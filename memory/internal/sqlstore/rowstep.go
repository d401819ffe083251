package sqlstore

import (
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// States of a model call.
const (
	stepFlight = "flight"
	stepFailed = "failed"
	stepStored = "stored"
	stepSaved  = "saved"
)

const (
	stepMutable = `state,attempt,failed,fence,scope,number,text_len,reasoning_len,reply,duration_ms,from_seq,to_seq,round,last_code,last_err,worker,account,wait`
	stepColumns = stepMutable + `,turn_id,step`
	selectStep  = `SELECT ` + stepColumns + ` FROM steps`
)

var (
	insertStep = insertSQL("steps", stepColumns)
	updateStep = updateSQL("steps", stepMutable)[:len(updateSQL("steps", stepMutable))-len("id = ?")] + `turn_id = ? AND step = ?`
)

// stepRow is a model call and its round.
type stepRow struct {
	memory.Step
	state        string
	fence        fence
	textLen      int
	reasoningLen int
	reply        string
	durationMs   int64
	round        string
	worker       string // the process that has the attempt in flight
	account      string // an account, or empty
	wait         string // JSON: what the failed attempt's successor waits for
}

func (s *stepRow) targets() []any {
	return []any{
		&s.state, &s.Attempt, &s.Failed, &s.fence.seen, &s.fence.Scope, &s.fence.Number, &s.textLen, &s.reasoningLen, &s.reply,
		&s.durationMs, &s.FromSeq, &s.ToSeq, &s.round, &s.LastCode, &s.LastErr, &s.worker, &s.account, &s.wait, &s.TurnID, &s.Step.Step,
	}
}

func (s *stepRow) values() []any {
	return []any{
		s.state, s.Attempt, s.Failed, s.fence.seen, s.fence.Scope, s.fence.Number, s.textLen, s.reasoningLen, s.reply,
		s.durationMs, s.FromSeq, s.ToSeq, s.round, s.LastCode, s.LastErr, s.worker, s.account, s.wait, s.TurnID, s.Step.Step,
	}
}

// loaded derives the fields that are not columns.
func (s *stepRow) loaded() {
	s.Saved = s.state == stepSaved
	s.Stored = s.Saved || s.state == stepStored
}

// modelReply is the stored reply.
func (s *stepRow) modelReply() (agent.ModelReply, error) {
	var r agent.ModelReply
	if s.reply == "" {
		return r, nil
	}
	return r, memory.Damaged("", "the reply of step "+agent.MessageID(s.TurnID, s.Step.Step), json.Unmarshal([]byte(s.reply), &r))
}

// step loads a step; nil if it has not begun.
func (u *unit) step(turnID string, step int) (*stepRow, error) {
	s := &stepRow{}
	err := u.row(selectStep+` WHERE turn_id = ? AND step = ?`+u.s.d.LockRow, turnID, step).Scan(s.targets()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.loaded()
	return s, nil
}

func (u *unit) saveStep(s *stepRow) error {
	return u.exec(updateStep, s.values()...)
}

// dropChunks deletes the streamed text of a step.
func (u *unit) dropChunks(s *stepRow) error {
	if s.textLen == 0 && s.reasoningLen == 0 {
		return nil
	}
	s.textLen, s.reasoningLen = 0, 0
	return u.exec(`DELETE FROM chunks WHERE turn_id = ? AND step = ?`, s.TurnID, s.Step.Step)
}

// fence is the activity attempt that made an attempt current, and the highest
// number seen of each scope before.
type fence struct {
	memory.Fence
	seen string // JSON object; empty = no scope before the current one
}

// repeats reports whether f is the very Begin that made the attempt current.
// Without a scope nothing can be told apart, so every Begin is a new one.
func (f *fence) repeats(n memory.Fence) bool { return n.Scope != "" && f.Fence == n }

// admit makes n current, or reports false when a higher number of its scope was
// current before.
func (f *fence) admit(n memory.Fence) (bool, error) {
	if f.Scope == n.Scope {
		if n.Scope != "" && n.Number < f.Number {
			return false, nil
		}
		f.Fence = n
		return true, nil
	}
	seen := map[string]int{}
	if err := decode(f.seen, &seen); err != nil {
		return false, err
	}
	if n.Number < seen[n.Scope] && n.Scope != "" {
		return false, nil
	}
	if f.Scope != "" {
		seen[f.Scope] = max(seen[f.Scope], f.Number)
		b, err := json.Marshal(seen)
		if err != nil {
			return false, err
		}
		f.seen = string(b)
	}
	f.Fence = n
	return true, nil
}
