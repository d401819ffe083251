package temporaltest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"testing"
	"time"
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
	r, out := io.Pipe()
	p, err := Spawn("web", bins.starter, []string{"web", "--json", "--parent-pipe", "--web-port", strconv.Itoa(w.port)}, append(w.stack.Env, w.env...), out)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-p.done; _ = out.Close() }()
	line := firstLine(r)
	select {
	case l := <-line:
		w.Process, w.Link = p, readLink(t, p, l)
	case <-time.After(Patience):
		p.Kill()
		t.Fatalf("the web server was not ready within %s\n%s", Patience, p.Log())
	}
	u, err := url.Parse(w.Link)
	if err != nil {
		t.Fatal(err)
	}
	if w.URL = u.Scheme + "://" + u.Host; w.port == 0 {
		w.port, _ = strconv.Atoi(u.Port())
	}
}

// firstLine delivers the first line that a program writes, and reads on, so that it
// never waits for a reader.
func firstLine(r io.Reader) <-chan []byte {
	line := make(chan []byte, 1)
	go func() {
		b := bufio.NewReader(r)
		l, _ := b.ReadBytes('\n')
		line <- l
		_, _ = io.Copy(io.Discard, b)
	}()
	return line
}

func readLink(t testing.TB, p *Process, line []byte) string {
	t.Helper()
	var ready struct{ Web string }
	if err := json.Unmarshal(line, &ready); err != nil || ready.Web == "" {
		p.stop()
		t.Fatalf("the web server did not become ready: %q\n%s", line, p.Log())
	}
	return ready.Web
}
