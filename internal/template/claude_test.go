package template_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Row 2: agent files written for Claude Code load unchanged from .claude/agents.
// What this program does not know in them is a warning with file and line.
func TestRow02_ClaudeCodeAgentFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/claude/*.md")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 12)
	w := newWorld(t)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		w.write(".claude/agents/"+filepath.Base(f), string(text))
	}
	w.agree()
	c, warnings := w.load()
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".md")
		cfg := get(t, c, name)
		assert.Equal(t, filepath.Join(w.project, ".claude", "agents", name+".md"), cfg.Source)
		assert.NotEmpty(t, cfg.Description, name)
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		assert.True(t, strings.HasSuffix(strings.TrimSpace(string(text)), cfg.SystemPrompt), "the body of %s is its prompt, to the last line", name)
		assert.NotContains(t, cfg.SystemPrompt, "description:", name)
	}
	for name, tools := range map[string][]string{
		"code-reviewer":      {"file_read", "grep", "glob", "shell"},
		"debugger":           {"file_read", "file_edit", "shell", "grep", "glob"},
		"data-scientist":     {"shell", "file_read", "file_write"},
		"backend-architect":  nil, // all
		"frontend-developer": {"file_write", "file_read", "file_edit", "shell", "grep", "glob"},
		"security-auditor":   {"file_read", "grep", "glob", "web_fetch", "web_search"},
		"test-runner":        {"shell", "file_read", "file_edit", "grep"},
		"docs-writer":        {"file_read", "file_write", "file_edit", "glob", "grep", "ls", "TodoWrite"},
		"github-triager":     {"mcp__github__list_issues", "mcp__github__add_labels", "mcp__github", "file_read"},
		"db-reader":          {"file_read"}, // psql cannot be held to what it may do, and to plan is to read
		"prompt-engineer":    nil,
		"orchestrating-lead": {"assign_task", "task_output", "file_read", "grep", "glob", "ask_user"},
	} {
		assert.Equal(t, tools, get(t, c, name).Tools, name)
	}
	for name, model := range map[string]string{"code-reviewer": "", "data-scientist": "", "security-auditor": "", "github-triager": "claude-sonnet-4-5"} {
		assert.Equal(t, model, get(t, c, name).Model, "%s: an alias is not ours to choose, a model's name is", name)
	}
	assert.Equal(t, map[string]string{"file_write": "deny", "file_edit": "deny"}, get(t, c, "security-auditor").Approval)
	assert.Equal(t, 20, get(t, c, "db-reader").MaxSteps)
	assert.Contains(t, get(t, c, "frontend-developer").Description, "<commentary>")
	assert.Contains(t, get(t, c, "security-auditor").Description, "OWASP compliance.\nHandles JWT")
	assert.Contains(t, get(t, c, "prompt-engineer").SystemPrompt, "## Implementation notes")

	want := []string{
		".claude/agents/db-reader.md:4: tool Bash is left out: its pattern (psql:*) would not restrict it here",
		".claude/agents/docs-writer.md:4: unknown tool \"TodoWrite\"",
	}
	require.Len(t, warnings, len(want), strings.Join(warnings, "\n"))
	for i := range want {
		assert.True(t, strings.HasPrefix(warnings[i], want[i]), "%s\nwant %s", warnings[i], want[i])
	}
}
