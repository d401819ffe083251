package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/keeper"
	"github.com/spool-agents/spool/internal/nudge"
	"github.com/spool-agents/spool/memory"
)

// Repaired says what a repair did to a thread.
type Repaired struct {
	ThreadID string `json:"threadId"`
	Did      string `json:"did"`
}

// Repair mends the rows of a thread and everything below it, or of all trees of
// the client's user if threadID is empty: see memory.Archiver. It returns what it
// did; what stays broken a check tells.
func (c *Client) Repair(ctx context.Context, threadID string) ([]Repaired, error) {
	f := memory.ThreadFilter{All: true}
	if threadID != "" {
		t, err := c.Thread(ctx, threadID)
		if err != nil {
			return nil, err
		}
		f.Root = t.RootThreadID
	}
	threads, err := c.store.Threads(ctx, f)
	if err != nil {
		return nil, err
	}
	if threadID != "" {
		threads = below(threads, threadID)
	} else {
		threads = c.own(threads)
	}
	// The repair of a sub-agent reads its parent's rows.
	slices.SortStableFunc(threads, func(a, b agent.Thread) int { return a.Depth - b.Depth })
	out := []Repaired{}
	var failed []error // one thread that cannot be read keeps no other from being mended
	for _, t := range threads {
		done, err := c.store.Repair(ctx, t.ID)
		if agent.CodeOf(err) == agent.CodeNotFound { // deleted meanwhile
			continue
		}
		if agent.CodeOf(err) == agent.CodeUnavailable || ctx.Err() != nil {
			return out, err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("thread %s cannot be repaired: %w", t.ID, err))
		}
		for _, what := range done {
			out = append(out, Repaired{t.ID, what})
		}
	}
	return out, errors.Join(failed...)
}

// own leaves the trees of the client's user. The main thread decides whose a tree
// is: a damaged row of a sub-agent may name somebody else.
func (c *Client) own(threads []agent.Thread) []agent.Thread {
	if c.o.UserID == "" {
		return threads
	}
	mine := map[string]bool{}
	for _, t := range threads {
		mine[t.ID] = t.UserID == c.o.UserID && memory.InProfile(t.Profile, c.o.Profile)
	}
	return slices.DeleteFunc(threads, func(t agent.Thread) bool {
		of, known := mine[t.RootThreadID]
		return known && !of || !known && !mine[t.ID]
	})
}

// below leaves of a tree's threads one and what is below it.
func below(threads []agent.Thread, id string) []agent.Thread {
	keep := map[string]bool{id: true}
	for range threads { // as deep as a tree can be
		for _, t := range threads {
			keep[t.ID] = keep[t.ID] || keep[t.ParentThreadID]
		}
	}
	return slices.DeleteFunc(threads, func(t agent.Thread) bool { return !keep[t.ID] })
}

// Reconcile looks after open turns without an open run, as workers do all the
// time: each that is seen so twice, wait apart, is gone on with or closed. wait 0
// is what workers use. It returns what it did.
func (c *Client) Reconcile(ctx context.Context, wait time.Duration) ([]string, error) {
	if c.temporal == nil {
		return nil, c.unreachable(nil)
	}
	if wait == 0 {
		wait = keeper.DefaultAge
	}
	k := &keeper.Keeper{
		Store: c.store, Client: c.temporal, Namespace: c.o.Namespace, Log: slog.New(slog.DiscardHandler),
		Nudger: nudge.Nudger{Client: c.temporal, StoreID: c.store.ID(), TaskQueue: c.o.TaskQueue},
	}
	return k.Now(ctx, wait)
}
