package spool

import (
	"context"

	"github.com/spool-agents/spool/agent"
)

// Tail returns the cursor of a thread's last event: following from it tells only
// what is new. An unknown thread has none yet and gives the beginning.
func (c *Client) Tail(ctx context.Context, threadID string) (string, error) {
	if _, err := c.thread(ctx, threadID); err != nil {
		if agent.CodeOf(err) == agent.CodeNotFound {
			return "", nil
		}
		return "", err
	}
	mark, err := markOf(ctx, c.store, threadID)
	return Cursor{Seq: mark.LastEvent}.String(), err
}

// TailTree returns the Tail of a thread and of all its descendants, by thread id.
func (c *Client) TailTree(ctx context.Context, threadID string) (map[string]string, error) {
	tails := map[string]string{}
	todo := []string{threadID}
	for len(todo) > 0 {
		id := todo[0]
		todo = todo[1:]
		tail, err := c.Tail(ctx, id)
		if err != nil {
			return nil, err
		}
		if tail == "" {
			continue
		}
		tails[id] = tail
		children, err := c.store.Children(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, child := range children {
			todo = append(todo, child.ID)
		}
	}
	return tails, nil
}
