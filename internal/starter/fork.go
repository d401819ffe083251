package starter

import (
	"context"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

type forkCmd struct {
	At           string `placeholder:"MESSAGE" help:"The last message to copy: an id that show --json prints, or the --message-id it was sent with (default: the last one)."`
	Conversation string `short:"c" placeholder:"NAME" help:"Name of the new conversation, in the same session (default: made)."`
	RequestID    string `placeholder:"ID" help:"Id of this request; repeating it with the same id is safe."`
	Thread       string `arg:"" help:"Id of a thread, or of a session for its default or only conversation."`
}

// Validate checks the arguments.
func (c *forkCmd) Validate() error {
	if c.Conversation != "" {
		if err := agent.CheckName("--conversation", c.Conversation); err != nil {
			return err
		}
	}
	return checkThread(c.Thread)
}

// Run forks a conversation.
func (c *forkCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.threads(ctx, false)
	if err != nil {
		return err
	}
	if c.Thread, err = thread(ctx, client, c.Thread); err != nil {
		return err
	}
	f, err := client.Fork(ctx, spool.ForkRequest{ThreadID: c.Thread, At: c.At, ConversationID: c.Conversation, RequestID: c.RequestID})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(f)
	}
	a.print("%s", f.ThreadID)
	a.progress("%d messages and %d sub-agents copied from %s", f.Messages, len(f.SubAgents), f.FromThread)
	for _, id := range f.Cut {
		if id == f.ThreadID {
			a.progress("its last turn had not ended there: %s retry %s answers again, or send a message", a.name, f.ThreadID)
			continue
		}
		a.progress("sub-agent %s was at work; its copy is cancelled and can be resumed", id)
	}
	a.progress("continue with: %s send -s %s -c %s TEXT", a.name, f.SessionID, f.ConversationID)
	return nil
}
