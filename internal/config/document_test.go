package config

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of docs/settings.md")

// The table of docs/settings.md is that of the program.
func TestDocumentOfSettings(t *testing.T) {
	const head = "| in spool.yaml | environment | default | allowed | in any folder | meaning |\n|---|---|---|---|---|---|\n"
	var table strings.Builder
	for _, s := range settings(new(Config)) {
		require.NotEmpty(t, s.doc, s.name)
		require.NotEmpty(t, s.allowed, s.name)
		fallback := s.fallback
		if fallback != "" {
			fallback = "`" + fallback + "`"
		}
		folder := cmp.Or(s.folder, "no")
		if s.name == Home {
			folder = "never"
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s | %s | %s | %s |\n", s.name, s.env, fallback, strings.ReplaceAll(s.allowed, "|", `\|`), folder, s.doc)
	}
	path := filepath.Join("..", "..", "docs", "settings.md")
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(have), head)
	require.True(t, found, "the table begins with %q", head)
	old, after, _ := strings.Cut("\n"+rest, "\n\n")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+head+table.String()+"\n"+after), 0o644))
		return
	}
	assert.Equal(t, "\n"+table.String(), old+"\n", "write it with go test ./internal/config -run Document -update")
}
