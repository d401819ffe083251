package template

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/agents.md lists the keys of the front matter, each once and no other.
func TestDocumentedKeys(t *testing.T) {
	text, err := os.ReadFile("../../docs/agents.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "| key | meaning | without it |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed []string
	for line := range strings.SplitSeq(table, "\n") {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(first, -1) {
			listed = append(listed, m[1])
		}
	}
	assert.ElementsMatch(t, strings.Split(keys, ", "), listed)
}
