package temporaltest

import (
	"log/slog"
	"net/url"
	"strconv"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/encryption"
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

// Keys of tests, in the form of the setting.
const (
	KeyA = "2025-01=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	KeyB = "2026-11=ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
)

// EncryptionKeys is the variable with the keys of a worker or web server.
func EncryptionKeys(keys string) string { return "SPOOL_ENCRYPTION_KEYS=" + keys }

// Encrypt makes workers and Client use these keys from now on. Temporal stays a
// client without keys: it sees what the server stores.
func (s *Stack) Encrypt(keys string) {
	s.t.Helper()
	s.Env = append(s.Env, EncryptionKeys(keys))
	s.ClientWithKeys(keys)
}

// ClientWithKeys makes Client alone use these keys.
func (s *Stack) ClientWithKeys(keys string) {
	s.t.Helper()
	loaded, err := encryption.Load(keys)
	require.NoError(s.t, err)
	o := client.Options{HostPort: s.Server.Address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	loaded.Apply(&o)
	c, err := client.Dial(o)
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	s.Client = spool.NewClient(s.Store, c, spool.ClientOptions{UserID: "tester"})
}

// StartCodecServer starts a codec server in a process of its own and returns where
// it listens.
func (s *Stack) StartCodecServer(args ...string) string {
	s.t.Helper()
	var ready struct{ Codec string }
	p, err := startServing("codec-server", s.Env, &ready, append([]string{"codec-server", "--json", "--listen", "127.0.0.1:0"}, args...)...)
	require.NoError(s.t, err)
	s.t.Cleanup(p.stop)
	return ready.Codec
}

// Worker is the path of the worker built for these tests.
func Worker() string { return bins.worker }
