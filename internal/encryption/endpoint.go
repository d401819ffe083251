package encryption

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"go.temporal.io/sdk/converter"

	"github.com/spool-agents/spool/internal/hosts"
)

// maxBody bounds a request: Temporal's messages have 4 MB at most, and a third
// more in base64.
const maxBody = 8 << 20

// Endpoint is Temporal's codec server: POST …/decode and …/encode with payloads as
// JSON, for the Web UI and the temporal program. It refuses pages of origins that it
// does not know, and names that could lead another site's page to it.
type Endpoint struct {
	codec  http.Handler
	hosts  []string
	digest []byte // of the token, nil if none is needed
	mu     sync.Mutex
	origin []string
}

// NewEndpoint makes an endpoint that knows itself by addresses, localhost and names (see hosts.Known).
// With a token it answers only to who sends it as Authorization: Bearer.
func NewEndpoint(keys Keys, token string, names []string) *Endpoint {
	e := &Endpoint{codec: converter.NewPayloadCodecHTTPHandler(keys.Codec()), hosts: names}
	if token != "" {
		sum := sha256.Sum256([]byte("Bearer " + token))
		e.digest = sum[:]
	}
	return e
}

// Allow lets pages of these origins use the endpoint, and of no others. What is not
// an http or https URL is left out; its path does not count.
func (e *Endpoint) Allow(urls ...string) {
	var origins []string
	for _, link := range urls {
		if u, err := url.Parse(link); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
			origins = append(origins, strings.ToLower(u.Scheme+"://"+u.Host))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.origin = origins
}

// Origins are those that were allowed.
func (e *Endpoint) Origins() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.origin)
}

func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Origin")
	if !hosts.Known(r.Host, e.hosts) {
		http.Error(w, "this codec server is not known as "+r.Host+": use its address, or start it with --host-name", http.StatusMisdirectedRequest)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" { // the temporal program sends none
		if !slices.Contains(e.Origins(), origin) {
			http.Error(w, "pages of "+origin+" may not use this codec server: start it with --origin "+origin, http.StatusForbidden)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true") // the UI's cookies mean nothing here, but it may send them
	}
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "POST")
		h.Set("Access-Control-Allow-Headers", "Content-Type, X-Namespace, Authorization, Authorization-Extras")
		h.Set("Access-Control-Max-Age", "600")
		if r.Header.Get("Access-Control-Request-Private-Network") != "" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !e.admits(r.Header.Get("Authorization")) {
		h.Set("WWW-Authenticate", "Bearer")
		http.Error(w, "this codec server needs its token (SPOOL_CODEC_TOKEN) as Authorization: Bearer TOKEN; the temporal program takes it as --codec-auth", http.StatusUnauthorized)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	e.codec.ServeHTTP(w, r)
}

func (e *Endpoint) admits(authorization string) bool {
	if e.digest == nil {
		return true
	}
	sum := sha256.Sum256([]byte(authorization))
	return subtle.ConstantTimeCompare(sum[:], e.digest) == 1
}
