package temporaltest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// Server is a Temporal server in a process of its own, as dev starts it.
type Server struct {
	*Process
	Address string
	args    []string // where its data are, and more
}

// StartServer starts a server on a database file of its own and stops it when
// the test ends.
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := startServer("0", append([]string{"--db", filepath.Join(t.TempDir(), "temporal.db")}, args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop() })
	return s
}

// Stop ends the server politely, so that its file is whole.
func (s *Server) Stop() { s.stop() }

// DB is the server's database file.
func (s *Server) DB() string {
	for i, arg := range s.args {
		if arg == "--db" && i+1 < len(s.args) {
			return s.args[i+1]
		}
	}
	return ""
}

// Restart starts the server again on the same data and address, after a kill.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	port := s.Address[strings.LastIndex(s.Address, ":")+1:]
	n, err := startServer(port, s.args)
	if err != nil {
		t.Fatal(err)
	}
	if n.Address != s.Address {
		t.Fatalf("the server came back at %s instead of %s", n.Address, s.Address)
	}
	s.Process = n.Process
}

func startServer(port string, args []string) (*Server, error) {
	var ready struct{ Temporal string }
	p, err := startServing("temporal", nil, &ready, append([]string{"temporal-server", "--program", bins.temporal, "--port", port, "--no-ui"}, args...)...)
	if err != nil {
		return nil, err
	}
	return &Server{Process: p, Address: ready.Temporal, args: args}, nil
}

var shared struct {
	once sync.Once
	s    *Server
	err  error
}

// SharedServer is one server for all tests of a package that do not harm it.
func SharedServer(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() {
		shared.s, shared.err = startServer("0", []string{"--db", filepath.Join(bins.dir, "temporal.db")})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.s
}

func stopShared() {
	if shared.s != nil {
		shared.s.stop()
	}
}

// All reports whether everything was asked for, as make test-all does (SPOOL_ALL=1),
// beside what make test has time for.
func All() bool { return os.Getenv("SPOOL_ALL") == "1" || Long() }

// Long reports whether the long forms of tests were asked for, as make chaos does
// (SPOOL_LONG=1).
func Long() bool { return os.Getenv("SPOOL_LONG") == "1" }

// Seed is the seed of random tests: SPOOL_SEED, or a fresh one that is logged.
func Seed(t testing.TB) int64 {
	t.Helper()
	seed := time.Now().UnixNano()
	if v := os.Getenv("SPOOL_SEED"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			t.Fatalf("SPOOL_SEED is %q: use a number", v)
		}
		seed = n
	}
	t.Logf("random seed: SPOOL_SEED=%d", seed)
	return seed
}

// local is the server of a test program's examples, which have no testing.TB.
var local struct {
	sync.Mutex
	dir    string
	server *Server
	client client.Client
}

// Local connects to a Temporal server that all examples of a test
// program share. It panics if there is none. End it with StopLocal.
func Local(logger sdklog.Logger) client.Client {
	local.Lock()
	defer local.Unlock()
	if local.client != nil {
		return local.client
	}
	err := Programs(filepath.Join(Root(), "bin")) // of make build
	if err != nil {
		panic(err)
	}
	if local.dir, err = os.MkdirTemp("", "spool-example-"); err != nil {
		panic(err)
	}
	if local.server, err = startServer("0", []string{"--db", filepath.Join(local.dir, "temporal.db")}); err != nil {
		panic(err)
	}
	if local.client, err = client.Dial(client.Options{HostPort: local.server.Address, Logger: logger}); err != nil {
		panic(err)
	}
	return local.client
}

// StopLocal ends the server that Local has started, if it did.
func StopLocal() {
	local.Lock()
	defer local.Unlock()
	if local.client != nil {
		local.client.Close()
	}
	if local.server != nil {
		local.server.stop()
	}
	_ = os.RemoveAll(local.dir)
}
