package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/httpapi"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/web"
)

func TestMain(m *testing.M) { tt.Main(m) }

const (
	token = "token-of-the-tester" // of the stack's user
	other = "token-of-somebody-else"
	third = "token-of-one-more-user"
)

// bench is a server on a stack.
type bench struct {
	t *testing.T
	*tt.Stack
	url    string
	server *httpapi.Server
	users  *httpapi.Users
	do     http.RoundTripper // what sends requests
}

func newBench(t *testing.T, change ...func(*httpapi.Options)) *bench {
	t.Helper()
	b := &bench{t: t, Stack: tt.New(t), do: http.DefaultTransport}
	var err error
	b.users, err = httpapi.NewUsers("", filepath.Join(b.Dir, "web.key"))
	require.NoError(t, err)
	require.NoError(t, b.users.Add("tester", token, ""))
	require.NoError(t, b.users.Add("eve", other, ""))
	require.NoError(t, b.users.Add("bob", third, ""))
	site, err := web.New(web.Files)
	require.NoError(t, err)
	o := httpapi.Options{
		Store: b.Store, Users: b.users, Page: site,
		Limits: httpapi.Limits{Reads: 1000, Writes: 1000}, Metrics: promhttp.Handler(),
		Administrator: "tester", Workspace: b.Work, Approvals: []string{"file_read", "file_write", "file_edit(a*)"},
		Client: func(store memory.ConversationMemoryStore, user string) *spool.Client {
			return spool.NewClient(store, b.Temporal, spool.ClientOptions{UserID: user, UI: "http://ui.example"})
		},
		Agents: func() []agent.SpecialistAgentConfig {
			return []agent.SpecialistAgentConfig{{Name: "orchestrator", Description: "Talks."}, {Name: "general"}, {Name: "researcher"}}
		},
	}
	for _, f := range change {
		f(&o)
	}
	s, err := httpapi.New(o)
	require.NoError(t, err)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	b.url, b.server = h.URL, s
	return b
}

// asks replaces the template that asks nobody by one that asks before it runs things.
func (b *bench) asks() {
	b.t.Helper()
	file := filepath.Join(b.Agents(), "orchestrator.md")
	require.NoError(b.t, os.WriteFile(file, []byte("---\nname: orchestrator\n---\nYou ask first.\n"), 0o644))
}

// id writes a thread's id for a path.
func id(thread string) string { return url.PathEscape(thread) }

// request makes a request of the tester.
func (b *bench) request(method, path string, body any) *http.Request {
	b.t.Helper()
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		require.NoError(b.t, err)
		in = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, in)
	require.NoError(b.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// answer is a response that was read.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func (b *bench) send(r *http.Request) answer {
	b.t.Helper()
	res, err := b.do.RoundTrip(r)
	require.NoError(b.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	return answer{b.t, res.StatusCode, res.Header, string(raw)}
}

func (b *bench) get(path string) answer {
	b.t.Helper()
	return b.send(b.request(http.MethodGet, path, nil))
}

func (b *bench) post(path string, body any) answer {
	b.t.Helper()
	return b.send(b.request(http.MethodPost, path, body))
}

// is checks the status.
func (a answer) is(status int) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, a.body)
	return a
}

// into reads the body.
func (a answer) into(v any) answer {
	a.t.Helper()
	require.NoError(a.t, json.Unmarshal([]byte(a.body), v), a.body)
	return a
}

// fails checks that it is an error with this code.
func (a answer) fails(status int, code string, words ...string) {
	a.t.Helper()
	a.is(status)
	var doc struct {
		Error struct{ Code, Message string }
	}
	a.into(&doc)
	require.Equal(a.t, code, doc.Error.Code, a.body)
	for _, w := range words {
		require.Contains(a.t, doc.Error.Message, w)
	}
}

// say sends a message and returns its reply.
func (b *bench) say(session, text string) spool.Reply {
	b.t.Helper()
	var r spool.Reply
	b.post("/api/v1/messages", map[string]any{"sessionId": b.Session(session), "content": text}).is(http.StatusAccepted).into(&r)
	return r
}

// ends waits for the end of a turn, or until a person is needed.
func (b *bench) ends(r spool.Reply) spool.Reply {
	b.t.Helper()
	for until := time.Now().Add(tt.Patience); time.Now().Before(until); {
		var now spool.Reply
		b.get("/api/v1/threads/" + id(r.ThreadID) + "/turns/" + r.TurnID + "?wait=20").is(http.StatusOK).into(&now)
		if now.Status != "running" && now.Status != spool.StatusQueued {
			return now
		}
	}
	b.t.Fatalf("the turn did not end within %s", tt.Patience)
	return r
}

// opens waits until a turn of a thread is open.
func (b *bench) opens(thread string) {
	b.t.Helper()
	tt.Eventually(b.t, "a turn of "+thread+" opens", func() bool {
		t, err := b.Store.Thread(b.Ctx(), "tester", thread)
		return err == nil && t.OpenTurnID != ""
	})
}

// as makes the request one of another user's token.
func as(r *http.Request, token string) *http.Request {
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// sse is one server-sent event.
type sse struct{ id, name, data string }

// events reads a whole stream.
func (a answer) events() []sse {
	a.t.Helper()
	require.Equal(a.t, "text/event-stream", a.header.Get("Content-Type"), a.body)
	var out []sse
	for _, block := range strings.Split(a.body, "\n\n") {
		var e sse
		for _, line := range strings.Split(block, "\n") {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			}
		}
		if e.name != "" {
			out = append(out, e)
		}
	}
	return out
}

// waitsForTheModel reads a turn whose model call is made again later.
func (b *bench) waitsForTheModel() {
	b.t.Helper()
	r := b.say("busy", "script: fail 429 x9 after 60s say never")
	thread := "/api/v1/threads/" + id(r.ThreadID)
	tt.Eventually(b.t, "the model call waits", func() bool {
		return strings.Contains(b.get("/api/v1/waits").is(200).body, r.ThreadID)
	})
	for _, path := range []string{"/api/v1/waits?thread=" + id(r.ThreadID), thread, thread + "/trace", thread + "/turns/" + r.TurnID, thread + "/events"} {
		require.Contains(b.t, b.get(path).is(200).body, `"code":"rate_limited"`, path)
	}
	require.Contains(b.t, b.get(thread+"/spans?turn="+r.TurnID).is(200).body, `"kind":"wait"`)
	b.post(thread+"/cancel", map[string]any{"turnId": r.TurnID}).is(200)
	require.Equal(b.t, "cancelled", b.ends(r).Status)
	require.NotContains(b.t, b.get("/api/v1/waits").is(200).body, r.ThreadID)
}
