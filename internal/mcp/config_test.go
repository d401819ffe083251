package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/trust"
)

// A project's file starts nothing before a person agreed to what it says, and
// nothing again after it changed.
func TestProjectFileWaitsForAPerson(t *testing.T) {
	f := prepare(t, nil)
	project := filepath.Join(f.work, ".mcp.json")
	f.write(project, object{"s": with(stdio(t), object{"env": object{"A": "1"}})})
	f.start()
	assert.Empty(t, f.names())
	assert.Contains(t, f.log.String(), "agreed")
	r := f.call("mcp__s__echo", nil)
	assert.Equal(t, agent.ErrPermissionDenied, r.ErrorReason)
	assert.Contains(t, r.Content, "starter trust")

	f.agree()
	eventually(t, "the servers start without a restart of the worker", func() bool { return slices.Contains(f.names(), "mcp__s__echo") })
	pid := f.ok("mcp__s__pid", nil)

	f.write(project, object{"s": with(stdio(t), object{"env": object{"A": "2"}})})
	eventually(t, "what nobody agreed to is stopped", func() bool { return len(f.names()) == 0 && !alive(pid) })
	f.agree()
	eventually(t, "and starts again", func() bool { return slices.Contains(f.names(), "mcp__s__echo") })
	assert.Contains(t, f.ok("mcp__s__environment", nil), "A=2")
}

func TestProjectServersComeFirst(t *testing.T) {
	f := prepare(t, object{"s": with(stdio(t), object{"env": object{"WHO": "home"}})})
	f.write(filepath.Join(f.work, ".mcp.json"), object{"s": with(stdio(t), object{"env": object{"WHO": "project"}})})
	f.agree()
	f.start()
	assert.Contains(t, f.ok("mcp__s__environment", nil), "WHO=project")
}

// MCP tools ask, unless they say that they only read and their server is
// trusted; a file may say otherwise for a server or a tool.
func TestApprovals(t *testing.T) {
	f := begin(t, object{
		"plain":   stdio(t),
		"trusted": with(stdio(t), object{"trust": true}),
		"policy":  with(stdio(t), object{"approval": object{"echo": "auto", "write": "deny", "*": "ask"}, "trust": true}),
		"cline":   with(stdio(t), object{"alwaysAllow": []string{"write"}}),
		"few":     with(stdio(t), object{"includeTools": []string{"echo", "write"}, "excludeTools": []string{"write"}}),
	})
	for name, want := range map[string]agent.Gate{
		"mcp__plain__echo": agent.GateAsk, "mcp__plain__write": agent.GateAsk,
		"mcp__trusted__echo": agent.GateAuto, "mcp__trusted__write": agent.GateAsk,
		"mcp__policy__echo": agent.GateAuto, "mcp__policy__pid": agent.GateAsk,
		"mcp__cline__write": agent.GateAuto, "mcp__cline__echo": agent.GateAsk,
	} {
		assert.Equal(t, want, f.tools.Gate(name, agent.ToolRun{Args: json.RawMessage(`{}`)}, nil), name)
	}
	assert.Equal(t, agent.GateDeny, f.tools.Gate("mcp__trusted__echo", agent.ToolRun{}, map[string]string{"mcp__trusted__*": "deny"}), "an agent's policy comes first")
	names := f.names()
	assert.NotContains(t, names, "mcp__policy__write")
	assert.Contains(t, names, "mcp__few__echo")
	assert.NotContains(t, names, "mcp__few__write")
	assert.NotContains(t, names, "mcp__few__pid")
}

// F4: names and schemas as they are found in the wild: every provider accepts
// what is offered, and every tool works.
func TestFault_F4_OddToolsWork(t *testing.T) {
	f := begin(t, object{"s": stdio(t, "-odd"), "other": stdio(t), strings.Repeat("very-long-server-name-", 4): stdio(t)})
	assert.Equal(t, "read by testserver", f.ok("mcp__s__read", nil))
	assert.Equal(t, "read by testserver", f.ok("mcp__other__read", nil))
	assert.Equal(t, `ns:tool.name/x got map[text:a]`, f.ok("mcp__s__ns_tool_name_x", object{"text": "a"}))
	assert.Equal(t, "clash_one got map[]", f.ok("mcp__s__clash_one", nil))
	clashes, long := 0, 0
	for _, spec := range f.tools.Specs(nil) {
		assert.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, spec.Name)
		var schema map[string]any
		require.NoError(t, json.Unmarshal(spec.Schema, &schema), spec.Name)
		assert.Equal(t, "object", schema["type"], spec.Name)
		assert.IsType(t, map[string]any{}, schema["properties"], spec.Name)
		for _, refused := range []string{"$schema", "anyOf", "oneOf", "allOf", "not", "enum"} {
			assert.NotContains(t, schema, refused, spec.Name)
		}
		assert.LessOrEqual(t, len(spec.Schema), 64<<10)
		assert.LessOrEqual(t, len(spec.Description), 3*longestDescription, spec.Name)
		if strings.HasPrefix(spec.Name, "mcp__s__clash_one_") {
			clashes++
			assert.Contains(t, f.ok(spec.Name, nil), "clash")
		}
		if strings.HasPrefix(spec.Name, "mcp__s__long_name_") {
			long++
			assert.Contains(t, f.ok(spec.Name, nil), "long_name_long_name_")
		}
	}
	assert.Equal(t, 2, clashes, "clash.one and clash/one")
	assert.Equal(t, 2, long)
	for _, name := range []string{"boolean", "empty", "nothing", "types", "reference", "remote", "unknown_draft", "wrong", "huge", "properties_is_a_list", "union"} {
		assert.Contains(t, f.ok("mcp__s__"+name, nil), "got map[]", name)
	}
	assert.Equal(t, agent.ErrInvalidInput, f.call("mcp__s__no_type", nil).ErrorReason)
}

// F7: the list is the same whatever order servers and tools come in.
func TestFault_F7_NamesDoNotDependOnOrder(t *testing.T) {
	tools := []origin{{"a", "x"}, {"a", "x:y"}, {"a", "x.y"}, {"a", "x_y"}, {"a b", "t"}, {"a_b", "t"}, {"a__b", "t"}, {"", "t"}, {"ü", "t"}, {"a", strings.Repeat("é", 80)}}
	want := nameAll(tools)
	seen := map[string]bool{}
	for _, o := range tools {
		name := want[o]
		assert.Regexp(t, `^mcp__[A-Za-z0-9_-]{1,59}$`, name)
		assert.NotEmpty(t, serverOf(name))
		assert.False(t, seen[name], "%s twice", name)
		seen[name] = true
	}
	slices.Reverse(tools)
	assert.Equal(t, want, nameAll(tools))
	assert.Equal(t, "mcp__a__x_y", want[origin{"a", "x_y"}], "the tool of that name keeps it")
	assert.Equal(t, "mcp__a_b__t", want[origin{"a_b", "t"}])
}

func TestFilesAsUsersHaveThem(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mcp.json")
	env := func(name string) string { return map[string]string{"TOKEN": "t0", "HOST": "example.com"}[name] }
	read := func(text string) File {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return readFile(trust.Book{}, dir, "mcp.json", dir, "", env)
	}
	f := read(`{"inputs": [], "mcpServers": {
		"stdio": {"type": "stdio", "command": "npx", "args": ["-y", "pkg@${VERSION:-1.2}"], "env": {"KEY": "${TOKEN}"}, "cwd": "sub"},
		"http": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
		"streamable": {"type": "streamable-http", "url": "https://x.dev"},
		"gemini": {"httpUrl": "https://x.dev", "timeout": 5000, "trust": true},
		"windsurf": {"serverUrl": "https://x.dev"},
		"old": {"type": "sse", "url": "https://x.dev/sse"},
		"off": {"command": "x", "disabled": true},
		"bad": {"type": "carrier-pigeon", "command": "x"},
		"none": {}, "list": [], "file": {"url": "file:///etc/passwd"}, "gate": {"command": "x", "approval": "maybe"}
	}}`)
	require.Empty(t, f.Problem)
	got := map[string]ServerConfig{}
	for _, c := range f.Servers {
		got[c.ID] = c
	}
	assert.Len(t, got, 11)
	assert.Equal(t, []string{"-y", "pkg@1.2"}, got["stdio"].Args)
	assert.Equal(t, "t0", got["stdio"].Env["KEY"])
	assert.Equal(t, filepath.Join(dir, "sub"), got["stdio"].Dir)
	assert.Equal(t, "https://example.com/mcp", got["http"].URL)
	assert.Equal(t, "Bearer t0", got["http"].Headers["Authorization"])
	for id, kind := range map[string]string{"stdio": kindStdio, "http": kindHTTP, "streamable": kindHTTP, "gemini": kindHTTP, "windsurf": kindHTTP, "old": kindSSE} {
		assert.Equal(t, kind, got[id].Kind, id)
		assert.Empty(t, got[id].Problem, id)
	}
	assert.Equal(t, 5*time.Second, got["gemini"].Call)
	assert.True(t, got["gemini"].Trusted)
	for id, problem := range map[string]string{"bad": "carrier-pigeon", "none": "neither a command nor a url", "list": "not valid", "file": "http or https", "gate": "maybe"} {
		assert.Contains(t, got[id].Problem, problem, id)
	}
	assert.Contains(t, read(`{"mcpServers": [`).Problem, "JSON")
	assert.Empty(t, readFile(trust.Book{}, dir, "none", dir, "", env).Servers)

	f = read("{\"mcpServers\": {\"a\\n\u202eb\": {\"command\": \"sh\", \"Command\": \"evil\", \"args\": [\"-c\", \"echo\\n\\u001b[8m; rm\u3164\", \"" + strings.Repeat("x", 5000) + "\"]," +
		`"env": {"K": "${TOKEN}"}, "cwd": "/", "headers": {"H": "${HOST:-x}"}, "url": "http://e", "trust": true, "approval": {"*": "auto"},` +
		`"alwaysAllow": ["w"], "includeTools": ["i"], "excludeTools": ["e"]}}}`)
	const name = `MCP server "a\n\u202eb" `
	assert.Equal(t, []string{
		name + `runs "evil" "-c" "echo\n\x1b[8m; rm\u3164" "` + strings.Repeat("x", 5000) + `"`, name + `is reached at "http://e"`, name + `is started in "/"`,
		name + `gets the variable "K" "${TOKEN}"`, name + `gets the header "H" "${HOST:-x}"`, name + `gets from the worker's environment the value of "HOST" "TOKEN"`,
		name + `is believed when it calls a tool read-only: trust is "true"`, name + `has the approval "*" "auto"`, name + `has the approval "w" "auto"`,
		name + `offers only "i"`, name + `does not offer "e"`,
	}, f.Allows, "all of it, whole and quoted")
	assert.False(t, f.Agreed)
}

// A server of the user is not started among the files of a project, which it might run.
func TestTheUsersServersStartApart(t *testing.T) {
	f := prepare(t, object{
		"script": object{"command": "sh", "args": []string{"-c", ". ./setup; touch made-by-script; exec cat"}, "startTimeout": 1000},
		"named":  object{"command": "./bin/named"}, "here": with(stdio(t), object{"cwd": "."}),
	})
	require.NoError(t, os.Mkdir(f.path("bin"), 0o700))
	for _, name := range []string{"setup", "bin/named"} {
		require.NoError(t, os.WriteFile(f.path(name), []byte("#!/bin/sh\ntouch "+f.path("canary")+"\n"), 0o700))
	}
	f.start()
	assert.Contains(t, f.log.String(), "the command ./bin/named is not there")
	assert.NoFileExists(t, f.path("canary"))
	assert.NoFileExists(t, f.path("made-by-script"))
	assert.Equal(t, f.work, f.options().Files()[1].Servers[0].Dir, "cwd says otherwise")
}

// What an agent was allowed to run could have written the user's file: it waits as well.
func TestTheUsersFileWaitsForAPerson(t *testing.T) {
	f := prepare(t, nil)
	raw, err := json.Marshal(object{"mcpServers": object{"s": with(stdio(t), object{"env": object{"KEY": "${HOME}"}})}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.home, "mcp.json"), raw, 0o600))
	f.start()
	assert.Empty(t, f.names())
	assert.Contains(t, f.log.String(), trust.Command(f.home))
	assert.Equal(t, agent.ErrPermissionDenied, f.call("mcp__s__echo", nil).ErrorReason)
	require.NoError(t, trust.Agree(f.home, time.Now(), f.options().Files()[1].File))
	eventually(t, "the servers start", func() bool { return slices.Contains(f.names(), "mcp__s__echo") })
	assert.Contains(t, f.ok("mcp__s__environment", nil), "KEY="+os.Getenv("HOME"))
}
