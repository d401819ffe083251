package starter

import (
	"context"
	"slices"
	"strings"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

type approvalsCmd struct {
	Thread string `arg:"" optional:"" help:"Only those of this thread and its sub-agents."`
}

// Validate checks the arguments.
func (c *approvalsCmd) Validate() error {
	if c.Thread == "" {
		return nil
	}
	return checkThread(c.Thread)
}

// Run lists open approvals.
func (c *approvalsCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.threads(ctx, false)
	if err != nil {
		return err
	}
	if c.Thread, err = thread(ctx, client, c.Thread); err != nil {
		return err
	}
	open, err := client.Approvals(ctx, c.Thread)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"approvals": open})
	}
	if len(open) == 0 {
		a.progress("nothing waits for approval")
	}
	for _, p := range open {
		a.print("%s", approvalText(p))
	}
	return nil
}

func (a *app) listApprovals(open []spool.ApprovalRequest) {
	for _, p := range open {
		a.progress("%s", approvalText(p))
	}
}

// approvalText is an open approval with all that its calls would do.
func approvalText(p spool.ApprovalRequest) string {
	lines := []string{p.ApprovalID + "  " + visible(p.Agent) + "  " + p.ThreadID}
	for _, call := range p.ToolCalls {
		lines = append(lines, indent(call.ID+"  "+requestText(call)))
	}
	return strings.Join(lines, "\n")
}

// requestText is one call of an approval in full.
func requestText(call spool.ApprovalCall) string {
	return strings.Join(wholeCall(call.ToolName, rawArgs(call.Args)), "\n")
}

type approveCmd struct {
	AllSession bool     `help:"Let these tools run without asking for the rest of the session."`
	Targets    []string `arg:"" name:"approval" help:"Approval ids, or ids of calls: the other calls of their approval are denied."`
}

// Run approves.
func (c *approveCmd) Run(ctx context.Context, a *app) error {
	verdict := memory.Approve
	if c.AllSession {
		verdict = memory.ApproveAll
	}
	return a.decide(ctx, verdict, c.Targets, "")
}

type denyCmd struct {
	Targets []string `arg:"" name:"approval" help:"Approval ids, or ids of calls: all calls of their approval are denied."`
}

// Run denies.
func (c *denyCmd) Run(ctx context.Context, a *app) error {
	return a.decide(ctx, memory.Deny, c.Targets, "")
}

type editCmd struct {
	Call string `arg:"" help:"Id of the call, or of an approval with one call."`
	Text string `arg:"" help:"What the agent is told instead of a result, or - for stdin."`
}

// Validate checks the arguments.
func (c *editCmd) Validate() error {
	if strings.TrimSpace(c.Text) == "" {
		return usage("the text is empty: say what the agent is to be told instead of a result, or give - to read it from stdin")
	}
	return nil
}

// Run answers a call.
func (c *editCmd) Run(ctx context.Context, a *app) error {
	text, err := a.given(c.Text, "text that the agent is told instead of a result")
	if err != nil {
		return err
	}
	return a.decide(ctx, memory.Edit, []string{c.Call}, text)
}

// decide takes one decision per approval that the targets name.
func (a *app) decide(ctx context.Context, verdict string, targets []string, text string) error {
	c, _, err := a.threads(ctx, true)
	if err != nil {
		return err
	}
	known, err := c.Decisions(ctx)
	if err != nil {
		return err
	}
	decisions, err := decisionsOf(known, verdict, targets, text)
	if err != nil {
		return err
	}
	done := []spool.Decided{}
	stored := false
	for _, d := range decisions {
		res, err := c.Decide(ctx, d)
		if err != nil {
			return err
		}
		done = append(done, res)
		stored = stored || res.Stored
		if !a.json {
			a.print("%s %s", res.Approval.ID, res.Approval.Decision)
		}
		if res.Note != "" {
			a.progress("%s", clean(res.Note))
		}
	}
	if a.json {
		if err := a.printJSON(map[string]any{"decisions": done}); err != nil {
			return err
		}
	}
	if stored {
		return ended(exitAway)
	}
	return nil
}

// decisionsOf groups targets by approval. Named calls are what is approved of
// theirs, all of them if the approval itself is named.
func decisionsOf(known []memory.Approval, verdict string, targets []string, text string) ([]memory.Decision, error) {
	var out []memory.Decision
	for _, target := range targets {
		i := slices.IndexFunc(known, func(p memory.Approval) bool {
			return p.ID == target || slices.ContainsFunc(p.ToolCalls, func(t agent.ToolCall) bool { return t.ID == target })
		})
		if i < 0 {
			return nil, agent.Errorf(agent.CodeNotFound, "there is no approval or call %s: see approvals", target)
		}
		p := known[i]
		d := memory.Decision{Target: p.ID, Verdict: verdict, Instruction: text}
		if verdict == memory.Edit {
			if target == p.ID && len(p.ToolCalls) > 1 {
				return nil, agent.Errorf(agent.CodeInvalid, "approval %s is about %d calls: name the call to answer", p.ID, len(p.ToolCalls))
			}
			d.Target = target
		}
		j := slices.IndexFunc(out, func(o memory.Decision) bool { return o.Target == d.Target })
		if j < 0 {
			out = append(out, d)
			j = len(out) - 1
		}
		if target != p.ID && (verdict == memory.Approve || verdict == memory.ApproveAll) {
			out[j].Calls = append(out[j].Calls, target)
		}
	}
	// An approval named as such covers its calls.
	for i := range out {
		if slices.Contains(targets, out[i].Target) {
			out[i].Calls = nil
		}
	}
	return out, nil
}
