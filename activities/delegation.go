package activities

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// OpenDelegation checks an assign_task call against arguments, policy and
// templates and creates what it needs in one transaction, or stores why not as
// the call's result.
func (a *Activities) OpenDelegation(ctx context.Context, ref contract.Ref) (contract.DelegationOutput, error) {
	return steps.Get(func() (out contract.DelegationOutput) {
		thread := steps.Must(a.Store.Thread(ctx, "", ref.Thread))
		for _, id := range append(a.delegationsBefore(ctx, ref), ref.Call) {
			out = a.openDelegation(ctx, thread, ref.Turn, id, id == ref.Call)
		}
		return out
	})
}

// delegationsBefore are the delegations that stand before this one in their step.
// They are opened first, whichever activity is the fastest: which ones a limit
// refuses is a matter of their order and not of time.
func (a *Activities) delegationsBefore(ctx context.Context, ref contract.Ref) (ids []string) {
	call := steps.Must(a.Store.ToolCall(ctx, ref.Call))
	if call.Index == 0 {
		return nil
	}
	for _, c := range steps.Must(a.Store.StepState(ctx, round(ref))).Calls {
		if c.Index < call.Index && opens(c) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// opens reports whether a call is a delegation that is due.
func opens(c agent.ToolCall) bool {
	return c.ToolName == agent.ToolAssignTask && c.Status == agent.CallPending && c.Gate != agent.GateAsk
}

// openDelegation opens a call's delegation; if it is not asked for itself, only if
// nobody has done so.
func (a *Activities) openDelegation(ctx context.Context, thread agent.Thread, turn, id string, itself bool) (out contract.DelegationOutput) {
	call := steps.Must(a.Store.ToolCall(ctx, id))
	if !itself && !opens(call) {
		return out
	}
	req := a.delegation(thread, call)
	req.ThreadID, req.TurnID, req.CallID = thread.ID, turn, id
	opened := steps.Must(a.Store.OpenDelegation(ctx, req))
	return contract.DelegationOutput{
		Refused: opened.Refused, Child: opened.ChildThread, Turn: opened.ChildTurn, Agent: req.Config.Name, Background: opened.Background,
		Task: oneLine(req.Task),
	}
}

func (a *Activities) delegation(thread agent.Thread, call agent.ToolCall) memory.DelegationRequest {
	refuse := func(reason agent.ErrorReason, format string, args ...any) memory.DelegationRequest {
		return memory.DelegationRequest{Refusal: fmt.Sprintf(format, args...), RefusalReason: reason}
	}
	if !agent.MayUse(thread.Config.Tools, agent.ToolAssignTask) {
		return refuse(agent.ErrToolNotFound, "there is no tool %q among this agent's tools", agent.ToolAssignTask)
	}
	if a.deniesEdited(thread, call) {
		return refuse(agent.ErrPermissionDenied, "%s", agent.RefuseTool(call.ToolName))
	}
	params, err := agent.ParseAssignParams(call.Args)
	if err != nil {
		return refuse(agent.ErrInvalidInput, "%v", err)
	}
	if d := a.Policy.Decide(params.Agent, thread.Depth); !d.Allowed {
		return refuse(agent.ErrPermissionDenied, "Delegation refused (policyDenied:true): %s", d.Reason)
	}
	template, ok := a.Catalog.Get(params.Agent)
	if !ok {
		var names []string
		for _, c := range a.delegates(thread) {
			names = append(names, c.Name)
		}
		sort.Strings(names)
		return refuse(agent.ErrNotFound, "there is no agent %q; available: %s", params.Agent, strings.Join(names, ", "))
	}
	return memory.DelegationRequest{
		Config: agent.SpecialistAgentFactory{}.Build(template, thread.Config, params), Task: params.Task, Description: params.Description,
		Resume: params.Resume, Background: params.Background,
		Limits: memory.DelegationLimits{MaxDepth: a.Policy.MaxDepth, MaxFanOut: a.Policy.MaxFanOut, MaxDescendants: a.Policy.MaxDescendants},
	}
}

// TakeChildResult moves a foreground child's end from the inbox to the call's result.
func (a *Activities) TakeChildResult(ctx context.Context, ref contract.Ref) (contract.ChildOutput, error) {
	r, err := a.Store.TakeChildResult(ctx, memory.ChildResultRequest{ThreadID: ref.Thread, TurnID: ref.Turn, CallID: ref.Call})
	return contract.ChildOutput{Done: r.Done, NeedsStart: r.NeedsStart, Child: r.ChildThread}, err
}
