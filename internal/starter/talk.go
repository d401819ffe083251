package starter

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// errLeft means that a person left while a turn was running.
var errLeft = errors.New("left; the turn goes on")

// talk waits for turns and shows them.
type talk struct {
	a      *app
	c      conversations
	prompt bool // ask for approvals and answers here
	wait   bool // wait also for people and workers
	stream bool // show text live
	lines  bool // print updates as lines of JSON, in place of showing them
	seen   seen // of the turn that until waited for last
}

// until waits for a turn's end, showing what happened since tails were taken. With
// t.prompt, approvals and answers are asked for; the first interrupt cancels the turn, the
// second leaves.
func (t *talk) until(ctx context.Context, sent spool.Reply, tails map[string]string) (spool.Reply, error) {
	l := newLive(sent.ThreadID, sent.TurnID, nil, t.a.progress)
	maps.Copy(l.cursor, tails)
	if t.stream {
		l.text = t.a.stdout
	}
	defer func() {
		l.endLine()
		t.seen = seen{answer: t.stream, failure: l.failure}
	}()
	t.a.talking.Store(t.prompt)
	defer t.a.talking.Store(false)
	for {
		r, err := t.once(ctx, sent, l)
		if err == nil && needsPerson(r) && !t.prompt {
			// What was asked while the rest was shown belongs to what is reported.
			if r, err = t.c.Status(ctx, sent.ThreadID, sent.TurnID); err == nil && r.Status == string(agent.ThreadRunning) {
				continue // somebody has answered
			}
		}
		if err != nil || len(r.Pending)+len(r.Questions) == 0 || !t.prompt {
			if err == nil && t.wait && r.Status == spool.StatusStored { // nobody works yet
				l.line("%s", clean(r.Note))
				continue
			}
			if err == nil && t.stream {
				l.finish(r)
			}
			return r, err
		}
		l.endLine()
		for _, p := range r.Pending {
			if _, err := t.ask(ctx, p, false); err != nil {
				return r, err
			}
		}
		for _, q := range r.Questions {
			if _, err := t.answer(ctx, q, false); err != nil {
				return r, err
			}
		}
	}
}

func needsPerson(r spool.Reply) bool {
	return r.Status == string(agent.ThreadWaitingForApproval) || r.Status == string(agent.ThreadWaitingForUser)
}

// once waits for the turn to end or to need a person.
func (t *talk) once(ctx context.Context, sent spool.Reply, l *live) (spool.Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		r   spool.Reply
		err error
	}
	waited := make(chan outcome, 1)
	go func() {
		r, err := t.c.Wait(ctx, sent.ThreadID, sent.TurnID, spool.WaitOptions{Patient: t.wait && !t.prompt})
		waited <- outcome{r, err}
	}()
	followed := make(chan error, 1)
	following, stop := context.WithCancel(ctx)
	defer stop()
	updates := make(chan spool.Update)
	options := spool.FollowOptions{UntilTurn: sent.TurnID, Descendants: true, From: maps.Clone(l.cursor)}
	from := l.cursor[sent.ThreadID]
	go func() {
		followed <- t.c.Follow(following, sent.ThreadID, from, options, func(u spool.Update) error {
			select {
			case updates <- u:
				return nil
			case <-following.Done():
				return following.Err()
			}
		})
	}()
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
		case <-t.a.interrupts:
			l.endLine()
			if cancelled {
				return spool.Reply{}, errLeft
			}
			cancelled = true
			t.a.progress("cancelling; once more to leave")
			go t.cancel(ctx, sent)
		}
	}
}

// show shows an update.
func (t *talk) show(l *live, u spool.Update) error {
	if !t.lines {
		return l.update(u)
	}
	l.cursor[u.ThreadID] = u.Cursor
	return t.a.printJSON(u)
}

func (t *talk) cancel(ctx context.Context, sent spool.Reply) {
	_, err := t.c.Cancel(ctx, memory.CancelRequest{ThreadID: sent.ThreadID, TurnID: sent.TurnID})
	if err != nil && ctx.Err() == nil {
		t.a.progress("cannot cancel: %s", clean(err.Error()))
	}
}

// rawArgs is the JSON of arguments as an approval carries them.
func rawArgs(args any) json.RawMessage {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil
	}
	return raw
}
