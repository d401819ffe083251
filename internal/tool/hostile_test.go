package tool_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// While calls run, a name is swapped again and again between a file of the
// workspace and links that lead out: no call reads or writes outside.
func TestLinksSwappedDuringCalls(t *testing.T) {
	r, base := files(t)
	put(t, base, "out/secret.txt", "secret")
	dir := filepath.Join(base, "ws")
	put(t, dir, "d/a.txt", "inside")
	put(t, dir, "real/a.txt", "inside")
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !stop.Load(); i++ {
			_ = os.Remove(filepath.Join(dir, "swap"))
			_ = os.Symlink([]string{"../out", "real", filepath.Join(base, "out")}[i%3], filepath.Join(dir, "swap"))
			_ = os.Remove(filepath.Join(dir, "d/link"))
			_ = os.Symlink([]string{"../../out/secret.txt", "a.txt"}[i%2], filepath.Join(dir, "d/link"))
		}
	})
	end := time.Now().Add(2 * time.Second)
	for worker := range 4 {
		wg.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				for _, c := range []struct {
					name string
					args m
				}{
					{"file_read", m{"path": "swap/secret.txt"}}, {"file_read", m{"path": "d/link"}}, {"ls", m{"path": "swap"}},
					{"grep", m{"pattern": "secret", "path": "swap"}}, {"glob", m{"pattern": "swap/*"}}, {"grep", m{"pattern": "secret"}},
					{"file_write", m{"path": "swap/planted.txt", "content": "x"}}, {"file_write", m{"path": "d/link", "content": "inside"}},
					{"file_edit", m{"path": "swap/secret.txt", "old": "secret", "new": "changed"}},
				} {
					res := call(t, r, dir, c.name, c.args)
					if strings.Contains(res.Content, "secret.txt  ") || res.Content == "secret" || strings.Contains(res.Content, ": secret") {
						t.Errorf("worker %d: %s %v: %s", worker, c.name, c.args, res.Content)
						return
					}
				}
			}
			stop.Store(true)
		})
	}
	wg.Wait()
	assert.Equal(t, "secret", content(t, filepath.Join(base, "out/secret.txt")))
	assert.Equal(t, []string{filepath.Join(base, "out/secret.txt")}, glob(t, base, "out/*"), "nothing was planted")
}

// What is no regular file is refused, at once, by whatever name it is reached.
func TestPipesSocketsDevices(t *testing.T) {
	r, dir := files(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.Symlink("pipe", filepath.Join(dir, "to-pipe")))
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	put(t, dir, "sub/x", "text")
	for _, path := range []string{"pipe", "to-pipe", "socket", "loop", "sub"} {
		for name, args := range map[string]m{
			"file_read": {"path": path}, "file_write": {"path": path, "content": "x"}, "file_edit": {"path": path, "old": "a", "new": "b"},
		} {
			res := call(t, r, dir, name, args)
			assert.Equal(t, agent.ErrInvalidInput, res.ErrorReason, "%s %s: %s", name, path, res.Content)
		}
	}
	assert.Equal(t, "sub/x:1: text\n", succeeded(t, call(t, r, dir, "grep", m{"pattern": "."})))
	failed(t, call(t, r, dir, "file_write", m{"path": strings.Repeat("x", 300), "content": ""}), agent.ErrInvalidInput, "too long")
	if _, err := os.Stat("/proc/self/status"); err == nil {
		assert.Contains(t, succeeded(t, call(t, r, "/proc/self", "file_read", m{"path": "status"})), "Pid:", "files that say they are empty")
	}
}

// A name is one name in a list, whatever it holds.
func TestNamesAreListedAsTheyAre(t *testing.T) {
	r, dir := files(t)
	for _, name := range []string{"a\nb/ 3 bytes", "\x1b[2Jclear", "bad\xff", "plain é"} {
		put(t, dir, strings.ReplaceAll(name, "/", "_"), "needle")
	}
	list := succeeded(t, call(t, r, dir, "ls", m{"path": "."}))
	assert.Equal(t, 4, strings.Count(list, "\n"), list)
	assert.Contains(t, list, `"a\nb_ 3 bytes"  6 bytes`)
	assert.Contains(t, list, `"\x1b[2Jclear"`)
	assert.Contains(t, list, `"bad\xff"`)
	assert.Contains(t, list, "plain é  6 bytes")
	assert.Len(t, strings.Split(succeeded(t, call(t, r, dir, "glob", m{"pattern": "*"})), "\n"), 4)
	assert.Equal(t, 4, strings.Count(succeeded(t, call(t, r, dir, "grep", m{"pattern": "needle"})), "\n"))
}

// An edit of one name of a file with two leaves the other as it was: package
// managers link files of a common store.
func TestHardLinksAreNotWrittenThrough(t *testing.T) {
	r, dir := files(t)
	first := put(t, dir, "one", "old")
	require.NoError(t, os.Link(first, filepath.Join(dir, "two")))
	succeeded(t, call(t, r, dir, "file_edit", m{"path": "two", "old": "old", "new": "new"}))
	assert.Equal(t, "old", content(t, first))
	assert.Equal(t, "new", content(t, filepath.Join(dir, "two")))
}

// Sizes: what is too large is said, not cut.
func TestHugeFiles(t *testing.T) {
	r, dir := files(t)
	path := put(t, dir, "huge", "x")
	require.NoError(t, os.Truncate(path, 1<<40)) // sparse
	for name, args := range map[string]m{"file_read": {"path": "huge"}, "file_edit": {"path": "huge", "old": "x", "new": "y"}, "grep": {"pattern": "x", "path": "huge"}} {
		failed(t, call(t, r, dir, name, args), agent.ErrInvalidInput, "at most 67108864 can be read")
	}
	assert.Equal(t, "No line matches.\n[not searched, larger than 10 MB (give the path of one to search it): huge]", succeeded(t, call(t, r, dir, "grep", m{"pattern": "x"})), "and is left out of a search")
}

// What a pattern stands for is bounded before it is used, and a search in a long line
// ends with its context.
func TestPatternsAreBounded(t *testing.T) {
	r, dir := files(t)
	put(t, dir, strings.Repeat("a", 100), "")
	put(t, dir, "long", strings.Repeat("ab", 4<<20))
	nested := "a"
	for range 12 {
		nested = "{" + nested + ",b}{a,b}"
	}
	for name, patterns := range map[string][]string{
		"glob": {strings.Repeat("{a,b,aa,ab}", 26) + "z", nested, "*" + strings.Repeat("{a,aa}", 40), strings.Repeat("{a,{b,c}}", 20), strings.Repeat("a*", 600)},
		"grep": {strings.Repeat("(x{100})", 120), "(x{1000}){100}", strings.Repeat("a", 1001)},
	} {
		for _, pattern := range patterns {
			assert.Equal(t, agent.ErrInvalidInput, call(t, r, dir, name, m{"pattern": pattern}).ErrorReason, pattern)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan agent.ToolResult)
	go func() {
		ended <- r.Run(ctx, "grep", agent.ToolRun{Workdir: dir, Args: []byte(`{"pattern":"(.?.?.?.?.?.?.?.?){500}z$","path":"long"}`)})
	}()
	cancel()
	failed(t, <-ended, agent.ErrAborted, agent.TextAborted)
	assert.Contains(t, succeeded(t, call(t, r, dir, "grep", m{"pattern": "bab*$", "path": "long"})), "long:1 (column ")
	assert.Contains(t, succeeded(t, call(t, r, dir, "glob", m{"pattern": "{l,m,n}{o,p}{n,q}{g,*.{go,md,js,ts}}"})), "long")
	assert.Contains(t, tool.CheckRule("shell("+strings.Repeat("*a", 600)+")", "deny"), "too long")
}

// A big tree and patterns that are bad for other engines: bounded output, bounded
// time, and a cancel is obeyed.
func TestSearchesAreBounded(t *testing.T) {
	r, dir := files(t)
	for i := range 40 {
		sub := filepath.Join(dir, fmt.Sprintf("d%02d/e/f", i))
		require.NoError(t, os.MkdirAll(sub, 0o755))
		for k := range 100 {
			require.NoError(t, os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%03d.txt", k)), nil, 0o600))
		}
	}
	out := succeeded(t, call(t, r, dir, "glob", m{"pattern": "**/**/**/*.txt"}))
	assert.Equal(t, 1000, strings.Count(out, "\n"))
	assert.Contains(t, out, "[… 3000 more files")
	put(t, dir, "long.txt", strings.Repeat("a", 5<<20)+"\n")
	began := time.Now()
	assert.Equal(t, "No line matches.", succeeded(t, call(t, r, dir, "grep", m{"pattern": `^(a+a+)+b$`, "path": "long.txt"})))
	assert.Less(t, len(succeeded(t, call(t, r, dir, "grep", m{"pattern": `.`}))), 1<<20)
	assert.Less(t, time.Since(began), 3*patience)
	failed(t, call(t, r, dir, "grep", m{"pattern": `((a{1,100}){1,100}){1,100}`}), agent.ErrInvalidInput, "not valid")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, args := range map[string]string{"glob": `{"pattern":"**/*"}`, "grep": `{"pattern":"x"}`} {
		failed(t, r.Run(ctx, name, agent.ToolRun{Workdir: dir, Args: []byte(args)}), agent.ErrAborted, agent.TextAborted)
	}
}
