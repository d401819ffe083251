package starter

import (
	"context"

	"github.com/spool-agents/spool/internal/chat"
)

// threadArg is the thread that a command is about.
type threadArg struct {
	Thread string `arg:"" help:"Id of a thread, or of a session for its default or only conversation, or the beginning of one, or latest."`
}

func (c *threadArg) Validate() error { return chat.CheckID(c.Thread) }

// threads opens what holds the thread, and finds it.
func (c *threadArg) threads(ctx context.Context, a *app, temporal bool) (chat.Conversations, error) {
	client, _, err := a.threads(ctx, temporal)
	if err == nil {
		c.Thread, err = chat.Find(ctx, client, c.Thread)
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
	return chat.CheckID(c.Thread)
}
