package starter

import (
	"context"
	"fmt"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

type waiting struct {
	Detach bool `help:"Return once the message is stored."`
	Wait   bool `help:"Wait also for people and for workers."`
	Follow bool `help:"With --json: print each update as a line when it happens, as show --follow does; the reply is the last line."`
}

func (w *waiting) Validate() error {
	switch {
	case w.Detach && w.Wait:
		return fmt.Errorf("--detach returns at once and --wait waits: give one of the two")
	case w.Detach && w.Follow:
		return fmt.Errorf("--detach returns at once and --follow shows what happens: give one of the two")
	}
	return nil
}

func (w *waiting) await(ctx context.Context, a *app, c chat.Conversations, sent spool.Reply, tails map[string]string) error {
	return a.Await(ctx, c, sent, tails, chat.Waiting(*w), a.live)
}

// check refuses --follow without --json.
func (w *waiting) check(a *app) error {
	if w.Follow && !a.JSON {
		return exit.Misuse("--follow prints lines of JSON: add --json, or leave it out, as progress is shown in any case")
	}
	return nil
}

type retryCmd struct {
	RequestID string `placeholder:"ID" help:"Id of this request; repeating it with the same id is safe."`
	waiting
	threadArg
}

func (r *retryCmd) Validate() error {
	if err := r.waiting.Validate(); err != nil {
		return err
	}
	return r.threadArg.Validate()
}

func (r *retryCmd) Run(ctx context.Context, a *app) error {
	if err := r.check(a); err != nil {
		return err
	}
	c, _, err := a.servingThreads(ctx)
	if err != nil {
		return err
	}
	if r.Thread, err = chat.Find(ctx, c, r.Thread); err != nil {
		return err
	}
	tails, err := c.TailTree(ctx, r.Thread)
	if err != nil {
		return err
	}
	sent, err := c.Retry(ctx, r.Thread, r.RequestID)
	if err != nil {
		return err
	}
	return r.await(ctx, a, c, sent, tails)
}

type cancelCmd struct {
	All bool `help:"Also drop waiting messages and stop background sub-agents."`
	threadArg
}

func (c *cancelCmd) Run(ctx context.Context, a *app) error {
	client, err := c.threads(ctx, a, true)
	if err != nil {
		return err
	}
	out, err := client.Cancel(ctx, memory.CancelRequest{ThreadID: c.Thread, All: c.All})
	if err != nil {
		return err
	}
	err = a.Show(out, func() {
		a.Print("%s", cancelText(out, c.All))
		switch {
		case out.Running == 1:
			a.Progress("1 sub-agent goes on in the background; stop with: %s cancel %s --all", a.Name, out.ThreadID)
		case out.Running > 1:
			a.Progress("%d sub-agents go on in the background; stop with: %s cancel %s --all", out.Running, a.Name, out.ThreadID)
		}
	})
	closed := out.Status == string(agent.ThreadCompleted) || out.Status == string(agent.ThreadFailed)
	switch {
	case err != nil:
		return err
	case closed && out.Dropped+out.Stopped == 0:
		a.Progress("the turn had ended before it could be cancelled")
		return exit.With(exit.Conflict)
	case out.Status == spool.StatusStored:
		a.Progress("%s", terminal.Clean(out.Note))
		return exit.With(exit.Unavailable)
	}
	return nil
}

func cancelText(c spool.Cancelled, all bool) string {
	text := c.ThreadID + " " + c.Status
	if c.Repeated {
		text += fmt.Sprintf(" already (by %s at %s)", c.By, c.At.Format(time.RFC3339))
	}
	if all {
		text += fmt.Sprintf(", %s dropped, %s stopped", printer.Plural(c.Dropped, "waiting message"), printer.Plural(c.Stopped, "background sub-agent"))
	}
	return text
}

type forkCmd struct {
	At           string `placeholder:"MESSAGE" help:"The last message to copy: the number that show prints, its id, the --message-id it was sent with, or a turn; or the beginning of an id (default: the last one)."`
	Conversation string `short:"c" placeholder:"NAME" help:"Name of the new conversation, in the same session (default: made)."`
	RequestID    string `placeholder:"ID" help:"Id of this request; repeating it with the same id is safe."`
	threadArg
}

func (c *forkCmd) Validate() error {
	if c.Conversation != "" {
		if err := agent.CheckName("--conversation", c.Conversation); err != nil {
			return err
		}
	}
	return c.threadArg.Validate()
}

func (c *forkCmd) Run(ctx context.Context, a *app) error {
	client, err := c.threads(ctx, a, false)
	if err != nil {
		return err
	}
	if c.At, err = chat.MessageID(ctx, client, c.Thread, c.At); err != nil {
		return err
	}
	f, err := client.Fork(ctx, spool.ForkRequest{ThreadID: c.Thread, At: c.At, ConversationID: c.Conversation, RequestID: c.RequestID})
	if err != nil {
		return err
	}
	return a.Show(f, func() {
		a.Print("%s", f.ThreadID)
		a.Progress("%d messages and %d sub-agents copied from %s", f.Messages, len(f.SubAgents), f.FromThread)
		for _, id := range f.Cut {
			if id == f.ThreadID {
				a.Progress("its last turn had not ended there: %s retry %s answers again, or send a message", a.Name, f.ThreadID)
				continue
			}
			a.Progress("sub-agent %s was at work; its copy is cancelled and can be resumed", id)
		}
		a.Progress("continue with: %s send -s %s -c %s TEXT", a.Name, f.SessionID, f.ConversationID)
	})
}
