package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/memory"
)

// Row 91: the collections are readable by their paths, another user's path is
// refused, and the user's messages are the only thing that can be written.
func TestRow91_Collections(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	child := script.Script(script.Call("calculator", map[string]any{"expression": "6*7"}), "echo the child saw")
	chat := "/api/v1/users/tester/orch-chats/" + id(b.Thread("s"))
	var r spool.Reply
	b.post(chat+"/messages", map[string]any{"content": script.Script(script.Task("researcher", child), "echo it says"), "messageId": "m1"}).is(202).into(&r)
	b.post(chat+"/messages", map[string]any{"content": script.Script(script.Task("researcher", child), "echo it says"), "messageId": "m1"}).is(202)
	require.Contains(t, b.ends(r).Response, "42")

	var list struct {
		Chats     []struct{ ID string }
		Messages  []struct{ Role, SubAgentID string }
		Tasks     []struct{ Name, Status, SubAgentID, ChatID, TriggerMessageID string }
		SubAgents []struct{ ID, ChatID, TaskID, Role, Status string }
		ToolCalls []struct{ ToolName, Status, SubAgentID string }
	}
	b.get("/api/v1/users/tester/orch-chats").is(200).into(&list)
	b.get(chat + "/messages").is(200).into(&list)
	b.get(chat + "/tasks").is(200).into(&list)
	b.get(chat + "/sub-agents").is(200).into(&list)
	require.Len(t, list.Chats, 1)
	require.Equal(t, r.ThreadID, list.Chats[0].ID)
	require.Len(t, list.Messages, 4)
	require.Len(t, list.Tasks, 1)
	require.Equal(t, "agent:researcher success", list.Tasks[0].Name+" "+list.Tasks[0].Status)
	require.NotEmpty(t, list.Tasks[0].TriggerMessageID)
	require.Len(t, list.SubAgents, 1)
	a := list.SubAgents[0]
	require.Equal(t, []string{list.Tasks[0].SubAgentID, r.ThreadID, "researcher", "completed"}, []string{a.ID, a.ChatID, a.Role, a.Status})

	sub := chat + "/sub-agents/" + a.ID
	var one struct{ ID, Status string }
	b.get(sub).is(200).into(&one)
	require.Equal(t, a.ID, one.ID)
	b.get(sub + "/messages").is(200).into(&list)
	require.Len(t, list.Messages, 4)
	require.Equal(t, a.ID, list.Messages[1].SubAgentID)
	b.get(sub + "/tool-calls").is(200).into(&list)
	require.Len(t, list.ToolCalls, 1)
	require.Equal(t, "calculator success", list.ToolCalls[0].ToolName+" "+list.ToolCalls[0].Status)

	// Only messages of the user are written, and only to chats.
	for _, path := range []string{sub, sub + "/messages", sub + "/tool-calls", chat + "/sub-agents"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			res := b.send(b.request(method, path, map[string]any{"content": "x"}))
			res.fails(405, "method_not_allowed", "sub-agent")
			require.Equal(t, "GET", res.header.Get("Allow"))
		}
	}
	for _, role := range []string{"assistant", "system", "tool"} {
		b.post(chat+"/messages", map[string]any{"role": role, "content": "x"}).fails(400, "invalid", "role user only")
	}
	b.post("/api/v1/messages", map[string]any{"threadId": a.ID, "content": "x"}).fails(400, "invalid", "sub-agent")
	b.post("/api/v1/users/tester/orch-chats/"+id(a.ID)+"/messages", map[string]any{"content": "x"}).fails(404, "not_found")
	b.send(b.request(http.MethodDelete, chat+"/messages", nil)).fails(405, "method_not_allowed")
	b.get("/api/v1/users/eve/orch-chats/"+id(r.ThreadID)).fails(404, "not_found")
	b.get(strings.Replace(sub, id(r.ThreadID), "another%2Fdefault", 1)).fails(404, "not_found")
	b.Verify()
}

// A page elsewhere can neither read nor write, whoever is logged in.
func TestPagesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *httpapi.Options) { o.Hosts = []string{"spool.example.com"} })
	login := b.request(http.MethodPost, "/api/v1/login", map[string]string{"token": token})
	login.Header.Del("Authorization")
	in := b.send(login).is(200)
	cookie := in.header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		require.Contains(t, cookie, part)
	}
	require.NotContains(t, cookie, token)
	cookie, _, _ = strings.Cut(cookie, ";")
	session := func(header ...string) *http.Request {
		r := b.request(http.MethodPost, "/api/v1/messages", map[string]any{"content": "script: say x"})
		r.Header.Del("Authorization")
		r.Header.Set("Cookie", cookie)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return r
	}
	b.send(session()).is(202)
	b.send(session("Origin", b.url, "Sec-Fetch-Site", "same-origin")).is(202)
	b.send(session("Sec-Fetch-Site", "cross-site")).fails(403, "cross_origin")
	b.send(session("Sec-Fetch-Site", "same-site")).fails(403, "cross_origin")
	b.send(session("Origin", "http://evil.example")).fails(403, "cross_origin")
	b.send(session("Content-Type", "text/plain")).fails(415, "unsupported_media_type")
	b.send(session("Cookie", cookie+"x")).fails(401, "unauthorized")
	b.send(session("Authorization", "Basic "+token)).fails(401, "unauthorized")

	for host, status := range map[string]int{"evil.example": 421, "evil.example:80": 421, "localhost.evil.example": 421, "spool.example.com": 202, "localhost:1": 202, "[::1]:80": 202, "192.168.1.7": 202} {
		r := b.request(http.MethodPost, "/api/v1/messages", map[string]any{"content": "script: say x"})
		r.Host = host
		require.Equal(t, status, b.send(r).status, host)
	}
	r := b.request(http.MethodGet, "/healthz", nil)
	r.Host = "web.internal"
	r.Header.Del("Authorization")
	b.send(r).is(200)

	for _, path := range []string{"/", "/assets/app.js", "/healthz", "/api/v1/me", "/api/v1/nothing", "/v1/models/none"} {
		h := b.get(path).header
		require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"), path)
		require.Empty(t, h.Get("Access-Control-Allow-Origin"), path)
	}
}

// The link that a server prints logs a browser in and disappears; the page itself
// holds nothing of anybody.
func TestTheLinkLogsIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	visit := func(path, cookie string) answer {
		r := b.request(http.MethodGet, path, nil)
		r.Header.Del("Authorization")
		r.Header.Set("Cookie", cookie)
		return b.send(r)
	}
	in := visit("/?token="+token, "").is(303)
	require.Equal(t, "/", in.header.Get("Location"))
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	require.Contains(t, visit("/", "").is(200).body, "<!doctype html>")
	require.Contains(t, visit("/s/some/conversation", "").is(200).body, "<!doctype html>", "the page finds its way by the path")
	visit("/assets/none.js", "").is(404)
	visit("/api/v1/me", "").fails(401, "unauthorized")
	require.Contains(t, visit("/api/v1/me", cookie).is(200).body, "tester")
	out := visit("/?token=wrong-wrong-wrong-wrong", "").is(303)
	require.Equal(t, "/?login=failed", out.header.Get("Location"))
	require.Empty(t, out.header.Get("Set-Cookie"))

	// Another server with the same key knows the session; one with another does not.
	for key, status := range map[string]int{filepath.Join(b.Dir, "web.key"): 200, filepath.Join(t.TempDir(), "key"): 401} {
		users, err := httpapi.NewUsers("", key)
		require.NoError(t, err)
		require.NoError(t, users.Add("tester", token, ""))
		s, err := httpapi.New(httpapi.Options{Store: b.Store, Users: users, Client: func(store memory.ConversationMemoryStore, user string) *spool.Client {
			return spool.NewClient(store, nil, spool.ClientOptions{UserID: user})
		}})
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodGet, b.url+"/api/v1/me", nil)
		r.Header.Set("Cookie", cookie)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, w.Body)
	}
}

// Tokens are kept as digests; a line that is removed ends the token and its sessions
// without a restart.
func TestTokensOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "web-tokens")
	ada, err := httpapi.AppendToken(file, "ada")
	require.NoError(t, err)
	bob, err := httpapi.AppendToken(file, "bob")
	require.NoError(t, err)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(raw), ada)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	users, err := httpapi.NewUsers(file, filepath.Join(dir, "key"))
	require.NoError(t, err)
	b := newBench(t, func(o *httpapi.Options) { o.Users = users })
	b.send(as(b.request(http.MethodGet, "/api/v1/me", nil), bob)).is(200)
	in := b.send(as(b.request(http.MethodPost, "/api/v1/login", map[string]string{"token": bob}), bob)).is(200)
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	r := b.request(http.MethodGet, "/api/v1/me", nil)
	r.Header.Del("Authorization")
	r.Header.Set("Cookie", cookie)
	require.Contains(t, b.send(r).is(200).body, "bob")

	require.NoError(t, os.WriteFile(file, []byte(strings.Join(strings.SplitAfter(string(raw), "\n")[:1], "")), 0o600))
	b.send(as(b.request(http.MethodGet, "/api/v1/me", nil), bob)).fails(401, "unauthorized")
	b.send(r).fails(401, "unauthorized")
	require.Contains(t, b.send(as(b.request(http.MethodGet, "/api/v1/me", nil), ada)).is(200).body, "ada")

	require.NoError(t, os.WriteFile(file, []byte("ada nonsense\n"), 0o600))
	b.send(as(b.request(http.MethodGet, "/api/v1/me", nil), ada)).is(200)
	_, err = httpapi.NewUsers(file, "")
	require.ErrorContains(t, err, "web-tokens:1")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *httpapi.Options) { o.Limits = httpapi.Limits{Reads: 2, Writes: 1, Streams: 1} })
	eve := func() int { return b.send(as(b.request(http.MethodGet, "/api/v1/me", nil), other)).status }
	statuses := map[int]int{}
	for range 40 {
		statuses[b.get("/api/v1/me").status]++
	}
	require.NotZero(t, statuses[200])
	require.NotZero(t, statuses[429])
	require.Equal(t, 200, eve(), "one user's requests are not another's")
	statuses = map[int]int{}
	for range 20 {
		statuses[b.send(as(b.request(http.MethodGet, "/api/v1/me", nil), "a-wrong-token-of-nobody")).status]++
	}
	require.NotZero(t, statuses[401])
	require.NotZero(t, statuses[429], "guessing is slow")
	big := strings.Repeat("x", 17<<20)
	b.post("/api/v1/messages", map[string]any{"content": big}).fails(413, "too_large", "16 MiB")
}
