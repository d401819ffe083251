package follow

import (
	"cmp"
	"context"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Tails returns where to follow threads from to see only what is new: the cursor of
// the last event of each.
func Tails(ctx context.Context, store memory.Reader, ids ...string) (map[string]string, error) {
	marks, err := store.Mark(ctx, ids)
	if err != nil {
		return nil, err
	}
	tails := make(map[string]string, len(marks))
	for _, m := range marks {
		tails[m.ThreadID] = Cursor{Seq: m.LastEvent}.String()
	}
	return tails, nil
}

// Below lists the descendants of a thread in one reading, parents before their
// children and in order of creation.
func Below(ctx context.Context, store memory.Reader, t agent.Thread) ([]agent.Thread, error) {
	tree, err := store.Threads(ctx, memory.ThreadFilter{All: true, Root: t.RootThreadID})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(tree, func(a, b agent.Thread) int {
		return cmp.Or(cmp.Compare(a.Depth, b.Depth), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	inside := map[string]bool{t.ID: true}
	return slices.DeleteFunc(tree, func(below agent.Thread) bool {
		if !inside[below.ParentThreadID] {
			return true
		}
		inside[below.ID] = true
		return false
	}), nil
}
