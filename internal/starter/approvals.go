package starter

import (
	"context"
	"slices"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

type approvalsCmd struct{ below }

func (c *approvalsCmd) Run(ctx context.Context, a *app) error {
	client, err := (*threadArg)(&c.below).threads(ctx, a, false)
	if err != nil {
		return err
	}
	open, err := client.Approvals(ctx, c.Thread)
	if err != nil {
		return err
	}
	return printList(a, "approvals", open, a.Approval, "nothing waits for approval")
}

type questionsCmd struct{ below }

func (c *questionsCmd) Run(ctx context.Context, a *app) error {
	client, err := (*threadArg)(&c.below).threads(ctx, a, false)
	if err != nil {
		return err
	}
	open, err := client.Questions(ctx, c.Thread)
	if err != nil {
		return err
	}
	return printList(a, "questions", open, a.Question, "no question waits for an answer")
}

func printList[T any](a *app, name string, list []T, text func(T) string, none string) error {
	return a.Show(map[string]any{name: list}, func() {
		if len(list) == 0 {
			a.Progress("%s", none)
		}
		for _, one := range list {
			a.Print("%s", text(one))
		}
	})
}

type approveCmd struct {
	AllSession bool     `help:"Let these tools run without asking for the rest of the session."`
	Targets    []string `arg:"" name:"approval" help:"Ids of approvals or calls, or their beginnings: the other calls of their approval are denied."`
}

func (c *approveCmd) Run(ctx context.Context, a *app) error {
	verdict := memory.Approve
	if c.AllSession {
		verdict = memory.ApproveAll
	}
	return a.decide(ctx, verdict, c.Targets, "")
}

type denyCmd struct {
	Targets []string `arg:"" name:"approval" help:"Ids of approvals or calls, or their beginnings: all calls of their approval are denied."`
}

func (c *denyCmd) Run(ctx context.Context, a *app) error {
	return a.decide(ctx, memory.Deny, c.Targets, "")
}

type editCmd struct {
	Call string `arg:"" help:"Id of the call, or of an approval with one call, or its beginning."`
	Text string `arg:"" help:"What the agent is told instead of a result, or - for stdin."`
}

func (c *editCmd) Run(ctx context.Context, a *app) error {
	text, err := a.Given(a.stdin, c.Text, "text")
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
	done, code := []spool.Decided{}, exit.Done
	for _, d := range decisions {
		res, err := c.Decide(ctx, d)
		if err != nil {
			return err
		}
		done = append(done, res)
		if res.Stored {
			code = exit.Unavailable
		}
		if res.Note != "" {
			a.Progress("%s", terminal.Clean(res.Note))
		}
	}
	err = a.Show(map[string]any{"decisions": done}, func() {
		for _, d := range done {
			a.Print("%s %s", d.Approval.ID, d.Approval.Decision)
		}
	})
	if err != nil {
		return err
	}
	return exit.With(code)
}

// decisionsOf groups targets by approval. Named calls are what is approved of
// theirs, all of them if the approval itself is named.
func decisionsOf(known []memory.Approval, verdict string, targets []string, text string) ([]memory.Decision, error) {
	var out []memory.Decision
	var ids []string // of decided ones too: a beginning never comes to mean another one
	for _, p := range known {
		ids = append(ids, p.ID)
		for _, t := range p.ToolCalls {
			ids = append(ids, t.ID)
		}
	}
	targets = slices.Clone(targets)
	for n, target := range targets {
		target, err := chat.Begun("approval or call", "approvals", target, ids)
		if err != nil {
			return nil, err
		}
		targets[n] = target
		i := slices.IndexFunc(known, func(p memory.Approval) bool {
			return p.ID == target || slices.ContainsFunc(p.ToolCalls, func(t agent.ToolCall) bool { return t.ID == target })
		})
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

type answerCmd struct {
	Question string `arg:"" help:"Id of the question, or its beginning, as questions lists it."`
	Text     string `arg:"" help:"The answer, or - to read it from stdin."`
}

func (c *answerCmd) Run(ctx context.Context, a *app) error {
	text, err := a.Given(a.stdin, c.Text, "answer")
	if err != nil {
		return err
	}
	client, _, err := a.threads(ctx, true)
	if err != nil {
		return err
	}
	open, err := client.Questions(ctx, "")
	if err != nil {
		return err
	}
	ids := make([]string, len(open))
	for i, q := range open {
		ids[i] = q.QuestionID
	}
	switch id, err := chat.Begun("question", "questions", c.Question, ids); agent.CodeOf(err) {
	case "":
		c.Question = id
	case agent.CodeNotFound: // one that is settled: the store says how
	default:
		return err
	}
	done, err := client.Answer(ctx, memory.AnswerRequest{Target: c.Question, Text: text})
	if err != nil {
		return err
	}
	err = a.Show(done, func() { a.Print("%s answered", done.Question.ID) })
	if done.Note != "" {
		a.Progress("%s", terminal.Clean(done.Note))
	}
	if err == nil && done.Stored {
		return exit.With(exit.Unavailable)
	}
	return err
}
