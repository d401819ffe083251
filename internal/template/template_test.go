package template_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/trust"
)

type world struct {
	t             *testing.T
	project, home string
}

func newWorld(t *testing.T) world { return world{t, t.TempDir(), t.TempDir()} }

func (w world) write(path, text string) string {
	w.t.Helper()
	full := filepath.Join(w.project, path)
	if rest, ok := strings.CutPrefix(path, "HOME/"); ok {
		full = filepath.Join(w.home, rest)
	}
	require.NoError(w.t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(w.t, os.WriteFile(full, []byte(text), 0o644))
	return full
}

func (w world) folders() template.Folders { return template.Folders{Project: w.project, Home: w.home} }

// agree agrees to all that the project's files ask for.
func (w world) agree() {
	w.t.Helper()
	c, _ := template.Load(w.folders())
	for _, o := range c.Offers() {
		require.NoError(w.t, trust.Agree(w.home, time.Now(), o.File))
	}
}

func (w world) load(extra ...string) (*template.Catalog, []string) {
	c, warnings := template.Load(w.folders(), extra...)
	texts := []string{}
	for _, x := range warnings {
		texts = append(texts, strings.TrimPrefix(x.String(), w.project+"/"))
	}
	return c, texts
}

func get(t *testing.T, c *template.Catalog, name string) agent.SpecialistAgentConfig {
	t.Helper()
	cfg, ok := c.Get(name)
	require.True(t, ok, "template %s; there are %v", name, c.Names())
	return cfg
}

func TestBuiltIn(t *testing.T) {
	c, warnings := newWorld(t).load()
	assert.Empty(t, warnings)
	assert.Equal(t, []string{"general", "orchestrator", "researcher"}, c.Names())
	for _, cfg := range c.List() {
		assert.Equal(t, template.BuiltIn, cfg.Source)
		assert.NotEmpty(t, cfg.SystemPrompt)
		assert.NotEmpty(t, cfg.Description)
		assert.True(t, cfg.Stream)
	}
	assert.Nil(t, get(t, c, "orchestrator").Tools, "all tools, assign_task included")
	assert.NotContains(t, get(t, c, "researcher").Tools, "assign_task")
	assert.NotContains(t, get(t, c, "researcher").Tools, "file_write")
	_, ok := c.Get("nobody")
	assert.False(t, ok)
}

func TestOnlyABodyLoadsWithDefaults(t *testing.T) {
	w := newWorld(t)
	path := w.write(".spool/agents/plain.md", "You are plain.\n")
	c, warnings := w.load()
	assert.Empty(t, warnings)
	want := agent.SpecialistAgentConfig{Name: "plain", SystemPrompt: "You are plain.", Stream: true, Source: path, Bounds: []map[string]string{{}}, Unagreed: true}
	assert.Equal(t, want, get(t, c, "plain"))
}

func TestEveryField(t *testing.T) {
	w := newWorld(t)
	w.write(".spool/agents/x.md", `---
name: full
description: "All of it"
tools: [file_read, mcp__github__search, deploy]
model: gpt-5
provider: openai
temperature: 0.5
maxTokens: 4096
topP: 1
timeoutMs: 60000
maxSteps: 0
stream: false
shareContext: true
approval:
  shell: deny
  Bash(git *): auto
onDeny: continue
---

# Prompt

Body with --- inside.
`)
	w.agree()
	c, warnings := w.load("deploy")
	assert.Empty(t, warnings)
	cfg := get(t, c, "full")
	assert.Equal(t, "All of it", cfg.Description)
	assert.Equal(t, []string{"file_read", "mcp__github__search", "deploy"}, cfg.Tools)
	assert.Equal(t, "gpt-5", cfg.Model)
	assert.Equal(t, "openai", cfg.Provider)
	assert.InDelta(t, 0.5, *cfg.Temperature, 0)
	assert.InDelta(t, 1, *cfg.TopP, 0)
	assert.Equal(t, 4096, *cfg.MaxTokens)
	assert.EqualValues(t, 60000, cfg.TimeoutMs)
	assert.False(t, cfg.Stream)
	assert.True(t, cfg.ShareContext)
	assert.Equal(t, map[string]string{"shell": "deny", "shell(git *)": "auto"}, cfg.Approval)
	assert.Equal(t, agent.OnDenyContinue, cfg.OnDeny)
	assert.Equal(t, "# Prompt\n\nBody with --- inside.", cfg.SystemPrompt)
	assert.Equal(t, agent.NoStepLimit, cfg.MaxSteps, "0 was stated: no limit, also where there is a default")

	cfg.Tools[0], cfg.Approval["shell"] = "changed", "changed"
	assert.Equal(t, "file_read", get(t, c, "full").Tools[0], "callers get copies")
}

func TestLookupOrder(t *testing.T) {
	w := newWorld(t)
	first := w.write(".spool/agents/a.md", "---\nname: general\n---\nspool")
	w.write(".claude/agents/a.md", "---\nname: general\n---\nclaude")
	second := w.write(".claude/agents/b.md", "---\nname: b\n---\nclaude")
	w.write("HOME/agents/b.md", "---\nname: b\n---\nhome")
	third := w.write("HOME/agents/c.md", "c")
	w.agree()
	c, warnings := w.load()
	assert.Empty(t, warnings, "shadowing is the purpose, not a problem")
	assert.Equal(t, first, get(t, c, "general").Source)
	assert.Equal(t, second, get(t, c, "b").Source)
	assert.Equal(t, third, get(t, c, "c").Source)
	assert.Equal(t, []string{"b", "c", "general", "orchestrator", "researcher"}, c.Names())
}

func TestClaudeCodeFiles(t *testing.T) {
	w := newWorld(t)
	w.write(".claude/agents/code-reviewer.md", `---
name: code-reviewer
description: Expert code review specialist. Proactively reviews code for quality, security, and maintainability. Use immediately after writing or modifying code.
tools: Read, Grep, Glob, Bash
model: inherit
---

You are a senior code reviewer ensuring high standards.

When invoked:
1. Run git diff to see recent changes
`)
	w.write(".claude/agents/debugger.md", `---
name: debugger
description: Debugging specialist for errors, test failures, and unexpected behavior.
tools:
  - Read
  - Edit
  - Bash(go test:*)
  - mcp__sentry__find
  - Task
model: sonnet
color: red
---
You are an expert debugger.
`)
	// What Claude Code's own generator writes: no valid YAML, and taken as it stands.
	w.write(".claude/agents/api-writer.md", `---
name: api-writer
description: Use this agent when API docs are needed. Examples: <example>Context: The user added an endpoint. user: "Document it" assistant: "I'll use the api-writer agent"</example>
tools: Read, Write, WebFetch, TodoWrite, NotebookEdit
model: opus
maxSteps: 12
---

You write API documentation.
`)
	w.write(".claude/agents/safe.md", "---\ndescription: x\ndisallowedTools: Write, Edit\n---\nBe careful.\n")
	c, warnings := w.load()
	assert.Equal(t, []string{
		`.claude/agents/api-writer.md:4: unknown tool "TodoWrite"; it is offered only if the worker has it`,
		`.claude/agents/api-writer.md:4: unknown tool "NotebookEdit"; it is offered only if the worker has it`,
		`.claude/agents/debugger.md:4: tool Bash is left out: its pattern (go test:*) would not restrict it here; name Bash without it, and say approval: {shell: deny, "shell(go test:*)": auto}`,
	}, warnings)

	reviewer := get(t, c, "code-reviewer")
	assert.Equal(t, []string{"file_read", "grep", "glob", "shell"}, reviewer.Tools)
	assert.Empty(t, reviewer.Model, "inherit")
	assert.True(t, strings.HasPrefix(reviewer.SystemPrompt, "You are a senior"))
	debugger := get(t, c, "debugger")
	assert.Equal(t, []string{"file_read", "file_edit", "mcp__sentry__find", "assign_task"}, debugger.Tools)
	assert.Empty(t, debugger.Model)
	writer := get(t, c, "api-writer")
	assert.Contains(t, writer.Description, `user: "Document it" assistant:`)
	assert.Equal(t, []string{"file_read", "file_write", "web_fetch", "TodoWrite", "NotebookEdit"}, writer.Tools)
	assert.Equal(t, 12, writer.MaxSteps)
	assert.Equal(t, map[string]string{"file_write": "deny", "file_edit": "deny"}, get(t, c, "safe").Approval)
}

// An agent that plans only reads, whatever tools it names.
func TestPermissionModePlan(t *testing.T) {
	w := newWorld(t)
	w.write(".claude/agents/all.md", "---\npermissionMode: plan\n---\nB")
	w.write(".claude/agents/some.md", "---\ntools: Read, Write, Bash, Task, WebSearch\npermissionMode: plan\nhooks: {PostToolUse: []}\n---\nB")
	c, warnings := w.load()
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "some.md:4: hooks do not run here")
	assert.Equal(t, []string{"file_read", "web_search"}, get(t, c, "some").Tools)
	all := get(t, c, "all").Tools
	assert.Subset(t, all, []string{"file_read", "grep", "glob", "ls", "ask_user"})
	for _, name := range []string{"shell", "file_write", "file_edit", "assign_task"} {
		assert.NotContains(t, all, name)
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "---\nname: x\ncolour: red\n---\nB", `:3: unknown key "colour"; known are name, description, tools,`},
		{"unknown tool", "---\ntools: Read, Fly\n---\nB", `:2: unknown tool "Fly"`},
		{"text", "---\nmodel: [a]\n---\nB", `:2: model is a list, want a text; the default is used`},
		{"bool", "---\nstream: 3\n---\nB", `:2: stream is 3, want true or false`},
		{"number", "---\n# c\ntemperature: hot\n---\nB", `:3: temperature is "hot", want a number from 0 to 2`},
		{"range", "---\ntopP: 1.5\n---\nB", `:2: topP is 1.5, want a number from 0 to 1`},
		{"on deny", "---\nonDeny: maybe\n---\nB", `:2: onDeny is "maybe", want end or continue`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(".spool/agents/x.md", c.text)
			catalog, warnings := w.load()
			require.Len(t, warnings, 1)
			assert.Contains(t, warnings[0], ".spool/agents/x.md"+c.want)
			assert.Equal(t, "B", get(t, catalog, "x").SystemPrompt, "the rest of the file counts")
		})
	}
}

func TestBadFilesAreSkipped(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no body", "---\nname: x\n---\n  \n", ":3: skipped: the body, which is the system prompt, is empty"},
		{"no end", "---\nname: x\nbody", ":1: skipped: the front matter has no closing ---"},
		{"bad name", "---\ndescription: d\nname: My Agent\n---\nB", `:3: skipped: agent type "My Agent" is not valid`},
		// What it says of tools is not to be lost.
		{"yaml", "---\nname: x\nmodel: a: b\n---\nB", ":3: skipped: the front matter is not valid YAML: "},
		{"list", "---\n- a\n---\nB", ":2: skipped: the front matter is not a mapping"},
		{"encoding", "---\nname: x\ndescription: \xff\xfe", ":3: skipped: the file is not valid UTF-8"},
		{"empty", "", ":1: skipped: the body"},
		// Nor is a limit.
		{"whole", "---\nmaxTokens: 1.5\n---\nB", `:2: skipped: maxTokens is 1.5, want a whole number of at least 1`},
		{"negative", "---\nmaxSteps: -1\n---\nB", `:2: skipped: maxSteps is -1, want a whole number of at least 0`},
		{"tools type", "---\ntools: 3\n---\nB", `:2: skipped: tools is 3, want a list of tools`},
		{"gate", "---\napproval:\n  ls: auto\n  shell: maybe\n---\nB", `:4: skipped: approval of shell is "maybe", allowed are auto, ask and deny`},
		{"a hook that may refuse", "---\nhooks:\n  PreToolUse:\n    - matcher: Bash\n---\nB", `:2: skipped: hooks is a mapping, want none that may refuse a call`},
		{"a mode nobody knows", "---\npermissionMode: dontAsk\n---\nB", `:2: skipped: permissionMode is "dontAsk", want plan or default`},
		{"isolation", "---\nisolation: worktree\n---\nB", `:2: skipped: the key "isolation" is not known here and may forbid something`},
		{"rule", "---\napproval:\n  shell(x: auto\n---\nB", `:3: skipped: approval rule "shell(x" is not valid`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(".spool/agents/x.md", c.text)
			w.write(".spool/agents/good.md", "fine")
			catalog, warnings := w.load()
			require.Len(t, warnings, 1)
			assert.Contains(t, warnings[0], ".spool/agents/x.md"+c.want)
			_, ok := catalog.Get("x")
			assert.False(t, ok)
			get(t, catalog, "good")
		})
	}
}

func TestDoubleNameInOneFolder(t *testing.T) {
	w := newWorld(t)
	w.write(".spool/agents/a.md", "---\nname: x\n---\nfirst")
	w.write(".spool/agents/b.md", "---\nname: x\n---\nsecond")
	c, warnings := w.load()
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], `b.md:2: skipped: `)
	assert.Equal(t, "first", get(t, c, "x").SystemPrompt)
}

func TestFoldersInAFolder(t *testing.T) {
	w := newWorld(t)
	w.write(".claude/agents/team/lead.md", "---\nname: boss\n---\nlead")
	w.write(".claude/agents/team/deep/helper.md", "---\nname: helper\n---\nhelp")
	w.write(".claude/agents/team/z.md", "---\nname: boss\n---\nanother")
	w.write(".claude/agents/.git/hidden.md", "no agent")
	w.write(".claude/agents/node_modules/x/README.md", "no agent")
	c, warnings := w.load()
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "team/z.md:2: skipped: ")
	assert.Equal(t, "lead", get(t, c, "boss").SystemPrompt)
	assert.Equal(t, "help", get(t, c, "helper").SystemPrompt)
	assert.Len(t, c.Names(), 5)
}

// A file without front matter is an agent by its name, as its body is all that it needs;
// in the folder of Claude Code it is a note, as there.
func TestAFileWithoutFrontMatter(t *testing.T) {
	w := newWorld(t)
	w.write(".spool/agents/plain.md", "You are plain.")
	w.write(".claude/agents/broken.md", "# Ideas\n\nName: none yet.")
	c, warnings := w.load()
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], ".claude/agents/broken.md:1: skipped: it has no front matter")
	assert.Equal(t, "You are plain.", get(t, c, "plain").SystemPrompt)
	assert.NotContains(t, c.Names(), "broken")
}

func TestWindowsFile(t *testing.T) {
	w := newWorld(t)
	w.write(".spool/agents/x.md", "\uFEFF---\r\nname: win\r\ntools: \"\"\r\n---\r\nHello\r\n")
	c, warnings := w.load()
	assert.Empty(t, warnings)
	cfg := get(t, c, "win")
	assert.Equal(t, "Hello", cfg.SystemPrompt)
	assert.NotNil(t, cfg.Tools)
	assert.Empty(t, cfg.Tools, "an empty list means no tools")
}

func TestPromptTextsAreNotTooLong(t *testing.T) {
	c, _ := newWorld(t).load()
	for _, cfg := range c.List() {
		assert.Less(t, len(cfg.SystemPrompt), 2000, cfg.Name)
	}
}
