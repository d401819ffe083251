// Package prompt says what a model is told in a turn: the worker calls models with it, and
// views show it.
package prompt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Conversation is what the model of a turn sees.
type Conversation struct {
	Summary *memory.Summary // in force; nil if nothing was summarised
	// Windows are what providers said of a model when they refused a request.
	Windows map[string]int64
	Shared  []agent.Message // of the parent, before the thread's own
	Own     []agent.Message // after what the summary replaces
	// Tokens is our count of all of it.
	Tokens int
}

// Messages are those the model is shown.
func (c Conversation) Messages() []agent.Message {
	switch {
	case c.Summary != nil:
		summary := agent.Message{Role: agent.RoleUser, Content: agent.Text(agent.SummaryHead + "\n" + c.Summary.Text)}
		return slices.Concat([]agent.Message{summary}, c.Own)
	case len(c.Shared) > 0:
		return slices.Concat(c.Shared, c.Own)
	}
	return c.Own
}

// Load reads a thread's messages as its model sees them, up to upTo
// (0 = all). Messages are only ever appended and summaries are chosen by when they
// were made, so the same upTo always gives the same.
func Load(ctx context.Context, store memory.Reader, th agent.Thread, upTo int64) (Conversation, error) {
	var c Conversation
	var after int64
	if th.Compactions > 0 {
		summaries, err := store.Summaries(ctx, th.ID)
		if err != nil {
			return c, err
		}
		for i, s := range summaries {
			if upTo > 0 && s.LastSeq > upTo {
				break
			}
			if s.Text != "" {
				c.Summary, after = &summaries[i], s.ReplacesTo
			}
			if s.Cause == memory.CauseRefused {
				if c.Windows == nil {
					c.Windows = map[string]int64{}
				}
				c.Windows[s.Model] = s.Window
			}
		}
	}
	if c.Summary == nil && th.Config.SharedSeq > 0 {
		parent, err := store.Thread(ctx, "", th.ParentThreadID)
		if err != nil {
			return c, err
		}
		shared, err := Load(ctx, store, parent, th.Config.SharedSeq)
		if err != nil {
			return c, err
		}
		c.Shared = shared.Messages()
	}
	limit := 0
	if upTo > 0 {
		if upTo <= after {
			return c, nil
		}
		limit = int(upTo - after)
	}
	var err error
	c.Own, err = store.Messages(ctx, th.ID, after, limit)
	c.Tokens = Tokens(c.Messages())
	return c, err
}

// Tokens is our count of messages.
func Tokens(messages []agent.Message) int {
	n := 0
	for _, m := range messages {
		n += agent.MessageTokens(m)
	}
	return n
}

// System is the message of a turn's model calls that stands before all others: what the
// agent's snapshot says, and where it is. It is the same for all steps of a turn, so that
// providers can cache the prompt.
func System(t agent.Thread, turn memory.Turn) agent.Message {
	return agent.Message{Role: agent.RoleSystem, Content: agent.Text(agent.CleanText(t.Config.SystemPrompt) + environment(t, turn))}
}

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
