package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
)

func write(path string) string {
	return script.Call("file_write", map[string]any{"path": path, "content": "written"})
}

// Neither a rule of an agent nor a person's "all of this session" lets a tool write to
// what decides what agents may do: that is asked each time, also through a link.
func TestProtectedFilesAreAskedEachTime(t *testing.T) {
	s := stack(t)
	template(t, s, "orchestrator", "approval:\n  file_write: ask\n  file_write(docs/*): auto\n  file_edit: auto\n  shell: ask\n", "You write.")
	require.NoError(t, os.MkdirAll(filepath.Join(s.Work, "docs"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(s.Work, ".spool/agents"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, ".spool/agents/other.md"), []byte("You write.\n"), 0o600))
	require.NoError(t, os.Symlink("../.spool/agents/other.md", filepath.Join(s.Work, "docs/note.md")))
	s.StartWorker()

	text := script.Script(script.Calls(write("docs/a.md"), write("docs/note.md"), write(".spool/agents/new.md"), write("b.md")), "say done")
	_, p := sendAsking(t, s, "s", text)
	require.Len(t, p.ToolCalls, 2, "docs/a.md is written at once, docs/note.md is refused: a person would not see where it leads")
	says(t, s, 0, "approve", "--all-session", p.ApprovalID)
	require.Equal(t, "done", answered(t, s, "s", text).Response)
	require.Equal(t, "written", s.File("docs/a.md"))
	require.Equal(t, "written", s.File(".spool/agents/new.md"), "what a person approved is done")
	require.Contains(t, s.File(".spool/agents/other.md"), "You write.")

	again := script.Script(script.Calls(write("c.md"), write(".git/hooks/pre-commit"), write("sub/.MCP.json")), "say again")
	r := typed[sentDoc](t, s, 6, "send", "-s", s.Session("s"), again)
	require.Len(t, r.Pending[0].ToolCalls, 2, "c.md is approved for the session")
	require.NoFileExists(t, filepath.Join(s.Work, ".git/hooks/pre-commit"))
	says(t, s, 0, "deny", r.Pending[0].ApprovalID)
}

// "For this session" holds for the agent it was given to: for no other one, and for no
// file of a project that a person has not agreed to, by whichever way it is called.
func TestGrantsAreForOneAgent(t *testing.T) {
	s := stack(t)
	template(t, s, "orchestrator", "", "You ask first.")
	template(t, s, "other", "", "You ask too.")
	require.NoError(t, os.MkdirAll(filepath.Join(s.Work, ".claude/agents"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, ".claude/agents/fold.md"), []byte("---\nname: fold\n---\nYou fold.\n"), 0o600))
	s.StartWorker()
	_, p := sendAsking(t, s, "s", script.Script(count("first"), "say ok"))
	says(t, s, 0, "approve", "--all-session", p.ApprovalID)
	require.Equal(t, "ok", answered(t, s, "s", script.Script(count("first"), "say ok")).Response)
	below := script.Script(count("below"), "say no")
	for i, args := range [][]string{
		{"--agent", "other", below}, {"--agent", "fold", below},
		{script.Script(script.Task("fold", below), "say no")},
		{script.Script(script.Task("fold", script.Script(script.Task("general", below), "say no")), "say no")},
	} {
		r := typed[sentDoc](t, s, 6, append([]string{"send", "-s", s.Session("s"), "-c", string(rune('a' + i))}, args...)...)
		require.Len(t, r.Pending, 1, args)
		says(t, s, 0, "deny", r.Pending[0].ApprovalID)
	}
	require.Empty(t, s.File("below"))
}

// The folder of a message is the workspace where a link leads out of it, and a link
// that is made later leads nowhere.
func TestWorkdirDoesNotLeaveTheWorkspace(t *testing.T) {
	s := begin(t)
	secret := filepath.Join(t.TempDir(), "secret.txt")
	require.NoError(t, os.WriteFile(secret, []byte("hush"), 0o600))
	require.NoError(t, os.Symlink("/", filepath.Join(s.Work, "all")))
	require.NoError(t, os.MkdirAll(filepath.Join(s.Work, "real/sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "real/sub/in.txt"), []byte("inside"), 0o600))
	require.NoError(t, os.Symlink("real", filepath.Join(s.Work, "link")))
	require.NoError(t, os.Symlink(filepath.Join(s.Work, "real"), filepath.Join(s.Work, "absolute")))
	ask := func(session, workdir, text string) (agent.Thread, []agent.ToolCall) {
		r := s.Message(session, text)
		r.Workdir = workdir
		done := s.Wait(send(t, s, r))
		thread, err := s.Store.Thread(s.Ctx(), "", done.ThreadID)
		require.NoError(t, err)
		return thread, callsOf(t, s, done.ThreadID)
	}
	read := func(path string) string { return script.Call("file_read", map[string]any{"path": path}) }
	for _, out := range []string{filepath.Join(s.Work, "all", filepath.Dir(secret)), filepath.Join(s.Work, "all/etc"), "/etc", s.Work + "/all/../all"} {
		thread, calls := ask("out"+filepath.Base(out), out, script.Script(script.Calls(read("secret.txt"), read("passwd")), "say ok"))
		require.Equal(t, s.Work, thread.Workdir, out)
		require.Equal(t, []agent.CallStatus{agent.CallFailed, agent.CallFailed}, []agent.CallStatus{calls[0].Status, calls[1].Status}, out)
	}
	for in, want := range map[string]string{"real/sub": "real/sub", "link/sub": "link/sub", "absolute/sub": "real/sub"} {
		thread, calls := ask("in"+filepath.Dir(in), filepath.Join(s.Work, in), script.Script(read("in.txt"), "say ok"))
		require.Equal(t, filepath.Join(s.Work, want), thread.Workdir)
		require.Equal(t, "inside", calls[0].Result)
	}

	swap := script.Call("shell", map[string]any{"command": "cd ../.. && mv real/sub real/old && ln -s " + filepath.Dir(secret) + " real/sub"})
	_, calls := ask("later", filepath.Join(s.Work, "real/sub"), script.Script(swap, script.Calls(read("secret.txt"), read("in.txt")), "say ok"))
	require.Equal(t, agent.CallSuccess, calls[0].Status, calls[0].Result)
	for _, c := range calls[1:] {
		require.Equal(t, agent.CallFailed, c.Status)
		require.NotContains(t, c.Result, "hush")
	}
}

// Spool's folder is out of reach of the tools of a worker that was started in it, or
// above it.
func TestHomeIsOutOfReachOfAgents(t *testing.T) {
	s := stack(t)
	home := filepath.Join(s.Work, "home")
	require.NoError(t, os.MkdirAll(home, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, "web.key"), []byte("hush"), 0o600))
	s.StartWorker("SPOOL_HOME=" + home)
	r := s.Ask("s", script.Script(script.Calls(
		script.Call("file_read", map[string]any{"path": "home/web.key"}), script.Call("grep", map[string]any{"pattern": "hush"}),
		script.Call("glob", map[string]any{"pattern": "**/*.key"}), script.Call("ls", map[string]any{"path": "home"})), "say ok"))
	require.Equal(t, "completed", r.Status, r.Error)
	for i, want := range []string{"belongs to Spool itself", "No line matches.", "No file matches", "belongs to Spool itself"} {
		require.Contains(t, callsOf(t, s, r.ThreadID)[i].Result, want)
	}
}

// Pages are fetched at once from hosts that a person named, in this thread or in the
// conversation it serves; others are asked about.
func TestUnnamedHostsAreAskedAbout(t *testing.T) {
	s := stack(t)
	template(t, s, "orchestrator", "approval:\n  web_fetch(ruled.invalid): auto\n", "You read.")
	s.StartWorker()
	// Escaped, so that the text of the message does not name the host.
	unnamed := script.Call("web_fetch", json.RawMessage(`{"url":"http:\/\/\u0065lse.invalid\/?q=secret"}`))
	ruled := script.Call("web_fetch", json.RawMessage(`{"url":"http:\/\/\u0072uled.invalid\/"}`))
	named := script.Call("web_fetch", map[string]any{"url": "http://named.invalid/page"})
	fetched := func(thread string) (urls []string) {
		for _, c := range callsOf(t, s, thread) {
			if c.Status == agent.CallFailed && c.ErrorReason == agent.ErrNetwork { // there is no such host
				urls = append(urls, string(c.Args))
			}
		}
		return urls
	}
	text := script.Script(script.Calls(named, unnamed, ruled), "say done")
	r, p := sendAsking(t, s, "s", text)
	require.Len(t, p.ToolCalls, 1)
	require.Len(t, fetched(r.ThreadID), 2)
	says(t, s, 0, "deny", p.ApprovalID)
	r = typed[sentDoc](t, s, 0, "send", "-s", s.Session("s"), script.Script(unnamed, "say http://else.invalid/"))
	require.Equal(t, "http://else.invalid/", r.Response)
	require.Len(t, fetched(r.ThreadID), 3)

	// What a model asks, and is refused, is no word of a person.
	asked := script.Script(script.Call("ask_user", json.RawMessage(`{"\u0065lse.invalid":"x"}`)), script.Calls(unnamed), "say never")
	r = typed[sentDoc](t, s, 6, "send", "-s", s.Session("asked"), asked)
	require.Equal(t, "web_fetch", r.Pending[0].ToolCalls[0].ToolName)
	says(t, s, 0, "deny", r.Pending[0].ApprovalID)

	below := script.Script(script.Task("general", "script: "+script.Calls(unnamed)+" ;; say below"), "say above")
	r = typed[sentDoc](t, s, 6, "send", "-s", s.Session("tree"), below)
	require.Equal(t, "web_fetch", r.Pending[0].ToolCalls[0].ToolName)
	says(t, s, 0, "deny", r.Pending[0].ApprovalID)
	quiet(t, s, r.ThreadID)
	r = typed[sentDoc](t, s, 0, "send", "-s", s.Session("tree"), below+" http://else.invalid/")
	require.Equal(t, "above http://else.invalid/", r.Response)
}
