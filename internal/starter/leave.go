package starter

import (
	"context"
	"errors"
	"time"

	"github.com/spool-agents/spool"
)

// goneTimeout bounds the look at a message whose sender wants to leave.
const goneTimeout = 2 * time.Second

// gone explains what became of a turn that nobody waits for any longer.
func (a *app) gone(ctx context.Context, c conversations, sent spool.Reply, err error) error {
	if errors.Is(err, errLeft) || errors.Is(err, context.Canceled) {
		if a.alone { // the worker ends with this process
			a.progress("the message is stored; this store serves one process, so it goes on with the next %s send, chat or dev; see: %s show %s", a.name, a.name, sent.ThreadID)
		} else {
			a.progress("the message is stored%s; see: %s show %s", fate(ctx, c, sent), a.name, sent.ThreadID)
		}
		return ended(exitInterrupt)
	}
	return err
}

// fate says how it stands with a message, as far as that is known: it goes on without
// its sender once a worker has taken it.
func fate(ctx context.Context, c conversations, sent spool.Reply) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneTimeout)
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
