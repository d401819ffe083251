package starter

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

type page struct {
	Workdir string `placeholder:"DIR" help:"Only those started in this directory."`
	Limit   int    `placeholder:"N" default:"100" help:"At most this many (default ${default})."`
	After   string `placeholder:"CURSOR" help:"Go on behind an earlier list, which names its cursor."`
}

func (p *page) Validate() error {
	if p.Limit < 1 {
		return fmt.Errorf("--limit %d is not valid: use a number from 1", p.Limit)
	}
	if err := spool.CheckPage(p.After); err != nil {
		return fmt.Errorf("--after: %w", err)
	}
	return nil
}

// more says how to go on.
func (a *app) more(next string) {
	if next != "" {
		a.Progress("there are more: --after %s", next)
	}
}

// lists are what the grammar takes from elsewhere.
var lists = kong.Vars{"threadStates": agent.ThreadStates}

type threadsCmd struct {
	All     bool   `help:"Include the threads of sub-agents."`
	Session string `short:"s" placeholder:"SESSION" help:"Only this session's."`
	Status  string `enum:"${threadStates}," default:"" placeholder:"STATUS" help:"Only those in this state: ${threadStates}."`
	page
}

func (c *threadsCmd) Validate() error {
	if err := c.page.Validate(); err != nil || c.Session == "" {
		return err
	}
	return agent.CheckName("--session", c.Session)
}

func (c *threadsCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.threads(ctx, false)
	if err != nil {
		return err
	}
	list, next, err := client.ThreadPage(ctx, memory.ThreadFilter{All: c.All, SessionID: c.Session, Status: agent.ThreadStatus(c.Status), Workdir: workdir(c.Workdir)}, c.After, c.Limit)
	if err != nil {
		return err
	}
	open, err := client.Approvals(ctx, "")
	if err != nil {
		return err
	}
	asked, waits, err := asksOf(ctx, client, "")
	if err != nil {
		return err
	}
	doc := struct {
		Threads []agent.Thread    `json:"threads"`
		Waits   []agent.ModelWait `json:"waits,omitempty"`
		Next    string            `json:"next,omitempty"`
	}{list, waits, next}
	return a.Show(doc, func() {
		if len(list) == 0 {
			a.Progress("%s", c.none(a))
		}
		a.Table(a.Threads(list, func(t agent.Thread) string { return printer.State(t, open, asked, waits) }))
		a.more(next)
	})
}

// asksOf are the open questions of threads, and the model calls that wait.
func asksOf(ctx context.Context, client chat.Conversations, threadID string) ([]spool.QuestionRequest, []agent.ModelWait, error) {
	asked, err := client.Questions(ctx, threadID)
	if err != nil {
		return nil, nil, err
	}
	waits, err := client.ModelWaits(ctx, threadID)
	return asked, waits, err
}

// none says why nothing is listed.
func (c *threadsCmd) none(a *app) string {
	switch {
	case c.Status != "":
		return "no thread here is " + c.Status
	case c.Session != "":
		return "session " + c.Session + " has no threads here"
	case c.Workdir != "":
		return "no thread was started in " + terminal.Visible(c.Workdir)
	}
	return "there are no threads here yet; " + a.Name + " send TEXT starts one"
}

type tasksCmd struct{ threadArg }

func (c *tasksCmd) Run(ctx context.Context, a *app) error {
	client, err := c.threads(ctx, a, false)
	if err != nil {
		return err
	}
	tasks, err := client.Tasks(ctx, c.Thread)
	if err != nil {
		return err
	}
	asked, waits, err := asksOf(ctx, client, c.Thread)
	if err != nil {
		return err
	}
	doc := struct {
		Tasks     []agent.Task            `json:"tasks"`
		Waits     []agent.ModelWait       `json:"waits,omitempty"`
		Questions []spool.QuestionRequest `json:"questions,omitempty"`
	}{tasks, waits, asked}
	return a.Show(doc, func() {
		a.Table(a.Tasks(tasks, asked, waits))
	})
}

type showCmd struct {
	Events bool   `help:"Include the event log."`
	Last   int    `placeholder:"N" help:"Only the last messages, so many (default: all)."`
	Follow bool   `help:"Go on until the thread is idle, as things happen."`
	From   string `placeholder:"CURSOR" help:"With --follow: go on after this cursor of an earlier update."`
	threadArg
}

func (c *showCmd) Validate() error {
	switch {
	case c.Last < 0:
		return fmt.Errorf("--last %d is not valid: use a number from 1", c.Last)
	case c.Last > 0 && c.Follow:
		return fmt.Errorf("--last is for what was said and --follow for what comes: give one of the two")
	case c.From != "" && !c.Follow:
		return fmt.Errorf("--from says where to follow from: add --follow")
	}
	if _, err := spool.ParseCursor(c.From); err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	return c.threadArg.Validate()
}

func (c *showCmd) Run(ctx context.Context, a *app) error {
	client, err := c.threads(ctx, a, !c.Follow)
	if err != nil {
		return err
	}
	if c.Follow {
		return c.follow(ctx, a, client)
	}
	v, err := client.Show(ctx, c.Thread, c.Events)
	if err != nil {
		return err
	}
	if c.Last > 0 {
		v.Messages = v.Messages[max(0, len(v.Messages)-c.Last):]
	}
	err = a.Show(v, func() { a.Thread(v) })
	for _, row := range v.Damaged {
		a.Progress("left out: %s", terminal.Visible(row))
	}
	if err == nil && len(v.Damaged) > 0 {
		a.Progress("%s verify %s --repair mends what it can", a.Name, c.Thread)
		return exit.With(exit.Failed)
	}
	return err
}

// follow prints updates: JSON lines, or text.
func (c *showCmd) follow(ctx context.Context, a *app, client chat.Conversations) error {
	l := printer.NewLive(c.Thread, "", a.Out, a.Progress)
	defer l.EndLine()
	err := client.Follow(ctx, c.Thread, c.From, spool.FollowOptions{UntilIdle: true}, func(u spool.Update) error {
		return a.Show(u, func() {
			if c.Events && u.Event != nil {
				l.EndLine()
				a.Print("%s", printer.Event(*u.Event))
			}
			l.Update(u)
		})
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return exit.With(exit.Interrupted) // a person stopped it: that is no error to print
	}
	return err
}

type traceCmd struct{ threadArg }

func (c *traceCmd) Run(ctx context.Context, a *app) error {
	client, err := c.threads(ctx, a, false)
	if err != nil {
		return err
	}
	n, err := client.Trace(ctx, c.Thread)
	if err != nil {
		return err
	}
	return a.Show(n, func() { a.Trace(n) })
}

type threadArg struct {
	Thread string `arg:"" help:"Id of a thread, or of a session for its default or only conversation, or of a task for its agent, or the beginning of one, or latest."`
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

type below struct {
	Thread string `arg:"" optional:"" help:"Only those of this thread and its sub-agents."`
}

func (c *below) Validate() error {
	if c.Thread == "" {
		return nil
	}
	return chat.CheckID(c.Thread)
}
