package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/prompt"
	"github.com/spool-agents/spool/internal/telemetry"
	"github.com/spool-agents/spool/memory"
)

// SummarizeContext has the model summarise the older part of a conversation and
// stores the summary, unless it is stored already. The messages stay.
func (a *Activities) SummarizeContext(ctx context.Context, in contract.SummaryInput) (contract.SummaryOutput, error) {
	ctx, stop := a.alive(ctx, in.Turn, false)
	defer stop()
	in.Ref = here(ctx, in.Ref)
	s, err := a.summarize(ctx, in)
	return contract.SummaryOutput{From: s.ReplacesFrom, To: s.ReplacesTo}, a.wire(ctx, in.Turn, err)
}

func (a *Activities) summarize(ctx context.Context, in contract.SummaryInput) (memory.Summary, error) {
	begin := memory.SummaryBegin{
		ThreadID: in.Thread, TurnID: in.Turn, Step: in.Step, Cause: memory.Cause(in.Need.Cause), Fence: fence(ctx), Budget: a.budget(),
	}
	begun, err := a.Store.BeginSummary(ctx, begin)
	switch {
	case errors.Is(err, memory.ErrBudgetReserved):
		return memory.Summary{}, waiting(err.Error(), lastLook)
	case err != nil:
		return memory.Summary{}, err
	case begun.Stored != nil:
		return *begun.Stored, nil
	}
	c, err := prompt.Load(ctx, a.Store, begun.Thread, 0)
	if err != nil {
		return memory.Summary{}, err
	}
	request, err := a.request(ctx, memory.ModelStart{Thread: begun.Thread, Turn: begun.Turn}, c)
	if err != nil {
		return memory.Summary{}, err
	}
	window := in.Need.Window
	if window == 0 {
		window = c.Windows[request.Model]
	}
	room := a.roomOf(request, window)
	record := memory.SummaryRecord{Attempt: begun.Attempt, Summary: memory.Summary{
		ThreadID: in.Thread, TurnID: in.Turn, Step: in.Step, Cause: begin.Cause, Window: room.window, Model: request.Model,
	}}
	if c.Summary != nil {
		record.ReplacesFrom, record.ReplacesTo = c.Summary.ReplacesFrom, c.Summary.ReplacesTo
	}
	fixed := agent.MessageTokens(request.Messages[0])
	for _, t := range request.Tools {
		fixed += agent.ToolTokens(t)
	}
	// Nothing to leave out is remembered, too: then messages are shortened.
	if p, ok := a.planSummary(c, fixed, room); ok || p.tokens > 0 && begin.Cause == memory.CauseRefused {
		if err := a.writeSummary(ctx, in, begun, request, p, room, fixed, &record); err != nil {
			return memory.Summary{}, err
		}
	}
	return a.Store.SaveSummary(ctx, record)
}

func (a *Activities) writeSummary(ctx context.Context, in contract.SummaryInput, begun memory.SummaryStart, request agent.ModelRequest, p plan, r room, fixed int, record *memory.SummaryRecord) error {
	most := max(max(r.ours(r.request)-fixed, 0)/5, 100) // tokens of the summary
	began := time.Now()
	request.Tools, request.Stream, request.MaxTokens = nil, false, nil
	request.Messages = agent.SummaryRequest(p.replaced, r.ours(r.window)*7/10)
	request.Meta = agent.CallMeta{StoreID: a.Store.ID(), ThreadID: in.Thread, TurnID: in.Turn, Step: in.Step, Attempt: begun.Attempt}
	call := telemetry.ModelCall{Thread: begun.Thread, TurnID: in.Turn, Step: in.Step, Attempt: begun.Attempt, Request: request, Purpose: "summary_" + in.Need.Cause}
	asking, span := a.Telemetry.Model(ctx, call)
	reply, err := a.Model.Generate(asking, request, nil)
	span.Answered(reply, err)
	span.End(err)
	record.Duration = time.Since(began)
	text := strings.TrimSpace(agent.CleanText(reply.Content))
	record.Usage = a.price(request.Model, a.counted(request, reply, err))
	if err == nil && text == "" {
		err = &agent.ModelError{Code: agent.ModelBadResponse, Message: "it gave no summary", At: reply.At}
	}
	if err != nil {
		without, err := a.summaryFailed(ctx, in, begun, request, record.Usage, err)
		if !without {
			return err
		}
		text = fmt.Sprintf("(The model could not summarise this: %s. What follows are the messages in short.)\n", agent.Shorten(err.Error(), 300, "")) +
			agent.DigestMessages(p.replaced, most)
	}
	record.Usage.Requests = max(record.Usage.Requests, 1)
	facts, err := a.facts(ctx, begun, p)
	if err != nil {
		return err
	}
	record.ReplacesFrom, record.ReplacesTo = p.from, p.to
	if n := agent.EstimateTokens(text); n > most {
		text = agent.Shorten(text, len(text)*most/n, "")
	}
	record.Text = text + facts
	return nil
}

// summaryFailed is what becomes of a summary whose call failed: it is made again, or the
// turn goes on without, or it ends, as the calls that it is for would fail likewise.
func (a *Activities) summaryFailed(ctx context.Context, in contract.SummaryInput, begun memory.SummaryStart, r agent.ModelRequest, used agent.Usage, err error) (without bool, _ error) {
	failure := memory.SummaryFailure{ThreadID: in.Thread, TurnID: in.Turn, Step: in.Step, Cause: memory.Cause(in.Need.Cause), Attempt: begun.Attempt, Usage: used}
	var me *agent.ModelError
	switch {
	case ctx.Err() != nil && handsOver(ctx) == nil:
		err = ctx.Err()
	case ctx.Err() != nil || !errors.As(err, &me):
	default:
		me.InARow = begun.Attempt // all of its tries: this call is not worth counting more finely
		me.Model = cmp.Or(me.Model, r.Model)
		waited := time.Since(activity.GetInfo(ctx).ScheduledTime)
		t := tried{failures: begun.Attempt, left: a.retryFor() - waited}
		likewise := me.Code == agent.ModelAuth || me.Retryable && !repeats(me)
		switch exhausted := a.exhausted(t, me); {
		case !exhausted:
			later := later(me, t, "")
			failure.Wait, err = later.wait, later
		case !likewise || a.fallback(begun.Turn, r, me, exhausted) != "":
			return true, me
		}
	}
	if failure.NotCalled = me != nil && me.NotCalled; !failure.NotCalled {
		failure.Usage.Requests = max(used.Requests, 1)
	}
	if ferr := a.Store.FailSummary(context.WithoutCancel(ctx), failure); ferr != nil && agent.CodeOf(ferr) == agent.CodeStale {
		return false, ferr
	}
	return false, err
}

// facts is what the agent needs to know whatever the model made of it: the message
// it is working on, its sub-agents, and the questions that are open.
func (a *Activities) facts(ctx context.Context, begun memory.SummaryStart, p plan) (string, error) {
	var b strings.Builder
	for _, m := range p.replaced {
		if m.Role == agent.RoleUser && m.TurnID == begun.Turn.ID && m.Seq > 0 {
			b.WriteString("\n\nThe message that was being worked on, as it was written:\n" + agent.Shorten(m.Content.String(), 4000, ""))
		}
	}
	err := steps.Run(func() {
		if states := steps.Must(a.taskStates(ctx, begun.Thread.ID, "")); len(states) > 0 {
			b.WriteString("\n\n" + agent.FormatTaskList(states))
		}
		mine := memory.QuestionFilter{ThreadID: begun.Thread.ID, OpenOnly: true}
		if begun.Thread.Kind == agent.KindMain { // it sees those of all below it
			mine = memory.QuestionFilter{RootThread: begun.Thread.ID, OpenOnly: true}
		}
		for _, q := range steps.Must(a.Store.Questions(ctx, mine)) {
			fmt.Fprintf(&b, "\n\nOpen question to the user, %s, of %s: %s", q.ID, q.Agent, agent.Shorten(q.Text, 500, ""))
		}
	})
	return b.String(), err
}
