package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Repaired says what a repair did to a thread.
type Repaired struct {
	ThreadID string `json:"threadId"`
	Did      string `json:"did"`
}

// RepairRequest says what to repair: Thread with all below it, or, if it is nil, all
// trees of a user and profile (an empty user means everybody's).
type RepairRequest struct {
	Thread          *agent.Thread
	UserID, Profile string
}

// Repair mends rows: see memory.Archiver. It returns what it did; Check names what
// stays broken. One thread that cannot be read keeps no other from being mended.
func Repair(ctx context.Context, store memory.ConversationMemoryStore, r RepairRequest) ([]Repaired, error) {
	f := memory.ThreadFilter{All: true}
	if r.Thread != nil {
		f.Root = r.Thread.RootThreadID
	}
	threads, err := store.Threads(ctx, f)
	if err != nil {
		return nil, err
	}
	if r.Thread != nil {
		threads = below(threads, r.Thread.ID)
	} else {
		threads = own(threads, r)
	}
	out := []Repaired{}
	var failed []error
	for _, t := range threads {
		done, err := store.Repair(ctx, t.ID)
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

// own leaves the trees of the user. The main thread decides whose a tree
// is: a damaged row of a sub-agent may name somebody else.
func own(threads []agent.Thread, r RepairRequest) []agent.Thread {
	if r.UserID == "" {
		return threads
	}
	mine := map[string]bool{}
	for _, t := range threads {
		mine[t.ID] = t.UserID == r.UserID && memory.InProfile(t.Profile, r.Profile)
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
