package activities

import (
	"context"
	"fmt"
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
		Tools:    a.specs(t),
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
	}
	b.WriteString("</env>")
	return b.String()
}

// specs lists what the thread's model is offered.
func (a *Activities) specs(t agent.Thread) []agent.ToolSpec {
	specs := a.Tools.Specs(t.Config.Tools)
	if agent.MayUse(t.Config.Tools, agent.ToolAssignTask) {
		if agents := a.delegates(t); len(agents) > 0 {
			specs = append(specs, agent.AssignTaskSpec(agents), agent.TaskOutputSpec())
		}
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
	messages []agent.Message
}

// maxTranscripts bounds the cache; a turn that is not in it reads its thread anew.
const maxTranscripts = 256

func (t *transcripts) load(ctx context.Context, store memory.Reader, ref contract.Ref) ([]agent.Message, error) {
	t.mu.Lock()
	have := t.m[ref.Thread]
	t.mu.Unlock()
	if have.turn != ref.Turn {
		have = cached{turn: ref.Turn}
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
	return have.messages, nil
}

func (t *transcripts) drop(thread string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, thread)
}
