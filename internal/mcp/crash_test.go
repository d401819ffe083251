package mcp

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// begun makes a call and returns when it runs, which it writes to a file.
func (f *fixture) begun(name, file string, ms int) <-chan agent.ToolResult {
	f.t.Helper()
	before := f.file(file)
	end := make(chan agent.ToolResult, 1)
	go func() { end <- f.callIn(f.t.Context(), name, object{"file": f.path(file), "ms": ms}) }()
	eventually(f.t, "the call runs", func() bool { return len(f.file(file)) > len(before) })
	return end
}

// F5: of two calls, one ends the server each time it is made. The other one is made
// again and succeeds, however often that is; the one that ends it is not made for ever.
func TestFault_F5_OneCallEndsTheServerOfAnother(t *testing.T) {
	f := begin(t, object{"s": stdio(t)})
	for range 20 {
		innocent := f.begun("mcp__s__write_again", "w", 150)
		require.NoError(t, os.RemoveAll(f.path("died")))
		r := f.call("mcp__s__die_again", object{"file": f.path("died")})
		assert.Equal(t, agent.ErrNetwork, r.ErrorReason)
		assert.Contains(t, r.Content, "ended while the call ran, 3 times in a row: the call itself seems to end it")
		assert.Contains(t, r.Content, "out of cheese")
		assert.Equal(t, 3, strings.Count(f.file("died"), "died"), "twice more, not for ever")
		r = <-innocent
		require.Equal(t, agent.CallSuccess, r.Status, r.Content)
		require.Equal(t, "written", r.Content)
	}
}

// F5: several calls run when the server ends under them; those that may be repeated
// all succeed, and those that may not say what is not known.
func TestFault_F5_ACrashTakesManyCallsAlong(t *testing.T) {
	f := begin(t, object{"s": stdio(t)})
	var again []<-chan agent.ToolResult
	for range 4 {
		again = append(again, f.begun("mcp__s__write_again", "again", 300))
	}
	once := f.begun("mcp__s__write", "once", 300)
	kill(t, f.ok("mcp__s__pid", nil))
	for _, end := range again {
		r := <-end
		assert.Equal(t, "written", r.Content)
	}
	r := <-once
	assert.Equal(t, agent.ErrNetwork, r.ErrorReason)
	for _, part := range []string{"The MCP server s ended while the call ran.", "it may or may not have", "find out before you repeat it"} {
		assert.Contains(t, r.Content, part)
	}
	for _, wrong := range []string{"within", "deadline", "timeout", "EOF"} {
		assert.NotContains(t, r.Content, wrong)
	}
	assert.Equal(t, "start\n", f.file("once"), "it was not repeated")
	assert.Equal(t, "echo: x", f.ok("mcp__s__echo", object{"text": "x"}))
}

// F5: what a server takes to start again is no time of the call: neither of the one
// that it ended under nor of the next one.
func TestFault_F5_ASlowRestartIsNoTimeOfTheCall(t *testing.T) {
	f := prepare(t, nil)
	slow := f.path("slow")
	f.write(f.home+"/mcp.json", object{"s": with(stdio(t, "-late", "1500ms", "-late-if", slow), object{"timeout": "500ms"})})
	f.start()
	pid := f.ok("mcp__s__pid", nil)
	require.NoError(t, os.WriteFile(slow, nil, 0o600))
	began := time.Now()
	assert.Equal(t, "alive", f.ok("mcp__s__die_once", object{"file": f.path("once")}), "it was under way")
	assert.Greater(t, time.Since(began), time.Second)
	again := f.ok("mcp__s__pid", nil)
	assert.NotEqual(t, pid, again)
	kill(t, again)
	eventually(t, "the death is noticed", func() bool { return strings.Count(f.log.String(), "the session with the MCP server ended") >= 2 })
	assert.Equal(t, "echo: x", f.ok("mcp__s__echo", object{"text": "x"}), "the next one")
}

// F5: a server that ends under a call and does not start again in its time: the error
// tells of both, and names the setting.
func TestFault_F5_ACrashWithoutARestart(t *testing.T) {
	f := prepare(t, nil)
	slow := f.path("slow")
	f.write(f.home+"/mcp.json", object{"s": with(stdio(t, "-late", "1m", "-late-if", slow), object{"startTimeout": 2000})})
	f.start()
	f.ok("mcp__s__pid", nil)
	require.NoError(t, os.WriteFile(slow, nil, 0o600))
	r := f.call("mcp__s__die_once", object{"file": f.path("once")})
	assert.Equal(t, agent.ErrNetwork, r.ErrorReason)
	assert.Contains(t, r.Content, "The MCP server s ended while the call ran, and there is no new session: it did not answer within 2s (startTimeout of its entry in "+f.home)
}
