package tool_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// C12: a limit on the size of files costs no file its content. It leaves nothing
// behind, and the model reads why. When there is room again, the same calls work.
func TestFault_C12_FilesTooLarge(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ) // else it would end the process
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	lift := func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }
	dir := t.TempDir()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 60 << 10, Max: before.Max}))
	defer lift()
	noRoom(t, dir, "files may not be that large here", lift)
}

func noRoom(t *testing.T, dir, why string, makeRoom func()) {
	t.Helper()
	r := registry(t, tool.Builtin(tool.Options{})...)
	big := strings.Repeat("long ", 16<<10)
	old := put(t, dir, "old.txt", "old text")
	put(t, dir, "real.txt", "real text")
	require.NoError(t, os.Symlink("real.txt", filepath.Join(dir, "link.txt")))
	calls := map[string]struct {
		name string
		args m
	}{
		"new.txt":  {"file_write", m{"path": "new.txt", "content": big}},
		"old.txt":  {"file_write", m{"path": "old.txt", "content": big}},
		"link.txt": {"file_write", m{"path": "link.txt", "content": big}},
		"./link":   {"file_edit", m{"path": "link.txt", "old": "text", "new": big}},
		"./old":    {"file_edit", m{"path": "old.txt", "old": "text", "new": big}},
	}
	for name, c := range calls {
		res := call(t, r, dir, c.name, c.args)
		failed(t, res, agent.ErrUnknown, c.args["path"].(string)+" cannot be written: ")
		assert.Contains(t, res.Content, why, name)
	}
	assert.Equal(t, "old text", content(t, old))
	assert.Equal(t, "real text", content(t, filepath.Join(dir, "real.txt")))
	assert.NoFileExists(t, filepath.Join(dir, "new.txt"))
	assert.Empty(t, glob(t, dir, ".spool-*"), "left behind")
	makeRoom()
	succeeded(t, call(t, r, dir, "file_edit", calls["./old"].args))
	succeeded(t, call(t, r, dir, "file_write", calls["link.txt"].args))
	assert.Equal(t, "old "+big, content(t, old))
	assert.Equal(t, big, content(t, filepath.Join(dir, "real.txt")))
	succeeded(t, call(t, r, dir, "file_write", m{"path": "link.txt", "content": "short"}))
	assert.Equal(t, "short", content(t, filepath.Join(dir, "real.txt")))
}

// notWritten makes the calls that change a folder, each of which must be refused.
func notWritten(t *testing.T, dir, why string, run func(name string, args m) agent.ToolResult) {
	t.Helper()
	changes := map[string]m{
		"file_write of a file":   {"path": "old.txt", "content": "x"},
		"file_write into folder": {"path": "new.txt", "content": "x"},
		"file_write below":       {"path": "deeper/new.txt", "content": "x"},
		"file_edit":              {"path": "old.txt", "old": "old", "new": "x"},
	}
	for name, args := range changes {
		toolName, _, _ := strings.Cut(name, " ")
		res := run(toolName, args)
		assert.Equal(t, agent.ErrPermissionDenied, res.ErrorReason, "%s: %s", name, res.Content)
		assert.Contains(t, res.Content, why, name)
		first, _, _ := strings.Cut(args["path"].(string), "/")
		assert.True(t, strings.HasPrefix(res.Content, "Error: "+first), "%s: %s", name, res.Content)
	}
	assert.Equal(t, "old text", content(t, filepath.Join(dir, "old.txt")))
}

// C12: what may not be written is named as the model named it, with the reason.
func TestFault_C12_ReadOnlyWorkspace(t *testing.T) {
	t.Run("permission", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, "old.txt", "old text")
		require.NoError(t, os.Chmod(dir, 0o555))
		defer func() { _ = os.Chmod(dir, 0o755) }()
		for d := filepath.Dir(dir); strings.HasPrefix(d, filepath.Join(os.TempDir(), "Test")); d = filepath.Dir(d) {
			require.NoError(t, os.Chmod(d, 0o755))
		}
		notWritten(t, dir, "permission denied", func(name string, args m) (res agent.ToolResult) {
			raw, err := json.Marshal(args)
			require.NoError(t, err)
			cmd := exec.Command("/proc/self/exe", dir, name, string(raw))
			cmd.Env = append(os.Environ(), "SPOOL_TEST_NOBODY=1")
			out, err := cmd.Output()
			require.NoError(t, err, "%s", out)
			require.NoError(t, json.Unmarshal(out, &res), "%s", out)
			return res
		})
	})
}
