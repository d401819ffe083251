package tool_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

func runOf(t *testing.T, dir string, args m) agent.ToolRun {
	t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	return agent.ToolRun{CallID: "call_1", Workdir: dir, Args: raw}
}

// Whatever rules say, a person is asked before a tool writes to what decides what
// agents may do; a rule that denies denies.
func TestProtectedNamesAlwaysAsk(t *testing.T) {
	mover := fake{spec: agent.ToolSpec{Name: "mcp__fs__move", Gate: agent.GateAuto}}
	r := registry(t, append(tool.Builtin(tool.Options{}), mover)...)
	dir := t.TempDir()
	put(t, dir, ".spool/agents/x.md", "")
	put(t, dir, "docs/a.md", "")
	for link, to := range map[string]string{"docs/note.md": "../.spool/agents/x.md", "docs/in": "../.spool", "docs/new.json": "../.mcp.json", "docs/deep": "in/agents"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	allow := policy{"*": "auto", "file_write": "auto", "file_write(docs/*)": "auto", "file_write(*)": "auto"}
	for path, want := range map[string]agent.Gate{
		"docs/a.md": agent.GateAuto, "docs/../src/a.go": agent.GateAuto, filepath.Join(dir, "docs/a.md"): agent.GateAuto, ".github/x": agent.GateAuto,
		".gitignore": agent.GateAuto, "spool.yaml.md": agent.GateAuto, "none/at/all": agent.GateAuto,
		".spool/agents/x.md": agent.GateAskEach, ".SPOOL/agents/x.md": agent.GateAskEach, "sub/deep/.Git/hooks/pre-commit": agent.GateAskEach, ".git": agent.GateAskEach,
		"./a/../.claude/agents/x.md": agent.GateAskEach, ".mcp.json": agent.GateAskEach, "a/.MCP.json": agent.GateAskEach, "x/Spool.YAML": agent.GateAskEach,
		"GIT~1/config": agent.GateAskEach, "claude~2": agent.GateAskEach, "MCP~1.JSO": agent.GateAskEach, ".\ufe0fgit": agent.GateAskEach, ".g\u034fit/x": agent.GateAskEach,
		".git:x": agent.GateAskEach, ".git::$INDEX_ALLOCATION/config": agent.GateAskEach, "\u3164.git": agent.GateAskEach, ".git.": agent.GateAskEach, ".git ": agent.GateAskEach,
		" .git/x": agent.GateAskEach, "\u017fpool.yaml": agent.GateAskEach, "gitx~1/config": agent.GateAuto, "digit~1": agent.GateAuto,
		".git./config": agent.GateAskEach, ".git /config": agent.GateAskEach, ".g\u200cit/config": agent.GateAskEach, `a\.git\config`: agent.GateAskEach,
		filepath.Join(dir, ".spool/x"): agent.GateAskEach, "/elsewhere/.git/x": agent.GateAskEach,
		"docs/note.md": agent.GateAskEach, "docs/in/agents/new.md": agent.GateAskEach, "docs/new.json": agent.GateAskEach, "docs/deep/y/z.md": agent.GateAskEach,
		"docs/in/../a": agent.GateAuto, // read as docs/a, by the tools too
	} {
		run := runOf(t, dir, m{"path": path, "content": ""})
		assert.Equal(t, want, r.Gate("file_write", run, allow), path)
		assert.Equal(t, want, r.Gate("file_edit", run, policy{"*": "auto"}), path)
		assert.Equal(t, agent.GateAuto, r.Gate("file_read", run, nil), "%s may be read", path)
		assert.Equal(t, agent.GateDeny, r.Gate("file_write", run, policy{"file_write": "deny"}), path)
		other := runOf(t, dir, m{"from": "a", "to": []any{m{"where": path}}})
		assert.Equal(t, want, r.Gate("mcp__fs__move", other, policy{"*": "auto"}), "a tool of others: %s", path)
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, ".spool"), filepath.Join(dir, "absolute")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "spool.yaml"), filepath.Join(dir, "dangling")))
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	assert.Equal(t, agent.GateAskEach, r.Gate("mcp__fs__move", runOf(t, dir, m{"to": "dangling"}), nil))
	assert.Equal(t, agent.GateAuto, r.Gate("mcp__fs__move", runOf(t, dir, m{"to": "loop/x"}), nil))
	assert.Equal(t, agent.GateAskEach, r.Gate("mcp__fs__move", runOf(t, dir, m{"to": "absolute/x"}), nil), "tools of others follow links of all kinds")
	text := runOf(t, dir, m{"text": "look at the .git folder,\nsays spool.yaml of all things: nothing is there"})
	assert.Equal(t, agent.GateAuto, r.Gate("mcp__fs__move", text, nil), "a text is no path")

	below := runOf(t, filepath.Join(dir, ".spool/agents"), m{"path": "x.md", "content": ""})
	below.Workspace = dir
	assert.Equal(t, agent.GateAskEach, r.Gate("file_write", below, allow), "a thread that works in a protected folder")
	assert.Equal(t, agent.GateAuto, r.Gate("file_write", runOf(t, below.Workdir, m{"path": "x.md"}), allow), "where the workspace itself lies does not matter")
}

// Of a tool of others any text may be a path, in any form that one is passed in.
func TestProtectedNamesInAnyArgument(t *testing.T) {
	r, dir := registry(t, fake{spec: agent.ToolSpec{Name: "mcp__fs__x"}}), t.TempDir()
	put(t, dir, ".git/config", "")
	require.NoError(t, os.Symlink(".git", filepath.Join(dir, "lnk")))
	gate := func(args any) agent.Gate {
		raw, err := json.Marshal(args)
		require.NoError(t, err)
		return r.Gate("mcp__fs__x", agent.ToolRun{Workdir: dir, Args: raw}, policy{"*": "auto"})
	}
	long := strings.Repeat("+ a line of a long patch\n", 1000)
	for _, text := range []string{
		" .git/config", "\n.git/config", ".git/config ", "lnk/config\n", "\tlnk\n", "file://" + dir + "/.g%69t/config", "file:" + dir + "/ln%6b/config", "FILE://localhost" + dir + "/lnk/x", "file://lnk/x", "FILE://localhost" + dir + "/.git",
		".git%252fconfig", "a%2f.git%2fx", ".git%00", "a,.git/config", "a;.git", "a:.git/x", "a|lnk", "x=lnk/config", `["a",".mcp.json"]`, "a.txt\n.git/config", "a .git", "some more words lnk/config",
		"--- a/x\n+++ b/.git/config\n@@ -1 +1 @@\n", "+++ .mcp.json\t2026-01-01", "*** Update File: spool.yaml\n", "diff --git a/x b/lnk/config\n", "rename to lnk", long + "+++ b/.git/config", long + "+++ b/lnk/config\n",
		"C:\\w\\.git\\config", "'lnk'", "git -C lnk/x status and so on",
	} {
		assert.Equal(t, agent.GateAskEach, gate(m{"x": text}), "%.100q", text)
		assert.Equal(t, agent.GateAskEach, gate(m{"files": m{text: "x"}}), "as a name: %.100q", text)
		assert.Equal(t, agent.GateAskEach, gate([]any{"a", m{"y": []any{text}}}), "in a list: %.100q", text)
	}
	for _, text := range []string{"", "100%", "https://go.dev/doc?q=a,b#c", "src/a.go, src/b.go", "It is what git does, and a legit word.", long, ".gitignore", "+++ b/.github/x", "file:" + strings.Repeat("\u023a", 9), "file://", "\u023a%zz"} {
		assert.Equal(t, agent.GateAuto, gate(m{"x": text}), "%.100q", text)
	}
	many := make([]string, 3000)
	for i := range many {
		many[i] = fmt.Sprint("f", i)
	}
	assert.Equal(t, agent.GateAuto, gate(many[:1000]))
	assert.Equal(t, agent.GateAskEach, gate(many), "more than can be followed")
}

// A rule about paths holds where the path leads.
func TestRulesFollowLinks(t *testing.T) {
	r, dir := files(t)
	put(t, dir, "src/main.go", "")
	put(t, dir, "secret/key", "")
	put(t, dir, "docs/a.md", "")
	for link, to := range map[string]string{"docs/main.md": "../src/main.go", "docs/src": "../src", "open": "secret", "good": "docs", "docs/loop": "loop"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	rules := policy{"file_write": "ask", "file_write(docs/*)": "auto", "file_read(secret/*)": "deny", "file_read(" + dir + "/docs/*)": "deny"}
	for path, want := range map[string]agent.Gate{
		"docs/a.md": agent.GateAuto, "docs/new/b.md": agent.GateAuto, filepath.Join(dir, "docs/a.md"): agent.GateAuto,
		"docs/main.md": agent.GateAsk, "docs/src/new.go": agent.GateAsk, "good/a.md": agent.GateAsk,
	} {
		assert.Equal(t, want, r.Gate("file_write", runOf(t, dir, m{"path": path, "content": ""}), rules), path)
	}
	for path, want := range map[string]agent.Gate{
		"secret/key": agent.GateDeny, "open/key": agent.GateDeny, "open/../open/key": agent.GateDeny, "src/main.go": agent.GateAuto,
		"docs/a.md": agent.GateDeny, "good/a.md": agent.GateDeny,
	} {
		assert.Equal(t, want, r.Gate("file_read", runOf(t, dir, m{"path": path}), rules), path)
	}
}

// Spool's own folder is out of reach, wherever it and the workspace lie.
func TestHomeIsOutOfReach(t *testing.T) {
	r, base := files(t)
	dir := filepath.Join(base, "ws")
	home := filepath.Join(dir, "deep/own")
	put(t, home, "web.key", "secret")
	put(t, home, "sub/dev.json", "secret")
	require.NoError(t, os.Symlink("deep/own", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("link/web.key", filepath.Join(dir, "key")))
	require.NoError(t, os.Symlink(home, filepath.Join(base, "homelink")))
	for _, spelled := range []string{home, filepath.Join(base, "homelink")} {
		for _, path := range []string{"deep/own/web.key", "link/web.key", "key", "deep/own/sub/dev.json", "deep/own/new", "deep/own", "link", filepath.Join(home, "web.key")} {
			for name, args := range map[string]m{
				"file_read": {"path": path}, "file_write": {"path": path, "content": "x"}, "file_edit": {"path": path, "old": "secret", "new": "x"},
				"ls": {"path": path}, "grep": {"pattern": "secret", "path": path},
			} {
				run := runOf(t, dir, args)
				run.Home, run.Approved = spelled, true
				res := r.Run(t.Context(), name, run)
				failed(t, res, agent.ErrPermissionDenied, "belongs to Spool itself")
				check, refused := r.Check(t.Context(), name, run)
				assert.True(t, refused, "%s %s", name, path)
				assert.Equal(t, res, check)
			}
		}
		for name, args := range map[string]m{"grep": {"pattern": "secret"}, "glob": {"pattern": "**/*.{key,json}"}} {
			run := runOf(t, dir, args)
			run.Home = spelled
			assert.Contains(t, succeeded(t, r.Run(t.Context(), name, run)), "No ", name)
		}
		for _, inside := range []string{home, filepath.Join(home, "sub")} {
			run := runOf(t, inside, m{"path": "."})
			run.Home = spelled
			failed(t, r.Run(t.Context(), "ls", run), agent.ErrPermissionDenied, "in Spool's own folder")
			run.Workspace = dir
			assert.Equal(t, agent.CallFailed, r.Run(t.Context(), "ls", run).Status, "as the folder of a thread")
		}
	}
	assert.Equal(t, "secret", content(t, filepath.Join(home, "web.key")))
	other := registry(t, fake{spec: agent.ToolSpec{Name: "mcp__fs__read", ReadOnly: true}})
	for path, want := range map[string]agent.Gate{filepath.Join(home, "web.key"): agent.GateAskEach, "link/web.key": agent.GateAskEach, "file://" + home: agent.GateAskEach, "a.txt": agent.GateAuto} {
		run := runOf(t, dir, m{"path": path})
		run.Home = home
		assert.Equal(t, want, other.Gate("mcp__fs__read", run, policy{"*": "auto"}), path)
	}
}

// While calls run that nobody approved, a name is swapped between a folder of the
// workspace and links to Spool's own folder and to a protected one: the calls reach
// neither. The same for the folder of a thread and what lies outside the workspace.
func TestProtectedLinksSwappedDuringCalls(t *testing.T) {
	r, base := files(t)
	dir := filepath.Join(base, "ws")
	home, outside := filepath.Join(dir, "home"), filepath.Join(base, "out")
	for _, folder := range []string{home, outside, filepath.Join(dir, ".git")} {
		put(t, folder, "f.txt", "secret")
	}
	put(t, dir, "real/f.txt", "inside")
	swap := filepath.Join(dir, "swap")
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !stop.Load(); i++ {
			_ = os.Remove(swap)
			_ = os.Symlink([]string{"home", "real", ".git", outside, "../out", "/"}[i%6], swap)
			_ = os.Remove(swap)
			if os.Mkdir(swap, 0o755) == nil {
				_ = os.WriteFile(filepath.Join(swap, "f.txt"), []byte("inside"), 0o600)
				_ = os.RemoveAll(swap)
			}
		}
	})
	end := time.Now().Add(2 * time.Second)
	for range 3 {
		wg.Go(func() {
			for time.Now().Before(end) {
				swappedCalls(t, r, dir, home)
			}
			stop.Store(true)
		})
	}
	wg.Wait()
	for _, folder := range []string{home, outside, filepath.Join(dir, ".git")} {
		assert.Equal(t, []string{filepath.Join(folder, "f.txt")}, glob(t, folder, "*"), "nothing was planted")
		assert.Equal(t, "secret", content(t, filepath.Join(folder, "f.txt")))
	}
}

func swappedCalls(t *testing.T, r *tool.Registry, dir, home string) {
	for _, c := range []struct {
		name, folder string
		args         m
		git          bool // .git may be read
	}{
		{"file_read", "", m{"path": "swap/f.txt"}, true}, {"grep", "", m{"pattern": "secret", "path": "swap"}, true}, {"grep", "", m{"pattern": "secret"}, true},
		{"file_write", "", m{"path": "swap/planted", "content": "x"}, false}, {"file_edit", "", m{"path": "swap/f.txt", "old": "e", "new": "E"}, false},
		{"file_read", "swap", m{"path": "f.txt"}, true}, {"ls", "swap", m{"path": "."}, true}, {"file_write", "swap", m{"path": "planted", "content": "x"}, false},
		{"file_read", "swap/etc", m{"path": "passwd"}, true},
	} {
		run := runOf(t, filepath.Join(dir, c.folder), c.args)
		run.Workspace, run.Home = dir, home
		res := r.Run(t.Context(), c.name, run)
		if c.folder != "" && strings.Contains(res.Content, "root:") || !c.git && strings.Contains(res.Content, "secret") {
			t.Errorf("%s %v: %s", c.name, c.args, res.Content)
		}
	}
}

// An approved call writes to a protected name.
func TestApprovedCallsWriteToProtectedNames(t *testing.T) {
	r, dir := files(t)
	run := runOf(t, dir, m{"path": ".spool/agents/x.md", "content": "x"})
	failed(t, r.Run(t.Context(), "file_write", run), agent.ErrPermissionDenied, "nothing is written without a person's approval")
	assert.NoDirExists(t, filepath.Join(dir, ".spool"))
	run.Approved = true
	succeeded(t, r.Run(t.Context(), "file_write", run))
	assert.Equal(t, "x", content(t, filepath.Join(dir, ".spool/agents/x.md")))

	put(t, dir, "docs/a.md", "")
	for link, to := range map[string]string{"docs/note.md": "../.spool/agents/x.md", "docs/new": "../.git", ".claude": ".spool"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	for path, to := range map[string]string{"docs/note.md": ".spool/agents/x.md", "docs/new/hooks/x": ".git", ".claude/agents/x.md": ".spool"} {
		run := runOf(t, dir, m{"path": path, "content": "y"})
		run.Approved = true
		res := r.Run(t.Context(), "file_write", run)
		failed(t, res, agent.ErrPermissionDenied, path+" leads to "+to)
		check, refused := r.Check(t.Context(), "file_write", run)
		assert.True(t, refused, "a person would see another path than the one that is written to")
		assert.Equal(t, res.ErrorReason, check.ErrorReason)
	}
	assert.Equal(t, "x", content(t, filepath.Join(dir, ".spool/agents/x.md")))
	assert.NoDirExists(t, filepath.Join(dir, ".git"))
}

func TestHostsIn(t *testing.T) {
	for text, want := range map[string]string{
		"read https://go.dev/doc, then (http://a.example:8080/x).": "go.dev a.example",
		"[link](https://b.example/p?q=1) <https://C.example>":      "b.example c.example",
		"look at example.com and www.d.example.org/page":           "example.com d.example.org",
		"main.tf Makefile.in process.env.name conf.so x.cc g.pm":   "",
		"edit README.md, main.rs and ada@evil.example":             "",
		"src/go.mod, ./x.sh, version 1.2.3":                        "",
		"http://[::1]:80/ http://10.0.0.1/":                        "::1 10.0.0.1",
		"`https://e.example`; \"f.example.org\"":                   "e.example f.example.org",
		"https://user:pw@g.example/":                               "g.example",
	} {
		assert.ElementsMatch(t, strings.Fields(want), tool.HostsIn(text), text)
	}
	search := "An answer with https://no.example\n\n1. T\n   https://yes.example/a\n   https://no.example and text\n2. U\n   https://www.too.example/\n   x\n"
	assert.Equal(t, []string{"yes.example", "too.example"}, tool.HostsFound(search))
}

// A rule of file_read with a pattern holds for all tools that show what is in files, in
// any spelling; a pattern of grep is about its path.
func TestRulesOfFilesHoldForAllTools(t *testing.T) {
	r, dir := files(t)
	for _, path := range []string{"secret/key", "docs/a.md", "docs/secret.txt", "open.txt"} {
		put(t, dir, path, "needle")
	}
	require.NoError(t, os.Symlink("secret", filepath.Join(dir, "lnk")))
	rules := policy{"file_read(secret*)": "deny", "file_read(docs/*)": "ask", "file_edit": "auto"}
	grep := func(rules policy, path string, approved bool) (agent.Gate, string) {
		run := runOf(t, dir, m{"pattern": "needle", "path": path})
		run.Reads, run.Approved = tool.Reads(run, rules), approved
		return r.Gate("grep", run, rules), r.Run(t.Context(), "grep", run).Content
	}
	for path, want := range map[string]agent.Gate{
		"": agent.GateAuto, ".": agent.GateAuto, "open.txt": agent.GateAuto, "docs": agent.GateAsk, "docs/a.md": agent.GateAsk, "docs/secret.txt": agent.GateDeny,
		"secret": agent.GateDeny, "secret/key": agent.GateDeny, "SECRET/key": agent.GateDeny, "s\u200decret": agent.GateDeny, "secret./key": agent.GateDeny, "lnk": agent.GateDeny, "lnk/key": agent.GateDeny,
		filepath.Join(dir, "secret"): agent.GateDeny,
	} {
		gate, _ := grep(rules, path, false)
		assert.Equal(t, want, gate, path)
		if path != "" && path != "." {
			assert.Equal(t, want, r.Gate("file_edit", runOf(t, dir, m{"path": path, "old": "a", "new": "b"}), rules), path)
		}
	}
	_, out := grep(rules, "", false)
	assert.Equal(t, "open.txt:1: needle\n[not searched, a rule of this agent does not let them be shown: docs/a.md, docs/secret.txt, secret/key]", out)
	_, out = grep(rules, "", true)
	assert.Equal(t, "docs/a.md:1: needle\nopen.txt:1: needle\n[not searched, a rule of this agent does not let them be shown: docs/secret.txt, secret/key]", out, "what asks was approved")
	for _, path := range []string{"lnk", "secret/key"} {
		_, out = grep(rules, path, true)
		assert.NotContains(t, out, "needle\n", path)
	}
	image := runOf(t, dir, m{})
	image.Reads = tool.Reads(image, rules)
	_, err := tool.ReadFile(image, "lnk/key", 100)
	require.ErrorContains(t, err, "must not be shown, by a rule of this agent")
	_, err = tool.ReadFile(image, "docs/a.md", 100)
	require.NoError(t, err)

	own := policy{"grep": "ask", "grep(docs/*)": "auto", "grep(docs/secret*)": "deny"}
	gate, out := grep(own, "docs", false)
	assert.Equal(t, agent.GateAuto, gate, "a folder is what is in it")
	assert.Equal(t, "docs/a.md:1: needle\n[not searched, a rule of this agent does not let them be shown: docs/secret.txt]", out)
	gate, _ = grep(own, "open.txt", false)
	assert.Equal(t, agent.GateAsk, gate)
	assert.Nil(t, tool.Reads(image, policy{"file_read": "ask", "*": "deny", "shell(x)": "deny"}), "without patterns each tool has rules of its own")
	assert.Equal(t, agent.GateDeny, r.Gate("shell", agent.ToolRun{Args: []byte(`{"command":"RM -rf x"}`)}, policy{"shell": "auto", "shell(rm *)": "deny"}))
	assert.Equal(t, agent.GateAsk, r.Gate("shell", agent.ToolRun{Args: []byte(`{"command":"GIT push"}`)}, policy{"shell": "ask", "shell(git *)": "auto"}), "what may run is spelled as it says")
}

// Another name of a file of Spool's own folder is out of reach as well.
func TestHardLinksToHome(t *testing.T) {
	r, base := files(t)
	dir, home := filepath.Join(base, "ws"), filepath.Join(base, "home")
	key := put(t, home, "sub/web.key", "secret")
	put(t, dir, "a", "secret")
	require.NoError(t, os.Link(key, filepath.Join(dir, "hk")))
	require.NoError(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	for name, args := range map[string]m{"file_read": {"path": "hk"}, "grep": {"pattern": "secret", "path": "hk"}, "file_edit": {"path": "hk", "old": "secret", "new": "x"}} {
		run := runOf(t, dir, args)
		run.Home, run.Approved = home, true
		failed(t, r.Run(t.Context(), name, run), agent.ErrPermissionDenied, "belongs to Spool itself")
	}
	run := runOf(t, dir, m{"pattern": "secret"})
	run.Home = home
	assert.Equal(t, "a:1: secret\nb:1: secret\n[not searched, unreadable: hk]", succeeded(t, r.Run(t.Context(), "grep", run)))
}

// Files that settings name are out of reach like Spool's own folder, where they are and
// where Spool may make them.
func TestFilesOfSettingsAreOutOfReach(t *testing.T) {
	r, base := files(t)
	dir := filepath.Join(base, "ws")
	keys := put(t, dir, "conf/keys", "secret")
	store, journal := put(t, dir, "spool.db", "secret"), filepath.Join(dir, "spool.db-journal")
	threads := filepath.Join(dir, "threads")
	put(t, threads, "a.json", "secret")
	require.NoError(t, os.Symlink("conf", filepath.Join(dir, "link")))
	require.NoError(t, os.Link(keys, filepath.Join(dir, "hard")))
	run := func(args m) agent.ToolRun {
		run := runOf(t, dir, args)
		run.Home, run.Private, run.Approved = filepath.Join(base, "home"), []string{keys, store, journal, threads, filepath.Join(base, "none")}, true
		return run
	}
	for _, path := range []string{"conf/keys", "link/keys", "hard", "spool.db", "spool.db-journal", "threads/a.json", "threads/new", store} {
		for name, args := range map[string]m{
			"file_read": {"path": path}, "file_write": {"path": path, "content": "x"}, "file_edit": {"path": path, "old": "secret", "new": "x"}, "grep": {"pattern": "secret", "path": path},
		} {
			failed(t, r.Run(t.Context(), name, run(args)), agent.ErrPermissionDenied, "belongs to Spool itself")
			_, refused := r.Check(t.Context(), name, run(args))
			assert.True(t, refused, "%s %s", name, path)
		}
	}
	assert.Contains(t, succeeded(t, r.Run(t.Context(), "grep", run(m{"pattern": "secret"}))), "No line matches.")
	assert.NoFileExists(t, journal)
	succeeded(t, r.Run(t.Context(), "file_write", run(m{"path": "conf/other", "content": "x"})))
	other := registry(t, fake{spec: agent.ToolSpec{Name: "mcp__fs__read", ReadOnly: true}})
	assert.Equal(t, agent.GateAskEach, other.Gate("mcp__fs__read", run(m{"path": "link/keys"}), policy{"*": "auto"}))
}
