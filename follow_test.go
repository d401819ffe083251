package spool_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
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

// driver takes a thread through turns by the store's own operations, as the
// workflow's activities do.
type driver struct {
	t     *testing.T
	store memory.ConversationMemoryStore
	pause time.Duration // between pieces of text
	// streamed is called when an attempt's text is stored, if set.
	streamed func(messageID string, attempt int)
	n        int
}

func newDriver(t *testing.T) (*driver, *spool.Client) {
	t.Helper()
	store, err := spool.OpenStore(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "spool.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	return &driver{t: t, store: store}, spool.NewClient(store, nil, spool.ClientOptions{UserID: "ada"})
}

func (d *driver) fence() memory.Fence {
	d.n++
	return memory.Fence{Scope: fmt.Sprintf("run/%d", d.n), Number: 1}
}

func (d *driver) check(err error) {
	if err != nil {
		panic(err) // also called from goroutines
	}
}

func (d *driver) send(session, id string, when memory.WhenBusy) {
	_, err := d.store.Send(context.Background(), memory.SendRequest{UserID: "ada", Profile: "default", SessionID: session, ConversationID: "default",
		MessageID: id, Content: agent.Text("text of " + id), WhenBusy: when})
	d.check(err)
}

func (d *driver) take(thread string) *memory.Turn {
	c, err := d.store.TakeNext(context.Background(), memory.TakeRequest{ThreadID: thread, RunID: "run", Config: &agent.SpecialistAgentConfig{Name: "orchestrator"}})
	d.check(err)
	return c.Turn
}

// stream makes an attempt and stores its text piece by piece.
func (d *driver) stream(turn *memory.Turn, step int, reasoning, text string) int {
	ms, err := d.store.BeginModel(context.Background(), memory.ModelBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Fence: d.fence()})
	d.check(err)
	const size = 7
	add := func(c memory.Chunk) {
		c.ThreadID, c.TurnID, c.Step, c.Attempt = turn.ThreadID, turn.ID, step, ms.Attempt
		d.check(d.store.AppendChunk(context.Background(), c))
		time.Sleep(d.pause)
	}
	for at := 0; at < len(reasoning); at += size {
		add(memory.Chunk{ReasoningOffset: at, Reasoning: reasoning[at:min(at+size, len(reasoning))]})
	}
	for at := 0; at < len(text); at += size {
		add(memory.Chunk{Offset: at, Text: text[at:min(at+size, len(text))], ReasoningOffset: len(reasoning)})
	}
	if d.streamed != nil {
		d.streamed(agent.MessageID(turn.ID, step), ms.Attempt)
	}
	return ms.Attempt
}

func (d *driver) save(turn *memory.Turn, step, attempt int, reasoning, text string, calls ...agent.Call) []agent.ToolCall {
	r := memory.ReplyRecord{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: attempt,
		Reply: agent.ModelReply{Content: text, Reasoning: reasoning, Calls: calls}}
	for _, c := range calls {
		r.Gates = append(r.Gates, agent.GateAuto)
		r.Delegations = append(r.Delegations, c.Function.Name == "assign_task")
	}
	stored, err := d.store.SaveReply(context.Background(), r)
	d.check(err)
	time.Sleep(d.pause)
	return stored.Calls
}

func (d *driver) tools(calls ...agent.ToolCall) {
	for _, c := range calls {
		s, err := d.store.BeginTool(context.Background(), memory.ToolBegin{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Fence: d.fence(), Repeatable: true})
		d.check(err)
		d.check(d.store.SaveResult(context.Background(), memory.ToolOutcome{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Attempt: s.Attempt, Result: agent.ToolOK("ok")}))
	}
}

func (d *driver) round(turn *memory.Turn, step int) {
	_, err := d.store.SaveToolRound(context.Background(), memory.RoundRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step})
	d.check(err)
}

func (d *driver) end(turn *memory.Turn, step int, outcome agent.ThreadStatus) {
	_, err := d.store.CloseTurn(context.Background(), memory.CloseRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Outcome: outcome, Step: step})
	d.check(err)
}

const (
	longText  = "The quick brown fox jumps over the lazy dog, again and again, until it is tired."
	otherText = "Sphinx of black quartz, judge my vow; then judge it once more, and once more."
)

// conversation has all that can happen to streamed text: a call with text before
// it, an attempt that fails, one that is lost, steering, a cancel, two turns.
func (d *driver) conversation(thread string) {
	session := strings.TrimSuffix(thread, "/default")
	turn := d.take(thread)
	a := d.stream(turn, 1, "I think, at some length, about it.", longText)
	calls := d.save(turn, 1, a, "I think, at some length, about it.", longText, agent.NewCall("x", "ls", "{}"), agent.NewCall("y", "ls", "{}"))
	d.tools(calls...)
	d.round(turn, 1)

	a = d.stream(turn, 2, "", otherText[:40])
	d.check(d.store.FailModel(context.Background(), memory.ModelFailure{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 2, Attempt: a, Code: "broken_stream", Message: "broke"}))
	d.send(session, "steered", memory.Steer)
	d.stream(turn, 2, "", otherText[:20]) // lost: its worker dies
	a = d.stream(turn, 2, "", longText+otherText)
	calls = d.save(turn, 2, a, "", longText+otherText, agent.NewCall("x", "ls", "{}"))
	d.tools(calls...)
	d.round(turn, 2)

	d.send(session, "second", memory.Queue)
	a = d.stream(turn, 3, "", otherText)
	d.save(turn, 3, a, "", otherText)
	d.end(turn, 3, agent.ThreadCompleted)

	turn = d.take(thread)
	d.stream(turn, 1, "", longText)
	d.end(turn, 1, agent.ThreadCancelled)

	_, err := d.store.Retry(context.Background(), memory.RetryRequest{UserID: "ada", ThreadID: thread, RequestID: "again"})
	d.check(err)
	turn = d.take(thread)
	a = d.stream(turn, 1, "", otherText)
	d.save(turn, 1, a, "", otherText)
	d.end(turn, 1, agent.ThreadCompleted)
}

var errCut = errors.New("the connection is cut")

// reader puts together what a follower shows, and checks every update.
type reader struct {
	t       *testing.T
	seq     int64
	attempt map[string]int
	text    map[string]string
	reason  map[string]string
	saved   map[string]string
	pieces  int
	cut     bool     // the reader goes on from cursors
	sent    []string // the senders' ids of people's messages
	// superseded are messages that a retry made void.
	superseded []string
	attempts   sync.Map // message id and attempt of which text was seen
}

func newReader(t *testing.T) *reader {
	return &reader{t: t, attempt: map[string]int{}, text: map[string]string{}, reason: map[string]string{}, saved: map[string]string{}}
}

func (r *reader) take(u spool.Update) {
	switch {
	case u.Event != nil:
		require.Equal(r.t, r.seq+1, u.Event.Seq, "events come in order, none is lost, none comes twice")
		r.seq = u.Event.Seq
		for _, m := range u.Messages {
			if u.Event.Type == agent.EventMessageStarted {
				require.True(r.t, m.Partial && m.SupersededBy == u.Event.TurnID, "a retry marks what it supersedes")
				r.superseded = append(r.superseded, m.ID)
				continue
			}
			if m.Role == agent.RoleUser {
				r.sent = append(r.sent, m.MessageID)
			}
			if m.Role == agent.RoleAssistant {
				require.True(r.t, strings.HasPrefix(m.Content.String(), r.text[m.ID]), "what was shown of %s is the beginning of what was saved", m.ID)
				r.saved[m.ID] = m.Content.String()
			}
		}
	case u.Text != nil:
		r.pieces++
		x := u.Text
		require.NotContains(r.t, r.saved, x.MessageID, "no text follows its saved message")
		if r.attempt[x.MessageID] != x.Attempt {
			require.True(r.t, x.Supersedes == 0 || x.Supersedes == r.attempt[x.MessageID])
			if r.text[x.MessageID]+r.reason[x.MessageID] != "" && !r.cut {
				require.NotZero(r.t, x.Supersedes, "the text of the attempt before is marked as void")
			}
			require.Greater(r.t, x.Attempt, r.attempt[x.MessageID])
			r.attempt[x.MessageID], r.text[x.MessageID], r.reason[x.MessageID] = x.Attempt, "", ""
			r.attempts.Store(fmt.Sprint(x.MessageID, x.Attempt), true)
		}
		require.Equal(r.t, len(r.text[x.MessageID]), x.Offset, "text goes on where it ended")
		require.Equal(r.t, len(r.reason[x.MessageID]), x.ReasoningOffset)
		r.text[x.MessageID] += x.Text
		r.reason[x.MessageID] += x.Reasoning
	}
}

func TestFollowCutEverywhereLosesAndRepeatsNothing(t *testing.T) {
	for _, every := range []int{1, 2, 5, 1 << 30} {
		t.Run(fmt.Sprintf("cut after %d updates", every), func(t *testing.T) {
			t.Parallel()
			d, c := newDriver(t)
			d.pause = time.Millisecond
			d.send("s", "m1", memory.Queue)
			r := newReader(t)
			r.cut = every < 1<<30
			// No attempt ends before some of its text was seen.
			d.streamed = func(messageID string, attempt int) {
				for range 20_000 {
					if _, seen := r.attempts.Load(fmt.Sprint(messageID, attempt)); seen {
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
				t.Errorf("nothing of attempt %d of %s was seen", attempt, messageID)
			}
			var writing sync.WaitGroup
			var written atomic.Bool
			writing.Go(func() { d.conversation("s/default"); written.Store(true) })
			defer writing.Wait()

			cursor := ""
			for {
				n, whole := 0, written.Load()
				err := c.Follow(t.Context(), "s/default", cursor, spool.FollowOptions{UntilIdle: true}, func(u spool.Update) error {
					require.Equal(t, "s/default", u.ThreadID)
					r.take(u)
					cursor = u.Cursor
					if n++; n == every {
						return errCut
					}
					return nil
				})
				if err == nil && whole {
					break
				}
				if err != nil {
					require.ErrorIs(t, err, errCut)
				}
			}
			messages, err := d.store.Messages(t.Context(), "s/default", 0, 1000)
			require.NoError(t, err)
			saved := map[string]string{}
			for _, m := range messages {
				if m.Role == agent.RoleAssistant {
					saved[m.ID] = m.Content.String()
				}
			}
			assert.Len(t, saved, 5)
			assert.Equal(t, []string{"m1", "steered", "second"}, r.sent, "messages carry the ids that their senders gave them")
			assert.Len(t, r.superseded, 1)
			assert.Equal(t, saved, r.saved, "every message was told")
			assert.GreaterOrEqual(t, r.pieces, 6, "every attempt was followed while it streamed")
		})
	}
}

func TestFollowAfterTheEndFromEveryCursor(t *testing.T) {
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	d.conversation("s/default")
	all := follow(t, c, "s/default", "")
	require.Greater(t, len(all), 15)
	for i, u := range all {
		require.NotNil(t, u.Event, "after the end only events are left")
		assert.Equal(t, all[i+1:], follow(t, c, "s/default", u.Cursor)[:], "from %s", u.Cursor)
	}
	tail, err := c.Tail(t.Context(), "s/default")
	require.NoError(t, err)
	assert.Equal(t, all[len(all)-1].Cursor, tail)
	assert.Empty(t, follow(t, c, "s/default", tail))
}

func follow(t *testing.T, c *spool.Client, thread, cursor string) []spool.Update {
	t.Helper()
	all := []spool.Update{}
	require.NoError(t, c.Follow(t.Context(), thread, cursor, spool.FollowOptions{UntilIdle: true}, func(u spool.Update) error {
		all = append(all, u)
		return nil
	}))
	return all
}

func TestFollowInMidStreamGoesOnAtTheOffset(t *testing.T) {
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	attempt := d.stream(turn, 1, "hm, ", "one two three")
	var first spool.Update
	upTo := func(cursor string) (texts []spool.Update) {
		err := c.Follow(t.Context(), "s/default", cursor, spool.FollowOptions{}, func(u spool.Update) error {
			if u.Text == nil {
				return nil
			}
			texts = append(texts, u)
			return errCut
		})
		require.ErrorIs(t, err, errCut)
		return texts
	}
	first = upTo("")[0]
	assert.Equal(t, "hm, ", first.Text.Reasoning)
	assert.Equal(t, "one two three", first.Text.Text)
	seq, _, _ := strings.Cut(first.Cursor, ":")
	assert.Equal(t, seq+":1:17", first.Cursor)

	part := upTo(seq + ":1:7")[0] // all reasoning and three bytes of text
	assert.Equal(t, "", part.Text.Reasoning)
	assert.Equal(t, 3, part.Text.Offset)
	assert.Equal(t, " two three", part.Text.Text)

	d.check(d.store.AppendChunk(t.Context(), memory.Chunk{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1, Attempt: attempt, Offset: 13, Text: " four", ReasoningOffset: 4}))
	assert.Equal(t, " four", upTo(first.Cursor)[0].Text.Text)

	d.stream(turn, 1, "", "uno")
	again := upTo(first.Cursor)[0].Text
	assert.Equal(t, 2, again.Attempt, "a new attempt begins anew")
	assert.Equal(t, 0, again.Offset)
	assert.Equal(t, "uno", again.Text)
}

func TestFollowWithDescendantsTellsAChildsEndFirst(t *testing.T) {
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	var child string
	run := func() {
		a := d.stream(turn, 1, "", longText)
		calls := d.save(turn, 1, a, "", longText, agent.NewCall("x", "assign_task", `{"agent":"general","task":"t"}`))
		del, err := d.store.OpenDelegation(context.Background(), memory.DelegationRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: calls[0].ID,
			Config: agent.SpecialistAgentConfig{Name: "general"}, Task: "t", Limits: memory.DelegationLimits{MaxDepth: 3}})
		d.check(err)
		child = del.ChildThread
		sub := d.take(child)
		b := d.stream(sub, 1, "", otherText)
		d.save(sub, 1, b, "", otherText)
		d.end(sub, 1, agent.ThreadCompleted)
		_, err = d.store.TakeChildResult(context.Background(), memory.ChildResultRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: calls[0].ID})
		d.check(err)
		d.round(turn, 1)
		a = d.stream(turn, 2, "", "done")
		d.save(turn, 2, a, "", "done")
		d.end(turn, 2, agent.ThreadCompleted)
	}
	d.pause = time.Millisecond
	var writing sync.WaitGroup
	writing.Go(run)
	defer writing.Wait()
	readers := map[string]*reader{}
	from := map[string]string{}
	childDone, answered := false, false
	for {
		err := c.Follow(t.Context(), "s/default", from["s/default"], spool.FollowOptions{UntilIdle: true, Descendants: true, From: maps.Clone(from)}, func(u spool.Update) error {
			if readers[u.ThreadID] == nil {
				readers[u.ThreadID] = newReader(t)
			}
			readers[u.ThreadID].take(u)
			from[u.ThreadID] = u.Cursor
			if u.Event != nil {
				childDone = childDone || u.ThreadID != "s/default" && u.Event.Type == agent.EventDone
				if u.ThreadID == "s/default" && u.Event.Type == agent.EventToolResponse {
					answered = true
					assert.True(t, childDone, "the child's end is told before its parent's result")
				}
			}
			return errCut
		})
		if err == nil {
			break
		}
		require.ErrorIs(t, err, errCut)
	}
	assert.True(t, answered)
	require.Len(t, readers, 2)
	assert.Equal(t, map[string]string{readersMessage(readers, child): otherText}, readers[child].saved)
	assert.Len(t, readers["s/default"].saved, 2)
}

func readersMessage(readers map[string]*reader, thread string) string {
	for id := range readers[thread].saved {
		return id
	}
	return ""
}

func TestFollowEndsAndErrors(t *testing.T) {
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	err := c.Follow(t.Context(), "t/default", "", spool.FollowOptions{}, nil)
	assert.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	for _, bad := range []string{"x", "1:2", "1:2:3:4", "-1", "1::2", ":"} {
		err = c.Follow(t.Context(), "s/default", bad, spool.FollowOptions{}, nil)
		assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err), bad)
	}
	err = c.Follow(t.Context(), "s/default", "99:1:5", spool.FollowOptions{}, nil)
	assert.ErrorContains(t, err, "cursor 99 is not of this thread: s/default has 0 events", "no wait for what a backup took back")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = c.Follow(ctx, "s/default", "", spool.FollowOptions{UntilIdle: true}, func(spool.Update) error { return nil })
	assert.ErrorIs(t, err, context.DeadlineExceeded, "a message waits, so it is not idle")

	turn := d.take("s/default")
	d.send("s", "m2", memory.Queue)
	a := d.stream(turn, 1, "", "hi")
	d.save(turn, 1, a, "", "hi")
	d.end(turn, 1, agent.ThreadCompleted)
	last, cursor := "", ""
	require.NoError(t, c.Follow(t.Context(), "s/default", "", spool.FollowOptions{UntilTurn: turn.ID}, func(u spool.Update) error {
		if u.Event != nil && u.Event.TurnID == turn.ID {
			last, cursor = u.Event.Type, u.Cursor
		}
		return nil
	}))
	assert.Equal(t, agent.EventDone, last)

	// A reader whose connection was cut after the turn's last event comes back and is told of the end.
	require.NoError(t, c.Follow(t.Context(), "s/default", cursor, spool.FollowOptions{UntilTurn: turn.ID}, func(u spool.Update) error {
		assert.NotEqual(t, turn.ID, u.Event.TurnID)
		return nil
	}))
}

// racing is a store in which something happens just before a stream is read.
type racing struct {
	memory.ConversationMemoryStore
	before func()
}

func (r *racing) Stream(ctx context.Context, threadID string) (*memory.Streamed, error) {
	if f := r.before; f != nil {
		r.before = nil
		f()
	}
	return r.ConversationMemoryStore.Stream(ctx, threadID)
}

func TestFollowPlacesTextAfterTheEventsBeforeIt(t *testing.T) {
	d, _ := newDriver(t)
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	a := d.stream(turn, 1, "", longText)
	calls := d.save(turn, 1, a, "", longText, agent.NewCall("x", "ls", "{}"))
	d.tools(calls...)
	store := &racing{ConversationMemoryStore: d.store}
	store.before = func() { // between the log and the stream, the step ends and the next one streams
		d.round(turn, 1)
		a = d.stream(turn, 2, "", otherText)
	}
	c := spool.NewClient(store, nil, spool.ClientOptions{})
	r := newReader(t)
	err := c.Follow(t.Context(), "s/default", "", spool.FollowOptions{}, func(u spool.Update) error {
		r.take(u)
		if u.Text != nil && u.Text.MessageID == agent.MessageID(turn.ID, 2) {
			assert.Contains(t, r.saved, agent.MessageID(turn.ID, 1), "the step before it is saved first")
			return errCut
		}
		return nil
	})
	require.ErrorIs(t, err, errCut)
	assert.Equal(t, otherText, r.text[agent.MessageID(turn.ID, 2)])
}
