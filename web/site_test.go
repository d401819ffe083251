package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func get(t *testing.T, s http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func text(t *testing.T, r *httptest.ResponseRecorder) string {
	t.Helper()
	body := io.Reader(r.Body)
	if r.Header().Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		require.NoError(t, err)
		body = z
	}
	raw, err := io.ReadAll(body)
	require.NoError(t, err)
	return string(raw)
}

// What the page loads is named by its content and kept for good, other names are asked
// about each time, and what is compressed is the same.
func TestFilesAreNamedByTheirContent(t *testing.T) {
	files := fstest.MapFS{
		"index.html":       {Data: []byte(`<head><script type="module" src="/assets/app.js"></script></head>` + strings.Repeat("<p></p>", 100))},
		"assets/app.js":    {Data: []byte("import { a } from \"./a.js\";\nimport {\n  b,\n} from './deep/b.js';\nconst lazy = () => import(\"./lazy.js\");\n" + strings.Repeat("// x\n", 200))},
		"assets/a.js":      {Data: []byte("export * from \"./deep/b.js\";\n")},
		"assets/lazy.js":   {Data: []byte("1")},
		"assets/deep/b.js": {Data: []byte("import \"../a.js\";\n")},
	}
	s, err := New(files)
	require.NoError(t, err)
	index := get(t, s, "/s/some/thread?thread=a%2Fb&inspect=agent%3Ax%3Ay&x=%22%3E")
	require.Equal(t, "no-cache", index.Header().Get("Cache-Control"))
	page := text(t, index)
	tree := regexp.MustCompile(`/assets/[0-9a-f]{12}/`).FindString(page)
	require.Contains(t, page, `src="`+tree+`app.js"`)
	require.Contains(t, page, `<link rel="preload" as="fetch" crossorigin href="/api/v1/open?thread=a%2Fb&amp;inspect=agent%3Ax%3Ay">`)
	for _, name := range []string{"app.js", "a.js", "deep/b.js"} {
		require.Equal(t, 1, strings.Count(page, `<link rel="modulepreload" href="`+tree+name+`">`), name)
	}
	require.NotContains(t, page, "lazy.js")
	got := get(t, s, tree+"app.js", "Accept-Encoding", "br, gzip")
	require.Equal(t, []string{"public, max-age=31536000, immutable", "gzip", "Accept-Encoding", "text/javascript; charset=utf-8"},
		[]string{got.Header().Get("Cache-Control"), got.Header().Get("Content-Encoding"), got.Header().Get("Vary"), got.Header().Get("Content-Type")})
	require.Equal(t, string(files["assets/app.js"].Data), text(t, got))
	require.Equal(t, http.StatusNotModified, get(t, s, "/assets/app.js", "Accept-Encoding", "gzip", "If-None-Match", got.Header().Get("ETag")).Code)
	plain := get(t, s, "/assets/app.js")
	require.Equal(t, []string{"no-cache", ""}, []string{plain.Header().Get("Cache-Control"), plain.Header().Get("Content-Encoding")})
	require.NotEqual(t, got.Header().Get("ETag"), plain.Header().Get("ETag"))
	for _, path := range []string{tree + "none.js", "/assets/none.js", "/none.js", "/assets/zzzzzzzzzzzz/app.js"} {
		require.Equal(t, http.StatusNotFound, get(t, s, path).Code, path)
	}
	old := get(t, s, "/assets/0123456789ab/lazy.js")
	require.Equal(t, []string{"1", "no-cache"}, []string{text(t, old), old.Header().Get("Cache-Control")}, "of a page that was loaded before")
	files["assets/lazy.js"].Data = []byte("2")
	other, err := New(files)
	require.NoError(t, err)
	require.NotEqual(t, s.tree, other.tree, "another content, another name")
}

// most is what the page may weigh over the wire, in bytes, without what it loads when
// it is needed.
const most = 100_000

// The page names all modules that it loads at first, and weighs little.
func TestThePageIsLight(t *testing.T) {
	s, err := New(Files)
	require.NoError(t, err)
	page := text(t, get(t, s, "/"))
	links := regexp.MustCompile(`(?:href|src)="(`+s.tree+`[^"]+)"`).FindAllStringSubmatch(page, -1)
	var names []string
	sum := len(pack([]byte(page), gzip.BestCompression))
	for _, m := range links {
		if slices.Contains(names, m[1]) {
			continue
		}
		names = append(names, m[1])
		r := get(t, s, m[1], "Accept-Encoding", "gzip")
		require.Equal(t, http.StatusOK, r.Code, m[1])
		raw, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		sum += len(raw)
	}
	require.Greater(t, len(names), 10)
	require.Contains(t, names, s.tree+"vendor/preact.js")
	require.Less(t, sum, most)
	t.Logf("%d files, %d bytes", len(names)+1, sum)
}
