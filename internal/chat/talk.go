package chat

import (
	"context"
	"errors"
	"maps"
	"os"
	"sync/atomic"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// Person is who runs the program.
type Person struct {
	*printer.Printer
	// Present means that they can be asked: they type into stdin and read stderr.
	Present bool
	// Alone means that this process runs the worker of its store.
	Alone bool
	// Gone means that the store goes with this process, too.
	Gone bool
	// Talking sends interrupts to Interrupts; otherwise they end the program.
	Talking    atomic.Bool
	Interrupts chan os.Signal
	// Typed are the lines they type, Forms how they are asked: nil = by lines.
	Typed *terminal.Lines
	Forms Forms
}

// Forms put to a person what waits for them, drawn at their terminal.
// terminal.ErrLeft means that they left it open.
type Forms interface {
	Approval(ctx context.Context, a spool.ApprovalRequest) (memory.Decision, error)
	Question(ctx context.Context, q spool.QuestionRequest) (answer string, err error)
	Confirm(ctx context.Context) (yes bool, err error)
}

// Talk waits for turns and shows them.
type Talk struct {
	*Person
	C      Conversations
	Prompt bool // ask for approvals and answers here
	Wait   bool // wait also for people and workers
	Stream bool // show text live
	Lines  bool // print updates as lines of JSON, in place of showing them
	// Seen is what was shown of the turn that Until waited for last.
	Seen Seen
}

// Until waits for a turn's end, showing what happened since tails were taken. With
// Prompt, approvals and answers are asked for; the first interrupt cancels the turn, the
// second leaves.
func (t *Talk) Until(ctx context.Context, sent spool.Reply, tails map[string]string) (spool.Reply, error) {
	l := printer.NewLive(sent.ThreadID, sent.TurnID, nil, t.Progress)
	if t.Stream {
		l = printer.NewLive(sent.ThreadID, sent.TurnID, t.Out, t.Progress)
	}
	maps.Copy(l.Cursor, tails)
	defer func() {
		l.EndLine()
		t.Seen = Seen{Answer: t.Stream, Failure: l.Failure}
	}()
	t.Talking.Store(t.Prompt)
	defer t.Talking.Store(false)
	for {
		r, err := t.once(ctx, sent, l)
		if err == nil && agent.ThreadStatus(r.Status).NeedsPerson() && !t.Prompt {
			// What was asked while the rest was shown belongs to what is reported.
			if r, err = t.C.Status(ctx, sent.ThreadID, sent.TurnID); err == nil && r.Status == string(agent.ThreadRunning) {
				continue // somebody has answered
			}
		}
		switch asks := t.asks(r.Pending, r.Questions); {
		case err != nil:
			return r, err
		case len(asks) > 0 && t.Prompt:
			l.EndLine()
			for _, one := range asks {
				if _, err := one.put(ctx, false); err != nil {
					return r, err
				}
			}
		case t.Wait && r.Status == spool.StatusStored: // no worker is running yet
			l.Line("%s", terminal.Clean(r.Note))
		default:
			if t.Stream {
				l.Finish(r)
			}
			return r, nil
		}
	}
}

type outcome struct {
	r   spool.Reply
	err error
}

// once waits for the turn to end or to need a person.
func (t *Talk) once(ctx context.Context, sent spool.Reply, l *printer.Live) (spool.Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waited := make(chan outcome, 1)
	go func() {
		r, err := t.C.Wait(ctx, sent.ThreadID, sent.TurnID, spool.WaitOptions{Patient: t.Wait && !t.Prompt})
		waited <- outcome{r, err}
	}()
	updates, followed := t.follow(ctx, sent, maps.Clone(l.Cursor))
	var got *outcome
	var drained <-chan time.Time
	cancelled := false
	for {
		select {
		case u := <-updates:
			if err := t.show(l, u); err != nil {
				return spool.Reply{}, err
			}
		case o := <-waited:
			if followed == nil { // all was shown
				return o.r, o.err
			}
			// What led to the end was committed with it: let it be shown.
			got, drained = &o, time.After(250*time.Millisecond)
			if o.r.Status == string(agent.ThreadCompleted) || o.r.Status == string(agent.ThreadFailed) {
				drained = time.After(time.Second)
			}
		case err := <-followed:
			if got != nil {
				return got.r, got.err
			}
			if err != nil && ctx.Err() == nil {
				return spool.Reply{}, err
			}
			followed = nil
		case <-drained:
			return got.r, got.err
		case <-t.Interrupts:
			l.EndLine()
			if cancelled {
				return spool.Reply{}, terminal.ErrLeft
			}
			cancelled = true
			t.Progress("cancelling the turn. Ctrl-C again: quit; the turn goes on.")
			go t.cancel(ctx, sent)
		}
	}
}

// follow follows a turn's tree until the turn ends or ctx does.
func (t *Talk) follow(ctx context.Context, sent spool.Reply, from map[string]string) (<-chan spool.Update, chan error) {
	updates, ended := make(chan spool.Update), make(chan error, 1)
	options := spool.FollowOptions{UntilTurn: sent.TurnID, Descendants: true, From: from}
	go func() {
		ended <- t.C.Follow(ctx, sent.ThreadID, from[sent.ThreadID], options, func(u spool.Update) error {
			select {
			case updates <- u:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return updates, ended
}

func (t *Talk) show(l *printer.Live, u spool.Update) error {
	if t.Lines {
		l.Cursor[u.ThreadID] = u.Cursor
		return t.Document(u)
	}
	l.Update(u)
	return nil
}

func (t *Talk) cancel(ctx context.Context, sent spool.Reply) {
	_, err := t.C.Cancel(ctx, memory.CancelRequest{ThreadID: sent.ThreadID, TurnID: sent.TurnID})
	if err != nil && ctx.Err() == nil {
		t.Progress("cannot cancel: %v", err)
	}
}

func left(err error) bool {
	return errors.Is(err, terminal.ErrLeft) || errors.Is(err, context.Canceled) || exit.Code(err) == exit.Interrupted
}
