package spool

import (
	"context"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
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
	last, err := lastSeq(ctx, c.store, threadID, 0)
	return Cursor{Seq: last}.String(), err
}

// lastSeq is the seq of a thread's last event, 0 without any. It is found soonest
// if it is near the guess.
func lastSeq(ctx context.Context, store memory.Reader, threadID string, guess int64) (int64, error) {
	// Seq is dense, so the end is found by probing.
	beyond := func(seq int64) (bool, error) {
		e, err := store.Events(ctx, threadID, seq, 1)
		return len(e) > 0, err
	}
	low := int64(0)
	if guess > 0 {
		there, err := beyond(guess - 1)
		if err != nil {
			return 0, err
		}
		if there {
			low = guess
		}
	}
	high := low
	for step := int64(1); ; step *= 2 {
		more, err := beyond(high)
		if err != nil {
			return 0, err
		}
		if !more {
			break
		}
		low, high = high+1, high+step
	}
	for low < high {
		mid := (low + high) / 2
		more, err := beyond(mid)
		switch {
		case err != nil:
			return 0, err
		case more:
			low = mid + 1
		default:
			high = mid
		}
	}
	return low, nil
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
