package memorytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Hammer does what many people and workers do at once: it picks a conversation and
// sends, cancels or decides in it, or takes one of its threads a step further,
// whoever else is at work there, until a time, and on from there to so many
// operations if the machine is slow. Steps delegate in the foreground and
// background, ask for approvals and close turns in every way. What a store may
// refuse is no error; anything else ends it. Name tells processes apart.
func Hammer(ctx context.Context, s memory.ConversationMemoryStore, name string, conversations int, until time.Time, least int) (operations int, err error) {
	seed := uint64(time.Now().UnixNano())
	h := &hammer{ctx: ctx, s: s, name: name, rng: rand.New(rand.NewPCG(seed, seed))}
	for time.Now().Before(until) || h.n < least {
		if err := h.one(h.rng.IntN(conversations)); err != nil {
			return h.n, fmt.Errorf("%s after %d operations (seed %d): %w", h.what, h.n, seed, err)
		}
	}
	return h.n, nil
}

type hammer struct {
	ctx  context.Context
	s    memory.ConversationMemoryStore
	name string
	rng  *rand.Rand
	n    int
	what string
}

// did counts an operation; what the rules refuse is fine.
func (h *hammer) did(what string, err error) error {
	h.n++
	h.what = what
	switch agent.CodeOf(err) {
	case agent.CodeConflict, agent.CodeStale, agent.CodeLimit, agent.CodeNotFound:
		return nil
	}
	return err
}

func (h *hammer) one(conversation int) error {
	root := fmt.Sprintf("hammer/c%d", conversation)
	switch h.rng.IntN(16) {
	case 0, 1:
		_, err := h.s.Send(h.ctx, memory.SendRequest{
			UserID: "u", SessionID: "hammer", ConversationID: strings.TrimPrefix(root, "hammer/"), MessageID: fmt.Sprint(h.name, "-", h.n),
			Content: agent.Text("go"), WhenBusy: []memory.WhenBusy{memory.Queue, memory.Steer}[h.rng.IntN(2)],
		})
		return h.did("send", err)
	case 2:
		_, err := h.s.RequestCancel(h.ctx, memory.CancelRequest{UserID: "u", ThreadID: root, By: h.name, All: h.rng.IntN(2) == 0})
		return h.did("cancel", err)
	case 3, 4:
		return h.decide(root)
	}
	threads, err := h.s.Threads(h.ctx, memory.ThreadFilter{Root: root, All: true, Limit: 100})
	if err != nil || len(threads) == 0 {
		return h.did("list", err)
	}
	return h.advance(threads[h.rng.IntN(len(threads))])
}

func (h *hammer) decide(root string) error {
	open, err := h.s.Approvals(h.ctx, memory.ApprovalFilter{RootThread: root, OpenOnly: true})
	if err != nil {
		return h.did("approvals", err)
	}
	if len(open) == 0 {
		return h.answer(root)
	}
	if h.rng.IntN(3) == 0 {
		return h.answer(root)
	}
	d := memory.Decision{UserID: "u", By: h.name, Target: open[0].ID, Verdict: []string{memory.Approve, memory.ApproveAll, memory.Deny}[h.rng.IntN(3)]}
	_, err = h.s.Decide(h.ctx, d)
	return h.did("decide", err)
}

func (h *hammer) answer(root string) error {
	open, err := h.s.Questions(h.ctx, memory.QuestionFilter{RootThread: root, OpenOnly: true})
	if err != nil || len(open) == 0 {
		return h.did("questions", err)
	}
	_, err = h.s.Answer(h.ctx, memory.AnswerRequest{UserID: "u", By: h.name, Target: open[h.rng.IntN(len(open))].ID, Text: "by " + h.name})
	return h.did("answer", err)
}

// advance takes a thread's open turn, or its next one, a step further.
func (h *hammer) advance(th agent.Thread) error {
	claim, err := h.s.TakeNext(h.ctx, memory.TakeRequest{ThreadID: th.ID, RunID: h.name, Config: &agent.SpecialistAgentConfig{Name: "a" + h.name, Model: fmt.Sprint(h.rng.IntN(8))}})
	if err := h.did("take", err); err != nil || claim.Turn == nil {
		return err
	}
	if h.rng.IntN(8) == 0 {
		return h.close(*claim.Turn, claim.Step, []agent.ThreadStatus{agent.ThreadFailed, agent.ThreadCancelled}[h.rng.IntN(2)])
	}
	calls, ok, err := h.ask(*claim.Turn, claim.Step)
	if err != nil || !ok {
		return err
	}
	if len(calls) == 0 {
		return h.close(*claim.Turn, claim.Step, agent.ThreadCompleted)
	}
	round := memory.RoundRequest{ThreadID: th.ID, TurnID: claim.Turn.ID, Step: claim.Step}
	if slices.ContainsFunc(calls, func(c agent.ToolCall) bool { return c.Gate == agent.GateAsk }) {
		_, err := h.s.OpenApproval(h.ctx, round)
		if err := h.did("ask", err); err != nil {
			return err
		}
	}
	for _, c := range calls {
		if err := h.call(*claim.Turn, c); err != nil {
			return err
		}
	}
	_, err = h.s.SaveToolRound(h.ctx, round)
	return h.did("round", err)
}

func (h *hammer) close(t memory.Turn, step int, outcome agent.ThreadStatus) error {
	r := memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: outcome, Code: "hammer", Message: "by " + h.name}
	if outcome == agent.ThreadCompleted {
		r.Step = step
	}
	_, err := h.s.CloseTurn(h.ctx, r)
	return h.did("close", err)
}

// ask calls the model of a step, streaming, or finds its stored reply.
func (h *hammer) ask(t memory.Turn, step int) ([]agent.ToolCall, bool, error) {
	fence := memory.Fence{Scope: fmt.Sprint(h.name, "/", h.n), Number: 1}
	start, err := h.s.BeginModel(h.ctx, memory.ModelBegin{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Fence: fence, MaxLost: 1 << 20})
	if err := h.did("begin", err); err != nil {
		return nil, false, err
	}
	switch {
	case start.Stored != nil:
		return start.Stored.Calls, true, nil
	case start.Attempt == 0: // refused
		return nil, false, nil
	}
	for i := range h.rng.IntN(4) {
		c := memory.Chunk{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Attempt: start.Attempt, Offset: 4 * i, Text: "word"}
		if err := h.did("chunk", h.s.AppendChunk(h.ctx, c)); err != nil {
			return nil, false, err
		}
	}
	r := memory.ReplyRecord{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Attempt: start.Attempt, Reply: agent.ModelReply{Content: "wordwordword", Usage: agent.Usage{PromptTokens: 1}}}
	for i := range h.rng.IntN(4) {
		name, gate := fmt.Sprint("tool", h.rng.IntN(6)), []agent.Gate{agent.GateAuto, agent.GateAuto, agent.GateAsk}[h.rng.IntN(3)]
		delegates := h.rng.IntN(2) == 0
		if delegates {
			name, gate = agent.ToolAssignTask, agent.GateAuto
		} else if h.rng.IntN(4) == 0 {
			name, gate = agent.ToolAskUser, agent.GateAuto
		}
		r.Reply.Calls = append(r.Reply.Calls, agent.NewCall(fmt.Sprint(i), name, `{}`))
		r.Gates, r.Delegations = append(r.Gates, gate), append(r.Delegations, delegates)
	}
	stored, err := h.s.SaveReply(h.ctx, r)
	if did := h.did("reply", err); did != nil || err != nil {
		return nil, false, did
	}
	return stored.Calls, true, nil
}

// call opens a delegation and takes its end, or runs a tool.
func (h *hammer) call(t memory.Turn, c agent.ToolCall) error {
	if c.ToolName == agent.ToolAskUser {
		_, err := h.s.OpenQuestion(h.ctx, memory.QuestionRequest{ThreadID: t.ThreadID, TurnID: t.ID, CallID: c.ID, Text: "why?"})
		return h.did("question", err)
	}
	if c.ToolName != agent.ToolAssignTask {
		start, err := h.s.BeginTool(h.ctx, memory.ToolBegin{
			ThreadID: t.ThreadID, TurnID: t.ID, CallID: c.ID, Repeatable: true, MaxLost: 1 << 20, Fence: memory.Fence{Scope: fmt.Sprint(h.name, "/", h.n), Number: 1},
		})
		if did := h.did("begin tool", err); did != nil || err != nil || start.Final {
			return did
		}
		return h.did("result", h.s.SaveResult(h.ctx, memory.ToolOutcome{ThreadID: t.ThreadID, TurnID: t.ID, CallID: c.ID, Attempt: start.Attempt, Result: agent.ToolOK("found")}))
	}
	d, err := h.s.OpenDelegation(h.ctx, memory.DelegationRequest{
		ThreadID: t.ThreadID, TurnID: t.ID, CallID: c.ID, Config: agent.SpecialistAgentConfig{Name: "general"}, Task: "work", Background: h.rng.IntN(3) == 0,
		Limits: memory.DelegationLimits{MaxDepth: 3, MaxFanOut: 4, MaxDescendants: 6},
	})
	if did := h.did("delegate", err); did != nil || err != nil || d.Background {
		return did
	}
	_, err = h.s.TakeChildResult(h.ctx, memory.ChildResultRequest{ThreadID: t.ThreadID, TurnID: t.ID, CallID: c.ID})
	return h.did("child result", err)
}
