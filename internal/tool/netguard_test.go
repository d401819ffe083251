package tool

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/spool-agents/spool/agent"
)

func TestIsPublic(t *testing.T) {
	for _, s := range []string{"8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2001:4860:4860::8888", "172.32.0.1", "100.128.0.1"} {
		assert.True(t, isPublic(netip.MustParseAddr(s)), s)
	}
	for _, s := range []string{
		"127.0.0.1", "10.0.0.1", "172.31.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255",
		"198.18.0.1", "240.0.0.1", "::", "::1", "fc00::1", "fe80::1%eth0", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "::ffff:0:127.0.0.1", "192.88.99.1",
	} {
		assert.False(t, isPublic(netip.MustParseAddr(s)), s)
	}
}

// innerIP and outerIP are addresses of this machine; outerIP plays a public one.
const innerIP, outerIP = "127.0.0.1", "127.0.0.2"

// world has a site outside, one inside, and a name server that gives each name its
// next address at each look-up.
type world struct {
	t       *testing.T
	port    string
	fetch   agent.Tool
	looked  atomic.Int32 // look-ups
	reached atomic.Int32 // requests that got inside
	last    http.Header  // of the last request outside
}

func newWorld(t *testing.T, names map[string][][]string, pages map[string]http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t}
	var l, secret net.Listener
	for try := 0; secret == nil; try++ { // a port that is free on both addresses
		var err error
		l, err = net.Listen("tcp", outerIP+":0")
		require.NoError(t, err)
		_, w.port, err = net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		if secret, err = net.Listen("tcp", innerIP+":"+w.port); err != nil {
			require.Less(t, try, 100, err)
			require.NoError(t, l.Close())
			secret = nil
		}
	}
	serve(t, secret, func(http.ResponseWriter, *http.Request) { w.reached.Add(1) })
	serve(t, l, func(rw http.ResponseWriter, r *http.Request) {
		w.last = r.Header.Clone()
		if h := pages[r.URL.Path]; h != nil {
			h(rw, r)
		}
	})
	w.fetch = webFetch(network{w.dns(names), func(a netip.Addr) bool { return isPublic(a) || a.String() == outerIP }, false})
	return w
}

func serve(t *testing.T, l net.Listener, h http.HandlerFunc) {
	t.Helper()
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}} //nolint:gosec // a test's server
	s.Start()
	t.Cleanup(s.Close)
}

// dns is a resolver that asks a name server of the test, over UDP, as in life.
func (w *world) dns(names map[string][][]string) *net.Resolver {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil {
				continue
			}
			m.Response = true
			q := m.Questions[0]
			name := strings.TrimSuffix(q.Name.String(), ".")
			if q.Type == dnsmessage.TypeA && len(names[name]) > 0 {
				w.looked.Add(1)
				for _, a := range names[name][0] {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
						Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
					})
				}
				if len(names[name]) > 1 {
					names[name] = names[name][1:]
				}
			}
			m.Additionals = nil
			b, err := m.Pack()
			if err == nil {
				_, _ = c.WriteTo(b, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
}

func (w *world) get(u string) agent.ToolResult {
	w.t.Helper()
	return w.run(context.Background(), u)
}

func (w *world) run(ctx context.Context, u string) agent.ToolResult {
	w.t.Helper()
	r, err := New(w.fetch)
	require.NoError(w.t, err)
	args, err := json.Marshal(webFetchArgs{u})
	require.NoError(w.t, err)
	return r.Run(ctx, "web_fetch", agent.ToolRun{Args: args})
}

func (w *world) check(u string) bool {
	w.t.Helper()
	args, err := json.Marshal(webFetchArgs{u})
	require.NoError(w.t, err)
	c, ok := w.fetch.(agent.Checker)
	require.True(w.t, ok)
	_, refused := c.Check(context.Background(), agent.ToolRun{Args: args})
	return refused
}

// A name that is public when it is looked at and private when it is dialled again leads
// nowhere; of several addresses only public ones are dialled. No name is looked up
// before a person has agreed to a call: the name may hold what was read from a file.
func TestRebindingIsRefused(t *testing.T) {
	w := newWorld(t, map[string][][]string{
		"rebind.example": {{outerIP}, {innerIP}}, "inside.example": {{innerIP}}, "mixed.example": {{innerIP, outerIP}}, "good.example": {{outerIP}},
	}, map[string]http.HandlerFunc{"/": func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Connection", "close") // the next call dials anew
		_, _ = io.WriteString(rw, "hello")
	}})
	at := func(host string) string { return "http://" + host + ":" + w.port + "/" }
	for _, host := range []string{"rebind.example", "inside.example", "mixed.example", "good.example"} {
		assert.False(t, w.check(at(host)), host)
	}
	assert.Zero(t, w.looked.Load(), "a check asks nobody")
	assert.Equal(t, "hello", w.get(at("rebind.example")).Content)
	for _, host := range []string{"rebind.example", "inside.example"} {
		res := w.get(at(host))
		assert.Equal(t, agent.ErrPermissionDenied, res.ErrorReason, "%s: %s", host, res.Content)
	}
	for _, host := range []string{"mixed.example", "good.example"} {
		assert.Equal(t, "hello", w.get(at(host)).Content)
	}
	assert.Zero(t, w.reached.Load(), "nothing got inside")
}

// A public page must not lead inside, out of the web, or round in circles.
func TestRedirectsAreGuarded(t *testing.T) {
	to := func(target string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Location", strings.ReplaceAll(target, "PORT", strings.Split(r.Host, ":")[1]))
			rw.WriteHeader(http.StatusFound)
		}
	}
	denied, broken := agent.ErrPermissionDenied, agent.ErrNetwork
	pages, want := map[string]http.HandlerFunc{}, map[string]agent.ErrorReason{}
	for target, reason := range map[string]agent.ErrorReason{
		"http://127.0.0.1:PORT/": denied, "http://169.254.169.254/latest/meta-data/": denied, "http://[::ffff:127.0.0.1]:PORT/": denied,
		"http://[64:ff9b::7f00:1]:PORT/": denied, "http://0.0.0.0:PORT/": denied, "http://[::]:PORT/": denied, "http://2130706433:PORT/": denied,
		"http://0x7f.0.0.1:PORT/": denied, "http://0177.0.0.1:PORT/": denied, "http://127.1:PORT/": denied, "http://localhost.:PORT/": denied,
		"http://LOCALHOST:PORT/": denied, "http://user:pw@127.0.0.1:PORT/": denied, "//127.0.0.1:PORT/": denied, "http://inside.example:PORT/": denied,
		"https://127.0.0.1:PORT/": denied, "http://good.example@127.0.0.1:PORT/": denied, "http://[::1%25lo]:PORT/": denied,
		"file:///etc/passwd": broken, "gopher://good.example/": broken, "javascript:alert(1)": broken, "data:text/plain,hi": broken, "/loop": broken,
	} {
		path := "/" + strings.NewReplacer("/", "_", ":", "_", "%", "_").Replace(target)
		pages[path], want[path] = to(target), reason
	}
	pages["/loop"] = to("/loop")
	w := newWorld(t, map[string][][]string{"good.example": {{outerIP}}, "inside.example": {{innerIP}}}, pages)
	for path, reason := range want {
		res := w.get("http://good.example:" + w.port + path)
		assert.Equal(t, reason, res.ErrorReason, "%s: %s", path, res.Content)
	}
	assert.Zero(t, w.reached.Load(), "nothing got inside")
}

// A redirect to another host is told, not followed: nobody named that host. What a URL
// says of a person is for its own host only.
func TestNothingIsForwarded(t *testing.T) {
	var ended atomic.Int32
	w := newWorld(t, map[string][][]string{"one.example": {{outerIP}}, "two.example": {{outerIP}}, "www.one.example": {{outerIP}}}, map[string]http.HandlerFunc{
		"/go": func(rw http.ResponseWriter, r *http.Request) {
			http.SetCookie(rw, &http.Cookie{Name: "session", Value: "hush"})
			http.Redirect(rw, r, "http://two.example:"+strings.Split(r.Host, ":")[1]+"/end", http.StatusFound)
		},
		"/same": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://www.one.example:"+strings.Split(r.Host, ":")[1]+"/end", http.StatusFound)
		},
		"/end": func(rw http.ResponseWriter, _ *http.Request) {
			ended.Add(1)
			_, _ = io.WriteString(rw, "end")
		},
	})
	res := w.get("http://ada:secret@one.example:" + w.port + "/go?token=secret")
	assert.Equal(t, agent.ErrPermissionDenied, res.ErrorReason, res.Content)
	assert.Contains(t, res.Content, "call web_fetch with http://two.example:"+w.port+"/end")
	assert.Zero(t, ended.Load(), "the other host was not asked")
	res = w.get("http://ada:secret@one.example:" + w.port + "/same?token=secret")
	assert.Contains(t, res.Content, "end")
	for _, name := range []string{"Authorization", "Cookie", "Referer", "Proxy-Authorization"} {
		assert.Empty(t, w.last.Get(name), name)
	}
}

// Bodies that are too much of anything cost neither memory nor time.
func TestHostileBodies(t *testing.T) {
	release := make(chan struct{})
	w := newWorld(t, map[string][][]string{"good.example": {{outerIP}}}, map[string]http.HandlerFunc{
		"/bomb": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			rw.Header().Set("Content-Type", "text/plain")
			z, block := gzip.NewWriter(rw), []byte(strings.Repeat("0", 1<<20))
			for range 200 {
				if _, err := z.Write(block); err != nil {
					return
				}
			}
			_ = z.Close()
		},
		"/endless": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/plain")
			for r.Context().Err() == nil {
				_, _ = rw.Write([]byte(strings.Repeat("x", 1<<16)))
			}
		},
		"/slow": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/plain")
			for r.Context().Err() == nil {
				_, _ = rw.Write([]byte("x"))
				rw.(http.Flusher).Flush()
				select {
				case <-release:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		},
		"/nested": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(rw, strings.Repeat("<div><ul><li>", 300_000)+"deep")
		},
		"/binary": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = rw.Write([]byte("\x7fELF\x00\x01\x02"))
		},
		"/charset": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/plain; charset=klingon")
			_, _ = rw.Write([]byte("caf\xe9 \x1b]0;title\x07"))
		},
		"/utf16": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/plain; charset=utf-16le")
			_, _ = rw.Write([]byte("h\x00i\x00"))
		},
		"/cut": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(rw, "half")
		},
	})
	defer close(release)
	at := func(path string) string { return "http://good.example:" + w.port + path }
	for _, path := range []string{"/bomb", "/endless"} {
		assert.Contains(t, w.get(at(path)).Content, "only the first 5242880 bytes were read", path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	assert.Equal(t, agent.ErrTimeout, w.run(ctx, at("/slow")).ErrorReason)
	res := w.get(at("/nested"))
	assert.Equal(t, agent.CallSuccess, res.Status, res.Content)
	assert.Contains(t, w.get(at("/binary")).Content, "binary")
	text := w.get(at("/charset")).Content
	assert.Contains(t, text, "caf")
	assert.NotContains(t, text, "\x1b")
	assert.Equal(t, "hi", w.get(at("/utf16")).Content)
	assert.Equal(t, agent.ErrNetwork, w.get(at("/cut")).ErrorReason)
}
