package spool_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// wrapped is a store whose type can be compared, but whose value may not.
type wrapped struct {
	memory.ConversationMemoryStore
	note any
}

// A store that cannot be a key of a map is followed and waited for like any other.
func TestStoresThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	d, _ := newDriver(t)
	d.conversationTurn("s", "m1")
	c := spool.NewClient(wrapped{d.store, []string{"no key of a map"}}, nil, spool.ClientOptions{UserID: "ada"})
	turns, err := c.Turns(t.Context(), "s/default")
	require.NoError(t, err)
	r, err := c.Wait(t.Context(), "s/default", turns[0].ID, spool.WaitOptions{})
	require.NoError(t, err)
	assert.Equal(t, "completed", r.Status)
	assert.NoError(t, c.Follow(t.Context(), "s/default", "", spool.FollowOptions{UntilIdle: true}, func(spool.Update) error { return nil }))
}

// counting counts what is read: of threads and streams, of those among them that are
// not busy, of turns, trees and marks, and looks for changes.
type counting struct {
	memory.ConversationMemoryStore
	busy                                                string
	looks, reads, others, turns, trees, marks, children atomic.Int64
}

func (c *counting) read(id string) memory.ConversationMemoryStore {
	c.reads.Add(1)
	if id != c.busy {
		c.others.Add(1)
	}
	return c.ConversationMemoryStore
}

func (c *counting) Stream(ctx context.Context, id string) (*memory.Streamed, error) {
	return c.read(id).Stream(ctx, id)
}

func (c *counting) Events(ctx context.Context, id string, after int64, limit int) ([]agent.Event, error) {
	return c.read(id).Events(ctx, id, after, limit)
}

func (c *counting) Messages(ctx context.Context, id string, after int64, limit int) ([]agent.Message, error) {
	return c.read(id).Messages(ctx, id, after, limit)
}

func (c *counting) Changed(ctx context.Context) (int64, error) {
	c.looks.Add(1)
	return c.ConversationMemoryStore.Changed(ctx)
}

func (c *counting) Turn(ctx context.Context, id string) (memory.Turn, error) {
	c.turns.Add(1)
	return c.ConversationMemoryStore.Turn(ctx, id)
}

func (c *counting) Threads(ctx context.Context, f memory.ThreadFilter) ([]agent.Thread, error) {
	c.trees.Add(1)
	return c.ConversationMemoryStore.Threads(ctx, f)
}

func (c *counting) Mark(ctx context.Context, ids []string) ([]memory.Mark, error) {
	c.marks.Add(1)
	return c.ConversationMemoryStore.Mark(ctx, ids)
}

func (c *counting) Children(ctx context.Context, id string) ([]agent.Thread, error) {
	c.children.Add(1)
	return c.ConversationMemoryStore.Children(ctx, id)
}

// Who waits for a turn reads when its thread has changed, or once a second, and not
// for each commit to another thread.
func TestWaitersReadTheirOwnThreadOnly(t *testing.T) {
	t.Parallel()
	d, _ := newDriver(t)
	store := &counting{ConversationMemoryStore: d.store}
	c := spool.NewClient(store, nil, spool.ClientOptions{UserID: "ada"})
	d.send("mine", "m1", memory.Queue)
	mine := d.take("mine/default")
	ended := make(chan spool.Reply, 1)
	began := time.Now()
	go func() {
		r, err := c.Wait(context.Background(), "mine/default", mine.ID, spool.WaitOptions{})
		assert.NoError(t, err)
		ended <- r
	}()
	for i := range 40 {
		d.conversationTurn("other", string(rune('A'+i)))
		time.Sleep(20 * time.Millisecond) // so that each is seen by itself
	}
	assert.LessOrEqual(t, store.turns.Load(), int64(time.Since(began)/(900*time.Millisecond))+2)
	d.end(mine, 1, agent.ThreadCancelled)
	assert.Equal(t, "cancelled", (<-ended).Status)
}

// Where to follow a tree from costs the same however many sub-agents it has.
func TestTailsOfATreeAreReadAtOnce(t *testing.T) {
	t.Parallel()
	d, _ := newDriver(t)
	store := &counting{ConversationMemoryStore: d.store}
	c := spool.NewClient(store, nil, spool.ClientOptions{UserID: "ada"})
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	var calls []agent.Call
	for range 5 {
		calls = append(calls, agent.NewCall("x", "assign_task", "{}"))
	}
	below := map[string]*memory.Turn{}
	for i, call := range d.save(turn, 1, d.stream(turn, 1, "", ""), "", "", calls...) {
		child := d.delegate(turn, call.ID)
		below[child.ThreadID] = child
		if i > 0 {
			continue
		}
		grandchild := d.delegate(child, d.save(child, 1, d.stream(child, 1, "", ""), "", "", agent.NewCall("y", "assign_task", "{}"))[0].ID)
		below[grandchild.ThreadID] = grandchild
		tails, err := c.TailTree(t.Context(), child.ThreadID)
		require.NoError(t, err)
		assert.Len(t, tails, 2, "a sub-agent's tree is what is below it")
	}
	trees, marks := store.trees.Load(), store.marks.Load()
	tails, err := c.TailTree(t.Context(), "s/default")
	require.NoError(t, err)
	assert.Len(t, tails, 7)
	for id := range below {
		tail, err := c.Tail(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, tail, tails[id])
	}
	assert.EqualValues(t, 1, store.trees.Load()-trees)
	assert.EqualValues(t, 1+len(below), store.marks.Load()-marks)
	assert.Zero(t, store.children.Load())
	none, err := c.TailTree(t.Context(), "unknown/default")
	require.NoError(t, err)
	assert.Empty(t, none)
}

// delegate has a turn's call done by a sub-agent, whose turn it returns.
func (d *driver) delegate(turn *memory.Turn, callID string) *memory.Turn {
	del, err := d.store.OpenDelegation(context.Background(), memory.DelegationRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: callID,
		Config: agent.SpecialistAgentConfig{Name: "general"}, Task: "t", Limits: memory.DelegationLimits{MaxDepth: 3}})
	d.check(err)
	return d.take(del.ChildThread)
}

// One rule says which threads a profile sees, in lists as by name: those without a
// profile are in the default one.
func TestProfilesHaveOneRule(t *testing.T) {
	t.Parallel()
	d, _ := newDriver(t)
	for session, profile := range map[string]string{"none": "", "default": "default", "work": "work"} {
		_, err := d.store.Send(t.Context(), memory.SendRequest{UserID: "ada", Profile: profile, SessionID: session, MessageID: "m", Content: agent.Text("hi")})
		require.NoError(t, err)
	}
	for profile, want := range map[string][]string{"": {"default", "none"}, "default": {"default", "none"}, "work": {"work"}, "play": {}} {
		c := spool.NewClient(d.store, nil, spool.ClientOptions{UserID: "ada", Profile: profile})
		list, err := c.Threads(t.Context(), memory.ThreadFilter{})
		require.NoError(t, err)
		var sessions []string
		for _, th := range list {
			sessions = append(sessions, th.SessionID)
		}
		assert.ElementsMatch(t, want, sessions, "list of %q", profile)
		for _, session := range []string{"none", "default", "work"} {
			_, err := c.Thread(t.Context(), session+"/default")
			_, other := c.Send(t.Context(), memory.SendRequest{SessionID: session, Content: agent.Text("hi")})
			for code, err := range map[agent.Code]error{agent.CodeNotFound: err, agent.CodeConflict: other} {
				if !slices.Contains(want, session) {
					assert.Equal(t, code, agent.CodeOf(err), "%s from %q", session, profile)
				} else {
					assert.NoError(t, err, "%s from %q", session, profile)
				}
			}
		}
	}
}

// A message that is sent again after its turn has the answer, and one that a cancel
// dropped says so.
func TestRepeatedSendSaysHowItsTurnEnded(t *testing.T) {
	t.Parallel()
	d, c := newDriver(t)
	message := memory.SendRequest{SessionID: "s", MessageID: "m1", Content: agent.Text("hi")}
	_, err := c.Send(t.Context(), message)
	require.NoError(t, err)
	turn := d.take("s/default")
	dropped := memory.SendRequest{SessionID: "s", MessageID: "m2", Content: agent.Text("later"), WhenBusy: memory.Queue}
	_, err = c.Send(t.Context(), dropped)
	require.NoError(t, err)
	again, err := c.Send(t.Context(), message)
	require.NoError(t, err)
	assert.Equal(t, "running", again.Status)
	d.save(turn, 1, d.stream(turn, 1, "", "hello"), "", "hello")
	_, err = d.store.RequestCancel(t.Context(), memory.CancelRequest{ThreadID: "s/default", All: true, By: "ada"})
	require.NoError(t, err)
	d.end(turn, 1, agent.ThreadCompleted)
	again, err = c.Send(t.Context(), message)
	require.NoError(t, err)
	assert.Equal(t, []string{"completed", "hello", "m1"}, []string{again.Status, again.Response, again.MessageID})
	assert.True(t, again.Repeated)
	again, err = c.Send(t.Context(), dropped)
	require.NoError(t, err)
	assert.Equal(t, spool.StatusDropped, again.Status)
}
