package tool_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

type policy = map[string]string

func TestDefaultGates(t *testing.T) {
	send := fake{spec: agent.ToolSpec{Name: "mcp__mail__send"}}
	look := fake{spec: agent.ToolSpec{Name: "mcp__mail__look", ReadOnly: true}}
	r := registry(t, append(tool.Builtin(tool.Options{TavilyKey: "k"}), send, look)...)
	want := map[string]agent.Gate{
		"file_write": agent.GateAsk, "file_edit": agent.GateAsk, "shell": agent.GateAsk, "mcp__mail__send": agent.GateAsk, "web_fetch": agent.GateAsk,
	}
	for _, name := range r.Names() {
		gate, ok := want[name]
		if !ok {
			gate = agent.GateAuto
		}
		assert.Equal(t, gate, r.Gate(name, agent.ToolRun{Args: json.RawMessage(`{}`)}, nil), name)
	}
	assert.Equal(t, agent.GateAuto, r.Gate("no_such_tool", agent.ToolRun{}, policy{"*": "deny"}), "running it only says so")
	fetch := func(url string) agent.Gate {
		named := func(host string) bool {
			return slices.Contains(tool.HostsIn("see https://go.dev/x, and http://localhost:1"), host)
		}
		return r.Gate("web_fetch", agent.ToolRun{Args: json.RawMessage(`{"url":"` + url + `"}`), Named: named}, nil)
	}
	for _, url := range []string{"https://go.dev/doc", "http://GO.dev.:8080", "https://www.go.dev/", "https://ada:pw@go.dev/"} {
		assert.Equal(t, agent.GateAuto, fetch(url), url)
	}
	for _, url := range []string{"https://go.dev.evil.example/", "https://evil.example/go.dev", "https://go.dev@evil.example/", "https://x.go.dev/", "https://evil.example?go.dev", "go.dev"} {
		assert.Equal(t, agent.GateAsk, fetch(url), url)
	}
	for _, url := range []string{"http://localhost:8080", "http://127.0.0.1/", "http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest", "http://a.localhost./"} {
		assert.Equal(t, agent.GateAsk, fetch(url), url)
	}
}

func TestGateRules(t *testing.T) {
	r := registry(t, append(tool.Builtin(tool.Options{}), fake{spec: agent.ToolSpec{Name: "mcp__gh__merge"}})...)
	for _, c := range []struct {
		rule   string
		policy policy
		tool   string
		args   m
		want   agent.Gate
	}{
		{"a tool's name", policy{"shell": "auto"}, "shell", m{"command": "rm x; ls"}, agent.GateAuto},
		{"a read-only tool may be denied", policy{"file_read": "deny"}, "file_read", m{"path": "a"}, agent.GateDeny},
		{"a name beats *", policy{"*": "deny", "ls": "auto"}, "ls", m{}, agent.GateAuto},
		{"* covers the rest", policy{"*": "deny", "ls": "auto"}, "grep", m{}, agent.GateDeny},
		{"a longer wildcard beats a shorter", policy{"*": "auto", "mcp__*": "deny"}, "mcp__gh__merge", m{}, agent.GateDeny},
		{"a pattern beats a name", policy{"shell": "deny", "shell(git *)": "auto"}, "shell", m{"command": "git status"}, agent.GateAuto},
		{"also to restrict", policy{"shell": "auto", "shell(rm *)": "deny"}, "shell", m{"command": "rm -rf x"}, agent.GateDeny},
		{"a longer pattern beats a shorter", policy{"shell(git *)": "auto", "shell(git push *)": "ask"}, "shell", m{"command": "git push origin"}, agent.GateAsk},
		{"of equals the strictest", policy{"shell(a *)": "auto", "shell(* b)": "deny"}, "shell", m{"command": "a b"}, agent.GateDeny},
		{"the command alone", policy{"shell(git *)": "auto"}, "shell", m{"command": "git"}, agent.GateAuto},
		{"no other command", policy{"shell(git *)": "auto"}, "shell", m{"command": "gitx status"}, agent.GateAsk},
		{"git:* is read", policy{"shell(git diff:*)": "auto"}, "shell", m{"command": "git diff HEAD"}, agent.GateAuto},
		{"auto: no second command", policy{"shell(git *)": "auto"}, "shell", m{"command": "git status; rm -rf /"}, agent.GateAsk},
		{"auto: no pipe", policy{"shell(git *)": "auto"}, "shell", m{"command": "git log | sh"}, agent.GateAsk},
		{"auto: no substitution", policy{"shell(git *)": "auto"}, "shell", m{"command": "git log $(rm x)"}, agent.GateAsk},
		{"auto: no redirection", policy{"shell(git *)": "auto"}, "shell", m{"command": "git log > ~/.bashrc"}, agent.GateAsk},
		{"auto: no second line", policy{"shell(git *)": "auto"}, "shell", m{"command": "git log\nrm x"}, agent.GateAsk},
		{"deny: any part", policy{"shell": "auto", "shell(rm *)": "deny"}, "shell", m{"command": "true && rm x"}, agent.GateDeny},
		{"deny: in a substitution", policy{"shell": "auto", "shell(rm *)": "deny"}, "shell", m{"command": "echo $(rm x)"}, agent.GateDeny},
		{"paths", policy{"file_write(docs/*)": "auto"}, "file_write", m{"path": "docs/a/b.md"}, agent.GateAuto},
		{"paths are cleaned", policy{"file_write(docs/*)": "auto"}, "file_write", m{"path": "docs/../main.go"}, agent.GateAsk},
		{"deny an absolute path", policy{"file_write": "auto", "file_write(.env)": "deny"}, "file_write", m{"path": "/ws/.env"}, agent.GateDeny},
		{"urls", policy{"web_fetch": "ask", "web_fetch(https://go.dev/*)": "auto"}, "web_fetch", m{"url": "https://go.dev/doc"}, agent.GateAuto},
		{"a host", policy{"web_fetch(go.dev)": "auto"}, "web_fetch", m{"url": "https://GO.dev/doc"}, agent.GateAuto},
		{"a host is no part of another", policy{"web_fetch(go.dev)": "auto"}, "web_fetch", m{"url": "https://go.dev.evil.example/go.dev"}, agent.GateAsk},
		{"a host is no text of the URL", policy{"web_fetch(*go.dev)": "auto"}, "web_fetch", m{"url": "https://evil.example/?go.dev"}, agent.GateAsk},
		{"hosts below one", policy{"web_fetch(*.python.org)": "auto"}, "web_fetch", m{"url": "http://docs.python.org:80/3"}, agent.GateAuto},
		{"deny a host in any spelling", policy{"web_fetch": "auto", "web_fetch(evil.example)": "deny"}, "web_fetch", m{"url": "http://x@EVIL.example.:8080/"}, agent.GateDeny},
		{"a host is no address with a zone", policy{"web_fetch(*.python.org)": "auto"}, "web_fetch", m{"url": "http://[2606:4700::1%25.python.org]:80/"}, agent.GateAsk},
		{"a pattern's host is no query", policy{"web_fetch(https://*.python.org/*)": "auto"}, "web_fetch", m{"url": "https://evil.example/?x=.python.org/"}, agent.GateAsk},
		{"nor a user", policy{"web_fetch(https://docs.python.org*)": "auto"}, "web_fetch", m{"url": "https://docs.python.org@evil.example/"}, agent.GateAsk},
		{"nor the beginning of another", policy{"web_fetch(https://docs.python.org*)": "auto"}, "web_fetch", m{"url": "https://docs.python.org.evil.example/"}, agent.GateAsk},
		{"a host with all that is there", policy{"web_fetch(https://docs.python.org*)": "auto"}, "web_fetch", m{"url": "https://docs.python.org/3/?q=1"}, agent.GateAuto},
		{"hosts and a path", policy{"web_fetch(https://*.python.org/3/*)": "auto"}, "web_fetch", m{"url": "https://docs.python.org/3/a"}, agent.GateAuto},
		{"another path", policy{"web_fetch(https://*.python.org/3/*)": "auto"}, "web_fetch", m{"url": "https://docs.python.org/2/a"}, agent.GateAsk},
		{"no way up", policy{"web_fetch(https://go.dev/doc/*)": "auto"}, "web_fetch", m{"url": "https://go.dev/doc/../x"}, agent.GateAsk},
		{"nor one that is escaped", policy{"web_fetch(https://go.dev/doc/*)": "auto"}, "web_fetch", m{"url": "https://go.dev/doc/a/..%2f%252e%252E;v=1/x"}, agent.GateAsk},
		{"a way that stays", policy{"web_fetch(https://go.dev/doc/*)": "auto"}, "web_fetch", m{"url": "https://go.dev/doc/a/../b?c=../d"}, agent.GateAuto},
		{"a host with any way", policy{"web_fetch(go.dev)": "auto"}, "web_fetch", m{"url": "https://go.dev/doc/../x"}, agent.GateAuto},
		{"deny where a way leads", policy{"web_fetch": "auto", "web_fetch(https://go.dev/doc/*)": "deny"}, "web_fetch", m{"url": "https://go.dev/x/%2e%2e/doc/a"}, agent.GateDeny},
		{"deny where it is written", policy{"web_fetch": "auto", "web_fetch(https://go.dev/doc/*)": "deny"}, "web_fetch", m{"url": "https://go.dev/doc/../x"}, agent.GateDeny},
		{"a port", policy{"web_fetch(localhost:8080)": "auto"}, "web_fetch", m{"url": "http://localhost:8080/"}, agent.GateAuto},
		{"arguments of others as JSON", policy{`mcp__gh__merge(*"dry":true*)`: "auto"}, "mcp__gh__merge", m{"dry": true, "id": 1}, agent.GateAuto},
		{"an unknown word asks", policy{"ls": "perhaps"}, "ls", m{}, agent.GateAsk},
	} {
		raw, _ := json.Marshal(c.args)
		assert.Equal(t, c.want, r.Gate(c.tool, agent.ToolRun{Args: raw}, c.policy), c.rule)
	}
	assert.Equal(t, agent.GateAsk, r.Gate("shell", agent.ToolRun{Args: json.RawMessage(`{"comm`)}, policy{"shell(git *)": "auto"}), "unreadable arguments match no pattern")
}

func TestCheckRule(t *testing.T) {
	for _, rule := range []string{"shell", "shell(git *)", "*", "mcp__x__*", "shell(echo (a))"} {
		assert.Empty(t, tool.CheckRule(rule, "auto"), rule)
	}
	for _, rule := range []string{"", "(x)", "shell(x", "a)b"} {
		assert.Contains(t, tool.CheckRule(rule, "ask"), "is not valid", rule)
	}
	assert.Equal(t, `approval of shell is "yes", allowed are auto, ask and deny`, tool.CheckRule("shell", "yes"))
}
