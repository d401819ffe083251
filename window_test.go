package spool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// imported adds a thread of turns of four messages: a question, a call, its result
// and an answer.
func (d *driver) imported(session string, turns int) string {
	now := time.Now().Truncate(time.Second) // digits of a fraction would be a matter of chance
	r := memory.ThreadRecord{Thread: agent.Thread{ID: session + "/default", UserID: "ada", Profile: "default", SessionID: session, ConversationID: "default",
		Kind: agent.KindMain, AgentType: "orchestrator", RootThreadID: session + "/default", CreatedAt: now.Add(-time.Hour), UpdatedAt: now}}
	for i := range turns {
		call := agent.NewCall(fmt.Sprintf("call_%s%06d", session, i), "ls", `{"path":"."}`)
		r.Messages = append(r.Messages,
			agent.Message{ID: fmt.Sprintf("q%06d", i), Role: agent.RoleUser, Content: agent.Text(fmt.Sprintf("question %06d", i))},
			agent.Message{ID: fmt.Sprintf("c%06d", i), Role: agent.RoleAssistant, Content: agent.NullContent(), ToolCalls: []agent.Call{call}},
			agent.Message{ID: fmt.Sprintf("r%06d", i), Role: agent.RoleTool, ToolCallID: call.ID, Content: agent.Text("a.txt")},
			agent.Message{ID: fmt.Sprintf("a%06d", i), Role: agent.RoleAssistant, Content: agent.Text(fmt.Sprintf("answer %06d", i))})
	}
	_, err := d.store.(memory.Archiver).ImportThreads(context.Background(), memory.ImportRequest{UserID: "ada", Profile: "default", Threads: []memory.ThreadRecord{r}})
	d.check(err)
	return r.Thread.ID
}

// parts refuses to read the whole of what grows with a thread.
type parts struct {
	memory.ConversationMemoryStore
	t *testing.T
}

func (p parts) whole(what string) { p.t.Errorf("all %s of the thread are read", what) }

func (p parts) ToolCalls(context.Context, string) ([]agent.ToolCall, error) {
	p.whole("tool calls")
	return nil, nil
}

func (p parts) Tasks(context.Context, string) ([]agent.Task, error) {
	p.whole("tasks")
	return nil, nil
}

func (p parts) Inbox(context.Context, string) ([]memory.InboxEntry, error) {
	p.whole("entries")
	return nil, nil
}

func (p parts) TurnsOf(context.Context, string) ([]memory.Turn, error) {
	p.whole("turns")
	return nil, nil
}

func (p parts) Messages(ctx context.Context, id string, after int64, limit int) ([]agent.Message, error) {
	out, err := p.ConversationMemoryStore.Messages(ctx, id, after, limit)
	if len(out) > 100 {
		p.whole("messages")
	}
	return out, err
}

// The view of a thread's end is as large for a thread of ten thousand messages as for
// a short one, and reads no more. Its counts are those of the thread, and the pages
// before it complete it.
func TestTheEndOfALongThread(t *testing.T) {
	t.Parallel()
	d, whole := newDriver(t)
	short, long := d.imported("brief", 100), d.imported("ample", 2500)
	d.send("brief", "m1", memory.Queue)
	d.send("ample", "m1", memory.Queue)
	c := spool.NewClient(parts{d.store, t}, nil, spool.ClientOptions{UserID: "ada"})
	size := func(id string) int {
		v, err := c.ShowWith(t.Context(), id, spool.ShowOptions{Last: 80, Cursor: true})
		require.NoError(t, err)
		assert.Len(t, v.Messages, 80)
		assert.Len(t, v.ToolCalls, 20)
		assert.Len(t, v.Inbox, 1)
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		return len(raw)
	}
	a, b := size(short), size(long)
	t.Logf("%d bytes of a thread of 400 messages, %d of one of 10,000", a, b)
	assert.InEpsilon(t, a, b, 0.05) // numbers have more digits there
	assert.Less(t, b, 64<<10)

	all, err := whole.Show(t.Context(), long, false)
	require.NoError(t, err)
	require.EqualValues(t, 10_000, all.Thread.MessageCount)
	require.EqualValues(t, 2500, all.Thread.ToolCallCount)
	v, err := c.ShowWith(t.Context(), long, spool.ShowOptions{Last: 82}) // begins with a result
	require.NoError(t, err)
	assert.Len(t, v.ToolCalls, 21)
	assert.Equal(t, all.Thread, v.Thread)
	for len(v.Messages) < len(all.Messages) {
		before := v.Messages[0].Seq
		after := max(0, before-101)
		p, err := c.MessagePage(t.Context(), long, after, int(before-1-after))
		require.NoError(t, err)
		v.Messages = append(p.Messages, v.Messages...)
		if p.ToolCalls[len(p.ToolCalls)-1].ID == v.ToolCalls[0].ID { // it stands on both pages
			p.ToolCalls = p.ToolCalls[:len(p.ToolCalls)-1]
		}
		v.ToolCalls = append(p.ToolCalls, v.ToolCalls...)
	}
	assert.Equal(t, all.Messages, v.Messages)
	assert.Equal(t, all.ToolCalls, v.ToolCalls)
}

// What is open belongs to the view of a thread's end however long ago it began, and
// messages have the ids of their senders in it.
func TestTheEndOfAThreadHasWhatIsOpen(t *testing.T) {
	t.Parallel()
	d, whole := newDriver(t)
	d.send("s", "m0", memory.Queue)
	turn := d.take("s/default")
	call := d.save(turn, 1, d.stream(turn, 1, "", ""), "", "", agent.NewCall("x", "assign_task", `{"agent":"researcher","task":"look","background":true}`))[0]
	del, err := d.store.OpenDelegation(t.Context(), memory.DelegationRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: call.ID, Task: "look", Background: true,
		Limits: memory.DelegationLimits{MaxDepth: 3, MaxFanOut: 8, MaxDescendants: 10}, Config: agent.SpecialistAgentConfig{Name: "researcher"}})
	require.NoError(t, err)
	require.False(t, del.Refused, del.Refusal)
	now, err := d.store.ToolCall(t.Context(), call.ID)
	require.NoError(t, err)
	if !now.Status.Final() {
		d.check(d.store.SaveResult(t.Context(), memory.ToolOutcome{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: call.ID, Attempt: now.Attempts, Result: agent.ToolOK("started")}))
	}
	d.round(turn, 1)
	d.save(turn, 2, d.stream(turn, 2, "", "on its way"), "", "on its way")
	d.end(turn, 2, agent.ThreadCompleted)
	for i := range 30 {
		d.conversationTurn("s", fmt.Sprintf("m%d", i+1))
	}
	d.send("s", "last", memory.Queue)
	turn = d.take("s/default")
	d.send("s", "steered", memory.Steer)
	waiting := d.save(turn, 1, d.stream(turn, 1, "", ""), "", "", agent.NewCall("y", "ls", "{}"))[0]

	all, err := whole.Show(t.Context(), "s/default", false)
	require.NoError(t, err)
	c := spool.NewClient(parts{d.store, t}, nil, spool.ClientOptions{UserID: "ada"})
	v, err := c.ShowWith(t.Context(), "s/default", spool.ShowOptions{Last: 10})
	require.NoError(t, err)
	assert.Equal(t, all.Messages[len(all.Messages)-10:], v.Messages)
	assert.Equal(t, "last steered", v.Messages[8].MessageID+" "+v.Messages[9].MessageID)
	assert.Equal(t, all.Inbox, v.Inbox)
	assert.Equal(t, all.Pending, v.Pending)
	require.NotNil(t, v.Pending)
	var calls []string
	for _, k := range v.ToolCalls {
		calls = append(calls, k.ID)
	}
	assert.Equal(t, []string{call.ID, waiting.ID}, calls)
	require.Len(t, v.Tasks, 2)
	assert.Equal(t, all.Tasks, v.Tasks)
}

// conversationTurn is a turn of a question and an answer.
func (d *driver) conversationTurn(session, id string) {
	d.send(session, id, memory.Queue)
	turn := d.take(session + "/default")
	d.save(turn, 1, d.stream(turn, 1, "", "yes"), "", "yes")
	d.end(turn, 1, agent.ThreadCompleted)
}

// Threads in which nothing happens are not read while others work, however many are
// followed: one reading says of all of them that they are as they were. What then
// happens in one is told.
func TestIdleThreadsAreNotReadForOthers(t *testing.T) {
	t.Parallel()
	d, _ := newDriver(t)
	store := &counting{ConversationMemoryStore: d.store, busy: "busy/default"}
	c := spool.NewClient(store, nil, spool.ClientOptions{UserID: "ada"})
	const n = 100
	told := make(chan string, 1000)
	for i := range n {
		d.conversationTurn(fmt.Sprintf("idle%d", i), "m1")
	}
	d.send("busy", "m1", memory.Queue)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range n {
		id := fmt.Sprintf("idle%d/default", i)
		from, err := c.Tail(ctx, id)
		require.NoError(t, err)
		go func() {
			_ = c.Follow(ctx, id, from, spool.FollowOptions{}, func(u spool.Update) error { told <- id; return nil })
		}()
	}
	go func() {
		_ = c.Follow(ctx, "busy/default", "", spool.FollowOptions{}, func(spool.Update) error { return nil })
	}()
	// All have read their thread once with its mark when a look that tells
	// everybody to read leads to no reading.
	for read := int64(-1); read != store.others.Load() || read < n; time.Sleep(lookAnyway * 3 / 2) {
		read = store.others.Load()
	}
	before, marks, at := store.others.Load(), store.marks.Load(), time.Now()
	d.pause = 3 * time.Millisecond
	turn := d.take("busy/default")
	for step := 1; step <= 10; step++ {
		a := d.stream(turn, step, "", longText)
		d.tools(d.save(turn, step, a, "", longText, agent.NewCall("x", "ls", "{}"))...)
		d.round(turn, step)
	}
	assert.Zero(t, store.others.Load()-before, "readings of idle threads")
	assert.LessOrEqual(t, store.marks.Load()-marks, int64(time.Since(at)/(15*time.Millisecond))+2, "one for all")
	require.Empty(t, told)
	for _, i := range []int{3, 77} {
		d.send(fmt.Sprintf("idle%d", i), "m2", memory.Queue)
		d.take(fmt.Sprintf("idle%d/default", i))
	}
	var who []string
	for range 4 { // message_started and memory_appended each
		who = append(who, <-told)
	}
	slices.Sort(who)
	assert.Equal(t, []string{"idle3/default", "idle3/default", "idle77/default", "idle77/default"}, who)
}

const lookAnyway = time.Second
