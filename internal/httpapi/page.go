package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// file is a file of the page.
type file struct {
	content   []byte
	kind, tag string
}

// page serves the files of the page. What is no file is index.html, which finds its
// way by the path. They hold no data, so everybody may have them.
func (s *Server) page() http.Handler {
	files := map[string]file{}
	err := fs.WalkDir(s.o.Page, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(s.o.Page, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(raw)
		kind := mime.TypeByExtension(path.Ext(name))
		switch path.Ext(name) { // as some systems know them by other names
		case ".js", ".mjs":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		}
		files["/"+name] = file{raw, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
		return nil
	})
	if err != nil {
		s.o.Log.Error("the page cannot be read", "error", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			s.fail(w, r, &httpError{http.StatusMethodNotAllowed, "method_not_allowed", "the page can be read only"})
			return
		case r.URL.Path == "/" && r.URL.Query().Has("token"):
			s.enter(w, r)
			return
		}
		name := path.Clean(r.URL.Path)
		f, ok := files[name]
		if !ok && path.Ext(name) == "" && !strings.HasPrefix(name, "/assets/") {
			name = "/index.html"
			f, ok = files[name]
		}
		if !ok {
			s.fail(w, r, &httpError{http.StatusNotFound, "not_found", "the page has no file " + r.URL.Path})
			return
		}
		if f.kind != "" {
			w.Header().Set("Content-Type", f.kind)
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", f.tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
	})
}
