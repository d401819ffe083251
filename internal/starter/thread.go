package starter

import (
	"context"
	"fmt"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/memory"
)

// threadArg is the thread that a command is about.
type threadArg struct {
	Thread string `arg:"" help:"Id of a thread, or of a session for its default or only conversation."`
}

func (c *threadArg) Validate() error { return checkThread(c.Thread) }

// threads opens what holds the thread, and finds it.
func (c *threadArg) threads(ctx context.Context, a *app, temporal bool) (chat.Conversations, error) {
	client, _, err := a.threads(ctx, temporal)
	if err == nil {
		c.Thread, err = findThread(ctx, client, c.Thread)
	}
	return client, err
}

// below restricts a list to a thread and its sub-agents.
type below struct {
	Thread string `arg:"" optional:"" help:"Only those of this thread and its sub-agents."`
}

func (c *below) Validate() error {
	if c.Thread == "" {
		return nil
	}
	return checkThread(c.Thread)
}

// checkThread refuses what could be neither a thread id nor that of a session.
func checkThread(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("give a thread id, SESSION/CONVERSATION or agent:TYPE:ID, as threads lists them, or a session's")
	case isSession(id):
		return agent.CheckName("session", id)
	}
	_, err := agent.ParseThreadID(id)
	return err
}

func isSession(id string) bool { return id != "" && !strings.ContainsAny(id, "/:") }

// threadLister is what lists threads.
type threadLister interface {
	ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) ([]agent.Thread, string, error)
}

// findThread is the thread that an id names. That of a session stands for its default
// conversation, or for the only one that it has.
func findThread(ctx context.Context, c threadLister, id string) (string, error) {
	if !isSession(id) {
		return id, nil
	}
	list, _, err := c.ThreadPage(ctx, memory.ThreadFilter{SessionID: id}, "", 100)
	if err != nil {
		return "", err
	}
	byDefault := agent.MainThreadID(id, agent.DefaultConversation)
	var names []string
	for _, t := range list {
		if t.ID == byDefault {
			return byDefault, nil
		}
		names = append(names, t.ID)
	}
	switch len(names) {
	case 0:
		return "", agent.Errorf(agent.CodeNotFound, "there is no session %s here: threads lists what there is", id)
	case 1:
		return names[0], nil
	}
	return "", agent.Errorf(agent.CodeInvalid, "session %s has several conversations: name one of %s", id, strings.Join(names, ", "))
}
