package starter

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/memory"
)

// full is a writer like /dev/full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi")
	for _, line := range []string{"threads", "threads --json", "show s1/default", "show --follow s1/default", "send -s s1 --message-id m1 hello", "--help", "agents"} {
		var errout bytes.Buffer
		code := Run(t.Context(), strings.Fields(line), b.env(), strings.NewReader(""), full{}, &errout)
		assert.Equal(t, exit.Failed, code, line)
		assert.Contains(t, errout.String(), "no space left on device", line)
	}
}

func TestAnUnknownAgentIsWarnedOf(t *testing.T) {
	b := newBench(t)
	r := b.run("send", "--json", "-s", "s1", "--agent", "nobody", "hi")
	assert.Equal(t, exit.Unavailable, r.code)
	assert.Contains(t, r.errout, "warning: there is no agent nobody here")
	assert.Contains(t, r.errout, "if it knows none either, the turn fails")
	assert.NotContains(t, b.run("send", "-s", "s1", "--agent", "researcher", "hi").errout, "warning")
	assert.Contains(t, b.feed("", "chat", "-s", "s2", "--agent", "nobody").errout, "warning: there is no agent nobody here")
}

func TestThreadsSayWhyThereAreNone(t *testing.T) {
	b := newBench(t)
	assert.Contains(t, b.run("threads").errout, "there are no threads here yet")
	r := b.run("threads", "-s", "none")
	assert.Equal(t, exit.Done, r.code)
	assert.Equal(t, "session none has no threads here\n", r.errout)
}

func TestAParentShowsWhoWaitsForAPerson(t *testing.T) {
	b := newBench(t)
	b.send("s1", "m1", "do it")
	sub := b.below(b.take("s1/default"), false)
	assert.Regexp(t, `^s1/default +running +20\d\d-`, b.run("threads").out)
	b.reply(sub, 1, "", agent.GateAsk, newCalls("shell")...)
	_, err := b.store.OpenApproval(t.Context(), memory.RoundRequest{ThreadID: sub.ThreadID, TurnID: sub.ID, Step: 1})
	require.NoError(t, err)
	const want = "running (general waits for approval)"
	assert.Contains(t, b.run("threads").out, want)
	assert.Contains(t, b.run("show", "s1/default").out, "status   "+want)
	assert.Contains(t, b.run("show", sub.ThreadID).out, "status   waiting_for_approval")
}

// A cancel says what goes on and how to stop that; with --all, what it stopped.
// Repeated, it says who was first.
func TestCancelSaysWhatItLeavesAndWhatItStops(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.send("s1", "m1", "do it")
	turn := b.take("s1/default")
	b.below(turn, true)
	b.send("s1", "m2", "and this")
	r := b.run("cancel", "s1/default")
	assert.Contains(t, r.errout, "1 sub-agent goes on in the background; stop with: starter cancel s1/default --all\n")
	r = b.run("cancel", "--all", "s1/default")
	assert.Equal(t, "s1/default stored, 1 waiting message dropped, 1 background sub-agent stopped\n", r.out)
	assert.NotContains(t, r.errout, "goes on")
	b.finish(turn, 2, agent.ThreadCancelled)
	for _, args := range [][]string{{"cancel", "s1/default"}, {"cancel", "--all", "s1/default"}} {
		r = b.run(args...)
		assert.Equal(t, exit.Done, r.code, r.errout)
		assert.Regexp(t, `^s1/default cancelled already \(by `+owner+` at 20\d\d-.*Z\)`, r.out)
	}
}

// Whoever sent a message finds it by the id that send gave.
func TestShowNamesTheSendersIds(t *testing.T) {
	b := newBench(t)
	id := b.run("send", "--json", "-s", "s1", "hello").json(t)["messageId"]
	turn := b.take("s1/default")
	b.reply(turn, 1, "hi", agent.GateAuto)
	b.finish(turn, 1, agent.ThreadCompleted)
	messages := b.run("show", "--json", "s1/default").json(t)["messages"].([]any)
	assert.Equal(t, id, messages[0].(map[string]any)["messageId"])
	assert.Equal(t, turn.ID+".0", messages[0].(map[string]any)["id"])
	assert.NotContains(t, messages[1], "messageId")
}

func TestNULIsShownAlikeEverywhere(t *testing.T) {
	b := newBench(t)
	b.answered("s1", "m1", "a\x00b", "hi")
	assert.Contains(t, b.run("threads").out, "a\uFFFDb")
	assert.Contains(t, b.run("show", "s1/default").out, "a\uFFFDb")
}

func TestProgramName(t *testing.T) {
	for arg0, want := range map[string]string{
		"bin/starter": "bin/starter", "./starter": "./starter", "spool": "spool", "/opt/my tools/spool": "'/opt/my tools/spool'",
		"/tmp/go-build123/b001/exe/starter": "go run ./starter", "/tmp/x/starter.test": "starter", "": "starter",
	} {
		assert.Equal(t, want, programName(arg0))
	}
}
