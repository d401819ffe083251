//go:build npm

package mcp

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/mcp/mcptest"
)

// A server that others wrote: the file server of the npm registry.
func TestFilesystemServerFromNPM(t *testing.T) {
	f := prepare(t, nil)
	f.write(filepath.Join(f.home, "mcp.json"), object{"filesystem": object{
		"command": mcptest.NPM(t, "mcp-server-filesystem"), "args": []string{f.work}, "trust": true,
	}})
	f.start()
	assert.Contains(t, f.names(), "mcp__filesystem__read_text_file")
	f.ok("mcp__filesystem__write_file", object{"path": f.path("a.txt"), "content": "written over MCP"})
	assert.Equal(t, "written over MCP", f.file("a.txt"))
	assert.Contains(t, f.ok("mcp__filesystem__read_text_file", object{"path": f.path("a.txt")}), "written over MCP")
	r := f.call("mcp__filesystem__read_text_file", object{"path": "/etc/passwd"})
	assert.Equal(t, agent.CallFailed, r.Status)
	assert.Contains(t, r.Content, "Access denied")
	assert.Equal(t, agent.GateAuto, f.tools.Gate("mcp__filesystem__read_text_file", agent.ToolRun{}, nil))
	assert.Equal(t, agent.GateAsk, f.tools.Gate("mcp__filesystem__write_file", agent.ToolRun{}, nil))
}

// The reference server of the protocol, over each transport.
func TestEverythingServerFromNPM(t *testing.T) {
	program := mcptest.NPM(t, "mcp-server-everything")
	serve := func(kind string) string {
		address := freeAddress(t)
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		cmd := exec.Command(program, kind)
		cmd.Env = append(os.Environ(), "PORT="+port)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
		eventually(t, kind+" listens", func() bool {
			c, err := net.Dial("tcp", "localhost:"+port)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
		return "http://localhost:" + port
	}
	f := prepare(t, nil)
	f.write(filepath.Join(f.home, "mcp.json"), object{
		"pipe": object{"command": program, "args": []string{"stdio"}},
		"web":  object{"type": "http", "url": serve("streamableHttp") + "/mcp"},
		"old":  object{"type": "sse", "url": serve("sse") + "/sse"},
	})
	f.start()
	for _, server := range []string{"pipe", "web", "old"} {
		tool := func(name string) string { return "mcp__" + server + "__" + name }
		assert.Equal(t, "Echo: hi", f.ok(tool("echo"), object{"message": "hi"}), server)
		assert.Contains(t, f.ok(tool("get-sum"), object{"a": 2, "b": 3}), "5", server)
		assert.Contains(t, f.ok(tool("get-tiny-image"), nil), "[image, image/png", server)
		assert.Contains(t, f.ok(tool("get-structured-content"), object{"location": "Chicago"}), "temperature", server)
		assert.Contains(t, f.ok(tool("get-resource-reference"), object{"resourceType": "Text", "resourceId": 1}), "[resource ", server)
		before := len(f.told())
		f.ok(tool("trigger-long-running-operation"), object{"duration": 1, "steps": 4})
		eventually(t, server+" reports progress", func() bool { return strings.Contains(strings.Join(f.told()[before:], "\n"), "tool_progress") })
	}
}
