package spool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/keeper"
	"github.com/spool-agents/spool/internal/nudge"
	"github.com/spool-agents/spool/memory/verify"
)

// Repaired says what a repair did to a thread.
type Repaired = verify.Repaired

// Repair mends the rows of a thread and everything below it, or of all trees of
// the client's user if threadID is empty. It returns what it did; verify names what
// stays broken.
func (c *Client) Repair(ctx context.Context, threadID string) ([]Repaired, error) {
	r := verify.RepairRequest{UserID: c.o.UserID, Profile: c.o.Profile}
	if threadID != "" {
		t, err := c.Thread(ctx, threadID)
		if err != nil {
			return nil, err
		}
		r.Thread = &t
	}
	return verify.Repair(ctx, c.store, r)
}

// Reconcile looks after open turns without an open run, as workers do all the
// time: each that is seen so twice, wait apart, is gone on with or closed. wait 0
// is what workers use. It returns what it did.
func (c *Client) Reconcile(ctx context.Context, wait time.Duration) ([]string, error) {
	if c.temporal == nil {
		return nil, c.unreachable(nil)
	}
	k := &keeper.Keeper{
		Store: c.store, Client: c.temporal, Namespace: c.o.Namespace, Log: slog.New(slog.DiscardHandler),
		Nudger: nudge.Nudger{Client: c.temporal, StoreID: c.store.ID(), TaskQueue: c.o.TaskQueue},
	}
	done, err := k.Now(ctx, cmp.Or(wait, keeper.DefaultAge))
	var said *agent.Error // what the store says
	if err != nil && ctx.Err() == nil && !errors.As(err, &said) {
		err = c.unreachable(err)
	}
	return done, err
}
