package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

func files(t *testing.T) (*tool.Registry, string) {
	return registry(t, tool.Builtin(tool.Options{})...), t.TempDir()
}

func put(t *testing.T, dir, path, text string) string {
	t.Helper()
	full := filepath.Join(dir, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	return full
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// Rule: the workspace cannot be left, however the way out is written.
func TestWorkspaceCannotBeLeft(t *testing.T) {
	r, base := files(t)
	secret := put(t, base, "secret.txt", "secret")
	dir := filepath.Join(base, "ws")
	put(t, dir, "in.txt", "in")
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "abs-link")))
	require.NoError(t, os.Symlink("../secret.txt", filepath.Join(dir, "rel-link")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "up")))

	for _, path := range []string{"../secret.txt", secret, "abs-link", "rel-link", "up/secret.txt", "x/../../secret.txt", "/etc/passwd", dir + "/../secret.txt"} {
		for _, c := range []struct {
			name string
			args m
		}{
			{"file_read", m{"path": path}},
			{"file_write", m{"path": path, "content": "overwritten"}},
			{"file_edit", m{"path": path, "old": "secret", "new": "overwritten"}},
			{"grep", m{"pattern": "secret", "path": path}},
			{"ls", m{"path": filepath.Dir(path)}},
		} {
			if c.name == "ls" && !strings.Contains(path, "..") && !strings.HasPrefix(path, "up") {
				continue
			}
			res := call(t, r, dir, c.name, c.args)
			assert.Equal(t, agent.CallFailed, res.Status, "%s %s: %s", c.name, path, res.Content)
			assert.Equal(t, agent.ErrPermissionDenied, res.ErrorReason, "%s %s: %s", c.name, path, res.Content)
			assert.Contains(t, res.Content, "outside the workspace")
		}
	}
	assert.Equal(t, "secret", content(t, secret))
	failed(t, call(t, r, dir, "glob", m{"pattern": "../*"}), agent.ErrPermissionDenied, "outside the workspace")
	assert.NotContains(t, succeeded(t, call(t, r, dir, "grep", m{"pattern": "secret"})), "secret.txt:")
	assert.Equal(t, "in", succeeded(t, call(t, r, dir, "file_read", m{"path": filepath.Join(dir, "in.txt")})), "absolute paths inside are fine")
}

func TestFileRead(t *testing.T) {
	r, dir := files(t)
	put(t, dir, "a.txt", "one\ntwo\nthree\n")
	read := func(args m) agent.ToolResult { return call(t, r, dir, "file_read", args) }
	assert.Equal(t, "one\ntwo\nthree\n", succeeded(t, read(m{"path": "a.txt"})))
	assert.Equal(t, "two\n[lines 2 to 2 of 3; continue with offset 3]", succeeded(t, read(m{"path": "a.txt", "offset": 2, "limit": 1})))
	assert.Equal(t, "three\n", succeeded(t, read(m{"path": "./a.txt", "offset": 3.0})))
	failed(t, read(m{"path": "a.txt", "offset": 4}), agent.ErrInvalidInput, "a.txt has 3 lines, so there is no line 4")
	failed(t, read(m{"path": "b.txt"}), agent.ErrNotFound, "b.txt does not exist")
	failed(t, read(m{"path": "."}), agent.ErrInvalidInput, ". is a directory; use ls")
	failed(t, read(m{"path": "a.txt/b"}), agent.ErrInvalidInput, "not a directory")
	failed(t, read(m{"path": "a\x00b"}), agent.ErrInvalidInput, "NUL")

	put(t, dir, "bin", "\x7fELF\x00\x01")
	failed(t, read(m{"path": "bin"}), agent.ErrInvalidInput, "binary file of 6 bytes")
	put(t, dir, "latin", "caf\xe9")
	assert.Contains(t, succeeded(t, read(m{"path": "latin"})), "café\n[the file is written in windows-1252, as far as its bytes tell")
	put(t, dir, "empty", "")
	assert.Equal(t, "(the file is empty)", succeeded(t, read(m{"path": "empty"})))
	put(t, dir, "long", strings.Repeat("x\n", 5000))
	assert.Contains(t, succeeded(t, read(m{"path": "long"})), "[lines 1 to 2000 of 5000; continue with offset 2001]")
	put(t, dir, "wide", strings.Repeat("é", 300<<10)+"\nnext\n")
	text := succeeded(t, read(m{"path": "wide"}))
	assert.Less(t, len(text), 257<<10)
	assert.Contains(t, text, "a part of line 1 of 2; continue with offset 1 and column 131073]")

	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	failed(t, read(m{"path": "pipe"}), agent.ErrInvalidInput, "not a regular file")
}

func TestFileWrite(t *testing.T) {
	r, dir := files(t)
	write := func(path, text string) agent.ToolResult {
		return call(t, r, dir, "file_write", m{"path": path, "content": text})
	}
	first := write("new/deep/a.txt", "héllo\nb")
	assert.Equal(t, "Wrote 8 bytes (2 lines) to new/deep/a.txt.", succeeded(t, first))
	assert.Equal(t, first, write("new/deep/a.txt", "héllo\nb"), "a repeated run cannot be told from the first")
	assert.Equal(t, "héllo\nb", content(t, filepath.Join(dir, "new/deep/a.txt")))
	left, err := os.ReadDir(filepath.Join(dir, "new/deep"))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file stays behind")

	script := put(t, dir, "run.sh", "old")
	require.NoError(t, os.Chmod(script, 0o755))
	succeeded(t, write("run.sh", "new"))
	info, err := os.Stat(script)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), info.Mode().Perm(), "the mode is kept")

	require.NoError(t, os.Symlink("run.sh", filepath.Join(dir, "link")))
	succeeded(t, write("link", "through"))
	assert.Equal(t, "through", content(t, script))
	failed(t, write("new", "x"), agent.ErrInvalidInput, "new is a directory")
	failed(t, write("run.sh/x", "x"), agent.ErrInvalidInput, "not a directory")
}

func TestFileEdit(t *testing.T) {
	r, dir := files(t)
	path := put(t, dir, "a.txt", "one\ntwo\ntwo\nthree\n")
	edit := func(old, replacement string) agent.ToolResult {
		return call(t, r, dir, "file_edit", m{"path": "a.txt", "old": old, "new": replacement})
	}
	assert.Equal(t, "Edited a.txt at line 4.", succeeded(t, edit("three", "3")))
	failed(t, edit("four", "4"), agent.ErrValidationFailed, "does not occur in a.txt")
	failed(t, edit("two", "2"), agent.ErrValidationFailed, "occurs 2 times in a.txt")
	failed(t, edit("one", "one"), agent.ErrInvalidInput, "nothing to change")
	failed(t, edit("", "x"), agent.ErrInvalidInput, "old")
	succeeded(t, edit("two\ntwo\n", ""))
	assert.Equal(t, "one\n3\n", content(t, path))
	put(t, dir, "a.txt", "a\r\nb\r\nc\r\n")
	succeeded(t, edit("a\nb\n", "x\ny\n"))
	assert.Equal(t, "x\r\ny\r\nc\r\n", content(t, path), "Windows line ends are kept")
	failed(t, call(t, r, dir, "file_edit", m{"path": "none", "old": "a", "new": "b"}), agent.ErrNotFound, "none does not exist")
}

// Calls of one reply run in parallel; no edit of them may get lost.
func TestParallelEdits(t *testing.T) {
	r, dir := files(t)
	const n = 20
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "<%d>\n", i)
	}
	path := put(t, dir, "a.txt", text.String())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			res := call(t, r, dir, "file_edit", m{"path": "a.txt", "old": fmt.Sprintf("<%d>", i), "new": fmt.Sprintf("[%d]", i)})
			assert.Equal(t, agent.CallSuccess, res.Status, res.Content)
		})
	}
	wg.Wait()
	assert.NotContains(t, content(t, path), "<")
}

func TestLs(t *testing.T) {
	r, dir := files(t)
	assert.Equal(t, "(the directory is empty)", succeeded(t, call(t, r, dir, "ls", m{"path": "."})))
	put(t, dir, "b/c.txt", "12345")
	put(t, dir, "a.txt", "123")
	require.NoError(t, os.Symlink("a.txt", filepath.Join(dir, "z")))
	assert.Equal(t, "a.txt  3 bytes\nb/\nz -> a.txt\n", succeeded(t, call(t, r, dir, "ls", m{"path": ""})))
	assert.Equal(t, "c.txt  5 bytes\n", succeeded(t, call(t, r, dir, "ls", m{"path": "b"})))
	failed(t, call(t, r, dir, "ls", m{"path": "a.txt"}), agent.ErrInvalidInput, "a.txt is a file; use file_read")
	failed(t, call(t, r, dir, "ls", m{"path": "none"}), agent.ErrNotFound, "none does not exist")
}

func TestGlob(t *testing.T) {
	r, dir := files(t)
	for _, p := range []string{"main.go", "a/b.go", "a/c/d.go", "a/e.md", ".git/x.go", "node_modules/y.go", "a/ü[1].txt"} {
		put(t, dir, p, "")
	}
	for pattern, want := range map[string]string{
		"*.go":          "a/b.go\na/c/d.go\nmain.go",
		"**/*.go":       "a/b.go\na/c/d.go\nmain.go",
		"./*/*.go":      "a/b.go",
		"a/**":          "a/b.go\na/c/d.go\na/e.md\na/ü[1].txt",
		"a/**/*.go":     "a/b.go\na/c/d.go",
		"a/*.{go,md}":   "a/b.go\na/e.md",
		"a/[!b].md":     "a/e.md",
		"a/?.go":        "a/b.go",
		"ü*.txt":        "a/ü[1].txt",
		".git/*":        ".git/x.go",
		dir + "/a/*.md": "a/e.md",
		"*.rs":          "No file matches *.rs.",
	} {
		assert.Equal(t, want, succeeded(t, call(t, r, dir, "glob", m{"pattern": pattern})), pattern)
	}
	for _, pattern := range []string{"a[", "{a,b"} {
		failed(t, call(t, r, dir, "glob", m{"pattern": pattern}), agent.ErrInvalidInput, "is not valid")
	}
}

func TestGrep(t *testing.T) {
	r, dir := files(t)
	put(t, dir, "a.txt", "Hello\r\nworld\n")
	put(t, dir, "b/c.txt", "say hello\n"+strings.Repeat("é", 400)+" hello\n")
	put(t, dir, "bin", "hello\x00")
	put(t, dir, ".git/z", "hello")
	grep := func(args m) string { return succeeded(t, call(t, r, dir, "grep", args)) }
	out := grep(m{"pattern": "(?i)hello"})
	assert.True(t, strings.HasPrefix(out, "a.txt:1: Hello\nb/c.txt:1: say hello\nb/c.txt:2 (column 402 of 406): …éé"), out)
	assert.Contains(t, out, "éé hello\n[not searched, binary: bin]")
	assert.Equal(t, "b/c.txt:1: say hello\n", grep(m{"pattern": "^say", "path": "b"}))
	assert.Equal(t, "a.txt:2: world\n", grep(m{"pattern": "w.rld$", "path": "a.txt"}))
	assert.Equal(t, "No line matches.\n[not searched, binary: bin]", grep(m{"pattern": "nothing"}))
	failed(t, call(t, r, dir, "grep", m{"pattern": "("}), agent.ErrInvalidInput, "the pattern is not valid")
	failed(t, call(t, r, dir, "grep", m{"pattern": "x", "path": "none"}), agent.ErrNotFound, "none does not exist")
	put(t, dir, "many", strings.Repeat("hit\n", 1500))
	out = grep(m{"pattern": "hit"})
	assert.Equal(t, 1000, strings.Count(out, "hit\n"))
	assert.Contains(t, out, "[stopped after 1000 lines")
}
