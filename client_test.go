package spool_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func TestSendStoresWithoutTemporal(t *testing.T) {
	d, c := newDriver(t)
	r, err := c.Send(t.Context(), memory.SendRequest{Content: agent.Text("hi")})
	require.NoError(t, err)
	assert.Equal(t, spool.StatusStored, r.Status)
	assert.Contains(t, r.Note, "the same id is safe")
	assert.Regexp(t, `^[0-9a-f-]{36}/default$`, r.ThreadID)
	again, err := c.Send(t.Context(), memory.SendRequest{ThreadID: r.ThreadID, MessageID: r.MessageID, Content: agent.Text("hi")})
	require.NoError(t, err)
	assert.Equal(t, r.TurnID, again.TurnID)
	assert.True(t, again.Repeated)
	inbox, err := d.store.Inbox(t.Context(), r.ThreadID)
	require.NoError(t, err)
	assert.Len(t, inbox, 1)
	assert.Equal(t, "ada", must(t)(c.Threads(t.Context(), memory.ThreadFilter{}))[0].UserID)

	for _, bad := range []memory.SendRequest{
		{SessionID: "a/b"}, {SessionID: "a", ConversationID: ".."}, {ThreadID: "x"}, {ThreadID: "a/b", SessionID: "a"}, {SessionID: "a", WhenBusy: "later"},
	} {
		bad.Content = agent.Text("hi")
		_, err := c.Send(t.Context(), bad)
		assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%+v", bad)
	}
}

func must(t *testing.T) func([]agent.Thread, error) []agent.Thread {
	return func(l []agent.Thread, err error) []agent.Thread {
		t.Helper()
		require.NoError(t, err)
		return l
	}
}

func TestWaitReturnsWhenTheTurnIsClosed(t *testing.T) {
	d, c := newDriver(t)
	sent, err := c.Send(t.Context(), memory.SendRequest{SessionID: "s", Content: agent.Text("hi")})
	require.NoError(t, err)
	type outcome struct {
		r   spool.Reply
		err error
	}
	got := make(chan outcome, 1)
	go func() {
		r, err := c.Wait(context.Background(), sent.ThreadID, sent.TurnID, spool.WaitOptions{})
		got <- outcome{r, err}
	}()
	turn := d.take(sent.ThreadID)
	a := d.stream(turn, 1, "", "hello")
	d.save(turn, 1, a, "", "hello")
	select {
	case <-got:
		t.Fatal("the turn is not closed yet")
	case <-time.After(60 * time.Millisecond):
	}
	d.end(turn, 1, agent.ThreadCompleted)
	o := <-got
	require.NoError(t, o.err)
	assert.Equal(t, "completed", o.r.Status)
	assert.Equal(t, "hello", o.r.Response)
	assert.Equal(t, sent.MessageID, o.r.MessageID)
}

func TestWaitFollowsASteeredMessageIntoItsTurn(t *testing.T) {
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	sent, err := c.Send(t.Context(), memory.SendRequest{SessionID: "s", Content: agent.Text("mind this"), WhenBusy: memory.Steer})
	require.NoError(t, err)
	a := d.stream(turn, 1, "", "minded")
	d.save(turn, 1, a, "", "minded")
	d.end(turn, 1, agent.ThreadCompleted)
	r, err := c.Wait(t.Context(), sent.ThreadID, sent.TurnID, spool.WaitOptions{})
	require.NoError(t, err)
	assert.Equal(t, "completed", r.Status)
	assert.Equal(t, "minded", r.Response)
	assert.Equal(t, sent.TurnID, r.TurnID)
}

func TestWaitTellsOfADroppedMessage(t *testing.T) {
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	d.take("s/default")
	sent, err := c.Send(t.Context(), memory.SendRequest{SessionID: "s", Content: agent.Text("later"), WhenBusy: memory.Queue})
	require.NoError(t, err)
	_, err = d.store.RequestCancel(t.Context(), memory.CancelRequest{ThreadID: "s/default", All: true, By: "ada"})
	require.NoError(t, err)
	r, err := c.Wait(t.Context(), sent.ThreadID, sent.TurnID, spool.WaitOptions{})
	require.NoError(t, err)
	assert.Equal(t, spool.StatusDropped, r.Status)
	_, err = c.Wait(t.Context(), "s/default", "t0000000000000000", spool.WaitOptions{})
	assert.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

// asks makes a turn ask for approval of one call.
func (d *driver) asks(turn *memory.Turn) memory.Approval {
	a := d.stream(turn, 1, "", "")
	_, err := d.store.SaveReply(context.Background(), memory.ReplyRecord{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1, Attempt: a,
		Reply: agent.ModelReply{Calls: []agent.Call{agent.NewCall("x", "shell", "{}")}}, Gates: []agent.Gate{agent.GateAsk}, Delegations: []bool{false}})
	d.check(err)
	ap, err := d.store.OpenApproval(context.Background(), memory.RoundRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1})
	d.check(err)
	return ap
}

func TestWaitReturnsWhenAPersonIsNeeded(t *testing.T) {
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	ap := d.asks(turn)

	r, err := c.Wait(t.Context(), "s/default", turn.ID, spool.WaitOptions{})
	require.NoError(t, err)
	assert.Equal(t, "waiting_for_approval", r.Status)
	require.Len(t, r.Pending, 1)
	assert.Equal(t, ap.ID, r.Pending[0].ApprovalID)

	queued, err := c.Send(t.Context(), memory.SendRequest{SessionID: "s", Content: agent.Text("later"), WhenBusy: memory.Queue})
	require.NoError(t, err)
	r, err = c.Wait(t.Context(), queued.ThreadID, queued.TurnID, spool.WaitOptions{})
	require.NoError(t, err)
	assert.Equal(t, "waiting_for_approval", r.Status, "the turn before it waits for a person")

	_, err = c.Send(t.Context(), memory.SendRequest{SessionID: "s", Content: agent.Text("well?")})
	assert.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	var pending *spool.PendingError
	require.True(t, errors.As(err, &pending))
	assert.Equal(t, ap.ID, pending.Pending[0].ApprovalID)

	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Millisecond)
	defer cancel()
	_, err = c.Wait(ctx, "s/default", turn.ID, spool.WaitOptions{Patient: true})
	assert.ErrorIs(t, err, context.DeadlineExceeded)

	done, err := c.Decide(t.Context(), memory.Decision{Target: ap.ID, Verdict: memory.Approve})
	require.NoError(t, err)
	assert.True(t, done.Stored, "saved, but Temporal could not be told")
	assert.Equal(t, "ada", done.Approval.DecidedBy)
}

// questions makes a turn ask.
func (d *driver) questions(turn *memory.Turn, texts ...string) []memory.Question {
	var calls []agent.Call
	for range texts {
		calls = append(calls, agent.NewCall("x", agent.ToolAskUser, "{}"))
	}
	a := d.stream(turn, 1, "", "")
	var out []memory.Question
	for i, c := range d.save(turn, 1, a, "", "", calls...) {
		q, err := d.store.OpenQuestion(context.Background(), memory.QuestionRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: c.ID, Text: texts[i]})
		d.check(err)
		out = append(out, q)
	}
	return out
}

func TestQuestionsAndAnswers(t *testing.T) {
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	qs := d.questions(turn, "a?", "b?")

	r, err := c.Wait(t.Context(), "s/default", turn.ID, spool.WaitOptions{})
	require.NoError(t, err)
	assert.Equal(t, "waiting_for_user", r.Status)
	require.Len(t, r.Questions, 2)
	assert.Equal(t, []string{qs[0].ID, "a?"}, []string{r.Questions[0].QuestionID, r.Questions[0].Text})
	_, err = c.Send(t.Context(), memory.SendRequest{SessionID: "s", Content: agent.Text("well?")})
	var pending *spool.PendingError
	require.ErrorAs(t, err, &pending)
	assert.Len(t, pending.Questions, 2)
	assert.Empty(t, pending.Pending)

	done, err := c.Answer(t.Context(), memory.AnswerRequest{Target: qs[1].ID, Text: "for b"})
	require.NoError(t, err)
	assert.True(t, done.Stored, "saved, but Temporal could not be told")
	assert.Equal(t, "ada", done.Question.AnsweredBy)
	sent, err := c.Send(t.Context(), memory.SendRequest{SessionID: "s", MessageID: "m2", Content: agent.Text("for a")})
	require.NoError(t, err)
	assert.Equal(t, []string{qs[0].ID, turn.ID, spool.StatusStored}, []string{sent.Answered.QuestionID, sent.TurnID, sent.Status})
	open, err := c.Questions(t.Context(), "")
	require.NoError(t, err)
	assert.Empty(t, open)
	view, err := c.Show(t.Context(), "s/default", false)
	require.NoError(t, err)
	assert.Equal(t, []string{"for a", "for b"}, []string{view.ToolCalls[0].Result, view.ToolCalls[1].Result})
}

func TestPendingLeavesBackgroundSubAgentsOut(t *testing.T) {
	d, c := newDriver(t)
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	a := d.stream(turn, 1, "", "")
	calls := d.save(turn, 1, a, "", "", agent.NewCall("x", "assign_task", "{}"), agent.NewCall("y", "assign_task", "{}"))
	var children []*memory.Turn
	for i, background := range []bool{true, false} {
		del, err := d.store.OpenDelegation(t.Context(), memory.DelegationRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: calls[i].ID,
			Config: agent.SpecialistAgentConfig{Name: "general"}, Task: "t", Background: background, Limits: memory.DelegationLimits{MaxDepth: 3}})
		require.NoError(t, err)
		children = append(children, d.take(del.ChildThread))
	}
	d.asks(children[0])
	r, err := c.Status(t.Context(), "s/default", turn.ID)
	require.NoError(t, err)
	assert.Equal(t, "running", r.Status, "a background sub-agent's question does not hold up the turn")
	ap := d.asks(children[1])
	r, err = c.Status(t.Context(), "s/default", turn.ID)
	require.NoError(t, err)
	assert.Equal(t, "waiting_for_approval", r.Status)
	require.Len(t, r.Pending, 1)
	assert.Equal(t, ap.ID, r.Pending[0].ApprovalID)
	assert.Equal(t, "general", r.Pending[0].Agent)
	all, err := c.Approvals(t.Context(), "s/default")
	require.NoError(t, err)
	assert.Len(t, all, 2)
}

// Row 37: neither another user nor another profile of the same one finds a
// thread on any path.
func TestRow37_OthersThreadsAreNotFound(t *testing.T) {
	d, _ := newDriver(t)
	d.send("s", "m1", memory.Queue)
	turn := d.take("s/default")
	d.asks(turn)
	approvals, err := d.store.Approvals(t.Context(), memory.ApprovalFilter{})
	require.NoError(t, err)
	d.send("s2", "m1", memory.Queue)
	question := d.questions(d.take("s2/default"), "a?")[0]
	for who, o := range map[string]spool.ClientOptions{"user": {UserID: "eve"}, "profile": {UserID: "ada", Profile: "work"}} {
		eve := spool.NewClient(d.store, nil, o)
		for name, try := range map[string]func() error{
			"show":      func() error { _, err := eve.Show(t.Context(), "s/default", false); return err },
			"trace":     func() error { _, err := eve.Trace(t.Context(), "s/default"); return err },
			"tasks":     func() error { _, err := eve.Tasks(t.Context(), "s/default"); return err },
			"follow":    func() error { return eve.Follow(t.Context(), "s/default", "", spool.FollowOptions{}, nil) },
			"approvals": func() error { _, err := eve.Approvals(t.Context(), "s/default"); return err },
			"history":   func() error { _, err := eve.History(t.Context(), "s/default", ""); return err },
			"retry":     func() error { _, err := eve.Retry(t.Context(), "s/default", ""); return err },
			"status":    func() error { _, err := eve.Status(t.Context(), "s/default", turn.ID); return err },
			"wait":      func() error { _, err := eve.Wait(t.Context(), "s/default", turn.ID, spool.WaitOptions{}); return err },
			"cancel": func() error {
				_, err := eve.Cancel(t.Context(), memory.CancelRequest{ThreadID: "s/default"})
				return err
			},
			"decide": func() error {
				_, err := eve.Decide(t.Context(), memory.Decision{Target: approvals[0].ID, Verdict: memory.Approve})
				return err
			},
			"decide a call": func() error {
				_, err := eve.Decide(t.Context(), memory.Decision{Target: approvals[0].ToolCalls[0].ID, Verdict: memory.Deny})
				return err
			},
			"questions": func() error { _, err := eve.Questions(t.Context(), "s2/default"); return err },
			"answer": func() error {
				_, err := eve.Answer(t.Context(), memory.AnswerRequest{Target: question.ID, Text: "x"})
				return err
			},
			"answer a call": func() error {
				_, err := eve.Answer(t.Context(), memory.AnswerRequest{Target: question.CallID, Text: "x"})
				return err
			},
			"answer by a message": func() error {
				_, err := eve.Send(t.Context(), memory.SendRequest{SessionID: "s2", Content: agent.Text("x")})
				return err
			},
			"send to the thread": func() error {
				_, err := eve.Send(t.Context(), memory.SendRequest{ThreadID: "s/default", Content: agent.Text("x"), WhenBusy: memory.Queue})
				return err
			},
			"send to the session": func() error {
				_, err := eve.Send(t.Context(), memory.SendRequest{SessionID: "s", Content: agent.Text("x"), WhenBusy: memory.Queue})
				return err
			},
			"a new conversation": func() error {
				_, err := eve.Send(t.Context(), memory.SendRequest{SessionID: "s", ConversationID: "mine", Content: agent.Text("x"), WhenBusy: memory.Queue})
				return err
			},
		} {
			want := agent.CodeNotFound
			if name == "send to the session" || name == "a new conversation" || name == "answer by a message" {
				want = agent.CodeConflict
			}
			t.Run(who+" "+name, func(t *testing.T) { assert.Equal(t, want, agent.CodeOf(try())) })
		}
		list, err := eve.Threads(t.Context(), memory.ThreadFilter{All: true})
		require.NoError(t, err)
		assert.Empty(t, list)
		open, err := eve.Approvals(t.Context(), "")
		require.NoError(t, err)
		assert.Empty(t, open)
		asked, err := eve.Questions(t.Context(), "")
		require.NoError(t, err)
		assert.Empty(t, asked)
		// A thread of one's own does not lend its name to another's turn.
		mine, err := eve.Send(t.Context(), memory.SendRequest{SessionID: "of-" + who, Content: agent.Text("x")})
		require.NoError(t, err)
		_, err = eve.Status(t.Context(), mine.ThreadID, turn.ID)
		assert.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	}
}

func TestOpenStoreNamesWhatItSupports(t *testing.T) {
	for _, spec := range []string{"mysql://h/db", "file:", "memory", "memory:x", "", "sqlite:", "/a/path"} {
		store, err := spool.OpenStore(t.Context(), spec)
		assert.Nil(t, store)
		assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err), spec)
		assert.ErrorContains(t, err, "sqlite:PATH")
	}
	dir := t.TempDir()
	for spec, want := range map[string]string{"file:" + dir + "?prefix=chat": "chat_", "sqlite:" + dir + "/spool.db": "spool.db", "memory:": ""} {
		store, err := spool.OpenStore(t.Context(), spec)
		require.NoError(t, err)
		_, err = store.Send(t.Context(), memory.SendRequest{UserID: "u", SessionID: "s", MessageID: "m", Content: agent.Text("hi")})
		require.NoError(t, err)
		require.NoError(t, store.Close())
		found, err := filepath.Glob(filepath.Join(dir, want+"*"))
		require.NoError(t, err)
		assert.True(t, want == "" || len(found) > 0, spec)
	}
}

func TestOpenStoreHidesThePassword(t *testing.T) {
	for _, spec := range []string{"postgres://u:hush@127.0.0.1:1/db", "postgresql://u:hush@127.0.0.1:1/db?sslmode=disable"} {
		store, err := spool.OpenStore(t.Context(), spec)
		assert.Nil(t, store)
		assert.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), spec)
		assert.ErrorContains(t, err, "127.0.0.1:1")
		assert.NotContains(t, err.Error(), "hush")
	}
}

func TestWorkflowURL(t *testing.T) {
	d, _ := newDriver(t)
	c := spool.NewClient(d.store, nil, spool.ClientOptions{UI: "http://ui/", Namespace: "a b"})
	assert.Equal(t, "http://ui/namespaces/a%20b/workflows/s%2Fdefault", c.WorkflowURL("s/default"))
	assert.Equal(t, "http://ui/namespaces/a%20b/workflows/agent:x:y", c.WorkflowURL("agent:x:y"))
	assert.Empty(t, spool.NewClient(d.store, nil, spool.ClientOptions{}).WorkflowURL("s/default"))
}
