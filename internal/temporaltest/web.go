package temporaltest

import (
	"net/url"
	"strconv"
)

// WebToken lets the user of a stack in at its web servers.
const WebToken = "a-token-of-tests-only"

// Web is a web server in a process of its own.
type Web struct {
	*Process
	// URL is where it listens, without a path. Link is where its user gets in.
	URL, Link string
	stack     *Stack
	port      int
	env       []string
}

// StartWeb starts a web server for the stack's user, whose token is WebToken, and
// waits until it listens.
func (s *Stack) StartWeb(env ...string) *Web {
	s.t.Helper()
	w := &Web{stack: s, env: append([]string{"SPOOL_WEB_TOKEN=" + WebToken}, env...)}
	w.start()
	s.t.Cleanup(func() {
		w.stop()
		if s.t.Failed() {
			s.t.Logf("log of the web server:\n%s", tail(w.Log(), 3000))
		}
	})
	return w
}

// Restart starts the server again at the same address, after a kill.
func (w *Web) Restart() {
	w.stack.t.Helper()
	w.start()
}

func (w *Web) start() {
	t := w.stack.t
	t.Helper()
	var ready struct{ Web string }
	p, err := startServing("web", append(w.stack.Env, w.env...), &ready, "web", "--json", "--parent-pipe", "--web-port", strconv.Itoa(w.port))
	if err != nil {
		t.Fatal(err)
	}
	w.Process, w.Link = p, ready.Web
	u, err := url.Parse(w.Link)
	if err != nil {
		t.Fatal(err)
	}
	if w.URL = u.Scheme + "://" + u.Host; w.port == 0 {
		w.port, _ = strconv.Atoi(u.Port())
	}
}
