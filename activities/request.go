package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/spool-agents/spool/agent"
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
	system := agent.Message{Role: agent.RoleSystem, Content: agent.Text(agent.CleanText(c.SystemPrompt) + environment(t, begun.Turn))}
	messages := conversation.messages()
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
		Messages: append([]agent.Message{system}, transcript...),
		Tools:    a.specs(t, shortened),
	}, err
}

// environment tells the model where it is. It is the same for all steps of a
// turn, so that providers can cache the prompt.
func environment(t agent.Thread, turn memory.Turn) string {
	var b strings.Builder
	b.WriteString("\n\n<env>\n")
	fmt.Fprintf(&b, "Working directory: %s\n", t.Workdir)
	fmt.Fprintf(&b, "Date: %s\n", turn.OpenedAt.UTC().Format("2006-01-02"))
	if t.Kind == agent.KindSubAgent {
		fmt.Fprintf(&b, "You are the sub-agent %s (%s) at depth %d. Your last message is your answer to the agent that gave you this task.\n", t.AgentType, t.AgentID, t.Depth)
		if t.Config.SharedSeq > 0 {
			b.WriteString("What was said before your task is the conversation of that agent, for you to know; go on with your task only.\n")
		}
	}
	b.WriteString("</env>")
	if len(turn.AnswerSchema) > 0 {
		b.WriteString("\n\nYour final answer, the message in which you call no tool, must be one JSON value that fits this JSON schema and nothing else: no explanation, no code fence.\n" + string(turn.AnswerSchema))
	}
	return b.String()
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

// delegates lists the agents the thread may delegate to.
func (a *Activities) delegates(t agent.Thread) []agent.SpecialistAgentConfig {
	var out []agent.SpecialistAgentConfig
	for _, c := range a.Policy.Enabled(a.Catalog.List(), t.Depth) {
		if c.Name != DefaultAgent {
			out = append(out, c)
		}
	}
	return out
}
