package spool_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// story is what a follower was told, event types and text in order.
type story struct {
	told []string
	text string
}

func (s *story) take(u spool.Update) {
	if u.Text != nil {
		s.text += u.Text.Text
		s.told = append(s.told, "text")
		return
	}
	s.told = append(s.told, u.Event.Type)
}

// All text of a reply comes before the event that ends its stream, and before the
// calls that it asks for, however late the follower looks: while the tools run, or
// when the round is over and another reply streams.
func TestFollowTellsTextBeforeTheEndOfItsStream(t *testing.T) {
	for name, over := range map[string]bool{"tools run": false, "the round is over": true} {
		for how, resume := range map[string]bool{"attached": false, "resumed from its cursor": true} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				d, c := newDriver(t)
				d.send("s", "m1", memory.Queue)
				turn := d.take("s/default")
				a := d.stream(turn, 1, "hm", longText[:20])
				goOn := func() { // the rest of the text comes with the reply
					calls := d.save(turn, 1, a, "hm", longText, agent.NewCall("x", "ls", "{}"))
					if over {
						d.tools(calls...)
						d.round(turn, 1)
						d.stream(turn, 2, "", otherText)
					}
				}
				var s story
				cursor := ""
				end := agent.EventToolCalls
				if over {
					end = agent.EventMemoryAppended
				}
				follow := func(from string, first bool) error {
					return c.Follow(t.Context(), "s/default", from, spool.FollowOptions{}, func(u spool.Update) error {
						s.take(u)
						cursor = u.Cursor
						switch {
						case u.Text != nil && first:
							first = false
							if resume {
								return errCut
							}
							goOn()
						case u.Event != nil && u.Event.Type == end && s.text != "":
							return errCut
						}
						return nil
					})
				}
				require.ErrorIs(t, follow("", true), errCut)
				if resume {
					goOn()
					require.ErrorIs(t, follow(cursor, false), errCut)
				}
				assert.Equal(t, longText, s.text, "the whole text, nothing twice")
				want := []string{"message_started", "memory_appended", "text", "text", "stream_finish", "tool_calls"}
				if over {
					want = append(want, "tool_call", "tool_response", "memory_appended")
				}
				assert.Equal(t, want, s.told)
			})
		}
	}
}

// An attempt whose text was seen is marked as void when another one's text comes,
// although the follower was cut off in between, more than once, and other events
// came while the new attempt was silent.
func TestFollowMarksWhatWasSeenBeforeACut(t *testing.T) {
	t.Parallel()
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	d.stream(turn, 1, "", longText)
	last := func(from string, until time.Duration) (text *spool.TextUpdate, cursor string) {
		ctx, stop := context.WithTimeout(t.Context(), until)
		defer stop()
		cursor = from
		err := c.Follow(ctx, "s/default", from, spool.FollowOptions{}, func(u spool.Update) error {
			cursor = u.Cursor
			if u.Text != nil {
				text = u.Text
				return errCut
			}
			return nil
		})
		require.True(t, errors.Is(err, errCut) || errors.Is(err, context.DeadlineExceeded), "%v", err)
		return text, cursor
	}
	text, cursor := last("", time.Minute)
	require.Equal(t, 1, text.Attempt)
	text, cursor = last(cursor, 100*time.Millisecond) // the attempt is lost: nothing comes
	require.Nil(t, text)
	d.stream(turn, 1, "", "") // another one begins
	text, cursor = last(cursor, 100*time.Millisecond)
	require.Nil(t, text)
	var again *spool.TextUpdate
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	time.AfterFunc(100*time.Millisecond, func() {
		d.check(d.store.AppendChunk(context.Background(), memory.Chunk{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1, Attempt: 2, Text: "anew"}))
	})
	require.ErrorIs(t, c.Follow(ctx, "s/default", cursor, spool.FollowOptions{}, func(u spool.Update) error { again = u.Text; return errCut }), errCut)
	require.Equal(t, "anew", again.Text)
	require.Equal(t, 1, again.Supersedes)
	require.Zero(t, again.Offset)
}

// A hundred followers of a thread in one process read it once for all, and each is
// told everything once. One that takes nothing holds up nobody, and is told the
// rest when it is back.
func TestFollowersShareTheirReadings(t *testing.T) {
	t.Parallel()
	d, _ := newDriver(t)
	store := &counting{ConversationMemoryStore: d.store}
	d.send("s", "m1", memory.Queue)
	d.pause = 5 * time.Millisecond
	var all, attached, done sync.WaitGroup
	release := make(chan struct{})
	const n = 100
	stories := make([]story, n)
	attached.Add(n)
	done.Add(n - 1)
	turns := 0
	for i := range n {
		all.Go(func() {
			first, ends := true, 0
			c := spool.NewClient(store, nil, spool.ClientOptions{})
			err := c.Follow(t.Context(), "s/default", "", spool.FollowOptions{}, func(u spool.Update) error {
				stories[i].take(u)
				if first {
					first = false
					attached.Done()
					if i == 0 {
						<-release
					}
				}
				if u.Event != nil && (u.Event.Type == agent.EventDone || u.Event.Type == agent.EventError) {
					if ends++; ends == 3 {
						if i > 0 {
							done.Done()
						}
						return errCut
					}
				}
				return nil
			})
			assert.ErrorIs(t, err, errCut)
		})
	}
	begun := d.take("s/default")
	attached.Wait()
	looks, reads := store.looks.Load(), store.reads.Load()
	at := time.Now()
	d.end(begun, 1, agent.ThreadCancelled)
	for ; turns < 2; turns++ {
		d.send("s", "m"+string(rune('2'+turns)), memory.Queue)
		turn := d.take("s/default")
		a := d.stream(turn, 1, "", longText)
		calls := d.save(turn, 1, a, "", longText, agent.NewCall("x", "ls", "{}"))
		d.tools(calls...)
		d.round(turn, 1)
		a = d.stream(turn, 2, "", otherText)
		d.save(turn, 2, a, "", otherText)
		d.end(turn, 2, agent.ThreadCompleted)
	}
	done.Wait() // although one is held up
	looks, reads = store.looks.Load()-looks, store.reads.Load()-reads
	most := int64(time.Since(at)/(15*time.Millisecond)) + 2
	assert.LessOrEqual(t, looks, most, "one looks for all")
	assert.Less(t, reads, 10*most, "one reads for all")
	close(release)
	all.Wait()
	events, err := d.store.Events(t.Context(), "s/default", 0, 0)
	require.NoError(t, err)
	for i := range stories {
		var told []string
		for _, what := range stories[i].told {
			if what != "text" {
				told = append(told, what)
			}
		}
		require.Len(t, told, len(events))
		for k, e := range events {
			require.Equal(t, e.Type, told[k])
		}
		if i > 0 {
			require.Equal(t, longText+otherText+longText+otherText, stories[i].text)
		}
	}
}

// In silence the store is asked less and less often; what comes after it is told
// soon all the same.
func TestFollowersOfAnIdleThreadLookRarely(t *testing.T) {
	t.Parallel()
	d, _ := newDriver(t)
	store := &counting{ConversationMemoryStore: d.store}
	d.send("s", "m1", memory.Queue)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	told := make(chan string, 100)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range 5 {
		all.Go(func() {
			c := spool.NewClient(store, nil, spool.ClientOptions{})
			err := c.Follow(ctx, "s/default", "", spool.FollowOptions{}, func(u spool.Update) error {
				told <- u.Event.Type
				return nil
			})
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	turn := d.take("s/default")
	for range 5 * 2 {
		<-told
	}
	time.Sleep(3 * time.Second)
	before, at := store.looks.Load(), time.Now()
	time.Sleep(time.Second)
	assert.LessOrEqual(t, store.looks.Load()-before, int64(time.Since(at)/(30*time.Millisecond))+2)
	d.end(turn, 1, agent.ThreadCancelled)
	before = store.looks.Load()
	assert.Equal(t, agent.EventError, <-told)
	assert.Less(t, store.looks.Load()-before, int64(20), "one of the next looks sees it")
}

// late is a store of which a reading of marks can be held up.
type late struct {
	memory.ConversationMemoryStore
	mark atomic.Pointer[func()] // called once, before the next reading
}

func (l *late) Mark(ctx context.Context, ids []string) ([]memory.Mark, error) {
	if f := l.mark.Swap(nil); f != nil {
		(*f)()
	}
	return l.ConversationMemoryStore.Mark(ctx, ids)
}

// Somebody reads a thread while the marks of all threads are looked for, and then it
// changes before they are read: who waits for it reads it again.
func TestFollowSeesWhatCameWhileItLooked(t *testing.T) {
	t.Parallel()
	d, _ := newDriver(t)
	store := &late{ConversationMemoryStore: d.store}
	c := spool.NewClient(store, nil, spool.ClientOptions{UserID: "ada"})
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	held := false
	err := c.Follow(t.Context(), "s/default", "", spool.FollowOptions{}, func(u spool.Update) error {
		if u.Text != nil {
			return errCut
		}
		if u.Event != nil && u.Event.Type == agent.EventMemoryAppended && !held {
			held = true
			go func() {
				time.Sleep(200 * time.Millisecond) // the follower waits
				between := func() {
					d.check(c.Follow(context.Background(), "s/default", "", spool.FollowOptions{Once: true}, func(spool.Update) error { return nil }))
					d.stream(turn, 1, "", longText)
				}
				store.mark.Store(&between)
			}()
		}
		return nil
	})
	require.ErrorIs(t, err, errCut)
}
