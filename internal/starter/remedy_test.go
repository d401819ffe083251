package starter

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// What a failed model call tells a person to do can be done: the settings, commands
// and flags that it names are there.
func TestRemediesNameWhatIsThere(t *testing.T) {
	settings, err := os.ReadFile("../../docs/settings.md") // its table is that of the program
	require.NoError(t, err)
	var cli grammar
	parser, err := kong.New(&cli, lists)
	require.NoError(t, err)
	failures := []agent.ModelError{{Code: agent.ModelAuth, Status: 402}, {Code: agent.ModelBadRequest, NoImages: true}, {Code: agent.ModelRateLimited, Retryable: true}, {Code: "other"}}
	for _, code := range agent.ModelCodes() {
		failures = append(failures, agent.ModelError{Code: code})
	}
	for _, class := range []agent.FailureClass{agent.ClassEmpty, agent.ClassUnreadable, agent.ClassUnclear, agent.ClassInsecure} {
		failures = append(failures, agent.ModelError{Code: agent.ModelBadResponse, Class: class})
	}
	found := 0
	for _, e := range failures {
		text := e.Remedy()
		for _, m := range regexp.MustCompile(`(SPOOL_[A-Z_]+)(?: \((\w+)\))?`).FindAllStringSubmatch(text, -1) {
			row := "| `" + m[2] + "` | `" + m[1] + "` |"
			if m[2] == "" {
				row = "` | `" + m[1] + "` |"
			}
			require.Contains(t, string(settings), row, text)
			found++
		}
		for _, m := range regexp.MustCompile("`starter ([a-z]+)(?: --([a-z]+))?`").FindAllStringSubmatch(text, -1) {
			var command *kong.Node
			for _, n := range parser.Model.Children {
				if n.Name == m[1] {
					command = n
				}
			}
			require.NotNil(t, command, text)
			if m[2] != "" {
				var flags []string
				for _, f := range command.Flags {
					flags = append(flags, f.Name)
				}
				require.Contains(t, flags, m[2], text)
			}
			found++
		}
		require.Equal(t, strings.Count(text, "`"), 2*strings.Count(text, "`starter "), "each command is one of starter: %s", text)
	}
	require.Greater(t, found, 15)
}
