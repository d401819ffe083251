package activities

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/prompt"
	"github.com/spool-agents/spool/memory"
)

// mostToolImages bounds the images of tool results in a request.
const mostToolImages = 20

// request builds the model request of a step: system prompt with its
// environment block, a valid transcript, and the tools in a stable order.
func (a *Activities) request(ctx context.Context, begun memory.ModelStart, conversation conversation) (agent.ModelRequest, error) {
	t := begun.Thread
	c := t.Config
	model, provider := cmp.Or(begun.Turn.Fallback, c.Model, a.DefaultModel), c.Provider
	if begun.Turn.Fallback != "" {
		provider = "" // that of the agent's own model is out of order; fallback models name theirs
	}
	messages := conversation.Messages()
	shortened := agent.HasShortenedOutput(messages)
	messages = agent.Transcript(messages)
	switch {
	case slices.Contains(t.NoImages, model):
		messages = agent.WithoutImages(messages)
	case a.modelInfo(model).Images:
		messages = agent.WithToolImages(messages, mostToolImages)
	}
	transcript, err := a.withImages(ctx, messages, a.run(t))
	return agent.ModelRequest{
		AnswerSchema: begun.Turn.AnswerSchema,
		Model:        model, Provider: provider, Temperature: c.Temperature, TopP: c.TopP, MaxTokens: c.MaxTokens, Stream: c.Stream,
		Messages: append([]agent.Message{prompt.System(t, begun.Turn)}, transcript...),
		Tools:    a.specs(t, shortened),
	}, err
}

// specs lists what the thread's model is offered. An agent with a list of tools
// gets the one that reads shortened outputs when there is one to read.
func (a *Activities) specs(t agent.Thread, shortened bool) []agent.ToolSpec {
	specs := a.Tools.Specs(t.Config.Tools)
	if agent.MayUse(t.Config.Tools, agent.ToolAssignTask) {
		if agents := a.delegates(t); len(agents) > 0 {
			specs = append(specs, agent.AssignTaskSpec(agents), agent.TaskOutputSpec())
		}
	}
	if agent.MayUse(t.Config.Tools, agent.ToolAskUser) {
		specs = append(specs, agent.AskUserSpec())
	}
	if shortened || agent.MayUse(t.Config.Tools, agent.ToolOutput) {
		specs = append(specs, agent.ToolOutputSpec())
	}
	sort.Slice(specs, func(i, j int) bool { return specs[i].Name < specs[j].Name })
	return specs
}

func (a *Activities) delegates(t agent.Thread) []agent.SpecialistAgentConfig {
	var out []agent.SpecialistAgentConfig
	for _, c := range a.Policy.Enabled(a.Catalog.List(), t.Depth) {
		if c.Name != DefaultAgent {
			out = append(out, c)
		}
	}
	return out
}
