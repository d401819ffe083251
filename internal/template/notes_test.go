package template_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/template"
)

// What a project says to all agents counts once a person has agreed to the text, which
// is shown whole, and no longer when it changes.
func TestNotesOfAProject(t *testing.T) {
	w := newWorld(t)
	w.write("CLAUDE.md", "use tabs")
	w.write("AGENTS.md", "run make test\nnever push")
	c, warnings := w.load()
	assert.Nil(t, c.Notes())
	assert.NotContains(t, get(t, c, "general").SystemPrompt, "make test")
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "AGENTS.md: before you agree to this file, no agent is told what it says; starter trust")
	require.Len(t, c.Offers(), 1)
	assert.Equal(t, []string{"all agents are told, as part of their instructions:", `  "run make test"`, `  "never push"`}, c.Offers()[0].Allows)

	w.agree()
	c, warnings = w.load()
	assert.Empty(t, warnings)
	assert.Equal(t, 24, c.Notes().Bytes)
	for _, cfg := range c.List() {
		assert.True(t, strings.HasSuffix(cfg.SystemPrompt, "in its AGENTS.md:\n\n<project>\nrun make test\nnever push\n</project>"), cfg.Name)
		assert.NotContains(t, cfg.SystemPrompt, "use tabs", "one file of the two")
	}
	l := template.NewLive(w.folders(), nil, func(template.Warning) {})
	path := w.write("AGENTS.md", "run make test\nalways push")
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)))
	cfg, _ := l.Get("general")
	assert.NotContains(t, cfg.SystemPrompt, "push")

	w.write("AGENTS.md", strings.Repeat("x", template.MostNotes+1))
	_, warnings = w.load()
	assert.Equal(t, []string{"AGENTS.md: skipped: it has more than 32768 bytes"}, warnings)
	require.NoError(t, os.Remove(path))
	secret := filepath.Join(w.home, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("key"), 0o600))
	require.NoError(t, os.Symlink(secret, path))
	c, warnings = w.load()
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "AGENTS.md: skipped: ")
	assert.Nil(t, c.Notes())
}
