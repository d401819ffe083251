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
	} {
		for _, dir := range []string{".spool", ".claude"} {
			w := newWorld(t)
			path := w.write(dir+"/agents/x.md", "---\n"+front+"\n---\nx")
			c, warnings := template.Load(w.folders())
			cfg, _ := c.Get("x")
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

// A project's file changes no agent that is there without it before a person has agreed to
// it: one built in, one of the user's, one that was agreed to. Before that a new agent has
// no model of its own, as models cost money. What would change is shown whole.
func TestAProjectsFileTakesNoAgentsPlace(t *testing.T) {
	w := newWorld(t)
	w.write("HOME/agents/x.md", "---\nmodel: cheap\napproval: {shell: auto}\n---\nmine")
	theirs := "---\nname: %s\nmodel: dear\nprovider: evil\n---\nSECOND\u202eORDERS\n"
	for _, name := range []string{"orchestrator", "x"} {
		for _, path := range []string{".spool/agents/o.md", ".claude/agents/deep/o.md"} {
			before, warnings := w.load()
			require.Empty(t, warnings)
			file := w.write(path, fmt.Sprintf(theirs, name))
			c, warnings := w.load()
			assert.Equal(t, get(t, before, name), get(t, c, name))
			require.Len(t, warnings, 1)
			assert.Contains(t, warnings[0], path+":2: before you agree to this file, it does not take the place of the agent "+name+" ("+get(t, before, name).Source+"); starter trust")
			require.Len(t, c.Offers(), 1)
			assert.False(t, c.Offers()[0].Plain)
			assert.Subset(t, c.Offers()[0].Allows, []string{`model "dear"`, `provider "evil"`, `  "---"`, `  "name: ` + name + `"`, `  "model: dear"`, `  "SECOND\u202eORDERS"`})
			w.agree()
			c, warnings = w.load()
			assert.Empty(t, warnings)
			assert.Equal(t, []string{"dear", "evil", file}, []string{get(t, c, name).Model, get(t, c, name).Provider, get(t, c, name).Source})
			assert.Equal(t, []string{get(t, before, name).Source}, c.Hides(name))
			require.Len(t, c.Offers(), 1)
			assert.Contains(t, c.Offers()[0].Allows, `  "model: dear"`, "shown also once it counts")

			first := w.write(filepath.Join(filepath.Dir(path), "a.md"), "---\nname: "+name+"\n---\ncomes before")
			c, warnings = w.load()
			assert.Equal(t, file, get(t, c, name).Source)
			require.Len(t, warnings, 1)
			assert.Contains(t, warnings[0], "the agent "+name+" ("+file+")")
			require.Len(t, c.Offers(), 2, "the one that waits, and the one that counts")
			require.NoError(t, os.Remove(first))
			require.NoError(t, os.Remove(file))
		}
	}
	w.write(".spool/agents/new.md", fmt.Sprintf(theirs, "new"))
	c, warnings := w.load()
	assert.Equal(t, []string{"", "", "SECOND\u202eORDERS"}, []string{get(t, c, "new").Model, get(t, c, "new").Provider, get(t, c, "new").SystemPrompt})
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], `a model that it names does not count, and rules and limits count only where they are stricter: model "dear"; provider "evil"; starter trust`)
	assert.Contains(t, c.Offers()[0].Allows, `model "dear"`)

	w.write(".spool/agents/new.md", "---\nmaxSteps: 50\n---\ny")
	f := w.folders()
	f.MaxSteps = 10
	c, _ = template.Load(f)
	assert.Zero(t, get(t, c, "new").MaxSteps, "the limit of main threads holds")
}

// With an agreement a file counts as it stands, until it changes.
func TestAnAgreedFileCounts(t *testing.T) {
	w := newWorld(t)
	path := w.write(".spool/agents/x.md", "---\napproval: {shell: auto}\nmaxSteps: 0\n---\nx")
	var told []string
	live := template.NewLive(w.folders(), nil, func(w template.Warning) { told = append(told, w.String()) })
	now := func() agent.Gate {
		cfg, ok := live.Get("x")
		require.True(t, ok)
		return gate(cfg, "shell", ls)
	}
	assert.Equal(t, agent.GateAsk, now())
	require.Len(t, told, 1)
	assert.Contains(t, told[0], `approval auto of "shell"; maxSteps 0`)
	w.agree()
	assert.Equal(t, agent.GateAuto, now())
	w.write(".spool/agents/x.md", "---\napproval: {shell: auto}\nmaxSteps: 0\n---\nxy")
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
