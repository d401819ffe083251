package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Site serves the files of the page. What it loads lies in a folder that is named by
// its content, so that browsers keep it for good, and is compressed beforehand. It holds
// no data of users, so everybody may have it. It is safe for concurrent use.
type Site struct {
	files map[string]file // by path
	tree  string          // "/assets/HASH/"
	index string          // with the place for the first data
}

// file is a file of the page as it goes over the wire.
type file struct {
	plain, packed []byte // packed is empty if it would not be smaller
	kind, tag     string
}

const (
	assets    = "/assets/"
	firstData = "<!-- first data -->"
)

// hashed is the name of a file by its content, or that of a file of another version.
var hashed = regexp.MustCompile(`^(/assets/[0-9a-f]{12}/)(.+)$`)

// imported finds what a module loads before it runs.
var imported = regexp.MustCompile(`(?m)^(?:import|export)\b[^"';(]*["'](\./[^"']+|\.\./[^"']+)["']`)

// New makes a site of index.html and the folder assets.
func New(from fs.FS) (*Site, error) {
	s := &Site{files: map[string]file{}}
	sum := sha256.New()
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(raw), raw)
		s.files["/"+name] = newFile(name, raw)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.tree = assets + hex.EncodeToString(sum.Sum(nil)[:6]) + "/"
	s.index = s.withModules(strings.ReplaceAll(string(s.files["/index.html"].plain), assets, s.tree))
	return s, nil
}

func newFile(name string, raw []byte) file {
	sum := sha256.Sum256(raw)
	f := file{plain: raw, kind: mime.TypeByExtension(path.Ext(name)), tag: hex.EncodeToString(sum[:8])}
	switch path.Ext(name) { // as some systems know them by other names
	case ".js", ".mjs":
		f.kind = "text/javascript; charset=utf-8"
	case ".css":
		f.kind = "text/css; charset=utf-8"
	}
	if packed := pack(raw, gzip.BestCompression); len(packed) < len(raw)*9/10 {
		f.packed = packed
	}
	return f
}

func pack(raw []byte, level int) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err == nil {
		_, err = w.Write(raw)
	}
	if err != nil || w.Close() != nil { // a buffer takes everything
		return raw
	}
	return b.Bytes()
}

// withModules names the modules that the page's scripts load, so that a browser asks for
// all of them at once.
func (s *Site) withModules(index string) string {
	scripts := regexp.MustCompile(`<script type="module" src="`+regexp.QuoteMeta(s.tree)+`([^"]+)"`).FindAllStringSubmatch(index, -1)
	var found []string
	for _, m := range scripts {
		found = s.modules(path.Join(assets, m[1]), found)
	}
	var links strings.Builder
	for _, name := range found {
		links.WriteString(`<link rel="modulepreload" href="` + s.tree + strings.TrimPrefix(name, assets) + "\">\n")
	}
	return strings.Replace(index, "</head>", firstData+links.String()+"</head>", 1)
}

// modules adds a module and those that it loads, each once.
func (s *Site) modules(name string, found []string) []string {
	f, known := s.files[name]
	if !known || slices.Contains(found, name) {
		return found
	}
	found = append(found, name)
	for _, m := range imported.FindAllSubmatch(f.plain, -1) {
		found = s.modules(path.Join(path.Dir(name), string(m[1])), found)
	}
	return found
}

// ServeHTTP answers a request for a file. What is none is index.html, which finds its
// way by the address.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := path.Clean(r.URL.Path)
	cache := "no-cache"
	if m := hashed.FindStringSubmatch(name); m != nil {
		if name = assets + m[2]; m[1] == s.tree {
			cache = "public, max-age=31536000, immutable"
		} // else a page that was loaded before the server was replaced wants one more file
	}
	f, known := s.files[name]
	switch {
	case known && name != "/index.html":
	case name == "/index.html" || path.Ext(name) == "" && !strings.HasPrefix(name, assets):
		f = newFile("index.html", []byte(strings.Replace(s.index, firstData, wanted(r.URL.Query()), 1)))
	default:
		http.Error(w, "the page has no file "+r.URL.Path, http.StatusNotFound)
		return
	}
	h, content := w.Header(), f.plain
	if f.kind != "" {
		h.Set("Content-Type", f.kind)
	}
	h.Set("Cache-Control", cache)
	h.Set("Vary", "Accept-Encoding")
	if len(f.packed) > 0 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		content, f.tag = f.packed, f.tag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+f.tag+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// wanted lets a browser ask for the page's first data while its modules are under way,
// by the address that the page will use.
func wanted(place url.Values) string {
	q := ""
	for _, name := range []string{"thread", "inspect"} {
		if v := place.Get(name); v != "" {
			q += "&" + name + "=" + url.QueryEscape(v)
		}
	}
	if q != "" {
		q = "?" + q[1:]
	}
	return `<link rel="preload" as="fetch" crossorigin href="` + html.EscapeString("/api/v1/open"+q) + "\">\n"
}
