package tool_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// site serves handlers by path.
func site(t *testing.T, pages map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for path, h := range pages {
		mux.HandleFunc(path, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func page(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

const sample = `<html><head><title>A &amp; B</title><style>p{}</style><script>alert("<p>x")</script></head>
<body><h2>Head</h2><p>One <b>bold</b> word,
and a <a href="/x?y=1">link</a>.</p><ul><li>first</li><li>second <a href="#top">top</a></li></ul>
<pre>a
  b</pre><table><tr><td>1</td><td>2</td></tr></table></body></html>`

func TestWebFetch(t *testing.T) {
	s := site(t, map[string]http.HandlerFunc{
		"/html":  page("text/html; charset=utf-8", sample),
		"/latin": page("text/plain; charset=iso-8859-1", "caf\xe9"),
		"/json":  page("application/json", `{"a":1}`),
		"/image": page("image/png", "\x89PNG"),
		"/moved": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/json", http.StatusFound) },
		"/loop":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) },
		"/file": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		},
		"/gone":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such page", http.StatusNotFound) },
		"/busy":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "slow down", http.StatusTooManyRequests) },
		"/large":   page("text/plain", strings.Repeat("x", 6<<20)),
		"/nothing": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	})
	r := registry(t, tool.WebFetch(true))
	get := func(path string) agent.ToolResult { return call(t, r, "", "web_fetch", m{"url": s.URL + path}) }

	assert.Equal(t, "A & B\n\n## Head\n\nOne **bold** word, and a [link]("+s.URL+"/x?y=1).\n\n- first\n- second [top]("+s.URL+"/html#top)\n\n```\na\n  b\n```\n\n|   |   |\n|---|---|\n| 1 | 2 |", succeeded(t, get("/html")))
	assert.Equal(t, "café", succeeded(t, get("/latin")))
	assert.Equal(t, `{"a":1}`, succeeded(t, get("/json")))
	assert.Equal(t, "[from "+s.URL+"/json]\n"+`{"a":1}`, succeeded(t, get("/moved")))
	assert.Contains(t, succeeded(t, get("/large")), "[only the first 5242880 bytes were read]")
	succeeded(t, get("/nothing"))
	failed(t, get("/image"), agent.ErrInvalidInput, "its content is image/png, not text")
	failed(t, get("/loop"), agent.ErrNetwork, "stopped after 10 redirects")
	failed(t, get("/file"), agent.ErrNetwork, "redirect to a file: URL refused")
	failed(t, get("/gone"), agent.ErrNotFound, "answered 404 Not Found.\nno such page")
	failed(t, get("/busy"), agent.ErrRateLimit, "slow down")
	for _, bad := range []string{"ftp://x/y", "/relative", "http://", "javascript:alert(1)", "http://[::1"} {
		failed(t, call(t, r, "", "web_fetch", m{"url": bad}), agent.ErrInvalidInput, "is not an http or https URL")
	}
	s.Close()
	failed(t, get("/html"), agent.ErrNetwork, "could not be fetched")
}

func TestWebFetchRefusesPrivateAddresses(t *testing.T) {
	reached := false
	s := site(t, map[string]http.HandlerFunc{"/": func(http.ResponseWriter, *http.Request) { reached = true }})
	port := mustURL(t, s.URL).Port()
	r := registry(t, tool.WebFetch(false))
	for _, u := range []string{
		s.URL, "http://localhost:" + port, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port,
		"http://10.1.2.3/", "http://192.168.0.1/", "http://172.16.0.1/", "http://169.254.169.254/latest/meta-data/",
		"http://100.64.0.1/", "http://[fd00::1]/", "http://[fe80::1]/", "http://[64:ff9b::a00:1]/", "http://224.0.0.1/",
	} {
		failed(t, call(t, r, "", "web_fetch", m{"url": u}), agent.ErrPermissionDenied, "was not fetched: the address is private")
	}
	assert.False(t, reached)
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	require.NoError(t, err)
	return u
}

func TestWebFetchStopsWithItsContext(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := site(t, map[string]http.HandlerFunc{"/": func(http.ResponseWriter, *http.Request) { close(entered); <-release }})
	defer close(release)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-entered; cancel() }()
	res := registry(t, tool.WebFetch(true)).Run(ctx, "web_fetch", agent.ToolRun{Args: []byte(`{"url":"` + s.URL + `"}`)})
	failed(t, res, agent.ErrAborted, agent.TextAborted)
}

func TestWebSearch(t *testing.T) {
	var auth, body string
	reply := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			auth, body = r.Header.Get("Authorization"), string(raw)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	s := site(t, map[string]http.HandlerFunc{
		"/ok":    reply(200, `{"answer":"42","results":[{"title":"T","url":"https://x","content":"some\n  text"}]}`),
		"/none":  reply(200, `{"results":[]}`),
		"/auth":  reply(401, `{}`),
		"/rate":  reply(429, `slow`),
		"/trash": reply(200, `<html>`),
	})
	search := func(path string) agent.ToolResult {
		return call(t, registry(t, tool.WebSearch("tvly-key", s.URL+path)), "", "web_search", m{"query": "why"})
	}
	assert.Equal(t, "42\n\n1. T\n   https://x\n   some text\n", succeeded(t, search("/ok")))
	assert.Equal(t, "Bearer tvly-key", auth)
	assert.Contains(t, body, `"query":"why"`)
	assert.Equal(t, "No results for why.", succeeded(t, search("/none")))
	failed(t, search("/auth"), agent.ErrPermissionDenied, "check TAVILY_API_KEY")
	failed(t, search("/rate"), agent.ErrRateLimit, "429")
	failed(t, search("/trash"), agent.ErrNetwork, "not JSON")
}

// A page is bounded after it was inflated, and nesting costs no more than length.
func TestWebFetchBoundsWhatAPageBecomes(t *testing.T) {
	zipped := func(kind, head, more string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, err := io.WriteString(z, head)
			for piece := strings.Repeat(more, 1<<20/len(more)); err == nil; {
				_, err = io.WriteString(z, piece)
			}
		}
	}
	s := site(t, map[string]http.HandlerFunc{"/text": zipped("text/plain", "begin ", "x"), "/html": zipped("text/html", "<p>begin", "<p>x</p>"), "/deep": zipped("text/html", "begin", "<div>")})
	r := registry(t, tool.WebFetch(true))
	for _, path := range []string{"/text", "/html", "/deep"} {
		res := call(t, r, "", "web_fetch", m{"url": s.URL + path})
		if path == "/deep" {
			assert.NotEmpty(t, res.Content)
			continue
		}
		assert.Equal(t, agent.CallSuccess, res.Status, "%s: %.200s", path, res.Content)
		assert.Contains(t, res.Content[len(res.Content)-100:], "only the first 5242880 bytes were read", path)
	}
}
