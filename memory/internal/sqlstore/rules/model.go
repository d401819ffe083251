package rules

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/sqlstore/rows"
)

// BeginModel makes an attempt of a step's model call current, or returns its stored reply.
func (s *Store) BeginModel(ctx context.Context, r memory.ModelBegin) (start memory.ModelStart, err error) {
	err = s.begin(ctx, "begin-model", func(u *Unit) error {
		start = memory.ModelStart{}
		t, turn, err := u.Open(r.ThreadID, r.TurnID)
		if err != nil {
			return err
		}
		if err := turn.Cancelled(); err != nil {
			return err
		}
		if err := u.beginModel(t, turn, r, &start); err != nil {
			return err
		}
		start.Thread, err = u.View(t)
		start.Turn = turn.Turn
		return err
	})
	return start, err
}

func (u *Unit) beginModel(t *rows.Thread, turn *rows.Turn, r memory.ModelBegin, start *memory.ModelStart) error {
	if r.Step < 1 {
		return agent.Errorf(agent.CodeInvalid, "step %d of turn %s is not possible: steps count from 1", r.Step, turn.ID)
	}
	step, err := u.Step(turn.ID, r.Step)
	if err != nil {
		return err
	}
	if step == nil || !step.Stored {
		if err := turn.Deadly(r.MaxLost); err != nil && r.Worker != "" {
			return err
		}
	}
	switch {
	case step == nil && r.Step != turn.Saved+1:
		return agent.Errorf(agent.CodeConflict, "step %d of turn %s cannot begin: step %d is not saved", r.Step, turn.ID, turn.Saved+1)
	case step == nil:
		if err := u.reserveFor(t, r); err != nil {
			return err
		}
		step = &rows.Step{Step: memory.Step{TurnID: turn.ID, Step: r.Step}, State: rows.StepFlight}
		step.Fence.Fence, step.Attempt, step.Worker = r.Fence, 1, r.Worker
		if err := u.Exec(rows.InsertStep, rows.Values(step.Targets())...); err != nil {
			return err
		}
	case step.Stored:
		start.Attempt = step.Attempt
		start.Stored, err = u.stored(step)
		return err
	case step.State == rows.StepFlight && step.Fence.Repeats(r.Fence):
		start.Attempt = step.Attempt
		return earlierAttempts(step, u.Now, start)
	default:
		lost := lostAttempt(step.State == rows.StepFlight, step.Worker, r.Worker, step.Attempt)
		start.Wait, err = u.nextAttempt(t, turn, step, r)
		if err != nil || start.Wait > 0 {
			return err
		}
		if start.Lost = lost; lost > 0 {
			if err := u.tellLost(t, turn, "", r.Worker, "makes it again"); err != nil {
				return err
			}
		}
		if err := earlierAttempts(step, u.Now, start); err != nil {
			return err
		}
		if err := u.reserveFor(t, r); err != nil {
			return err
		}
	}
	start.Attempt = step.Attempt
	turn.Steps, turn.Dirty = max(turn.Steps, r.Step), true
	t.Touch()
	start.Steered, err = u.steer(t, turn)
	return err
}

// earlierAttempts says how the attempts before this one ended.
func earlierAttempts(step *rows.Step, now int64, start *memory.ModelStart) error {
	a, err := step.ReadAccount()
	start.LastCode, start.LastErr, start.LastClass, start.InARow = step.LastCode, step.LastErr, a.Class, a.InARow
	start.Failures, start.Failing = a.Failures, a.Failing(now)
	return err
}

// nextAttempt replaces a failed attempt, or one that was lost with its worker.
// It returns how long to wait first, if that happened too often of late.
func (u *Unit) nextAttempt(t *rows.Thread, turn *rows.Turn, step *rows.Step, r memory.ModelBegin) (time.Duration, error) {
	ok, err := step.Fence.Admit(r.Fence)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, memory.Stale("attempt %d of activity %s is older than the current one of step %d of turn %s", r.Fence.Number, r.Fence.Scope, r.Step, turn.ID)
	}
	if step.State == rows.StepFlight {
		if err := gone(step.Worker, r.Worker); err != nil {
			return 0, err
		}
		if wait := turn.BackOff(u.Now); wait > 0 && r.Worker != "" {
			return wait, nil
		}
		if err := u.chargeLost(t, turn, step); err != nil {
			return 0, err
		}
	}
	step.Attempt++
	step.State, step.Worker = rows.StepFlight, r.Worker
	if err := u.DropChunks(step); err != nil {
		return 0, err
	}
	return 0, u.SaveStep(step)
}

// stored is a step's reply with its calls.
func (u *Unit) stored(step *rows.Step) (*memory.StoredReply, error) {
	reply, err := step.ModelReply()
	if err != nil {
		return nil, err
	}
	stored := &memory.StoredReply{Reply: reply}
	if len(reply.Calls) == 0 {
		return stored, nil
	}
	calls, err := u.Calls(step.TurnID, step.Step.Step)
	stored.Calls = rows.CallViews(calls)
	return stored, err
}

// steer takes steered messages and the ends of background children into the
// running turn.
func (u *Unit) steer(t *rows.Thread, turn *rows.Turn) (int, error) {
	if t.Waiting == 0 && t.LastChild == 0 { // quiet entries do not count as waiting
		return 0, nil
	}
	entries, err := u.Entries(`thread_id = ? AND state = 'waiting' AND (kind = 'message' AND when_busy = 'steer' OR kind = 'child' AND background = 1)`, t.ID)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	from := t.LastMessage + 1
	for _, e := range entries {
		if err := u.Take(t, e, turn.ID); err != nil {
			return 0, err
		}
		if _, err := u.appendEntry(t, turn, e, "steer"); err != nil {
			return 0, err
		}
	}
	return len(entries), u.Appended(t, turn.ID, from, t.LastMessage)
}

// AppendChunk keeps a piece of streamed text. It does not touch the thread row:
// a stream must not make its thread's writers wait more than it has to.
func (s *Store) AppendChunk(ctx context.Context, c memory.Chunk) error {
	if c.Offset < 0 || c.ReasoningOffset < 0 {
		return agent.Errorf(agent.CodeInvalid, "chunk offset %d/%d of turn %s is negative", c.Offset, c.ReasoningOffset, c.TurnID)
	}
	return s.write(ctx, "chunk", func(u *Unit) error { return u.appendChunk(c) })
}

func (u *Unit) appendChunk(c memory.Chunk) error {
	if err := u.LockStep(c.TurnID, c.Step); err != nil {
		return err
	}
	var text, reasoning int
	step := rows.Step{Step: memory.Step{TurnID: c.TurnID, Step: c.Step}}
	err := u.Row(`SELECT s.text_len, s.reasoning_len, s.account FROM steps s JOIN threads t ON t.open_turn = s.turn_id`+
		` WHERE t.id = ? AND s.turn_id = ? AND s.step = ? AND s.attempt = ? AND s.state = 'flight'`,
		c.ThreadID, c.TurnID, c.Step, c.Attempt).Scan(&text, &reasoning, &step.Account)
	if rows.NoRows(err) {
		return staleAttempt(c.TurnID, c.Step, c.Attempt)
	}
	if err != nil {
		return err
	}
	if c.Offset > text || c.ReasoningOffset > reasoning {
		return agent.Errorf(agent.CodeInvalid, "chunk at %d/%d of turn %s leaves a gap: the store holds %d/%d bytes; send from there", c.Offset, c.ReasoningOffset, c.TurnID, text, reasoning)
	}
	body := c.Text[min(text-c.Offset, len(c.Text)):]
	thought := c.Reasoning[min(reasoning-c.ReasoningOffset, len(c.Reasoning)):]
	if body == "" && thought == "" {
		return nil
	}
	err = u.Exec(`INSERT INTO chunks (turn_id, step, n, body, reasoning) VALUES (?, ?, ?, ?, ?)`, c.TurnID, c.Step, text+reasoning, []byte(body), []byte(thought))
	if err != nil {
		return err
	}
	if text+reasoning == 0 && c.Stake != nil {
		if err := step.Amend(func(a *rows.Account) { a.Stake = c.Stake }); err != nil {
			return err
		}
	}
	return u.Exec(`UPDATE steps SET text_len = ?, reasoning_len = ?, account = ? WHERE turn_id = ? AND step = ?`,
		text+len(body), reasoning+len(thought), step.Account, c.TurnID, c.Step)
}

// FailModel records what a failed attempt cost.
func (s *Store) FailModel(ctx context.Context, r memory.ModelFailure) error {
	return s.write(ctx, "fail-model", func(u *Unit) error {
		t, turn, step, err := u.OpenStep(r.ThreadID, r.TurnID, r.Step)
		if err != nil {
			return err
		}
		if step == nil || step.Attempt != r.Attempt || step.Stored {
			return staleAttempt(r.TurnID, r.Step, r.Attempt)
		}
		if step.State == rows.StepFailed {
			return nil
		}
		step.State, step.Worker = rows.StepFailed, ""
		if !rows.Held(r) {
			step.Failed++
			step.LastCode, step.LastErr = r.Code, rows.Clean(r.Message)
		}
		step.DurationMs += r.Duration.Milliseconds()
		var use agent.Usage
		if !r.NotCalled {
			use = OneRequest(r.Usage)
		}
		if err := u.charge(t, turn, r.Step, use, r.Duration); err != nil {
			return err
		}
		if err := step.Amend(func(a *rows.Account) { a.Failed(r, use, u.Now) }); err != nil {
			return err
		}
		if r.Fallback != "" {
			turn.Fallback, turn.Dirty = r.Fallback, true
		}
		if model := strings.Join(strings.Fields(r.NoImages), ""); model != "" && !slices.Contains(t.NoImages, model) {
			t.NoImagesText += model + "\n"
			t.Loaded()
			t.Touch()
		}
		if err := u.Warn(t, turn, r.Warnings); err != nil {
			return err
		}
		if err := u.holdModel(t, turn, step, r); err != nil {
			return err
		}
		return u.SaveStep(step)
	})
}

// OneRequest makes sure that a model call counts as a request and its tokens as a total.
func OneRequest(use agent.Usage) agent.Usage {
	if use.Requests == 0 {
		use.Requests = 1
	}
	if use.TotalTokens == 0 {
		use.TotalTokens = use.PromptTokens + use.CompletionTokens
	}
	return use
}

func staleAttempt(turnID string, step, attempt int) error {
	return memory.Stale("attempt %d of step %d of turn %s is not the current one", attempt, step, turnID)
}
