package httpapi

import "net/http"

// page serves the page, and lets in who comes by a link with a token.
func (s *Server) page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			s.fail(w, r, &httpError{http.StatusMethodNotAllowed, "method_not_allowed", "the page can be read only"})
		case r.URL.Path == "/" && r.URL.Query().Has("token"):
			s.enter(w, r)
		default:
			s.o.Page.ServeHTTP(w, r)
		}
	})
}
