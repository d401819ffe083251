package activities

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// The rule says of each code what it is, and the document says the same.
func TestWhichFailuresUseFallbackModels(t *testing.T) {
	doc, err := os.ReadFile("../docs/settings.md")
	require.NoError(t, err)
	told := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|.*\\| (yes|no) \\|$").FindAllStringSubmatch(string(doc), -1) {
		told[row[1]] = row[2] == "yes"
	}
	require.Equal(t, elsewhere, told)
	require.Len(t, elsewhere, len(agent.ModelCodes()))
	for _, code := range agent.ModelCodes() {
		require.Contains(t, elsewhere, code)
	}
}
