package chat

import (
	"context"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
)

// Seen is what was shown of a turn while it ran.
type Seen struct {
	Answer  bool
	Failure string // why it failed, "" = that was not shown
}

// Waiting says how a command waits for a turn.
type Waiting struct{ Detach, Wait, Follow bool }

// Await waits for a turn as asked and reports it. live shows text as it comes.
func (p *Person) Await(ctx context.Context, c Conversations, sent spool.Reply, tails map[string]string, w Waiting, live bool) error {
	p.answered(sent)
	if sent.Answered != nil && sent.TurnID == "" {
		return p.Report(sent, Seen{})
	}
	if w.Detach || sent.Status == spool.StatusStored && !w.Wait {
		return p.Report(c.Served(ctx, sent), Seen{})
	}
	if sent.Note != "" {
		p.Progress("%s", terminal.Clean(sent.Note))
	}
	t := &Talk{Person: p, C: c, Prompt: p.Present && !p.JSON, Wait: w.Wait, Stream: live && !p.JSON, Lines: w.Follow}
	reply, err := t.Until(ctx, sent, tails)
	if left(err) {
		return p.leave(ctx, c, sent)
	}
	if err != nil {
		return err
	}
	reply.MessageID, reply.Repeated, reply.Answered = sent.MessageID, sent.Repeated, sent.Answered // only its sender knows
	return p.Report(reply, t.Seen)
}

func (p *Person) answered(r spool.Reply) {
	if q := r.Answered; q != nil {
		p.Progress("this answered question %s of %s: %s", q.QuestionID, terminal.Visible(q.Agent), terminal.OneLine(q.Text, 200))
	}
}

// Report prints what became of a message and returns its exit code. What was shown
// already is left out of the text.
func (p *Person) Report(r spool.Reply, shown Seen) error {
	err := p.Show(r, func() {
		if r.Response != "" && !shown.Answer {
			p.Print("%s", printer.Response(r))
		}
		if r.Status == string(agent.ThreadRunning) || r.Status == spool.StatusQueued {
			p.Print("%s", r.ThreadID)
		}
	})
	if err != nil {
		return err
	}
	switch r.Status {
	case string(agent.ThreadCompleted):
		p.incomplete(r)
		return nil
	case spool.StatusAnswered:
		p.Progress("it works in the background and goes on%s", p.see(r.ThreadID))
		return nil
	case spool.StatusStored:
		p.Progress("status %s, thread %s, message %s", r.Status, r.ThreadID, r.MessageID)
		if r.Note != "" {
			p.Progress("%s", terminal.Clean(r.Note))
		}
		return exit.With(exit.Unavailable)
	case string(agent.ThreadWaitingForApproval), string(agent.ThreadWaitingForUser):
		p.waiting(r)
		return exit.With(exit.Waiting)
	case string(agent.ThreadRunning), spool.StatusQueued:
		p.Progress("%s, turn %s%s", r.Status, r.TurnID, p.see(r.ThreadID+" --follow"))
		return nil
	case spool.StatusDropped:
		p.Progress("the message was dropped by a cancel before it was answered")
		return exit.With(exit.Failed)
	}
	text := r.Status
	if r.Reason != "" && r.Reason != agent.ReasonError && string(r.Reason) != r.Status {
		text += " (" + string(r.Reason) + ")"
	}
	if why := printer.FailureLine(r.ErrorCode, r.Error); why != "" && why != r.Status && why != shown.Failure {
		text += ": " + strings.TrimPrefix(why, r.Status+": ")
	}
	p.Progress("%s%s", text, p.see(r.ThreadID))
	return exit.With(exit.Failed)
}

// see says where a thread is shown, if its store is there after this process.
func (p *Person) see(thread string) string {
	if p.Gone {
		return ""
	}
	return "; see: " + p.Name + " show " + thread
}

// incomplete warns of an answer that is not whole: the one note of a completed turn.
func (p *Person) incomplete(r spool.Reply) {
	if r.Status == string(agent.ThreadCompleted) && r.Note != "" {
		p.Progress("! %s", terminal.Clean(r.Note))
	}
}

func (p *Person) waiting(r spool.Reply) {
	if r.Status == string(agent.ThreadWaitingForApproval) {
		p.Progress("waiting for approval; decide with %s approve | deny | edit:", p.Name)
		p.Open(r.Pending, nil)
		if len(r.Questions) > 0 {
			p.Progress("and for an answer; give it with %s answer QUESTION TEXT:", p.Name)
		}
	} else {
		how := "answer it with %s answer QUESTION TEXT, or with your next message:"
		if len(r.Questions) > 1 {
			how = "answer them with %s answer QUESTION TEXT:"
		}
		p.Progress("waiting for an answer; "+how, p.Name)
	}
	p.Open(nil, r.Questions)
}

func (p *Person) leave(ctx context.Context, c Conversations, sent spool.Reply) error {
	switch {
	case p.Gone:
		p.Progress("the message is gone with this process, as its store is")
	case p.Alone: // the worker ends with this process
		p.Progress("the message is stored; this store serves one process, so it goes on with the next %s send, chat or dev%s", p.Name, p.see(sent.ThreadID))
	default:
		p.Progress("the message is stored%s%s", fate(ctx, c, sent), p.see(sent.ThreadID))
	}
	return exit.With(exit.Interrupted)
}

// fate says how it stands with a message, as far as that is known: it goes on without
// its sender once a worker has taken it.
func fate(ctx context.Context, c Conversations, sent spool.Reply) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	now, err := c.Status(ctx, sent.ThreadID, sent.TurnID)
	if err != nil {
		return ""
	}
	taken, behind := now.Status != spool.StatusQueued, sent.Status == spool.StatusQueued
	switch now = c.Served(ctx, now); {
	case !taken && behind && now.Status == spool.StatusQueued:
		return "; it waits for the turn before it, and goes on without you"
	case !taken:
		return "; no worker has taken it yet"
	case now.Status == spool.StatusStored:
		return "; no worker goes on with it now"
	}
	return " and goes on without you"
}
