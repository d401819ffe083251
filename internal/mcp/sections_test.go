package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/trust"
)

// readText reads a file of servers as a workspace has it.
func readText(t *testing.T, text string) (f File, servers map[string]ServerConfig, dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".mcp.json"), []byte(text), 0o600))
	f = readFile(trust.Book{}, dir, ".mcp.json", dir, "", func(name string) string {
		return map[string]string{"TOKEN": "t0ken", "HOME": "/u/ann"}[name]
	})
	servers = map[string]ServerConfig{}
	for _, c := range f.Servers {
		servers[c.ID] = c
	}
	return f, servers, dir
}

// Servers stand under the keys that programs have for them.
func TestCase_M11_SectionsOfOtherPrograms(t *testing.T) {
	for name, text := range map[string]string{
		"claude": `{"mcpServers":{"a":{"command":"x"}}}`, "vscode": `{"inputs":[],"servers":{"a":{"command":"x"}}}`,
		"settings": `{"editor.tabSize":2,"mcp":{"inputs":[],"servers":{"a":{"command":"x"}}}}`, "dotted": `{"mcp.servers":{"a":{"command":"x"}}}`,
		"opencode": `{"$schema":"https://opencode.ai/config.json","mcp":{"a":{"type":"local","command":["x"]},"timeout":5000}}`,
		"zed":      `{"context_servers":{"a":{"command":"x","args":[],"env":{}}}}`, "other case": `{"MCPServers":{"a":{"command":"x"}}}`,
	} {
		f, got, _ := readText(t, text)
		assert.Empty(t, f.Problem, name)
		assert.Len(t, got, 1, name)
		assert.Equal(t, [3]string{"x", kindStdio, ""}, [3]string{got["a"].Command, got["a"].Kind, got["a"].Problem}, name)
	}
	for text, want := range map[string]string{
		`{"github":{"command":"x"}}`: "names no servers: it has github", `{"servers":[]}`: "has servers that is no object", `{"mcp":{"servers":7}}`: "has servers that is no object",
		`[]`: "is not the JSON expected", ``: "is not the JSON expected", `{"mcpServers": {"a": }}`: "is not the JSON expected", `{"mcpServers":{}`: "is not the JSON expected",
	} {
		f, got, _ := readText(t, text)
		assert.Contains(t, f.Problem, want, text)
		assert.Empty(t, got, text)
	}
	f, got, _ := readText(t, `{}`)
	assert.Empty(t, f.Problem)
	assert.Empty(t, got)
	_, got, _ = readText(t, `{"mcpServers":{"a":{"command":"x"}},"servers":{"a":{"command":"y"},"b":{"command":"z"}}}`)
	assert.Contains(t, got["a"].Problem, "more than one section")
	assert.Empty(t, got["b"].Problem)
}

// Comments, commas at the end, a byte order mark and CRLF are no mistakes; texts that look
// like them stay.
func TestCase_M12_CommentsAndCommas(t *testing.T) {
	f, got, _ := readText(t, "\ufeff// head\r\n{ /* all\r\n of \"them\" */\r\n\t\"mcpServers\": { // \"b\": {\"command\": \"no\"},\r\n"+
		`"a": {"command": "x", "args": ["//no", "/* no */", ",]", "\",}", "\\", "http://e/,}",], "env": {"A": "1", /* , */ }, } , // last`+"\r\n},\r\n}\r\n// end")
	require.Empty(t, f.Problem)
	require.Len(t, got, 1)
	assert.Equal(t, []string{"//no", "/* no */", ",]", `",}`, `\`, "http://e/,}"}, got["a"].Args)
	assert.Equal(t, map[string]string{"A": "1"}, got["a"].Env)
	for _, text := range []string{`{"mcpServers": {,}`, `{"a": 1,, }`, `{ /* never ended }`, `{"mcpServers" // no value`} {
		f, _, _ := readText(t, text)
		assert.Contains(t, f.Problem, "is not the JSON expected", text)
	}
}

// What is switched off does not start; what switches nothing is refused.
func TestCase_M13_SwitchedOff(t *testing.T) {
	f, got, _ := readText(t, `{"mcpServers":{
		"off": {"command":"x","disabled":true}, "not on": {"command":"x","enabled":false}, "both": {"command":"x","enabled":true,"disabled":true},
		"neither": {"command":"x","enabled":false,"disabled":false}, "on": {"command":"x","enabled":true}, "null": {"command":"x","enabled":null,"disabled":null},
		"text": {"command":"x","disabled":"true"}, "number": {"command":"x","enabled":0}}}`)
	require.Empty(t, f.Problem)
	assert.Len(t, got, 4)
	assert.Empty(t, got["on"].Problem+got["null"].Problem)
	assert.Contains(t, got["text"].Problem, "not valid")
	assert.Contains(t, got["number"].Problem, "not valid")
	assert.NotContains(t, strings.Join(f.Allows, "\n"), `"off"`)

	started := prepare(t, nil)
	started.write(filepath.Join(started.home, "mcp.json"), object{"off": with(stdio(t), object{"enabled": false}), "on": with(stdio(t), object{"enabled": true})})
	started.start()
	assert.Equal(t, "echo: x", started.ok("mcp__on__echo", object{"text": "x"}))
	assert.NotContains(t, strings.Join(started.names(), " "), "mcp__off__")
}

// Variables as other programs write them; what is agreed to shows them by name.
func TestCase_M14_Variables(t *testing.T) {
	f, got, dir := readText(t, `{"servers":{"a":{"command":"~/bin/x","cwd":"~/w","args":["${workspaceFolder}${/}a","${userHome}","${pathSeparator}","${workspaceFolderBasename}","~/kept","${NONE:-d}${x%y}"],
		"env":{"A":"${env:TOKEN}","B":"{env:TOKEN}","C":"${TOKEN}","D":"${env:NONE:-}","E":"$TOKEN ${1} ${a b} {TOKEN}","F":"$TOKEN","G":5,"H":true}}}}`)
	require.Empty(t, f.Problem)
	a := got["a"]
	require.Empty(t, a.Problem)
	assert.Equal(t, [2]string{"/u/ann/bin/x", "/u/ann/w"}, [2]string{a.Command, a.Dir})
	assert.Equal(t, []string{dir + "/a", "/u/ann", "/", filepath.Base(dir), "~/kept", "d${x%y}"}, a.Args)
	assert.Equal(t, map[string]string{"A": "t0ken", "B": "t0ken", "C": "t0ken", "D": "", "E": "$TOKEN ${1} ${a b} {TOKEN}", "F": "t0ken", "G": "5", "H": "true"}, a.Env)
	shown := strings.Join(f.Allows, "\n")
	assert.NotContains(t, shown, "t0ken")
	for _, part := range []string{`runs "~/bin/x" "${workspaceFolder}${/}a"`, `"A" "${env:TOKEN}"`, `the value of "NONE" "TOKEN"`} {
		assert.Contains(t, shown, part)
	}
	for text, want := range map[string]string{
		`"command":"x","env":{"A":"${input:key}"}`:          "refers to ${input:key}",
		`"command":"x","args":["${command:pick}"]`:          "refers to ${command:pick}",
		`"command":"x","args":["${config:a.b}"]`:            "refers to ${config:a.b}",
		`"url":"https://e","headers":{"A":"{file:~/.key}"}`: "refers to {file:~/.key}",
		`"command":"x","env":{"A":"${env:MISSING}"}`:        "has no MISSING",
		`"command":"x","envFile":"${workspaceFolder}/.env"`: "envFile is not read here",
		`"command":"x","env":{"A":"$MISSING"}`:              "has no MISSING",
	} {
		_, got, _ := readText(t, `{"mcpServers":{"a":{`+text+`}}}`)
		assert.Contains(t, got["a"].Problem, want)
	}
	_, got, _ = readText(t, `{"mcpServers":{"a":{"url":"ftp://e/?key=${TOKEN}"}}}`)
	assert.NotContains(t, got["a"].Problem, "t0ken")
}

// Nothing of an entry is lost in silence: what may forbid something is refused, the rest is
// named where a person agrees. Nobody has to agree to what cannot be used.
func TestCase_M13_WhatIsNotKnownIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		`"command":"x","isActive":false`: `it has "isActive", which is not known here and may forbid something`, `"command":"x","tools":{"w":false}`: `it has "tools"`,
		`"command":"x","allowedTools":["r"]`: `it has "allowedTools"`, `"command":"x","blockedTools":"w"`: `it has "blockedTools"`, `"command":"x","url":"https://e"`: "both a command and a url",
		`"command":"x","args":"a b"`: "args must be an array, not string", `"command":"x","env":{"A":null}`: "", `"command":"x","disabled":"yes"`: "disabled must be true or false, not string", `"args":["x"]`: "neither a command nor a url",
	} {
		f, got, _ := readText(t, `{"mcpServers":{"a":{`+text+`}}}`)
		if assert.Contains(t, got["a"].Problem, want, text); want != "" {
			servers, waiting := wanted([]File{f})
			assert.Empty(t, waiting, text)
			assert.Equal(t, got["a"].Problem, servers["a"].Problem)
		}
	}
	f, got, _ := readText(t, `{"mcpServers":{"a":{"command":"x","Args":["y",8080],"description":"d","fromGalleryId":7}}}`)
	assert.Empty(t, got["a"].Problem)
	assert.Equal(t, []string{"y", "8080"}, got["a"].Args)
	assert.Contains(t, strings.Join(f.Allows, "\n"), `has what is not known here and does nothing "description" "fromGalleryId"`)
	_, err := startProcess(ServerConfig{Command: "/bin/true", Dir: "/nowhere"}, func(string) string { return "" }, func(string) {})
	assert.ErrorContains(t, err, "the folder /nowhere, in which it is to be started, is not there")
}

// Fields as other programs have them.
func TestCase_M14_FieldsOfOtherPrograms(t *testing.T) {
	f, got, _ := readText(t, `{"mcp":{
		"list": {"type":"local","command":["npx","-y","pkg"],"args":["more"],"environment":{"A":"1","B":"1"},"env":{"B":"2"}},
		"none": {"type":"local","command":[]}, "remote": {"type":"remote","url":"https://e"}, "camel": {"type":"streamableHttp","url":"https://e"},
		"ws": {"type":"websocket","url":"wss://e"}, "no url": {"type":"http","command":"x"}, "object": {"command":{"path":"x"}}, "auto": {"command":"x","autoApprove":["w"]},
		"s": {"command":"x","timeout":60}, "ms": {"command":"x","timeout":60000,"startTimeout":500}, "text": {"command":"x","timeout":"2m","startTimeout":"90s"},
		"zero": {"command":"x","timeout":0}, "long": {"command":"x","timeout":1e300}, "bad": {"command":"x","timeout":"soon"}, "not": {"command":"x","startTimeout":true}}}`)
	require.Empty(t, f.Problem)
	assert.Equal(t, []string{"-y", "pkg", "more"}, got["list"].Args)
	assert.Equal(t, map[string]string{"A": "1", "B": "2"}, got["list"].Env)
	assert.Contains(t, strings.Join(f.Allows, "\n"), `runs "npx" "-y" "pkg" "more"`)
	assert.Equal(t, []string{kindStdio, kindHTTP, kindHTTP}, []string{got["list"].Kind, got["remote"].Kind, got["camel"].Kind})
	assert.Equal(t, "auto", string(got["auto"].Gates["w"]))
	for id, want := range map[string]string{"none": "names no command", "ws": `"websocket" is not known`, "no url": "names no url", "object": "not valid", "bad": `timeout is "soon"`, "not": "startTimeout is true"} {
		assert.Contains(t, got[id].Problem, want, id)
	}
	for id, want := range map[string][2]time.Duration{
		"s": {time.Minute, defaultStart}, "ms": {time.Minute, 500 * time.Millisecond}, "text": {2 * time.Minute, 90 * time.Second}, "zero": {defaultCall, defaultStart}, "long": {longestCall, defaultStart},
	} {
		assert.Equal(t, want, [2]time.Duration{got[id].Call, got[id].Start}, id)
		assert.Empty(t, got[id].Problem, id)
	}
}

// Whatever a file says, each of its servers is off, refused in words, or shown as it runs.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		`{"mcpServers":{"a":{"command":"x","args":["${A:-b}"],"disabled":false}}}`, "\ufeff{\"servers\":{/*,*/\"a\":{\"url\":\"https://${env:H}\"},},}//",
		`{"mcp":{"servers":{"a":{"command":["x","${input:y}"]}},"b":{"command":[],"enabled":false},"c":7}}`, `{"context_servers":{"":{"timeout":"1h","command":"~"}}}`,
		`{"mcpServers":{"a":{"type":"sse","httpUrl":"http://e","approval":{"*":"deny"},"cwd":"~/","environment":{"K":"{file:x}"}}},"servers":{"a":{}}}`,
	} {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".mcp.json"), []byte(text), 0o600))
		file := readFile(trust.Book{}, dir, ".mcp.json", dir, "", func(string) string { return "s3cr3t" })
		for _, c := range file.Servers {
			require.Equal(t, filepath.Join(dir, ".mcp.json"), c.File)
			if c.Problem == "" {
				require.NotEmpty(t, c.Command+c.URL)
				require.Contains(t, strings.Join(file.Allows, "\n"), trust.Line("MCP server", c.ID)+" ")
			}
		}
		if !strings.Contains(text, "s3cr3t") {
			require.NotContains(t, strings.Join(file.Allows, "\n")+file.Problem, "s3cr3t")
		}
	})
}
