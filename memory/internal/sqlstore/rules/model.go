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
func (s *Store) BeginModel(ctx context.Context, r memory.ModelBegin) (memory.ModelStart, error) {
	return writing(ctx, s, "begin-model", func(u *Unit) (start memory.ModelStart) {
		t, turn := u.Open(r.ThreadID, r.TurnID)
		turn.Cancelled()
		u.beginModel(t, turn, r, &start)
		start.Thread = u.View(t)
		start.Turn = turn.Turn
		return start
	})
}

func (u *Unit) beginModel(t *rows.Thread, turn *rows.Turn, r memory.ModelBegin, start *memory.ModelStart) {
	if r.Step < 1 {
		rows.Refuse(agent.CodeInvalid, "step %d of turn %s is not possible: steps count from 1", r.Step, turn.ID)
	}
	step := u.Step(turn.ID, r.Step)
	if (step == nil || !step.Stored) && r.Worker != "" {
		rows.Check(turn.Deadly(r.MaxLost))
	}
	switch {
	case step == nil && r.Step != turn.Saved+1:
		rows.Refuse(agent.CodeConflict, "step %d of turn %s cannot begin: step %d is not saved", r.Step, turn.ID, turn.Saved+1)
	case step == nil:
		u.reserveFor(t, r)
		step = &rows.Step{Step: memory.Step{TurnID: turn.ID, Step: r.Step}, State: rows.StepFlight}
		step.Fence.Fence, step.Attempt, step.Worker = r.Fence, 1, r.Worker
		u.Exec(rows.InsertStep, rows.Values(step.Targets())...)
	case step.Stored:
		start.Attempt = step.Attempt
		start.Stored = u.stored(step)
		return
	case step.State == rows.StepFlight && step.Fence.Repeats(r.Fence):
		start.Attempt = step.Attempt
		earlierAttempts(step, u.Now, start)
		return
	default:
		lost := lostAttempt(step.State == rows.StepFlight, step.Worker, r.Worker, step.Attempt)
		if start.Wait = u.nextAttempt(t, turn, step, r); start.Wait > 0 {
			return
		}
		if start.Lost = lost; lost > 0 {
			u.tellLost(t, turn, "", r.Worker, "makes it again")
		}
		earlierAttempts(step, u.Now, start)
		u.reserveFor(t, r)
	}
	start.Attempt = step.Attempt
	turn.Steps, turn.Dirty = max(turn.Steps, r.Step), true
	t.Touch()
	start.Steered = u.steer(t, turn)
}

// earlierAttempts says how the attempts before this one ended.
func earlierAttempts(step *rows.Step, now int64, start *memory.ModelStart) {
	a := step.ReadAccount()
	start.LastCode, start.LastErr, start.LastClass, start.InARow = step.LastCode, step.LastErr, a.Class, a.InARow
	start.Failures, start.Failing = a.Failures, a.Failing(now)
}

// nextAttempt replaces a failed attempt, or one that was lost with its worker.
// It returns how long to wait first, if that happened too often of late.
func (u *Unit) nextAttempt(t *rows.Thread, turn *rows.Turn, step *rows.Step, r memory.ModelBegin) time.Duration {
	if !step.Fence.Admit(r.Fence) {
		rows.Check(memory.Stale("attempt %d of activity %s is older than the current one of step %d of turn %s", r.Fence.Number, r.Fence.Scope, r.Step, turn.ID))
	}
	if step.State == rows.StepFlight {
		rows.Check(gone(step.Worker, r.Worker))
		if wait := turn.BackOff(u.Now); wait > 0 && r.Worker != "" {
			return wait
		}
		u.chargeLost(t, turn, step)
	}
	step.Attempt++
	step.State, step.Worker = rows.StepFlight, r.Worker
	u.DropChunks(step)
	u.SaveStep(step)
	return 0
}

// stored is a step's reply with its calls.
func (u *Unit) stored(step *rows.Step) *memory.StoredReply {
	stored := &memory.StoredReply{Reply: step.ModelReply()}
	if len(stored.Reply.Calls) > 0 {
		stored.Calls = rows.CallViews(u.Calls(step.TurnID, step.Step.Step))
	}
	return stored
}

// steer takes steered messages and the ends of background children into the
// running turn.
func (u *Unit) steer(t *rows.Thread, turn *rows.Turn) int {
	if t.Waiting == 0 && t.LastChild == 0 { // quiet entries do not count as waiting
		return 0
	}
	entries := u.Entries(`thread_id = ? AND state = 'waiting' AND (kind = 'message' AND when_busy = 'steer' OR kind = 'child' AND background = 1)`, t.ID)
	if len(entries) == 0 {
		return 0
	}
	from := t.LastMessage + 1
	for _, e := range entries {
		u.Take(t, e, turn.ID)
		u.appendEntry(t, turn, e, "steer")
	}
	u.Appended(t, turn.ID, from, t.LastMessage)
	return len(entries)
}

// AppendChunk keeps a piece of streamed text. It does not touch the thread row:
// a stream must not make its thread's writers wait more than it has to.
func (s *Store) AppendChunk(ctx context.Context, c memory.Chunk) error {
	if c.Offset < 0 || c.ReasoningOffset < 0 {
		return agent.Errorf(agent.CodeInvalid, "chunk offset %d/%d of turn %s is negative", c.Offset, c.ReasoningOffset, c.TurnID)
	}
	return s.write(ctx, "chunk", func(u *Unit) {
		u.LockStep(c.TurnID, c.Step)
		var text, reasoning int
		step := rows.Step{Step: memory.Step{TurnID: c.TurnID, Step: c.Step}}
		there := u.One(`SELECT s.text_len, s.reasoning_len, s.account FROM steps s JOIN threads t ON t.open_turn = s.turn_id`+
			` WHERE t.id = ? AND s.turn_id = ? AND s.step = ? AND s.attempt = ? AND s.state = 'flight'`,
			c.ThreadID, c.TurnID, c.Step, c.Attempt).Into(&text, &reasoning, &step.Account)
		if !there {
			rows.Check(staleAttempt(c.TurnID, c.Step, c.Attempt))
		}
		if c.Offset > text || c.ReasoningOffset > reasoning {
			rows.Refuse(agent.CodeInvalid, "chunk at %d/%d of turn %s leaves a gap: the store holds %d/%d bytes; send from there", c.Offset, c.ReasoningOffset, c.TurnID, text, reasoning)
		}
		body := c.Text[min(text-c.Offset, len(c.Text)):]
		thought := c.Reasoning[min(reasoning-c.ReasoningOffset, len(c.Reasoning)):]
		if body == "" && thought == "" {
			return
		}
		u.Exec(`INSERT INTO chunks (turn_id, step, n, body, reasoning) VALUES (?, ?, ?, ?, ?)`, c.TurnID, c.Step, text+reasoning, []byte(body), []byte(thought))
		if text+reasoning == 0 && c.Stake != nil {
			step.Amend(func(a *rows.Account) { a.Stake = c.Stake })
		}
		u.Exec(`UPDATE steps SET text_len = ?, reasoning_len = ?, account = ? WHERE turn_id = ? AND step = ?`,
			text+len(body), reasoning+len(thought), step.Account, c.TurnID, c.Step)
	})
}

// FailModel records what a failed attempt cost.
func (s *Store) FailModel(ctx context.Context, r memory.ModelFailure) error {
	return s.write(ctx, "fail-model", func(u *Unit) {
		t, turn, step := u.OpenStep(r.ThreadID, r.TurnID, r.Step)
		if step == nil || step.Attempt != r.Attempt || step.Stored {
			rows.Check(staleAttempt(r.TurnID, r.Step, r.Attempt))
		}
		if step.State == rows.StepFailed {
			return
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
		u.charge(t, turn, r.Step, use, r.Duration)
		step.Amend(func(a *rows.Account) { a.Failed(r, use, u.Now) })
		if r.Fallback != "" {
			turn.Fallback, turn.Dirty = r.Fallback, true
		}
		if model := strings.Join(strings.Fields(r.NoImages), ""); model != "" && !slices.Contains(t.NoImages, model) {
			t.NoImagesText += model + "\n"
			t.Loaded()
			t.Touch()
		}
		u.Warn(t, turn, r.Warnings)
		u.holdModel(t, turn, step, r)
		u.SaveStep(step)
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

// holdModel keeps when the call of a failed attempt is made again, and logs it.
// What a limiter holds back for a moment, again and again, is not logged.
func (u *Unit) holdModel(t *rows.Thread, turn *rows.Turn, step *rows.Step, r memory.ModelFailure) {
	step.Wait = ""
	if r.Wait == nil {
		return
	}
	w := *r.Wait
	w.ThreadID, w.RootThread, w.TurnID, w.Agent, w.Reason = t.ID, t.RootThreadID, turn.ID, u.agentName(t), rows.Clean(w.Reason)
	step.Wait = rows.Must(rows.Encode(w))
	if now := rows.Stamp(u.Now); !r.NotCalled || w.Until.Sub(now) >= agent.ShortWait {
		u.surface(t, turn, agent.EventWarning, agent.Warning{Code: agent.WarnModelWait, Message: w.Text(now.UTC()), Wait: &w})
	}
}
