package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/remote"
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
	require.Len(t, list.Messages, 5, "row 95: the system prompt, and the four that were said")
	require.Equal(t, "system", list.Messages[0].Role)
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
	require.NoError(t, os.Remove(file))
	b.send(as(b.request(http.MethodGet, "/api/v1/me", nil), ada)).fails(401, "unauthorized")
	_, err = httpapi.NewUsers(file, "")
	require.ErrorContains(t, err, "cannot read the web server's tokens")
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
	refusal := b.get("/api/v1/me")
	for refusal.status == 200 {
		refusal = b.get("/api/v1/me")
	}
	refusal.fails(429, "rate_limited", "2 read requests a second, 9 at once: try again in a second (Retry-After)")
	require.Equal(t, "1", refusal.header.Get("Retry-After"))
	client, err := remote.New(b.url, third)
	require.NoError(t, err)
	for range 7 { // more than at once: the client comes again as it is told
		_, err := client.Send(t.Context(), memory.SendRequest{Content: agent.Text("script: say hi")})
		require.NoError(t, err)
	}

	// A body that is too large is refused, also where the sender looks only at the end.
	const size = 60 << 20
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /api/v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", token, size)
	require.NoError(t, err)
	_, err = io.WriteString(conn, strings.Repeat("x", size))
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	answer{t, res.StatusCode, res.Header, string(raw)}.fails(413, "too_large", "16 MiB")
}

// in logs a browser in and returns a request of its session.
func (b *bench) in(token string) (session func(method, path string) *http.Request, cookie string) {
	b.t.Helper()
	login := b.request(http.MethodPost, "/api/v1/login", map[string]string{"token": token})
	login.Header.Del("Authorization")
	cookie, _, _ = strings.Cut(b.send(login).is(200).header.Get("Set-Cookie"), ";")
	return func(method, path string) *http.Request {
		r := b.request(method, path, nil)
		r.Header.Del("Authorization")
		r.Header.Set("Cookie", cookie)
		return r
	}, cookie
}

// A logout ends the session on the server too: on each with the same key, after a
// restart too, and with it other sessions of its token, but no others.
func TestLogoutEndsSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	eve, stolen := b.in(other)
	again, _ := b.in(other)
	tester, _ := b.in(token)
	b.send(eve(http.MethodGet, "/api/v1/me")).is(200)
	b.send(eve(http.MethodPost, "/api/v1/logout")).is(200)
	b.send(eve(http.MethodGet, "/api/v1/me")).fails(401, "unauthorized")
	b.send(again(http.MethodGet, "/api/v1/me")).fails(401, "unauthorized")
	b.send(tester(http.MethodGet, "/api/v1/me")).is(200)
	b.send(as(b.request(http.MethodGet, "/api/v1/me", nil), other)).is(200)
	later, _ := b.in(other)
	b.send(later(http.MethodGet, "/api/v1/me")).is(200)

	users, err := httpapi.NewUsers("", filepath.Join(b.Dir, "web.key"))
	require.NoError(t, err)
	require.NoError(t, users.Add("eve", other, ""))
	c := newBench(t, func(o *httpapi.Options) { o.Users = users })
	r := c.request(http.MethodGet, "/api/v1/me", nil)
	r.Header.Del("Authorization")
	r.Header.Set("Cookie", strings.Replace(stolen, cookiePort(stolen), cookiePort(c.url), 1))
	c.send(r).fails(401, "unauthorized")
}

// cookiePort is the port in the name of a cookie, or in a URL.
func cookiePort(s string) string {
	s, _, _ = strings.Cut(s, "=")
	return s[strings.LastIndexAny(s, "_:")+1:]
}

// A stream ends soon after its token or its session is not valid any more.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "web-tokens")
	ada, err := httpapi.AppendToken(file, "ada")
	require.NoError(t, err)
	bob, err := httpapi.AppendToken(file, "bob")
	require.NoError(t, err)
	users, err := httpapi.NewUsers(file, filepath.Join(dir, "key"))
	require.NoError(t, err)
	b := newBench(t, func(o *httpapi.Options) { o.Users = users })
	open := func(r *http.Request) <-chan string {
		begun, end := make(chan int), make(chan string, 1)
		go func() {
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				begun <- 0
				return
			}
			defer res.Body.Close()
			begun <- res.StatusCode
			rest, _ := io.ReadAll(res.Body)
			end <- string(rest)
		}()
		require.Equal(t, 200, <-begun)
		return end
	}
	list := "/api/v1/follow?threads=true"
	browser, _ := b.in(ada)
	byCookie, byToken := open(browser(http.MethodGet, list)), open(as(b.request(http.MethodGet, list, nil), bob))
	stays := open(as(b.request(http.MethodGet, list, nil), ada))
	b.send(browser(http.MethodPost, "/api/v1/logout")).is(200)
	require.NotContains(t, <-byCookie, "event: end", "the page asks who it is")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.SplitAfter(string(raw), "\n")[0]), 0o600))
	<-byToken
	select {
	case rest := <-stays:
		t.Fatal("the stream of another token ended too", rest)
	default:
	}
}

// A link on a page of another site neither begins a session nor replaces one.
func TestLinksOfOtherSitesDoNotLogIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	visit := func(header ...string) answer {
		r := b.request(http.MethodGet, "/?token="+other, nil)
		r.Header.Del("Authorization")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return b.send(r).is(303)
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "nonsense"},
		{"Referer", "http://evil.example/page"}, {"Origin", "null"}, {"Referer", "http://127.0.0.1:1/"},
		{"Sec-Fetch-Site", "cross-site", "Referer", b.url + "/"},
	} {
		got := visit(header...)
		require.Empty(t, got.header.Get("Set-Cookie"), header)
		require.Equal(t, "/?login=elsewhere", got.header.Get("Location"), header)
	}
	for _, header := range [][]string{nil, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin"}, {"Referer", b.url + "/"}} {
		require.NotEmpty(t, visit(header...).header.Get("Set-Cookie"), header)
	}
	in := b.send(b.request(http.MethodPost, "/api/v1/login", map[string]any{"token": token})).is(200).header.Get("Set-Cookie")
	cookie, _, _ := strings.Cut(in, ";")
	require.Empty(t, visit("Sec-Fetch-Site", "same-origin", "Cookie", cookie).header.Get("Set-Cookie"), "a link in a message makes no other user")
	require.NotEmpty(t, visit("Sec-Fetch-Site", "none", "Cookie", cookie).header.Get("Set-Cookie"), "the address bar does")
}

// What a terminal would not show, or would obey, is an escape in an answer.
func TestAnswersHideNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	text := "a\u202eb\u009bc\u200bd\U000e0041e\x7f"
	var r spool.Reply
	b.post("/api/v1/messages", map[string]any{"content": text}).is(202).into(&r)
	for _, path := range []string{"/api/v1/threads/" + id(r.ThreadID), "/api/v1/threads", "/api/v1/follow?threads=true&once=true"} {
		a := b.get(path).is(200)
		require.False(t, strings.ContainsAny(a.body, "\u202e\u009b\u200b\U000e0041\x7f"), a.body)
		require.Contains(t, a.body, `a\u202eb`, path)
	}
	var v struct {
		Inbox []struct{ Content string }
	}
	b.get("/api/v1/threads/" + id(r.ThreadID)).into(&v)
	require.Equal(t, text, v.Inbox[0].Content, "it means the same")
}
