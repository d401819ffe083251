package spool

import (
	"context"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// ModelWaits lists the model calls that are not made before some time to come, as
// their provider asked for a pause or did not answer: all of the user's, or those of
// the tree that threadID belongs to. The one that is due first comes first.
func (c *Client) ModelWaits(ctx context.Context, threadID string) ([]agent.ModelWait, error) {
	f := memory.WaitFilter{UserID: c.o.UserID}
	var err error
	if f.ThreadID, f.RootThread, err = c.scope(ctx, threadID); err != nil {
		return nil, err
	}
	all, err := c.store.ModelWaits(ctx, f)
	if err != nil {
		return nil, err
	}
	out, seen := []agent.ModelWait{}, map[string]bool{}
	for _, w := range all {
		if !w.Until.After(time.Now()) { // a worker is about to make it
			continue
		}
		mine, err := c.seesRoot(ctx, threadID, w.RootThread, seen)
		if err != nil {
			return nil, err
		}
		if mine {
			out = append(out, w)
		}
	}
	return out, nil
}
