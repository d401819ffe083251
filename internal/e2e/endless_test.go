package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

// A server that repeats itself without end is cut off. The text is kept, and people
// are shown how it begins and ends; programs get all of it.
func TestAnEndlessReplyIsCutOff(t *testing.T) {
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

// Usage that cannot be is replaced by our count, whatever form it has, and proves
// nothing of the server.
func TestAbsurdUsageIsEstimated(t *testing.T) {
	s := begin(t)
	for _, usage := range []string{
		`{"prompt_tokens":1e30,"completion_tokens":1e300,"total_tokens":1}`,
		`{"prompt_tokens":-5,"completion_tokens":2,"total_tokens":1}`,
		`{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807,"total_tokens":9223372036854775807}`,
		`{"prompt_tokens":100,"completion_tokens":30000000,"total_tokens":1}`,
	} {
		s.Model.Raw(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"an answer"},"finish_reason":"stop"}],"usage":` + usage + `}`))
		})
		r := s.Ask("s1", "hello")
		require.Equal(t, "an answer", r.Response, r.Error)
		m := messages(t, s, r.ThreadID)
		use := m[len(m)-1].Usage
		require.True(t, use.Estimated, usage)
		require.Greater(t, use.PromptTokens, int64(500), usage)
		require.InDelta(t, 4, use.CompletionTokens, 4, usage)
		require.Empty(t, warnings(t, s, r.ThreadID), usage)
	}
}

// A server that read one token of what it was sent is told of in the singular, too.
func TestOneTokenRead(t *testing.T) {
	s := begin(t)
	s.Model.Raw(answers(`{"choices":[{"message":{"content":"an answer"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`))
	_, progress, code := starterApart(t, s, "send", "-s", s.Session("s1"), strings.Repeat("a long message ", 1000))
	require.Zero(t, code, progress)
	require.Contains(t, progress, "the model server read only 1 of about ")
	require.Equal(t, []string{agent.WarnTruncated}, warnings(t, s, s.Thread("s1")))
}
