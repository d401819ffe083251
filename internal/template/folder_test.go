package template_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/tool"
)

// gate is the strictest answer of an agent's policies, as a worker finds it.
func gate(c agent.SpecialistAgentConfig, name, args string) agent.Gate {
	r, err := tool.New(tool.Builtin(tool.Options{})...)
	if err != nil {
		return ""
	}
	run := agent.ToolRun{Args: []byte(args)}
	g := r.Gate(name, run, c.Approval)
	for _, b := range c.Bounds {
		g = g.Stricter(r.Gate(name, run, b))
	}
	return g
}

const ls = `{"command":"ls"}`

// Of a folder with very many files a part is read, so that a person can look at them.
func TestAFolderOfVeryManyFiles(t *testing.T) {
	w := newWorld(t)
	for i := range 503 {
		w.write(fmt.Sprintf(".spool/agents/a%03d.md", i), "---\napproval: {shell: ask}\n---\nx")
	}
	w.write(".spool/agents/a000.md", "---\napproval: {shell: auto}\n---\nx")
	c, warnings := w.load()
	assert.Contains(t, warnings, ".spool/agents: 3 agent files were left out: at most 500 of a folder are read")
	require.Len(t, c.Offers(), 500)
	assert.False(t, c.Offers()[0].Plain)
	assert.True(t, c.Offers()[1].Plain)
}

// Before a person has agreed to a project's file, its rules only make things stricter.
func TestAProjectsFileOnlyTightens(t *testing.T) {
	for front, want := range map[string]agent.Gate{
		"approval: {shell: auto}":           agent.GateAsk,
		"approval: auto":                    agent.GateAsk,
		"approval: {'*': auto}":             agent.GateAsk,
		"approval: {'s*': auto}":            agent.GateAsk,
		"approval: {'shell(ls)': auto}":     agent.GateAsk,
		"approval: {'shell(l?)': auto}":     agent.GateAsk,
		"approval: {'Bash(ls:*)': auto}":    agent.GateAsk,
		"approval: {shell: deny, ls: auto}": agent.GateDeny,
		"disallowedTools: Bash":             agent.GateDeny,
		"tools: Bash(ls)":                   agent.GateAsk,
		"permissionMode: bypassPermissions": agent.GateAsk,
		"name: orchestrator":                agent.GateAsk,
	} {
		for _, dir := range []string{".spool", ".claude"} {
			w := newWorld(t)
			path := w.write(dir+"/agents/orchestrator.md", "---\n"+front+"\n---\nx")
			c, warnings := template.Load(w.folders())
			cfg, _ := c.Get("orchestrator")
			require.Equal(t, path, cfg.Source)
			assert.Equal(t, want, gate(cfg, "shell", ls), front)
			assert.Equal(t, agent.GateAuto, gate(cfg, "file_read", `{"path":"x"}`), front)
			if strings.Contains(front, "auto") && !strings.Contains(front, "ls: auto") {
				require.Len(t, warnings, 1, front)
				assert.True(t, warnings[0].Asks)
				assert.Contains(t, warnings[0].String(), path+":2: before you agree")
				assert.Contains(t, warnings[0].String(), "starter trust")
			}
			child := agent.SpecialistAgentFactory{}.Build(cfg, agent.SpecialistAgentConfig{Approval: map[string]string{"shell": "auto"}}, agent.AssignParams{})
			assert.NotEqual(t, agent.GateAuto, gate(child, "shell", ls), "nor under an agent that may")
		}
	}
}

// A project's agent is not laxer than the one that it hides.
func TestAProjectsAgentIsNotLaxerThanWhatItHides(t *testing.T) {
	w := newWorld(t)
	w.write("HOME/agents/x.md", "---\ntools: file_read, shell\nmaxSteps: 5\ntimeoutMs: 1000\napproval: {file_read: ask, 'shell(ls)': deny, shell: auto}\nonDeny: end\n---\nmine")
	project := func(front string) agent.SpecialistAgentConfig {
		w.write(".claude/agents/x.md", "---\n"+front+"\n---\ntheirs")
		c, _ := w.load()
		return get(t, c, "x")
	}
	for _, front := range []string{"tools: '*'\nmaxSteps: 0\ntimeoutMs: 9000\napproval: auto\nonDeny: continue", "description: x", "maxTurns: 6\ntools: shell, file_read, file_write\ntimeoutMs: 0"} {
		c := project(front)
		assert.Equal(t, "theirs", c.SystemPrompt)
		assert.ElementsMatch(t, []string{"file_read", "shell"}, c.Tools, front)
		assert.Equal(t, 5, c.MaxSteps, front)
		assert.EqualValues(t, 1000, c.TimeoutMs, front)
		assert.NotEqual(t, agent.OnDenyContinue, c.OnDeny, front)
		assert.Equal(t, agent.GateDeny, gate(c, "shell", ls), front)
		assert.Equal(t, agent.GateAsk, gate(c, "shell", `{"command":"date"}`), "what the user lets his agent do unasked, he lets no other text do")
		assert.Equal(t, agent.GateAsk, gate(c, "file_read", `{"path":"x"}`), front)
	}
	c := project("tools: shell\nmaxSteps: 4\ntimeoutMs: 900\napproval: deny")
	assert.Equal(t, []any{[]string{"shell"}, 4, int64(900)}, []any{c.Tools, c.MaxSteps, c.TimeoutMs}, "stricter is taken as it is")
	assert.Equal(t, agent.GateDeny, gate(c, "shell", `{"command":"date"}`))

	w.write(".claude/agents/x.md", "---\napproval: deny\ntools: ls\n---\nagreed to")
	w.agree()
	w.write(".claude/agents/a.md", "---\nname: x\n---\ncomes before")
	catalog, _ := w.load()
	c = get(t, catalog, "x")
	assert.Equal(t, "comes before", c.SystemPrompt)
	assert.Equal(t, []string{"ls"}, c.Tools, "nor than an agreed one that it comes before in its folder")

	w.write(".spool/agents/y.md", "---\nmaxSteps: 50\n---\ny")
	f := w.folders()
	f.MaxSteps = 10
	catalog, _ = template.Load(f)
	assert.Zero(t, get(t, catalog, "y").MaxSteps, "the limit of main threads holds")
}

// With an agreement a file counts as it stands, until it changes.
func TestAnAgreedFileCounts(t *testing.T) {
	w := newWorld(t)
	path := w.write(".spool/agents/orchestrator.md", "---\napproval: {shell: auto}\nmaxSteps: 0\n---\nx")
	var told []string
	live := template.NewLive(w.folders(), nil, func(w template.Warning) { told = append(told, w.String()) })
	now := func() agent.Gate {
		cfg, ok := live.Get("orchestrator")
		require.True(t, ok)
		return gate(cfg, "shell", ls)
	}
	assert.Equal(t, agent.GateAsk, now())
	require.Len(t, told, 1)
	assert.Contains(t, told[0], `approval auto of "shell"; maxSteps 0`)
	w.agree()
	assert.Equal(t, agent.GateAuto, now())
	w.write(".spool/agents/orchestrator.md", "---\napproval: {shell: auto}\nmaxSteps: 0\n---\nxy")
	assert.Equal(t, agent.GateAsk, now())
	assert.Len(t, told, 1, "said once")
	require.NoError(t, os.Remove(path))
	w.write("other.md", "---\napproval: {shell: auto}\nmaxSteps: 0\n---\nx")
	require.NoError(t, os.Symlink("../../other.md", path))
	assert.Equal(t, agent.GateAuto, now(), "the same bytes under the same name")
	w.write("other.md", "---\napproval: {shell: auto}\nmaxSteps: 0\n---\nxyz")
	assert.Equal(t, agent.GateAsk, now())
}

// No link leads out of a project: what a text says goes to a model.
func TestNoAgentIsReadFromOutside(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	key := filepath.Join(outside, "key.md")
	require.NoError(t, os.WriteFile(key, []byte("secret"), 0o600))
	agents := filepath.Join(w.project, ".claude", "agents")
	require.NoError(t, os.MkdirAll(agents, 0o700))
	require.NoError(t, os.Symlink(key, filepath.Join(agents, "a.md")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(agents, "b.md"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(agents, "c.md")))
	require.NoError(t, os.WriteFile(filepath.Join(agents, "d.md"), make([]byte, 2<<20), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(agents, "e.md"), []byte("---\n"+strings.Repeat("[", 10_000)+"\n---\nx"), 0o600))
	bomb := "---\napproval:\n  k0: &a0 {a: x, b: x}\n"
	for i := range 40 {
		bomb += fmt.Sprintf("  k%d: &a%d {a: *a%d, b: *a%d}\n", i+1, i+1, i, i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(agents, "f.md"), []byte(bomb+"---\nx"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(w.project, ".spool"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(w.project, ".spool", "agents")))
	c, warnings := w.load()
	assert.Len(t, c.Names(), 3, "those built in")
	assert.Len(t, warnings, 7)
	require.NoError(t, os.MkdirAll(filepath.Join(w.home, "agents"), 0o700))
	require.NoError(t, os.Symlink(key, filepath.Join(w.home, "agents", "own.md")))
	c, _ = w.load()
	assert.Equal(t, "secret", get(t, c, "own").SystemPrompt, "the user's own folder is the user's")
}

// A home that lies in the project, as in a user's home directory, is no project's.
func TestTheUsersOwnFolderNeedsNoAgreement(t *testing.T) {
	w := newWorld(t)
	w.home = filepath.Join(w.project, ".spool")
	w.write(".spool/agents/x.md", "---\napproval: {shell: auto}\n---\nx")
	c, warnings := w.load()
	assert.Empty(t, warnings)
	assert.Equal(t, agent.GateAuto, gate(get(t, c, "x"), "shell", ls))
	assert.Empty(t, c.Offers())
}
