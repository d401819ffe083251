package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

// Row 57: a single message that is larger than the window is shortened for the model,
// at a character boundary and visibly; the message itself is kept. Its sender is told
// how much was not seen and what to do: once, in the turn of the message, not at its
// other steps and not in later turns. The same holds for results of tools.
func TestRow57_OneMessageLargerThanTheWindow(t *testing.T) {
	s := stack(t)
	s.Model.Window, s.Model.KeepBodies = 12000, true
	s.StartWorker("SPOOL_CONTEXT_WINDOW=12000")
	long := script.Script(add(1, 2), add(3, 4), "say I have read it") + "\n" + strings.Repeat("# größer 🎉 als alles\n", 4000)
	_, progress, code := starterApart(t, s, "send", "-s", s.Session("s1"), long)
	require.Zero(t, code, progress)
	told := regexp.MustCompile(`! (\d+) of the (\d+) bytes of the message were not seen by fake, whose window is 12000 tokens: take a model with a larger one, correct the window if it is wrong \(SPOOL_CONTEXT_WINDOW, models.yaml\), or put the text into a file that the agent reads in parts`).FindAllStringSubmatch(progress, -1)
	require.Len(t, told, 1, progress)
	require.Equal(t, strconv.Itoa(len(long)), told[0][2])
	var q struct{ Messages []agent.Message }
	require.NoError(t, json.Unmarshal(s.Model.Records()[0].Body, &q))
	shown := q.Messages[1].Content.String()
	require.Less(t, len(shown), len(long)/2)
	require.Contains(t, shown, "[… "+told[0][1]+" bytes left out; the message is longer than the model's context window allows", "as the model is told")
	require.NotContains(t, shown, "\uFFFD")
	id := s.Thread("s1")
	require.Equal(t, long, messages(t, s, id)[0].Content.String())
	require.Equal(t, "fine", s.Ask("s1", "script: say fine").Response)
	require.Equal(t, []string{agent.WarnShortened}, warnings(t, s, id), "it is told once")

	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "big.txt"), []byte(strings.Repeat("0 1 2 3 4 5 6 7 8 9\n", 2500)), 0o600))
	read := script.Call("file_read", map[string]any{"path": "big.txt"})
	r := s.Ask("s2", script.Script(read, add(1, 2), "say the end"))
	require.Equal(t, "the end", r.Response, r.Error)
	require.Equal(t, []string{agent.WarnShortened}, warnings(t, s, r.ThreadID))
	_, progress, _ = starterApart(t, s, "show", "--follow", r.ThreadID)
	require.Regexp(t, `! \d+ of the \d+ bytes of the result of file_read were not seen by fake`, progress)
}

// A window that cannot hold what every request has is told once a turn; the request
// goes out all the same, also where the provider then refuses it.
func TestAWindowTooSmallForAnyRequestIsTold(t *testing.T) {
	s := begin(t, "SPOOL_CONTEXT_WINDOW=500")
	_, progress, code := starterApart(t, s, "send", "-s", s.Session("s1"), script.Script(add(1, 2), "say hi"))
	require.Zero(t, code, progress)
	said := regexp.MustCompile(`! the system prompt and \d+ tools alone take about \d{4} tokens, more than the window of 500 of fake has room for beside an answer: correct the window if it is wrong \(SPOOL_CONTEXT_WINDOW, models.yaml\), take a model with a larger one, or give the agent fewer tools`)
	require.Len(t, said.FindAllString(progress, -1), 1, progress)
	require.Equal(t, []string{agent.WarnWindow}, warnings(t, s, s.Thread("s1")))
	s.Ask("s1", "script: say again")
	require.Equal(t, []string{agent.WarnWindow, agent.WarnWindow}, warnings(t, s, s.Thread("s1")), "each turn has it")

	s.Model.Window = 500
	r := s.Ask("s2", "script: say never")
	require.Equal(t, agent.ModelContextTooLong, r.ErrorCode, r.Error)
	require.Equal(t, []string{agent.WarnWindow}, warnings(t, s, r.ThreadID))
}
