package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/mcp/mcptest"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/internal/trust"
	"github.com/spool-agents/spool/memory"
)

// servers writes mcpServers JSON with one testserver, t; fields are added.
func servers(t *testing.T, path string, fields map[string]any) {
	t.Helper()
	entry := map[string]any{"command": mcptest.TestServer(t)}
	for k, v := range fields {
		entry[k] = v
	}
	b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"t": entry}})
	require.NoError(t, err)
	put(t, path, b)
}

// put writes a file of servers; to that of a home its user has agreed.
func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if folder, name := filepath.Split(path); name == "mcp.json" {
		require.NoError(t, trust.Agree(folder, time.Now(), trust.File{Folder: folder, Name: name, Raw: b}))
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// free is a server whose tools ask nobody.
var free = map[string]any{"approval": "auto"}

func home(s *tt.Stack) string { return filepath.Join(s.Dir, "mcp.json") }

func call(tool string, args map[string]any) string {
	if args == nil {
		args = map[string]any{}
	}
	return script.Call("mcp__t__"+tool, args)
}

// toolNames are the names of the tools of a model call.
func toolNames(t *testing.T, tools json.RawMessage) []string {
	t.Helper()
	var list []struct {
		Function struct{ Name string }
	}
	require.NoError(t, json.Unmarshal(tools, &list))
	var names []string
	for _, x := range list {
		names = append(names, x.Function.Name)
	}
	return names
}

// A user has an MCP server in HOME/mcp.json: its tools are offered, run, and what
// they tell stands in the log before their results. F7: every model call has the
// same list of tools, byte for byte.
func TestAll_MCPServerOfAUser(t *testing.T) {
	s := stack(t)
	servers(t, home(s), free)
	w := s.StartWorker()
	r := s.Ask("s1", script.Script(
		call("echo", map[string]any{"text": "over MCP"}),
		call("shout", map[string]any{"text": "low on disk"}),
		call("write", map[string]any{"file": filepath.Join(s.Work, "w"), "ms": 400}),
		call("fail", nil), call("key", nil),
		"echo got"))
	require.Equal(t, "completed", r.Status, r.Error)
	calls := callsOf(t, s, r.ThreadID)
	require.Contains(t, r.Response, calls[4].ID, "the key of a call is its id")
	require.Equal(t, []agent.CallStatus{"success", "success", "success", "failed", "success"},
		[]agent.CallStatus{calls[0].Status, calls[1].Status, calls[2].Status, calls[3].Status, calls[4].Status})
	require.Equal(t, "echo: over MCP", calls[0].Result)
	require.Contains(t, calls[3].Result, "wrong phase")
	var said []string
	for _, e := range events(t, s, r.ThreadID) {
		switch e.Type {
		case agent.EventMCPStderr, agent.EventToolProgress, agent.EventToolResponse:
			said = append(said, e.Type)
		}
		if e.Type == agent.EventMCPStderr {
			require.JSONEq(t, `{"serverId":"t","data":"low on disk\n"}`, string(e.Data))
		}
	}
	require.Equal(t, []string{"tool_response", "mcp_stderr", "tool_response", "tool_progress"}, said[:4])
	w.Stop()
	s.StartWorker()
	for i := range 3 {
		s.Ask(fmt.Sprint("more", i), script.Script(add(i, 1), call("echo", nil), "say ok"))
	}
	records := s.Model.Records()
	require.Greater(t, len(records), 10)
	require.Contains(t, toolNames(t, records[0].Tools), "mcp__t__echo")
	for _, rec := range records {
		require.Equal(t, string(records[0].Tools), string(rec.Tools))
	}
}

// A worker is killed in mid-call: the server dies with it. A call that does no
// harm twice is made again under the same key, any other ends as unknown.
func TestAll_MCPWorkerKilledInMidCall(t *testing.T) {
	s := stack(t)
	servers(t, home(s), free)
	w := s.StartWorker()
	once, again := filepath.Join(s.Work, "once"), filepath.Join(s.Work, "again")
	r := s.Send("s1", script.Script(call("pid", nil), script.Calls(
		call("write", map[string]any{"file": once, "ms": 1500}), call("write_again", map[string]any{"file": again, "ms": 1500})), "echo got"))
	tt.Eventually(t, "both calls are under way", func() bool { return s.File("once") != "" && s.File("again") != "" })
	w.Kill()
	calls := callsOf(t, s, r.ThreadID)
	pid, err := strconv.Atoi(calls[0].Result)
	require.NoError(t, err)
	tt.Eventually(t, "the server is gone", func() bool { return syscall.Kill(pid, 0) != nil })
	s.StartWorker()
	r = s.Wait(r)
	require.Equal(t, "completed", r.Status, r.Error)
	calls = callsOf(t, s, r.ThreadID)
	require.Equal(t, []agent.CallStatus{"success", "unknown", "success"}, []agent.CallStatus{calls[0].Status, calls[1].Status, calls[2].Status})
	require.Equal(t, 1, strings.Count(s.File("once"), "start"), "it was not run again")
	require.NotContains(t, s.File("once"), "end")
	require.Equal(t, 2, strings.Count(s.File("again"), "start"))
	require.Equal(t, 1, strings.Count(s.File("again"), "end"))
}

// A server is killed in mid-call: the model is told, the turn goes on, and the
// next call finds another session.
func TestAll_MCPServerKilledInMidCall(t *testing.T) {
	s := stack(t)
	servers(t, home(s), free)
	s.StartWorker()
	r := s.Send("s1", script.Script(call("pid", nil), call("write", map[string]any{"file": filepath.Join(s.Work, "w"), "ms": 60_000}),
		call("die", nil), call("echo", map[string]any{"text": "alive"}), "echo got"))
	tt.Eventually(t, "the call is under way", func() bool { return s.File("w") != "" })
	calls := callsOf(t, s, r.ThreadID)
	pid, err := strconv.Atoi(calls[0].Result)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	r = s.Wait(r)
	require.Equal(t, "completed", r.Status, r.Error)
	require.Contains(t, r.Response, "alive")
	calls = callsOf(t, s, r.ThreadID)
	for _, c := range calls[1:3] {
		require.Equal(t, agent.ErrNetwork, c.ErrorReason)
		require.Contains(t, c.Result, "not known")
	}
	require.Equal(t, "start\n", s.File("w"))
}

// A cancel of the turn reaches the server.
func TestAll_MCPCancel(t *testing.T) {
	s := stack(t)
	servers(t, home(s), free)
	s.StartWorker()
	r := s.Send("s1", script.Script(call("write", map[string]any{"file": filepath.Join(s.Work, "w"), "ms": 60_000}), "say no"))
	tt.Eventually(t, "the call is under way", func() bool { return s.File("w") != "" })
	cancel(t, s, r)
	require.Equal(t, "cancelled", s.Wait(r).Status)
	tt.Eventually(t, "the server was told", func() bool { return s.File("w") == "start\ncancelled\n" })
}

// A project's file starts nothing until a person has agreed to it; then it works
// without a restart, and MCP tools ask like others that may do harm.
func TestMCPProjectFileAsksOnce(t *testing.T) {
	s := stack(t)
	servers(t, filepath.Join(s.Work, ".mcp.json"), nil)
	s.StartWorker()
	s.Ask("s1", "script: say ok")
	require.NotContains(t, toolNames(t, s.Model.Records()[0].Tools), "mcp__t__echo")

	out := says(t, s, 0, "tools")
	require.Contains(t, out, "MCP server t waits for your agreement to "+filepath.Join(s.Work, ".mcp.json"))
	require.NotContains(t, out, "mcp__t__echo")
	out = says(t, s, 0, "doctor")
	require.Contains(t, out, "nobody has agreed to the file")
	out = says(t, s, 6, "trust")
	require.Contains(t, out, "nothing was agreed to")
	require.NotContains(t, says(t, s, 0, "tools"), "mcp__t__echo")
	out = says(t, s, 0, "trust", "--yes")
	require.Contains(t, out, `MCP server "t" runs "`+mcptest.TestServer(t)+`"`)
	out = says(t, s, 0, "tools")
	require.Contains(t, out, "mcp__t__echo")
	require.Contains(t, out, "MCP server t: ok")

	tt.Eventually(t, "the tools are offered", func() bool {
		s.Ask("look", "script: say ok")
		records := s.Model.Records()
		return slices.Contains(toolNames(t, records[len(records)-1].Tools), "mcp__t__echo")
	})
	r := s.Send("s2", script.Script(call("echo", map[string]any{"text": "yes"}), "echo got"))
	var pending []memory.Approval
	tt.Eventually(t, "a person is asked", func() bool {
		var err error
		pending, err = s.Store.Approvals(s.Ctx(), memory.ApprovalFilter{RootThread: r.ThreadID, OpenOnly: true})
		return err == nil && len(pending) == 1
	})
	decide(t, s, pending[0].ID, memory.Approve)
	require.Contains(t, s.Wait(r).Response, "echo: yes")
}

// Row 7 with MCP: a template's mcp__server and mcp__server__tool are met with
// what the parent may use.
func TestRow07_MCPToolsOfSubAgents(t *testing.T) {
	s := stack(t)
	servers(t, home(s), free)
	template(t, s, "lead", "description: leads\ntools: mcp__t__echo, mcp__t__read, Task\n", "You lead.")
	template(t, s, "digger", "description: digs\ntools: mcp__t, Read\n", "You dig.")
	s.StartWorker()
	child := script.Script(call("echo", map[string]any{"text": "from below"}), call("pid", nil), "echo child:")
	r := s.Ask("s1", script.Script(script.Task("lead", script.Script(script.Task("digger", child), "echo lead:")), "echo root:"))
	require.Contains(t, r.Response, "there is no tool", "mcp__t__pid is not the lead's")
	var lists []string
	for _, rec := range s.Model.Records() {
		lists = append(lists, strings.Join(toolNames(t, rec.Tools), " "))
	}
	require.Contains(t, lists, "assign_task mcp__t__echo mcp__t__read task_output")
	require.Contains(t, lists, "mcp__t__echo mcp__t__read")
}

// The health of a worker is whether it can work: a provider whose key is not set is none
// of that, and makes doctor fail all the same.
func TestAWorkersHealth(t *testing.T) {
	s := stack(t)
	models(t, s, "providers:\n  other: {baseUrl: 'http://127.0.0.1:1/v1', apiKeyEnv: NOT_SET_KEY}\n")
	out := says(t, s, 1, "doctor", "--only", "worker")
	require.Contains(t, out, "no worker on ")
	s.StartWorker()
	tt.Eventually(t, "the worker is healthy", func() bool {
		var code int
		out, code = starter(t, s, "doctor", "--only", "worker")
		return code == 0
	})
	require.NotContains(t, out, "NOT_SET_KEY")
	require.Empty(t, s.Model.Records(), "no model is asked")
	out = says(t, s, 1, "doctor")
	require.Contains(t, out, "NOT_SET_KEY")
}

// doctor and tools exit 1 when a configured server does not answer, and say what
// to do.
func TestAll_DoctorNamesWhatDoesNotAnswer(t *testing.T) {
	s := stack(t)
	servers(t, home(s), map[string]any{"args": []string{"-broken"}})
	s.StartWorker()
	s.Ask("s1", "script: say hi")
	out := says(t, s, 1, "doctor")
	require.Contains(t, out, "no database at localhost:1")
	require.Contains(t, out, "to do: mend its entry")
	require.Contains(t, out, "fake at "+s.Model.URL()+" [environment OPENAI_BASE_URL] answers")
	out = says(t, s, 1, "tools", "--json")
	require.Contains(t, out, `"state":"failed"`)
	require.NoError(t, os.Remove(home(s)))
	says(t, s, 0, "doctor")
	out = says(t, s, 0, "models", "--json")
	require.Contains(t, out, `"answers":true`)
	s.Env = append(s.Env, "OPENAI_BASE_URL=http://127.0.0.1:1/v1")
	out = says(t, s, 1, "models")
	require.Contains(t, out, "check host and port in OPENAI_BASE_URL (environment OPENAI_BASE_URL)")
}

// What is going to be refused asks nobody: the model hears it at once, and only what
// can run is put before a person.
func TestNobodyIsAskedWhatIsRefused(t *testing.T) {
	s := stack(t)
	servers(t, filepath.Join(s.Work, ".mcp.json"), nil) // nobody agreed to it
	b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"dead": map[string]any{"command": mcptest.TestServer(t), "args": []string{"-broken"}}}})
	require.NoError(t, err)
	put(t, home(s), b)
	template(t, s, "orchestrator", "approval:\n  shell: ask\n  file_write: ask\n", "You ask first.")
	s.StartWorker()
	refused := []string{
		script.Call("web_fetch", map[string]any{"url": "http://169.254.169.254/latest/meta-data/"}),
		call("echo", map[string]any{"text": "x"}),
		script.Call("mcp__dead__echo", map[string]any{"text": "x"}),
		script.Call("shell", map[string]any{"cmd": "date"}),
		script.Call("file_write", map[string]any{"path": "../out", "content": "x"}),
	}
	r := s.Ask("s1", script.Script(script.Calls(refused...), "say told"))
	require.Equal(t, "completed", r.Status, r.Error)
	calls := callsOf(t, s, r.ThreadID)
	for i, want := range []string{"private", "agreed to that file", "no database", "missing property 'command'", "outside the workspace"} {
		require.Equal(t, agent.CallFailed, calls[i].Status)
		require.Contains(t, calls[i].Result, want)
	}

	text := script.Script(script.Calls(refused[0], count("ran")), "say done")
	_, p := sendAsking(t, s, "mixed", text)
	require.Len(t, p.ToolCalls, 1)
	require.Equal(t, "shell", p.ToolCalls[0].ToolName)
	says(t, s, 0, "approve", p.ApprovalID)
	require.Equal(t, "done", answered(t, s, "mixed", text).Response)
	require.Equal(t, 1, lines(s.File("ran")))
}
