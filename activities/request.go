package activities

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/memory"
)

// request builds the model request of a step: system prompt with its
// environment block, a valid transcript, and the tools in a stable order.
func (a *Activities) request(begun memory.ModelStart, messages []agent.Message) agent.ModelRequest {
	t := begun.Thread
	c := t.Config
	model := c.Model
	if model == "" {
		model = a.DefaultModel
	}
	system := agent.Message{Role: agent.RoleSystem, Content: agent.Text(agent.CleanText(c.SystemPrompt) + environment(t, begun.Turn))}
	return agent.ModelRequest{
		Model: model, Provider: c.Provider, Temperature: c.Temperature, TopP: c.TopP, MaxTokens: c.MaxTokens, Stream: c.Stream,
		Messages: append([]agent.Message{system}, agent.Transcript(messages)...),
		Tools:    a.specs(t, agent.HasShortenedOutput(messages)),
	}
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
func (a *Activities) delegates(t agent.Thread) []agent.AgentConfig {
	var out []agent.AgentConfig
	for _, c := range a.Policy.Enabled(a.Catalog.List(), t.Depth) {
		if c.Name != DefaultAgent {
			out = append(out, c)
		}
	}
	return out
}

// transcripts keeps the messages of turns under way, so that a step reads only
// what was added since. Within a turn messages are only ever appended.
type transcripts struct {
	mu sync.Mutex
	m  map[string]cached
}

type cached struct {
	turn     string
	shared   []agent.Message // of the parent, before the thread's own
	messages []agent.Message
}

// maxTranscripts bounds the cache; a turn that is not in it reads its thread anew.
const maxTranscripts = 256

// load returns what the model of a turn sees: the part of its parent's
// conversation that a sub-agent was given, and the thread's own messages.
func (t *transcripts) load(ctx context.Context, store memory.Reader, ref contract.Ref, th agent.Thread) ([]agent.Message, error) {
	t.mu.Lock()
	have := t.m[ref.Thread]
	t.mu.Unlock()
	if have.turn != ref.Turn {
		shared, err := sharedContext(ctx, store, th)
		if err != nil {
			return nil, err
		}
		have = cached{turn: ref.Turn, shared: shared}
	}
	var after int64
	if n := len(have.messages); n > 0 {
		after = have.messages[n-1].Seq
	}
	added, err := store.Messages(ctx, ref.Thread, after, 0)
	if err != nil {
		return nil, err
	}
	have.messages = append(have.messages[:len(have.messages):len(have.messages)], added...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil || len(t.m) >= maxTranscripts {
		t.m = map[string]cached{}
	}
	t.m[ref.Thread] = have
	if len(have.shared) == 0 {
		return have.messages, nil
	}
	return slices.Concat(have.shared, have.messages), nil
}

// sharedContext is the conversation a sub-agent was given when it was made: its
// parent's messages up to the delegating step, and what that one was given.
func sharedContext(ctx context.Context, store memory.Reader, th agent.Thread) ([]agent.Message, error) {
	if th.Config.SharedSeq == 0 {
		return nil, nil
	}
	parent, err := store.Thread(ctx, "", th.ParentThreadID)
	if err != nil {
		return nil, err
	}
	before, err := sharedContext(ctx, store, parent)
	if err != nil {
		return nil, err
	}
	own, err := store.Messages(ctx, parent.ID, 0, int(th.Config.SharedSeq))
	return append(before, own...), err
}

func (t *transcripts) drop(thread string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, thread)
}
