package starter

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/llm/llmtest"
	"github.com/spool-agents/spool/memory"
)

// questioning makes a turn that waits for answers.
func (b *bench) questioning(session string, texts ...string) ([]memory.Question, *memory.Turn) {
	b.t.Helper()
	b.send(session, "m1", "do it")
	turn := b.take(session + "/default")
	return b.question(turn, texts...), turn
}

// question opens a step of a turn that asks.
func (b *bench) question(turn *memory.Turn, texts ...string) []memory.Question {
	b.t.Helper()
	var calls []agent.Call
	for _, text := range texts {
		calls = append(calls, agent.NewCall("x", agent.ToolAskUser, strings.TrimPrefix(llmtest.Ask(text), "call ask_user ")))
	}
	var out []memory.Question
	for i, c := range b.reply(turn, 1, "", agent.GateAuto, calls...).Calls {
		q, err := b.store.OpenQuestion(b.t.Context(), memory.QuestionRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: c.ID, Text: texts[i]})
		require.NoError(b.t, err)
		out = append(out, q)
	}
	return out
}

func answerOf(b *bench, id string) string {
	b.t.Helper()
	list, err := b.store.Questions(b.t.Context(), memory.QuestionFilter{ID: id})
	require.NoError(b.t, err)
	require.Len(b.t, list, 1)
	return list[0].Answer
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	assert.Contains(t, b.run("questions").errout, "no question waits")
	qs, turn := b.questioning("s1", "which \x1b[2Jcolour?\nred or blue", "how many?")

	r := b.run("send", "--json", "-s", "s1", "--message-id", "m1", "do it")
	assert.Equal(t, exit.Waiting, r.code, r.errout)
	doc := r.json(t)
	assert.Equal(t, "waiting_for_user", doc["status"])
	assert.Equal(t, qs[0].ID, doc["questions"].([]any)[0].(map[string]any)["questionId"])
	r = b.run("send", "-s", "s1", "--message-id", "m1", "do it")
	assert.Equal(t, exit.Waiting, r.code)
	assert.Contains(t, r.errout, "waiting for an answer; answer them with starter answer QUESTION TEXT")
	assert.NotContains(t, r.errout, "\x1b")

	r = b.run("send", "--json", "-s", "s1", "blue")
	assert.Equal(t, exit.Conflict, r.code, "it could be the answer to either")
	assert.Len(t, r.json(t)["error"].(map[string]any)["questions"], 2)
	assert.Contains(t, r.errout, qs[1].ID)
	assert.Contains(t, r.errout, "--when-busy queue")

	list := b.run("questions", "--json", "s1/default").json(t)["questions"].([]any)
	require.Len(t, list, 2)
	shown := list[1].(map[string]any)
	assert.Equal(t, []any{qs[1].ID, turn.ThreadID, "orchestrator", "how many?"}, []any{shown["questionId"], shown["threadId"], shown["agent"], shown["text"]})
	text := b.run("questions")
	assert.Contains(t, text.out, "red or blue")
	assert.NotContains(t, text.out, "\x1b")

	assert.Equal(t, exit.NotFound, b.run("answer", "nothing", "x").code)
	assert.Equal(t, exit.Usage, b.run("answer", qs[0].ID, " ").code)
	r = b.feed("blue\n", "answer", "--json", qs[0].ID, "-")
	assert.Equal(t, exit.Unavailable, r.code, "saved, but nobody could be told")
	assert.Contains(t, r.errout, "the answer is saved")
	assert.Equal(t, "answered", r.json(t)["question"].(map[string]any)["state"])
	assert.Equal(t, "blue", answerOf(b, qs[0].ID))
	r = b.run("answer", qs[0].ID, "red")
	assert.Equal(t, exit.Conflict, r.code)
	assert.Contains(t, r.errout, owner, "says who answered")

	r = b.run("send", "-s", "s1", "--message-id", "m2", "seven")
	assert.Equal(t, exit.Unavailable, r.code, r.errout)
	assert.Contains(t, r.errout, "this answered question "+qs[1].ID+" of orchestrator: how many?")
	assert.Equal(t, "seven", answerOf(b, qs[1].ID))
	again := b.run("send", "--json", "-s", "s1", "--message-id", "m2", "seven").json(t)
	assert.Equal(t, qs[1].ID, again["answered"].(map[string]any)["questionId"])
	assert.Equal(t, true, again["repeated"])
	assert.Equal(t, exit.Conflict, b.run("send", "-s", "s1", "--message-id", "m2", "eight").code)
}

func TestAParentShowsWhatItsSubAgentAsks(t *testing.T) {
	b := newBench(t)
	b.send("s1", "m1", "do it")
	sub := b.below(b.take("s1/default"), false)
	q := b.question(sub, "which folder?")[0]
	const want = "running (general waits for an answer)"
	assert.Contains(t, b.run("threads").out, want)
	shown := b.run("show", "s1/default").out
	assert.Contains(t, shown, "status   "+want)
	assert.Contains(t, shown, "questions\n  "+q.ID+"  general  "+sub.ThreadID+"\n    task: count the files\n    which folder?")
	assert.Contains(t, b.run("show", sub.ThreadID).out, "status   waiting_for_user")
	assert.Regexp(t, `waiting +agent:general +`+sub.ThreadID+` +count the files\n  \? `+q.ID+`: which folder\?`, b.run("tasks", "s1/default").out)
	trace := b.run("trace", "s1/default")
	assert.Contains(t, trace.out, "waiting_for_user")
	assert.Contains(t, trace.out, "? "+q.ID+": which folder?")
	nodes := b.run("trace", "--json", "s1/default").json(t)["children"].([]any)
	assert.Equal(t, "which folder?", nodes[0].(map[string]any)["questions"].([]any)[0].(map[string]any)["text"])
}

func TestAnAnswerToABackgroundAgentWaitsForNothing(t *testing.T) {
	b := newBench(t)
	b.send("s1", "m1", "do it")
	turn := b.take("s1/default")
	sub := b.below(turn, true)
	b.round(turn, 1)
	b.reply(turn, 2, "started", agent.GateAuto)
	b.finish(turn, 2, agent.ThreadCompleted)
	q := b.question(sub, "which folder?")[0]
	r := b.run("send", "--json", "-s", "s1", "docs")
	assert.Equal(t, exit.Unavailable, r.code, r.errout)
	assert.Contains(t, r.errout, "this answered question "+q.ID)
	assert.Empty(t, r.json(t)["turnId"])
	assert.Equal(t, "docs", answerOf(b, q.ID))
}

const yourAnswer = "your answer: "

// A question is answered by what is typed, or pasted, after it stood there.
func TestAQuestionIsPutToThePersonAtTheTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	qs, turn := b.questioning("s1", "which \x1b[2Jcolour?", "how many?")
	d := sit(t)
	d.types("typed before\n")
	d.draws(b, "send", "--wait", "-s", "s1", "--message-id", "m1", "do it")
	d.sees("orchestrator asks:")
	d.sees(`  which \x1b[2Jcolour?`)
	d.sees("your answer, then Enter")
	d.types("\r")
	d.sees("an answer has a text")
	assert.Empty(t, answerOf(b, qs[0].ID), "an empty line is no answer")
	d.types("blue\r")
	d.sees("the answer is saved")
	d.sees("how many?")
	d.sees("your answer, then Enter")
	d.types(pasteBegins + "seven\nor so" + pasteEnds + "\r")
	d.sees("the answer is saved")
	assert.Equal(t, "blue", answerOf(b, qs[0].ID))
	assert.Equal(t, "seven\nor so", answerOf(b, qs[1].ID))
	b.round(turn, 1)
	b.finish(turn, 2, agent.ThreadCancelled)
	d.ends(exit.Failed)
}

func TestLeavingAQuestionLeavesItOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	qs, _ := b.questioning("s1", "which colour?")
	d := sit(t)
	d.start(b, "send", "--wait", "-s", "s1", "--message-id", "m1", "do it")
	d.sees(yourAnswer)
	d.types("\x04")
	d.sees("question " + qs[0].ID + " stays open; answer it with starter answer " + qs[0].ID)
	d.ends(exit.Interrupted)
	assert.Empty(t, answerOf(b, qs[0].ID))
}

// In chat, a message typed at the prompt is no answer to a question that was not
// seen: open questions are put first, and what is left open is not answered by it.
func TestChatPutsOpenQuestionsFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.send("s1", "m1", "do it")
	turn := b.take("s1/default")
	one := b.below(turn, true)
	b.round(turn, 1)
	b.reply(turn, 2, "started", agent.GateAuto)
	b.finish(turn, 2, agent.ThreadCompleted)
	q := b.question(one, "which folder?")[0]
	d := sit(t)
	d.start(b, "chat", "-s", "s1")
	d.sees("general asks (task: count the files):")
	d.sees("which folder?")
	d.sees("(Enter leaves it open): ")
	d.types("\r")
	d.sees("> ")
	d.types("something else\r")
	d.sees("saved, but not running")
	assert.Empty(t, answerOf(b, q.ID), "it was left open on purpose")
	inbox, err := b.store.Inbox(t.Context(), "s1/default")
	require.NoError(t, err)
	assert.Equal(t, "something else", inbox[len(inbox)-1].Content.String())

	d.sees("> ")
	_, err = b.store.Answer(t.Context(), memory.AnswerRequest{Target: q.ID, Text: "docs", By: "bob"})
	require.NoError(t, err)
	b.round(one, 1)
	b.reply(one, 2, "", agent.GateAuto, agent.NewCall("x", agent.ToolAskUser, `{"question":"all of it?"}`))
	calls, err := b.store.ToolCalls(t.Context(), one.ThreadID)
	require.NoError(t, err)
	next, err := b.store.OpenQuestion(t.Context(), memory.QuestionRequest{ThreadID: one.ThreadID, TurnID: one.ID, CallID: calls[1].ID, Text: "all of it?"})
	require.NoError(t, err)
	d.types("and this\r") // typed while nobody knew of the question
	d.sees("all of it?")
	d.sees("(Enter leaves it open): ")
	d.types("yes\r")
	d.sees("now your message is sent: and this")
	assert.Eventually(t, func() bool { return answerOf(b, next.ID) == "yes" }, patience, 10*time.Millisecond)
	d.sees("saved, but not running")
	d.types("\x04")
	d.ends(exit.Unavailable)
}

// Without a terminal a message to chat is as plain as one of send.
func TestChatWithoutATerminalAnswersTheOnlyQuestion(t *testing.T) {
	b := newBench(t)
	qs, _ := b.questioning("s1", "which colour?")
	r := b.feed("blue\n", "chat", "-s", "s1")
	assert.Contains(t, r.errout, "this answered question "+qs[0].ID)
	assert.Equal(t, "blue", answerOf(b, qs[0].ID))
}
