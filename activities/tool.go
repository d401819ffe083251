package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/memory"
)

// shownLimit bounds what the model is shown of a result, in bytes. The whole
// result is kept with the call.
const shownLimit = 64 << 10

// RunTool brings a call to its stored result. A result that is stored is never
// produced again; a call that a dead worker left running is run again only if
// its tool is repeatable.
func (a *Activities) RunTool(ctx context.Context, ref contract.Ref) (contract.ToolOutput, error) {
	ref = here(ctx, ref)
	call, err := a.Store.ToolCall(ctx, ref.Call)
	if err != nil {
		return contract.ToolOutput{}, a.wire(ctx, ref.Turn, err)
	}
	if call.ToolName == agent.ToolTaskOutput {
		if err := a.await(ctx, call); err != nil {
			return contract.ToolOutput{}, a.wire(ctx, ref.Turn, err)
		}
	}
	ctx, stop := a.alive(ctx, ref.Turn, true)
	defer stop()
	status, err := a.runTool(ctx, ref, call)
	return contract.ToolOutput{Status: status}, a.wire(ctx, ref.Turn, err)
}

func (a *Activities) runTool(ctx context.Context, ref contract.Ref, call agent.ToolCall) (agent.CallStatus, error) {
	// Of a tool that is not here: another worker may have it, and may have run it.
	repeatable := call.ToolName == agent.ToolTaskOutput || call.ToolName == agent.ToolOutput
	if t, known := a.Tools.Lookup(call.ToolName); known {
		repeatable = t.Spec().Repeatable
	}
	begun, err := a.Store.BeginTool(ctx, memory.ToolBegin{
		ThreadID: ref.Thread, TurnID: ref.Turn, CallID: ref.Call, Fence: fence(ctx), Repeatable: repeatable, Worker: a.worker,
	})
	if begun.Lost > 0 {
		a.Telemetry.LostTool(ctx, a.toolCall(begun, begun.Lost), begun.LostSince)
	}
	if err != nil || begun.Final {
		return begun.Call.Status, err
	}
	if begun.Wait > 0 {
		return "", waiting("the turn's workers died too often of late", begun.Wait)
	}
	outcome, err := a.outcome(ctx, ref, begun)
	if err != nil {
		return "", err
	}
	if whole := outcome.Result.Whole; whole != nil {
		if from, _, _ := whole.Outer(); from != nil {
			if file, is := from.(io.Closer); is {
				defer func() { _ = file.Close() }() // it has no name
			}
		}
	}
	return outcome.Result.Status, a.saveResult(ctx, outcome, repeatable)
}

// outcome runs the tool of a call whose attempt is current. It fails if the run was
// stopped: then the close of the turn, or the next attempt, says what became of it.
func (a *Activities) outcome(ctx context.Context, ref contract.Ref, begun memory.ToolStart) (_ memory.ToolOutcome, err error) {
	began := time.Now()
	ctx, span := a.Telemetry.Tool(ctx, a.toolCall(begun, begun.Attempt))
	defer func() { span.End(err) }()
	result, err := a.produce(ctx, ref, begun)
	span.Ended(result)
	if err == nil && result.ErrorReason == agent.ErrAborted {
		err = ctx.Err()
	}
	if err != nil {
		return memory.ToolOutcome{}, err
	}
	outcome := memory.ToolOutcome{
		ThreadID: ref.Thread, TurnID: ref.Turn, CallID: ref.Call, Attempt: begun.Attempt, Result: result, Duration: time.Since(began),
	}
	if text := result.Content; result.Whole == nil && len(text) > shownLimit {
		result.Whole = io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
	}
	if result.Whole != nil {
		outcome.Result.Whole = result.Whole
		outcome.Result.Content, err = agent.ShortenOutput(result.Whole, shownLimit, ref.Call)
	}
	return outcome, err
}

func (a *Activities) produce(ctx context.Context, ref contract.Ref, begun memory.ToolStart) (agent.ToolResult, error) {
	name, may := begun.Call.ToolName, begun.Thread.Config.Tools
	switch {
	case name == agent.ToolTaskOutput && (agent.MayUse(may, agent.ToolAssignTask) || agent.MayUse(may, name)):
		return a.taskOutput(ctx, begun.Call)
	case name == agent.ToolOutput: // of what this agent may read anyway
		return a.toolOutput(ctx, begun.Thread, begun.Call)
	case !agent.MayUse(may, name):
		return agent.ToolFailed(agent.ErrToolNotFound, "there is no tool %q among this agent's tools", name), nil
	}
	if a.deniesEdited(begun.Thread, begun.Call) {
		return agent.ToolFailed(agent.ErrPermissionDenied, "%s", agent.RefuseTool(name)), nil
	}
	notes := newNotes(ctx, a.Store, memory.ToolNote{ThreadID: ref.Thread, TurnID: ref.Turn, CallID: ref.Call, Attempt: begun.Attempt})
	defer notes.close()
	run := a.run(begun.Thread)
	run.TurnID, run.Step, run.Attempt = ref.Turn, ref.Step, begun.Attempt
	run.CallID, run.Args, run.Approved, run.Note, run.Keep = ref.Call, begun.Call.Args, begun.Approved, notes.tell, a.keeper(ctx)
	return a.Tools.Run(ctx, name, run), nil
}

func (a *Activities) run(t agent.Thread) agent.ToolRun {
	run := agent.ToolRun{
		CallMeta: agent.CallMeta{StoreID: a.Store.ID(), ThreadID: t.ID}, Workdir: t.Workdir, Workspace: a.Workspace, Home: a.Home, Private: a.Private,
	}
	run.Reads = tool.Reads(run, append(slices.Clone(t.Config.Bounds), t.Config.Approval)...)
	return run
}

const (
	// saveResultFor bounds how long a result waits for a store that is away, and
	// lastSaves how long it does once the worker has to end.
	saveResultFor = 15 * time.Minute
	lastSaves     = 2 * time.Second
)

// saveResult tries hard: a tool that has run must not run again only because
// the store was away for a moment. One that may run again does, on a worker that
// reaches the store.
func (a *Activities) saveResult(ctx context.Context, o memory.ToolOutcome, repeatable bool) error {
	cut := a.Cut
	ctx = context.WithoutCancel(ctx)
	end := time.Now().Add(saveResultFor)
	if repeatable {
		end = time.Now().Add(storeAwayFor)
	}
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		err := a.Store.SaveResult(ctx, o)
		if agent.CodeOf(err) != agent.CodeUnavailable || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(delay):
		case <-cut:
			cut, end, delay = nil, time.Now().Add(lastSaves), 50*time.Millisecond
		}
	}
}

// timeout is the bound of a call's run: its tool's own, or what the call asks for.
func (a *Activities) timeout(c agent.ToolCall) time.Duration {
	d, aside := agent.DefaultToolTimeout, time.Duration(0)
	if t, ok := a.Tools.Lookup(c.ToolName); ok {
		d, aside = cmp.Or(t.Spec().Timeout, d), t.Spec().Aside
	}
	var asked struct {
		TimeoutMs int64 `json:"timeoutMs"`
	}
	if json.Unmarshal(c.Args, &asked) == nil {
		d = max(d, min(time.Duration(asked.TimeoutMs)*time.Millisecond, 24*time.Hour))
	}
	return d + aside
}
