package starter

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/memory"
)

func TestChatOffersAnOpenApproval(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ap, turn := b.asking("s1")
	d := sit(t)
	d.start(b, "chat", "-s", "s1")
	d.sees("orchestrator wants to run:")
	d.sees("(Enter leaves it open)")
	d.sees(anyAnswer)
	d.types("\r")
	d.sees("> ")
	assert.Empty(t, decision(b, ap.ID), "it was left open on purpose")
	d.types("\x04")
	d.ends(exit.Done)

	d = sit(t)
	d.start(b, "chat", "-s", "s1")
	d.sees(anyAnswer)
	d.types("y\r")
	d.sees("a turn is running")
	assert.Equal(t, memory.Approve, decision(b, ap.ID))
	b.finish(turn, 1, agent.ThreadCancelled)
	d.sees("> ")
	d.types("\x04")
	d.ends(exit.Done)
}

func TestChatFollowsTheTurnThatRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	qs, turn := b.questioning("s1", "which colour?")
	d := sit(t)
	d.start(b, "chat", "-s", "s1")
	d.sees("which colour?")
	d.sees("(Enter leaves it open): ")
	d.types("blue\r")
	d.sees("a turn is running")
	assert.Equal(t, "blue", answerOf(b, qs[0].ID))
	b.round(turn, 1)
	b.reply(turn, 2, "it is painted", agent.GateAuto)
	b.finish(turn, 2, agent.ThreadCompleted)
	d.sees("it is painted")
	d.sees("> ")
	d.types("\x04")
	d.ends(exit.Done)
}

// late is a store in which a second question is asked while the first is shown.
type late struct {
	chat.Conversations
	open []spool.QuestionRequest
}

func (l *late) reply(n int) spool.Reply {
	return spool.Reply{ThreadID: "s1/default", TurnID: "t1", Status: string(agent.ThreadWaitingForUser), Questions: l.open[:n]}
}

func (l *late) Wait(context.Context, string, string, spool.WaitOptions) (spool.Reply, error) {
	return l.reply(1), nil
}

func (l *late) Status(context.Context, string, string) (spool.Reply, error) { return l.reply(2), nil }

func (l *late) Follow(context.Context, string, string, spool.FollowOptions, func(spool.Update) error) error {
	return nil
}

func TestAReportNamesWhatWasAskedUntilItsReturn(t *testing.T) {
	talk := &chat.Talk{Person: &chat.Person{}, C: &late{open: []spool.QuestionRequest{{QuestionID: "q1"}, {QuestionID: "q2"}}}}
	r, err := talk.Until(t.Context(), spool.Reply{ThreadID: "s1/default", TurnID: "t1"}, nil)
	require.NoError(t, err)
	assert.Len(t, r.Questions, 2)
}

func TestEditReadsStdin(t *testing.T) {
	b := newBench(t)
	ap, _ := b.askingFor("s1", "shell", `{"command":"rm"}`)
	assert.Equal(t, exit.Usage, b.feed("\n", "edit", ap.ID, "-").code)
	assert.Equal(t, exit.Usage, b.run("edit", ap.ID, " ").code)
	r := b.feed("list them first\n", "edit", ap.ID, "-")
	assert.Equal(t, exit.Unavailable, r.code, r.errout)
	calls, err := b.store.ToolCalls(t.Context(), "s1/default")
	require.NoError(t, err)
	assert.Contains(t, calls[0].Result, "list them first")
}

func TestACancelThatCameTooLateIsAConflict(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		session string
		outcome agent.ThreadStatus
		code    int
	}{{"late", agent.ThreadCompleted, exit.Conflict}, {"took", agent.ThreadCancelled, exit.Done}} {
		b.send(c.session, "m1", "do it")
		turn := b.take(c.session + "/default")
		b.reply(turn, 1, "done", agent.GateAuto)
		_, err := b.store.RequestCancel(t.Context(), memory.CancelRequest{UserID: owner, ThreadID: turn.ThreadID, By: owner})
		require.NoError(t, err)
		b.finish(turn, 1, c.outcome)
		r := b.run("cancel", turn.ThreadID)
		assert.Equal(t, c.code, r.code, r.errout)
	}
}

func TestFollowingFromBeyondTheEndIsRefused(t *testing.T) {
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi")
	r := b.run("show", "--follow", "--from", "99999", "s1/default")
	assert.Equal(t, exit.Usage, r.code)
	assert.Regexp(t, `cursor 99999 is not of this thread: s1/default has \d+ events`, r.errout)
}

// onWrite is called when something is written.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) { f(); return len(p), nil }

func TestAFollowerThatIsStoppedSaysNothing(t *testing.T) {
	b := newBench(t)
	b.send("s1", "m1", "do it")
	b.take("s1/default")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var errout strings.Builder
	code := Run(ctx, []string{"show", "--follow", "--json", "s1/default"}, b.env(), strings.NewReader(""), onWrite(stop), &errout)
	assert.Equal(t, exit.Interrupted, code)
	assert.NotContains(t, errout.String(), "canceled")
}

func TestAForkAtAnAnswerSaysWhatBecameOfTheMessage(t *testing.T) {
	b := newBench(t)
	qs, _ := b.questioning("s1", "which colour?")
	b.run("send", "--detach", "-s", "s1", "--message-id", "m2", "blue")
	r := b.run("fork", "--at", "m2", "s1/default")
	assert.Equal(t, exit.Usage, r.code)
	assert.Contains(t, r.errout, "it became the answer to question "+qs[0].ID)
}
