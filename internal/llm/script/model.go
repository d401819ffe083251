package script

import (
	"context"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Name is the model name the engine reports.
const Name = "spool-script"

// Model answers by Answer, in process. It ignores the fail and break modifiers.
// The zero value is ready; it is safe for concurrent use.
type Model struct{}

var _ agent.Model = Model{}

// Generate streams the reply word by word, with the delays the script asks for.
// Its only error is ctx's.
func (Model) Generate(ctx context.Context, r agent.ModelRequest, onDelta func(agent.Delta)) (agent.ModelReply, error) {
	reply := Answer(r)
	if err := Sleep(ctx, reply.First); err != nil {
		return agent.ModelReply{}, err
	}
	for i, d := range reply.Deltas() {
		if i > 0 {
			if err := Sleep(ctx, reply.Slow); err != nil {
				return agent.ModelReply{}, err
			}
		}
		if r.Stream && onDelta != nil {
			onDelta(d)
		}
	}
	if err := ctx.Err(); err != nil {
		return agent.ModelReply{}, err
	}
	return agent.ModelReply{
		Content:      reply.Text,
		Reasoning:    reply.Reasoning,
		Calls:        reply.Calls,
		FinishReason: reply.FinishReason(),
		Usage:        reply.Usage(r),
		Model:        Name,
	}, nil
}

// Deltas cuts the reasoning and the text into words.
func (r Reply) Deltas() []agent.Delta {
	var ds []agent.Delta
	for _, w := range words(r.Reasoning) {
		ds = append(ds, agent.Delta{Reasoning: w})
	}
	for _, w := range words(r.Text) {
		ds = append(ds, agent.Delta{Text: w})
	}
	return ds
}

// FinishReason is "tool_calls" or "stop".
func (r Reply) FinishReason() string {
	if len(r.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// Usage estimates tokens at four bytes each, so that a longer transcript costs
// more, as with a real model.
func (r Reply) Usage(q agent.ModelRequest) agent.Usage {
	prompt, completion := 0, len(r.Text)+len(r.Reasoning)
	for _, m := range q.Messages {
		prompt += len(m.Content.String()) + callBytes(m.ToolCalls)
	}
	for _, t := range q.Tools {
		prompt += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	completion += callBytes(r.Calls)
	u := agent.Usage{PromptTokens: int64(prompt/4 + 1), CompletionTokens: int64(completion/4 + 1)}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

func callBytes(calls []agent.Call) int {
	n := 0
	for _, c := range calls {
		n += len(c.Function.Name) + len(c.Function.Arguments)
	}
	return n
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	w := strings.SplitAfter(s, " ")
	if w[len(w)-1] == "" {
		w = w[:len(w)-1]
	}
	return w
}

// Sleep waits for d or until ctx ends, and then returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// DemoPrompt is the message that starts the canned demonstration: two tools at
// once, then two sub-agents at once that each use a tool, then an answer built
// from what they reported. It uses tools that need no approval only, so that it
// also runs unattended.
const DemoPrompt = "Show me what Spool can do."

// DemoLogsPrompt is DemoPrompt for a project with a folder of logs: its first
// tool searches them, which takes long enough to be killed in the middle.
const DemoLogsPrompt = "Is any order missing in the logs? Then show me what Spool can do: " +
	"search them, and hand out some work meanwhile."

// Friendly answers a turn that has no script.
const Friendly = "This is Spool's scripted demo model: it follows scripts and understands nothing else. " +
	"Which model answers is a setting of the worker, not of the program you typed this into. " +
	"To talk to a real model, set OPENAI_API_KEY (and OPENAI_BASE_URL for a provider other than OpenAI, " +
	"SPOOL_MODEL for the model's name) in the worker's environment and restart the worker. " +
	"To see a turn with tools and sub-agents without a key, send: " + DemoPrompt

const (
	demoResearch = "List the files of this project and report what you see."
	demoSum      = "Work out how many seconds a day has and report the number."
)

// canned maps texts to scripts. A text counts if a message ends with it: an
// agent's task may be introduced by other words.
var canned = []struct{ text, script string }{
	{DemoPrompt, demo(Call("ls", args{"path": "."}))},
	{DemoLogsPrompt, demo(Call("grep", args{"pattern": "(?i)order [0-9]+ was (lost|doubled)", "path": "logs"}))},
	{demoResearch, script(
		"first 1s "+Call("ls", args{"path": "."}),
		"slow 40ms echo I looked at the directory. It holds:")},
	{demoSum, script(
		"first 1s "+Call("calculator", args{"expression": "24*60*60"}),
		"slow 40ms echo A day has this many seconds:")},
}

type args map[string]string

// demo is the demonstration with this look around as its first call.
func demo(look string) string {
	return script(
		"first 500ms think First I look around, then I hand out the work. => "+Calls(look, Call("calculator", args{"expression": "6*7"})),
		"first 500ms "+Calls(Task("researcher", demoResearch), Task("general", demoSum)),
		"slow 40ms echo Both sub-agents have reported. Each one worked in a thread and a workflow of its own, "+
			"and every step you saw was stored before the next one began. This is what they found:")
}

// script is Script without the prefix, as scriptOf returns it.
func script(steps ...string) string { return strings.TrimPrefix(Script(steps...), Prefix) }
