package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// answers is a server that gives these bodies in turn, the last one for good.
func answers(bodies ...string) func(http.ResponseWriter, *http.Request, []byte) {
	n := make(chan int, 1)
	n <- 0
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		i := <-n
		n <- i + 1
		_, _ = fmt.Fprint(w, bodies[min(i, len(bodies)-1)])
	}
}

func event(delta, finish string) string {
	return `data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n"
}

const empty = `{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`

// A turn that is cancelled in mid-stream, and an attempt that dies with its worker in
// mid-stream, are counted.
func TestUsageOfWhatWasCutOff(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	long := "slow 50ms say " + strings.Repeat("word ", 60) + "end"
	r := s.Send("s1", script.Script(long))
	streaming(t, s, r.ThreadID)
	cancel(t, s, r)
	r = s.Wait(r)
	require.Equal(t, "cancelled", r.Status)
	use := *messages(t, s, r.ThreadID)[1].Usage
	require.True(t, use.Estimated)
	require.Equal(t, use.TotalTokens, thread(t, s, r.ThreadID).TotalTokens)
	require.EqualValues(t, 1, use.Requests)
	require.Greater(t, use.PromptTokens, int64(100))
	require.Positive(t, use.CompletionTokens)

	r = s.Send("s2", script.Script(long))
	streaming(t, s, r.ThreadID)
	w.Kill()
	s.StartWorker()
	r = s.Wait(r)
	require.Equal(t, "completed", r.Status, r.Error)
	use = *messages(t, s, r.ThreadID)[1].Usage
	require.EqualValues(t, 2, use.Requests)
	require.True(t, use.Estimated)
	complete := s.Model.Records()[len(s.Model.Records())-1].Usage
	require.Greater(t, use.TotalTokens, complete.TotalTokens+100)
}

// Failures that repeat themselves are not retried for RetryFor: a few tries, then the
// turn fails with what happened and what to do, or the next model takes over.
func TestFailuresThatRepeatThemselvesEndSoon(t *testing.T) {
	s := begin(t)
	for i, c := range []struct {
		body, text string
		tries      int
	}{
		{empty, "neither text nor a tool call; so it was 4 times in a row. To do: ask in other words", 4},
		{`{"status":"ok"}`, `the provider sent {"status":"ok"}, which is no reply; so it was 3 times in a row. To do: check OPENAI_BASE_URL`, 3},
	} {
		s.Model.Reset()
		s.Model.Raw(answers(c.body))
		r := s.Ask(fmt.Sprintf("s%d", i), "anything")
		require.Equal(t, "failed", r.Status)
		require.Contains(t, r.Error, c.text)
		require.Len(t, s.Model.Records(), c.tries)
		require.EqualValues(t, c.tries, thread(t, s, r.ThreadID).RequestCount)
	}
	s.Model.Raw(answers(empty, empty, event(`{"content":"at last"}`, `"stop"`)+"data: [DONE]\n\n"))
	r := s.Ask("s9", "anything")
	require.Equal(t, "at last", r.Response, r.Error)
	require.EqualValues(t, 8+8, r.Usage.TotalTokens-thread(t, s, r.ThreadID).ContextWindow.Total, "empty answers were paid for")
}

// An answer that ends at the model's output limit: who sent, who asks again and who
// follows is told that it is not whole, and what to do.
func TestAnAnswerCutByItsLimitIsTold(t *testing.T) {
	s := begin(t)
	s.Model.Raw(answers(event(`{"content":"half an"}`, `"length"`) + "data: [DONE]\n\n"))
	for range 2 {
		out, progress, code := starterApart(t, s, "send", "-s", s.Session("s1"), "--message-id", "m1", "anything")
		require.Equal(t, 0, code, progress)
		require.Equal(t, "half an\n", out)
		require.Equal(t, 1, strings.Count(progress, "! "+agent.AnswerCut().Message), progress)
	}
	require.Equal(t, []string{agent.WarnAnswerCut}, warnings(t, s, s.Thread("s1")))
	_, progress, _ := starterApart(t, s, "show", "--follow", s.Thread("s1"))
	require.Contains(t, progress, "! "+agent.AnswerCut().Message)
	r := typed[spool.Reply](t, s, 0, "send", "--json", "-s", s.Session("s1"), "--message-id", "m1", "anything")
	require.Equal(t, agent.AnswerCut().Message, r.Note)
}

// A server that repeats itself without end is cut off. The text is kept, and people
// are shown how it begins and ends; programs get all of it.
func TestAll_AnEndlessReplyIsCutOff(t *testing.T) {
	s := begin(t)
	s.Model.Raw(answers(strings.Repeat(event(`{"content":"`+strings.Repeat("again ", 10_000)+`"}`, "null"), 200)))
	out, progress, code := starterApart(t, s, "send", "-s", s.Session("s1"), "anything")
	require.Equal(t, 1, code, progress)
	require.Contains(t, progress, "one reply is larger than 8388608 bytes")
	shown, _ := starter(t, s, "show", s.Thread("s1"))
	followed, _, _ := starterApart(t, s, "show", "--follow", s.Thread("s1"))
	for name, text := range map[string]string{"send": out, "show": shown, "show --follow": followed} {
		require.Less(t, len(text), 20_000, name)
		require.Contains(t, text, "again again", name)
		require.Contains(t, text, "bytes left out; --json shows all of it", name)
	}
	m := typed[spool.View](t, s, 0, "show", "--json", s.Thread("s1")).Messages[1]
	require.True(t, m.Partial)
	require.Greater(t, len(m.Content.String()), 8_000_000)
	require.LessOrEqual(t, len(m.Content.String()), 8<<20)
}

// A reply with more calls than Temporal runs at once ends the turn, which says so, in
// place of standing still for good.
func TestAll_VeryManyCallsInAReply(t *testing.T) {
	s := begin(t)
	for n, want := range map[int]string{500: "completed", 2500: "failed"} {
		calls := make([]string, n)
		for i := range calls {
			calls[i] = fmt.Sprintf(`{"index":%d,"id":"c%d","type":"function","function":{"name":"no_such_tool","arguments":"{}"}}`, i, i)
		}
		s.Model.Raw(answers(event(`{"tool_calls":[`+strings.Join(calls, ",")+`]}`, `"tool_calls"`)+"data: [DONE]\n\n", event(`{"content":"done"}`, `"stop"`)+"data: [DONE]\n\n"))
		r := s.Ask(fmt.Sprint("s", n), "anything")
		require.Equal(t, want, r.Status, r.Error)
		if want == "failed" {
			require.Contains(t, r.Error, "one reply has 2500 tool calls, at most 500 are run")
		}
	}
}
