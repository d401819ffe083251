package activities

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// OpenDelegation checks an assign_task call against arguments, policy and
// templates and creates what it needs in one transaction, or stores why not as
// the call's result.
func (a *Activities) OpenDelegation(ctx context.Context, ref contract.Ref) (contract.DelegationOutput, error) {
	ref = here(ctx, ref)
	thread, err := a.Store.Thread(ctx, "", ref.Thread)
	if err != nil {
		return contract.DelegationOutput{}, a.wire(ctx, ref.Turn, err)
	}
	before, err := a.delegationsBefore(ctx, ref)
	if err != nil {
		return contract.DelegationOutput{}, a.wire(ctx, ref.Turn, err)
	}
	var out contract.DelegationOutput
	for _, id := range append(before, ref.Call) {
		if out, err = a.openDelegation(ctx, thread, ref.Turn, id, id == ref.Call); err != nil {
			return contract.DelegationOutput{}, a.wire(ctx, ref.Turn, err)
		}
	}
	return out, nil
}

// delegationsBefore are the delegations that stand before this one in their step.
// They are opened first, whichever activity is the fastest: which ones a limit
// refuses is a matter of their order and not of time.
func (a *Activities) delegationsBefore(ctx context.Context, ref contract.Ref) (ids []string, err error) {
	call, err := a.Store.ToolCall(ctx, ref.Call)
	if err != nil || call.Index == 0 {
		return nil, err
	}
	step, err := a.Store.StepState(ctx, round(ref))
	for _, c := range step.Calls {
		if c.Index < call.Index && opens(c) {
			ids = append(ids, c.ID)
		}
	}
	return ids, err
}

// opens reports whether a call is a delegation that is due.
func opens(c agent.ToolCall) bool {
	return c.ToolName == agent.ToolAssignTask && c.Status == agent.CallPending && c.Gate != agent.GateAsk
}

// openDelegation opens a call's delegation; if it is not asked for itself, only if
// nobody has done so.
func (a *Activities) openDelegation(ctx context.Context, thread agent.Thread, turn, id string, itself bool) (contract.DelegationOutput, error) {
	call, err := a.Store.ToolCall(ctx, id)
	if err != nil || !itself && !opens(call) {
		return contract.DelegationOutput{}, err
	}
	req := a.delegation(thread, call)
	req.ThreadID, req.TurnID, req.CallID = thread.ID, turn, id
	opened, err := a.Store.OpenDelegation(ctx, req)
	return contract.DelegationOutput{
		Refused: opened.Refused, Child: opened.ChildThread, Turn: opened.ChildTurn, Agent: req.Config.Name, Background: opened.Background,
		Task: oneLine(req.Task),
	}, err
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
	ref = here(ctx, ref)
	r, err := a.Store.TakeChildResult(ctx, memory.ChildResultRequest{ThreadID: ref.Thread, TurnID: ref.Turn, CallID: ref.Call})
	if err != nil {
		return contract.ChildOutput{}, a.wire(ctx, ref.Turn, err)
	}
	return contract.ChildOutput{Done: r.Done, NeedsStart: r.NeedsStart, Child: r.ChildThread}, nil
}
