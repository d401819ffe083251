package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
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
