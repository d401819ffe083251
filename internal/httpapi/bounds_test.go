package httpapi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/memory"
)

// user asks as somebody else than the tester.
type user struct {
	*bench
	token string
}

func (u user) ask(method, path string, body any) answer {
	u.t.Helper()
	return u.send(as(u.request(method, path, body), u.token))
}

// says sends a message and waits until its turn ends or waits for a person.
func (u user) says(message map[string]any) (r spool.Reply) {
	u.t.Helper()
	u.ask(http.MethodPost, "/api/v1/messages", message).is(http.StatusAccepted).into(&r)
	return u.waits(r)
}

func (u user) waits(r spool.Reply) (now spool.Reply) {
	u.t.Helper()
	for now.Status == "" || now.Status == "running" || now.Status == spool.StatusQueued {
		u.ask(http.MethodGet, "/api/v1/threads/"+id(r.ThreadID)+"/turns/"+r.TurnID+"?wait=20", nil).is(http.StatusOK).into(&now)
	}
	return now
}

// wants has an agent ask for calls, and returns the open approval.
func (u user) wants(message map[string]any, calls ...string) spool.ApprovalRequest {
	u.t.Helper()
	message["content"] = script.Script(script.Calls(calls...), "echo it said")
	r := u.says(message)
	require.Equal(u.t, string(agent.ThreadWaitingForApproval), r.Status, "%s %s", r.Response, r.Error)
	var doc struct{ Approvals []spool.ApprovalRequest }
	u.ask(http.MethodGet, "/api/v1/approvals?thread="+id(r.ThreadID), nil).is(http.StatusOK).into(&doc)
	require.Len(u.t, doc.Approvals, 1)
	return doc.Approvals[0]
}

func (u user) decides(a spool.ApprovalRequest, decision map[string]any) answer {
	u.t.Helper()
	return u.ask(http.MethodPost, "/api/v1/approvals/"+a.ApprovalID+"/decision", decision)
}

// ends waits until the turn of an approval has ended.
func (u user) ended(a spool.ApprovalRequest) spool.Reply {
	u.t.Helper()
	var t agent.Thread
	u.ask(http.MethodGet, "/api/v1/users/eve/orch-chats/"+id(a.ThreadID), nil).is(http.StatusOK).into(&t)
	turns := struct{ Turns []memory.Turn }{}
	u.ask(http.MethodGet, "/api/v1/threads/"+id(a.ThreadID)+"/turns", nil).is(http.StatusOK).into(&turns)
	return u.waits(spool.Reply{ThreadID: t.ID, TurnID: turns.Turns[len(turns.Turns)-1].ID})
}

func call(tool string, args map[string]any) string { return script.Call(tool, args) }

func limits(a spool.ApprovalRequest) (out []string) {
	for _, c := range a.ToolCalls {
		out = append(out, c.Limit)
	}
	return out
}

// A user approves what the administrator lets users approve, whichever way the approval
// is named, and the administrator approves the rest.
func TestUsersGiveNoOrders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hides := "---\nname: orchestrator\napproval: {\"file_read(hidden*)\": deny}\n---\nYou ask first.\n"
	require.NoError(t, os.WriteFile(filepath.Join(b.Agents(), "orchestrator.md"), []byte(hides), 0o644))
	loose := "---\nname: loose\napproval: {shell: auto, file_write: auto, \"file_read\": auto}\n---\nYou ask nobody.\n"
	require.NoError(t, os.WriteFile(filepath.Join(b.Agents(), "loose.md"), []byte(loose), 0o644))
	b.StartWorker()
	eve := user{b, other}
	own := filepath.Join(b.Work, "web-users", "eve")
	shell := call("shell", map[string]any{"command": "touch ../../ran"})
	write := func(name string) string { return call("file_write", map[string]any{"path": name, "content": "hers"}) }
	refused := func(a answer) { a.fails(http.StatusForbidden, "forbidden", "tester", "--user eve") }

	var me struct {
		Administrator string
		MayApprove    []string
	}
	eve.ask(http.MethodGet, "/api/v1/me", nil).is(http.StatusOK).into(&me)
	require.Equal(t, "tester", me.Administrator)
	require.Contains(t, me.MayApprove, "file_write")
	b.get("/api/v1/me").is(http.StatusOK).into(&me)
	require.Equal(t, []string{"*"}, me.MayApprove)

	// A command, named by its approval, by its call, with and without its calls.
	a := eve.wants(map[string]any{}, shell, write("a.txt"))
	require.Equal(t, []string{"administrator", ""}, limits(a))
	for _, target := range []string{a.ApprovalID, a.ToolCalls[0].ID, a.ToolCalls[1].ID} {
		for _, verdict := range []string{memory.Approve, memory.ApproveAll} {
			by := spool.ApprovalRequest{ApprovalID: target}
			refused(eve.decides(by, map[string]any{"verdict": verdict}))
			refused(eve.decides(by, map[string]any{"verdict": verdict, "calls": []string{a.ToolCalls[0].ID}}))
			refused(eve.decides(by, map[string]any{"verdict": verdict, "calls": []string{a.ToolCalls[1].ID, a.ToolCalls[0].ID}}))
		}
	}
	eve.decides(a, map[string]any{"verdict": memory.Approve, "calls": []string{a.ToolCalls[1].ID}}).is(http.StatusOK)
	require.Contains(t, eve.ended(a).Response, "it said")
	require.NoFileExists(t, filepath.Join(b.Work, "ran"))
	require.FileExists(t, filepath.Join(own, "a.txt"))
	for _, dir := range []string{filepath.Dir(own), own} {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}

	// What runs nothing is free: to deny, to tell the agent something, to answer.
	a = eve.wants(map[string]any{}, shell)
	eve.decides(a, map[string]any{"verdict": memory.Edit, "instruction": "no commands"}).is(http.StatusOK)
	require.Contains(t, eve.ended(a).Response, "no commands")
	a = eve.wants(map[string]any{}, shell)
	eve.decides(a, map[string]any{"verdict": memory.Deny}).is(http.StatusOK)
	eve.ended(a)

	// A rule with a pattern is no rule for all calls to come.
	edit := func(name string) string {
		return call("file_edit", map[string]any{"path": name, "old": "hers", "new": "his"})
	}
	require.NoError(t, os.WriteFile(filepath.Join(own, "b.txt"), []byte("hers"), 0o600))
	a = eve.wants(map[string]any{}, edit("a.txt"), edit("b.txt"))
	require.Equal(t, []string{"once", "administrator"}, limits(a))
	first := []string{a.ToolCalls[0].ID}
	eve.decides(a, map[string]any{"verdict": memory.ApproveAll, "calls": first}).fails(http.StatusForbidden, "forbidden", "once")
	refused(eve.decides(a, map[string]any{"verdict": memory.Approve}))
	elsewhere := map[string]any{first[0]: map[string]any{"path": "b.txt", "old": "hers", "new": "mine"}}
	refused(eve.decides(a, map[string]any{"verdict": memory.Approve, "calls": first, "arguments": elsewhere}))
	eve.decides(a, map[string]any{"verdict": memory.Approve, "calls": first}).is(http.StatusOK)
	eve.ended(a)
	require.Equal(t, "his hers", b.File("web-users/eve/a.txt")+" "+b.File("web-users/eve/b.txt"))

	// What a call would replace is shown to who may approve it, unless a rule hides it.
	require.NoError(t, os.WriteFile(filepath.Join(own, "hidden.txt"), []byte("secret"), 0o600))
	a = eve.wants(map[string]any{}, write("b.txt"), write("hidden.txt"), shell, edit("b.txt"))
	for i, want := range []string{`{"path":"b.txt","text":"hers"}`, "{}", "{}", "{}"} {
		before := "/api/v1/tool-calls/" + a.ToolCalls[i].ID + "/before"
		require.JSONEq(t, want, eve.ask(http.MethodGet, before, nil).is(http.StatusOK).body, before)
		b.get(before).fails(http.StatusNotFound, "not_found")
	}
	eve.decides(a, map[string]any{"verdict": memory.Deny}).is(http.StatusOK)
	eve.ended(a)
	require.JSONEq(t, "{}", eve.ask(http.MethodGet, "/api/v1/tool-calls/"+a.ToolCalls[0].ID+"/before", nil).body, "it waits no more")

	// Another agent does not ask less, also behind a fork, a retry and chat completions.
	a = eve.wants(map[string]any{"agent": "loose"}, shell)
	refused(eve.decides(a, map[string]any{"verdict": memory.Approve}))
	eve.ask(http.MethodPost, "/api/v1/threads/"+id(a.ThreadID)+"/cancel", map[string]any{}).is(http.StatusOK)
	var r spool.Reply
	eve.ask(http.MethodPost, "/api/v1/threads/"+id(a.ThreadID)+"/retry", map[string]any{}).is(http.StatusAccepted).into(&r)
	require.NotEqual(t, "failed", eve.waits(r).Status)
	var forked spool.Forked
	eve.ask(http.MethodPost, "/api/v1/threads/"+id(a.ThreadID)+"/fork", map[string]any{}).is(http.StatusOK).into(&forked)
	eve.wants(map[string]any{"threadId": forked.ThreadID}, shell)
	eve.ask(http.MethodPost, "/v1/chat/completions", map[string]any{"model": "general", "messages": []any{map[string]any{"role": "user", "content": script.Script(script.Calls(shell), "say never")}}}).is(http.StatusConflict)
	eve.ask(http.MethodPost, "/api/v1/messages", map[string]any{"content": "x", "policy": map[string]any{"shell": "auto"}}).fails(http.StatusBadRequest, "invalid")
	require.NoFileExists(t, filepath.Join(b.Work, "ran"))

	// The administrator is asked as before, and may approve.
	admin := user{b, token}
	a = admin.wants(map[string]any{}, call("shell", map[string]any{"command": "touch ran-by-admin"}))
	require.Equal(t, []string{""}, limits(a))
	admin.decides(a, map[string]any{"verdict": memory.Approve}).is(http.StatusOK)
	b.ends(spool.Reply{ThreadID: a.ThreadID, TurnID: "t" + a.ApprovalID[len("appr_"):len(a.ApprovalID)-2]})
	require.FileExists(t, filepath.Join(b.Work, "ran-by-admin"))
	b.Verify()
}

// The tools of a user's conversations see the user's folder only: neither that of
// another user, nor the workspace, nor the server's keys.
func TestUsersHaveFolders(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *httpapi.Options) { o.Workspace = "/elsewhere" }) // that of the worker counts
	b.StartWorker()
	eve, bob := user{b, other}, user{b, third}
	own := filepath.Join(b.Work, "web-users", "eve")
	require.NoError(t, os.WriteFile(filepath.Join(b.Work, "secret.txt"), []byte("of the workspace"), 0o600))
	key, err := os.ReadFile(filepath.Join(b.Dir, "web.key"))
	require.NoError(t, err)
	reads := func(u user, message map[string]any, path string) string {
		message["content"] = script.Script(call("file_read", map[string]any{"path": path}), "echo it said")
		return u.says(message).Response
	}
	require.NoError(t, os.MkdirAll(filepath.Join(b.Work, "web-users", "bob"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(b.Work, "web-users", "bob", "his.txt"), []byte("of bob"), 0o600))
	require.Contains(t, reads(bob, map[string]any{}, "his.txt"), "of bob")
	require.NotContains(t, reads(eve, map[string]any{}, "his.txt"), "of bob")
	for _, path := range []string{
		"../bob/his.txt", "../../secret.txt", filepath.Join(b.Work, "secret.txt"), filepath.Join(b.Work, "web-users", "bob", "his.txt"),
		filepath.Join(b.Dir, "web.key"), filepath.Join(b.Dir, "web-tokens"), filepath.Join(b.Dir, "dev.json"), "/proc/self/environ",
	} {
		got := reads(eve, map[string]any{}, path)
		for _, secret := range []string{"of bob", "of the workspace", string(key), "SPOOL_HOME"} {
			require.NotContains(t, got, secret, path)
		}
	}

	// A folder of the user's own choice lies below.
	require.NoError(t, os.MkdirAll(filepath.Join(own, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(own, "sub", "hers.txt"), []byte("of eve"), 0o600))
	require.Contains(t, reads(eve, map[string]any{"workdir": "sub"}, "hers.txt"), "of eve")
	require.Contains(t, reads(eve, map[string]any{"workdir": "/elsewhere/web-users/eve/sub"}, "hers.txt"), "of eve")
	for _, dir := range []string{"..", "../bob", "/", "/elsewhere", "/elsewhere/web-users/bob", b.Work, b.Dir, "sub/../../bob", "/elsewhere/web-users/eve/../bob", "/elsewhere/web-users/evelyn"} {
		eve.ask(http.MethodPost, "/api/v1/messages", map[string]any{"content": "script: say x", "workdir": dir}).fails(http.StatusUnprocessableEntity, "invalid", "workdir")
	}

	// A link leads nowhere else, neither below the folder nor in its place.
	require.NoError(t, os.Symlink("/", filepath.Join(own, "root")))
	require.NoError(t, os.Symlink("../bob", filepath.Join(own, "next")))
	for _, dir := range []string{"root", "next", "root/" + b.Dir} {
		for _, path := range []string{"his.txt", filepath.Join(b.Dir[1:], "web.key"), "web.key"} {
			got := reads(eve, map[string]any{"workdir": dir}, path)
			require.NotContains(t, got, "of bob", dir)
			require.NotContains(t, got, string(key), dir)
		}
	}
	require.NoError(t, os.Rename(own, own+"-was"))
	require.NoError(t, os.Symlink("bob", own))
	told := eve.says(map[string]any{"content": script.Script(call("file_read", map[string]any{"path": "his.txt"}), "echo it said")})
	require.Equal(t, "failed", told.Status)
	require.Contains(t, told.Error, "web-users/eve has to be a folder, and no link")
	require.NoError(t, os.Remove(own))

	// What was begun for a user elsewhere goes on from the command line only.
	sent, err := spool.NewClient(b.Store, b.Temporal, spool.ClientOptions{UserID: "eve"}).Send(b.Ctx(), memory.SendRequest{Content: agent.Text("script: say x"), Workdir: b.Work})
	require.NoError(t, err)
	eve.waits(sent)
	chat := "/api/v1/users/eve/orch-chats/" + id(sent.ThreadID) + "/messages"
	eve.ask(http.MethodGet, chat, nil).is(http.StatusOK)
	eve.ask(http.MethodPost, chat, map[string]any{"content": "x"}).fails(http.StatusForbidden, "forbidden", "folder")
	eve.ask(http.MethodPost, "/api/v1/messages", map[string]any{"content": "x", "threadId": sent.ThreadID}).fails(http.StatusForbidden, "forbidden", "folder")
	eve.ask(http.MethodPost, "/api/v1/messages", map[string]any{"content": "x", "sessionId": sent.SessionID}).fails(http.StatusForbidden, "forbidden", "folder")
	eve.ask(http.MethodPost, "/api/v1/threads/"+id(sent.ThreadID)+"/retry", map[string]any{}).fails(http.StatusForbidden, "forbidden", "folder")
	eve.ask(http.MethodPost, "/api/v1/messages", map[string]any{"content": "x", "sessionId": sent.SessionID, "conversationId": "new"}).fails(http.StatusForbidden, "forbidden", "folder")
	asks, err := spool.NewClient(b.Store, b.Temporal, spool.ClientOptions{UserID: "eve"}).Send(b.Ctx(), memory.SendRequest{
		Content: agent.Text(script.Script(script.Calls(script.Call("ask_user", map[string]any{"question": "which?"}), script.Call("shell", map[string]any{"command": "id"})), "say x")), Workdir: b.Work})
	require.NoError(t, err)
	asks = eve.waits(asks)
	eve.ask(http.MethodPost, "/api/v1/questions/"+asks.Questions[0].QuestionID+"/answer", map[string]any{"text": "x"}).fails(http.StatusForbidden, "forbidden", "folder")
	var forked spool.Forked
	eve.ask(http.MethodPost, "/api/v1/threads/"+id(sent.ThreadID)+"/fork", map[string]any{}).is(http.StatusOK).into(&forked)
	eve.ask(http.MethodPost, "/api/v1/messages", map[string]any{"content": "x", "threadId": forked.ThreadID}).fails(http.StatusForbidden, "forbidden", "folder")
	wire := as(b.request(http.MethodPost, "/v1/chat/completions", map[string]any{"model": "general", "messages": []any{map[string]any{"role": "user", "content": "x"}}}), other)
	wire.Header.Set("X-Spool-Thread", sent.ThreadID)
	b.send(wire).is(http.StatusForbidden)
}
