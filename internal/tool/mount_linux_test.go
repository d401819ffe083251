//go:build mount

package tool_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// small mounts a file system of 256 KiB, which takes root.
func small(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, syscall.Mount("spool", dir, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// C12: a full disk costs no file its content. See TestFault_C12_FilesTooLarge.
func TestFault_C12_FullDisk(t *testing.T) {
	dir := small(t)
	fill := put(t, dir, "fill", strings.Repeat("x", 200<<10))
	noRoom(t, dir, "the disk is full", func() { require.NoError(t, os.Remove(fill)) })
}

// C12: a read-only file system is named as the reason.
func TestFault_C12_ReadOnlyFileSystem(t *testing.T) {
	dir := small(t)
	put(t, dir, "old.txt", "old text")
	require.NoError(t, syscall.Mount("spool", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	r := registry(t, tool.Builtin(tool.Options{})...)
	notWritten(t, dir, "is on a read-only file system", func(name string, args m) agent.ToolResult { return call(t, r, dir, name, args) })
}

// A command that writes without end leaves room on the disk.
func TestShellFilesWithoutEndLeaveRoom(t *testing.T) {
	dir := small(t)
	r := registry(t, tool.Builtin(tool.Options{ShellMemory: tool.DefaultShellMemory})...)
	res := call(t, r, dir, "shell", m{"command": "cat /dev/zero > big"})
	assert.Equal(t, agent.CallFailed, res.Status, res.Content)
	succeeded(t, call(t, r, dir, "file_write", m{"path": "after.txt", "content": strings.Repeat("x", 50<<10)}))
}
