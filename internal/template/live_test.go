package template_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/template"
)

// Row 2: what a file says counts from the next use on, and a problem is told once.
func TestRow02_FilesAreReadAgainWhenTheyChange(t *testing.T) {
	w := newWorld(t)
	var warnings []string
	l := template.NewLive(w.folders(), nil, func(w template.Warning) { warnings = append(warnings, w.String()) })
	_, ok := l.Get("fresh")
	require.False(t, ok)
	path := w.write(".spool/agents/fresh.md", "---\ntools: Fly\n---\none")
	cfg, ok := l.Get("fresh")
	require.True(t, ok)
	assert.Equal(t, "one", cfg.SystemPrompt)
	assert.Len(t, warnings, 1)
	w.write(".spool/agents/fresh.md", "---\ntools: Fly\n---\ntwo")
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Second))) // as large as before
	cfg, _ = l.Get("fresh")
	assert.Equal(t, "two", cfg.SystemPrompt)
	assert.Len(t, warnings, 1, "the same problem")
	w.write(".claude/agents/team/other.md", "---\nname: other\n---\nx")
	assert.Len(t, l.List(), 5)
	require.NoError(t, os.Remove(path))
	assert.Len(t, l.List(), 4)
	require.NoError(t, os.RemoveAll(filepath.Join(w.project, ".claude")))
	assert.Len(t, l.List(), 3, "those built in")
}

func TestLiveCatalogIsUsedAtOnce(t *testing.T) {
	w := newWorld(t)
	l := template.NewLive(w.folders(), nil, func(template.Warning) {})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				_, ok := l.Get("general")
				assert.True(t, ok)
			}
		})
	}
	for range 10 {
		w.write(".spool/agents/x.md", time.Now().String())
	}
	all.Wait()
}

// A template whose provider is not set up is told of with its line, when it is read.
func TestUnroutedTemplates(t *testing.T) {
	w := newWorld(t)
	var warnings []string
	route := func(model, provider string) error {
		_, err := agent.RouteModel(model, provider, map[string]bool{"p": true})
		return err
	}
	path := w.write(".spool/agents/one.md", "---\nmodel: m\nprovider: q\n---\nx")
	w.agree()
	l := template.NewLive(w.folders(), route, func(w template.Warning) { warnings = append(warnings, w.String()) })
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], path+":3: agent one cannot be used: no provider q is set up (set up: p)")
	other := w.write(".spool/agents/two.md", "---\nmodel: m@q\n---\nx")
	w.write(".spool/agents/three.md", "---\nmodel: m@p\n---\nx")
	w.agree()
	_, ok := l.Get("two")
	require.True(t, ok, "it is used as far as it can be")
	require.Len(t, warnings, 2)
	assert.Contains(t, warnings[1], other+":2: agent two")
}
