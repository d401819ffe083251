package tool_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// Rule: what is going to be refused is known before anybody is asked, and says what
// the run would say.
func TestCheckRefusesWhatTheRunRefuses(t *testing.T) {
	r := registry(t, tool.Builtin(tool.Options{})...)
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/etc", filepath.Join(dir, "out")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in.txt"), []byte("x"), 0o600))
	for _, c := range []struct {
		tool string
		args any
		want agent.ErrorReason // "" = it may run
	}{
		{"teleport", m{}, agent.ErrToolNotFound},
		{"shell", m{"cmd": "date"}, agent.ErrInvalidInput},
		{"shell", `{"command":`, agent.ErrInvalidInput},
		{"shell", m{"command": "echo \x00"}, agent.ErrInvalidInput},
		{"shell", m{"command": "date"}, ""},
		{"file_write", m{"path": "../x", "content": ""}, agent.ErrPermissionDenied},
		{"file_write", m{"path": "/etc/passwd", "content": ""}, agent.ErrPermissionDenied},
		{"file_write", m{"path": "out/passwd", "content": ""}, agent.ErrPermissionDenied},
		{"file_write", m{"path": "new/dir/x", "content": ""}, ""},
		{"file_edit", m{"path": "out/passwd", "old": "root", "new": "x"}, agent.ErrPermissionDenied},
		{"file_edit", m{"path": "written/by/the/call/before", "old": "a", "new": "b"}, ""},
		{"file_read", m{"path": "a\x00b"}, agent.ErrInvalidInput},
		{"file_read", m{"path": filepath.Join(dir, "in.txt")}, ""},
		{"ls", m{"path": "out"}, agent.ErrPermissionDenied},
		{"grep", m{"path": "..", "pattern": "x"}, agent.ErrPermissionDenied},
		{"web_fetch", m{"url": "ftp://x/y"}, agent.ErrInvalidInput},
		{"web_fetch", m{"url": "http://127.0.0.1:1/"}, agent.ErrPermissionDenied},
		{"web_fetch", m{"url": "http://localhost.:1/"}, agent.ErrPermissionDenied},
		{"web_fetch", m{"url": "http://2130706433/"}, agent.ErrPermissionDenied},
		{"web_fetch", m{"url": "http://8.8.8.8/"}, ""},
	} {
		raw, ok := c.args.(string)
		if !ok {
			b, err := json.Marshal(c.args)
			require.NoError(t, err)
			raw = string(b)
		}
		res, refused := r.Check(context.Background(), c.tool, agent.ToolRun{Workdir: dir, Args: json.RawMessage(raw)})
		assert.Equal(t, c.want != "", refused, "%s %s: %s", c.tool, raw, res.Content)
		if c.want != "" {
			assert.Equal(t, c.want, res.ErrorReason, "%s %s: %s", c.tool, raw, res.Content)
			assert.Equal(t, res.ErrorReason, call(t, r, dir, c.tool, raw).ErrorReason, "the run says the same")
		}
	}
	assert.Empty(t, strings.Join(glob(t, dir, "new"), ""), "a check changes nothing")
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	return found
}

// With private addresses allowed, all of their forms still ask.
func TestPrivateAddressesAskInAllForms(t *testing.T) {
	r := registry(t, tool.WebFetch(true))
	for u, want := range map[string]agent.Gate{
		"http://127.0.0.1/": agent.GateAsk, "http://localhost./": agent.GateAsk, "http://x.localhost/": agent.GateAsk, "http://2130706433/": agent.GateAsk,
		"http://0x7f000001/": agent.GateAsk, "http://0177.0.0.1/": agent.GateAsk, "http://127.1/": agent.GateAsk, "http://0x7f.1/": agent.GateAsk, "http://0/": agent.GateAsk,
		"http://[::ffff:127.0.0.1]/": agent.GateAsk, "http://[::1%25lo]/": agent.GateAsk, "http://user:pw@10.0.0.1/": agent.GateAsk,
		"http://１２７.０.０.１/": agent.GateAsk, "http://ⓛocalhost/": agent.GateAsk, "http://[64:ff9b::7f00:1]/": agent.GateAsk, "http://3232235777/": agent.GateAsk,
		"http://8.8.8.8/": agent.GateAuto, "http://134744072/": agent.GateAuto, "http://1.2.3.4.5/": agent.GateAuto, "http://example.com/": agent.GateAuto, "http://256.1/": agent.GateAuto,
	} {
		args, err := json.Marshal(m{"url": u})
		require.NoError(t, err)
		assert.Equal(t, want, r.Gate("web_fetch", agent.ToolRun{Args: args, Named: func(string) bool { return true }}, nil), u)
	}
}
