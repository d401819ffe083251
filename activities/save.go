package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/webuser"
	"github.com/spool-agents/spool/memory"
)

// SaveUserMessage claims the thread's next turn, or the one that is open, and
// saves its user message (save point 1).
func (a *Activities) SaveUserMessage(ctx context.Context, in contract.ClaimInput) (contract.ClaimOutput, error) {
	if in.StoreID != a.Store.ID() {
		return contract.ClaimOutput{}, a.wire(ctx, "", agent.Errorf(agent.CodeForeign,
			"thread %s belongs to store %s, but this worker serves store %s: point the worker's SPOOL_STORE at the right store, or terminate the run", in.Thread, in.StoreID, a.Store.ID()))
	}
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	if in.Park {
		run = contract.ParkedRun
	}
	claim, err := a.claim(ctx, memory.TakeRequest{ThreadID: in.Thread, RunID: run})
	if err != nil {
		return contract.ClaimOutput{}, a.wire(ctx, "", err)
	}
	out := contract.ClaimOutput{Timing: contract.Timing{HeartbeatMs: cmp.Or(a.Heartbeat, DefaultHeartbeat).Milliseconds(), MaxEvents: a.MaxEvents, WaitMs: cmp.Or(a.WaitInRun, contract.WaitInRun).Milliseconds()}}
	if claim.Turn == nil {
		return out, nil
	}
	t := claim.Thread
	out.Turn, out.Step, out.Seq = claim.Turn.ID, claim.Step, t.MessageCount
	out.MaxSteps, out.TimeoutMs = t.Config.MaxSteps, t.Config.TimeoutMs
	if out.About, err = a.about(ctx, t, *claim.Turn); err != nil {
		return contract.ClaimOutput{}, a.wire(ctx, "", err)
	}
	if a.SearchAttributes {
		out.Attributes = map[string]string{
			"SessionId": t.SessionID, "ConversationId": t.ConversationID, "ThreadKind": string(t.Kind), "AgentType": t.AgentType,
			"ParentThreadId": t.ParentThreadID, "RootThreadId": t.RootThreadID, "TurnId": claim.Turn.ID, "UserId": t.UserID,
		}
	}
	return out, nil
}

// claim takes the next turn with the snapshot of its agent's template: a changed
// template, or another agent named by the sender, takes effect with the next
// message. Which agent that is, the claim itself may change.
func (a *Activities) claim(ctx context.Context, req memory.TakeRequest) (memory.Claim, error) {
	thread, err := a.Store.Thread(ctx, "", req.ThreadID)
	if err != nil {
		return memory.Claim{}, err
	}
	for {
		if req.Workdir, err = a.place(thread); err != nil {
			req.Workdir = thread.Workdir // the turn ends with the reason before anything is done there
		}
		if thread.Kind == agent.KindMain {
			req.Config = new(a.mainConfig(thread))
		}
		claim, err := a.Store.TakeNext(ctx, req)
		if err != nil || claim.Turn == nil || agentOf(claim.Thread) == agentOf(thread) {
			return claim, err
		}
		thread = claim.Thread
	}
}

// workdir is the sender's directory if it lies under this worker's root, links
// followed, else the root itself. What it becomes later is for the tools, which open
// it beneath the root.
func (a *Activities) workdir(asked string) string {
	if rel, err := filepath.Rel(a.Workspace, asked); err == nil && filepath.IsLocal(rel) {
		asked = filepath.Join(a.Workspace, rel)
		if _, err = os.Lstat(asked); err != nil || beneath(a.Workspace, rel) {
			return asked
		}
	}
	root, err := filepath.EvalSymlinks(a.Workspace)
	if err != nil {
		return a.Workspace
	}
	if asked, err = filepath.EvalSymlinks(asked); err != nil {
		return a.Workspace
	}
	if rel, err := filepath.Rel(root, asked); err == nil && filepath.IsLocal(rel) {
		return filepath.Join(a.Workspace, rel)
	}
	return a.Workspace
}

// beneath reports whether a path is there without a way out of a folder.
func beneath(folder, rel string) bool {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }()
	_, err = root.Stat(rel)
	return err == nil
}

func agentOf(t agent.Thread) string {
	if t.AgentType == "" {
		return DefaultAgent
	}
	return t.AgentType
}

// mainConfig resolves the template a main thread runs with. If there is none, a
// thread that this agent answered before goes on with its snapshot, and no other
// agent answers in its place: the turn is to fail, with the reason in Missing. For a
// user of the web server no agent does more unasked than the default one.
func (a *Activities) mainConfig(thread agent.Thread) agent.SpecialistAgentConfig {
	config := a.ownConfig(thread)
	if _, web := webuser.InFolder(thread.UserID, thread.Workdir); web && config.Name != DefaultAgent {
		usual, _ := a.Catalog.Get(DefaultAgent)
		config.Bounds = []map[string]string{usual.Approval}
	}
	return config
}

func (a *Activities) ownConfig(thread agent.Thread) agent.SpecialistAgentConfig {
	name := agentOf(thread)
	config, ok := a.Catalog.Get(name)
	switch old := thread.Config; {
	case ok:
	case old.Name == name && old.Missing == "" && (old.Source != "" || old.SystemPrompt != ""):
		return old
	default:
		return agent.SpecialistAgentConfig{Name: name, Tools: []string{}, Missing: a.missing(name, thread.ID)}
	}
	if config.MaxSteps == 0 {
		config.MaxSteps = a.MaxSteps
	}
	return config
}

// missing says that there is no such agent, what there is, and where it was
// looked for.
func (a *Activities) missing(name, threadID string) string {
	var known []string
	for _, c := range a.Catalog.List() {
		known = append(known, c.Name)
	}
	text := fmt.Sprintf("there is no agent %q: this worker knows %s", name, cmp.Or(strings.Join(known, ", "), "none"))
	if c, ok := a.Catalog.(interface{ Folders() []string }); ok && len(c.Folders()) > 0 {
		text += ", and looked in " + strings.Join(c.Folders(), ", ")
	}
	return text + "; put its file there and retry thread " + threadID + ", or send to another agent"
}

// CloseTurn ends a turn in every respect.
func (a *Activities) CloseTurn(ctx context.Context, in contract.CloseInput) (contract.CloseOutput, error) {
	closed, err := a.Store.CloseTurn(ctx, memory.CloseRequest{
		ThreadID: in.Thread, TurnID: in.Turn, Outcome: in.Outcome, Step: in.Step, Reason: in.Reason,
		Code: in.Code, Message: in.Message, Answer: in.Answer,
	})
	if err != nil {
		return contract.CloseOutput{}, err
	}
	a.transcripts.drop(in.Thread)
	a.Telemetry.TurnClosed(in.Thread, in.Turn, in.Outcome, closed)
	return contract.CloseOutput{
		Outcome: closed.Outcome, Next: closed.Next, Notify: closed.Notify, Stopped: closed.Stopped, Waiting: closed.Waiting,
	}, nil
}

// OpenApproval asks a person about the gated calls of a step.
func (a *Activities) OpenApproval(ctx context.Context, ref contract.Ref) (contract.StepOutput, error) {
	asked, err := a.Store.OpenApproval(ctx, round(ref))
	return contract.StepOutput{Waiting: true, SinceMs: asked.CreatedAt.UnixMilli()}, err
}

// StepState tells what is left to do in a step after waiting.
func (a *Activities) StepState(ctx context.Context, ref contract.Ref) (contract.StepOutput, error) {
	state, err := a.Store.StepState(ctx, round(ref))
	out := contract.StepOutput{Waiting: state.Waiting, Cancelled: state.Cancelled}
	if !state.Waiting {
		out.Calls = a.calls(state.Calls)
	}
	return out, err
}

// TurnWaited tells how long a turn has waited for people: that time counts
// against no timeout.
func (a *Activities) TurnWaited(ctx context.Context, ref contract.Ref) (contract.WaitedOutput, error) {
	w, err := a.Store.Waited(ctx, ref.Turn)
	return contract.WaitedOutput{Ms: w.Time.Milliseconds(), Now: w.Now}, err
}

func round(ref contract.Ref) memory.RoundRequest {
	return memory.RoundRequest{ThreadID: ref.Thread, TurnID: ref.Turn, Step: ref.Step}
}

func (a *Activities) calls(stored []agent.ToolCall) []contract.Call {
	out := make([]contract.Call, len(stored))
	for i, c := range stored {
		delegate, question := c.ToolName == agent.ToolAssignTask, c.ToolName == agent.ToolAskUser
		out[i] = contract.Call{
			ID: c.ID, Delegate: delegate, Question: question, Final: c.Status.Final(),
			Running: delegate && c.Status == agent.CallRunning, Denied: c.Status == agent.CallDenied,
		}
		if c.Status.Final() {
			continue
		}
		out[i].Summary = summarise(c.ToolName, c.Args)
		if c.Gate == agent.GateAsk && (c.Status == agent.CallPending || c.Status == agent.CallAwaitingApproval) {
			out[i].Gate = agent.GateAsk
		}
		if !delegate && !question {
			out[i].TimeoutMs = a.timeout(c).Milliseconds()
			t, known := a.Tools.Lookup(c.ToolName)
			// The call of a tool that is not here is refused, which is quick as well. One that
			// a person approved is not: another worker has its tool.
			quick := !known && c.Gate == agent.GateAuto && c.ToolName != agent.ToolTaskOutput || known && t.Spec().Quick
			out[i].Quick = quick && out[i].Gate == "" && c.Attempts == 0
		}
	}
	return out
}

// summarise renders a call for the Temporal Web UI, as in `lookup(query=…)`.
func summarise(name string, args json.RawMessage) string {
	const most = 40
	var m map[string]any
	if json.Unmarshal(args, &m) != nil || len(m) == 0 {
		return name
	}
	key := ""
	for k := range m {
		if key == "" || k < key {
			key = k
		}
	}
	for _, k := range []string{"agent", "command", "path", "query", "url", "pattern", "expression"} {
		if _, ok := m[k]; ok {
			key = k
			break
		}
	}
	value := []rune(strings.Join(strings.Fields(agent.CleanText(fmt.Sprint(m[key]))), " "))
	if len(value) > most {
		value = append(value[:most-1], '…')
	}
	return fmt.Sprintf("%s(%s=%s)", name, key, string(value))
}
