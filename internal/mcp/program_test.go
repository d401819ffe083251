package mcp

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// Servers that a program names need no agreement, and come before a file's of the same
// name; without folders no file is read. What is wrong with them is an error.
func TestServersOfTheProgram(t *testing.T) {
	f := prepare(t, nil)
	f.write(filepath.Join(f.work, ".mcp.json"), object{"s": object{"command": "no-such-program"}, "other": object{"command": "no-such-program"}})
	servers, err := json.Marshal(object{"mcpServers": object{"s": stdio(t)}})
	require.NoError(t, err)
	o := f.options()
	o.Servers = servers
	tools, start, err := Tools(o)
	require.NoError(t, err)
	f.tools, f.stop = tools, start(t.Context())
	assert.Contains(t, f.names(), "mcp__s__write_again")
	r := f.call("mcp__other__x", object{})
	assert.Equal(t, agent.ErrPermissionDenied, r.ErrorReason, "the file waits for a person: "+r.Content)

	t.Chdir(f.work)
	tools, start, err = Tools(Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(start(t.Context()))
	_, found := tools.Lookup("mcp__other__x")
	assert.False(t, found, "no folder is not the working directory")

	for text, want := range map[string]string{
		`{"mcpServers": {"a": {"command": 7}}`:        "the MCP servers of the program",
		`{"mcpServers": {"a": {"type": "carrier"}}}`:  `server a: type "carrier" is not known`,
		`{"mcpServers": {"a": {"url": "ftp://x/y"}}}`: "is not an http or https URL",
	} {
		_, _, err := Tools(Options{Servers: []byte(text)})
		assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err), text)
		assert.ErrorContains(t, err, want)
	}
}
