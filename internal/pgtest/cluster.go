package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a server of its own for tests that kill it.
type Cluster struct {
	bin  string
	dir  string
	port int
	as   *syscall.SysProcAttr
	// fsync is off in tests: only a loss of power would lose what is committed.
	fsync bool
	// keep is the supervisor's standard input: the server ends with it.
	keep io.Closer
	done chan struct{}
}

// settings make a server quick; what is committed outlives a kill of the server.
var settings = []string{
	"listen_addresses=127.0.0.1", "max_connections=500", "shared_buffers=64MB", "wal_level=replica", "max_wal_senders=4",
	"checkpoint_timeout=30min", "max_wal_size=2GB", "jit=off", "log_min_messages=log", "synchronous_commit=on",
}

// ClockEnv puts the clock of all clusters off, such as "+1h"; a C compiler is needed.
const ClockEnv = "SPOOL_TEST_CLOCK"

// clock is a library that puts a process's clock off. Debian's faketime shows the true
// time in signal handlers, so that all timeouts of a server that is behind fired at once.
const clock = `#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int gettimeofday(struct timeval *t, void *zone) { int r = syscall(SYS_gettimeofday, t, zone); t->tv_sec += OFF; return r; }
int clock_gettime(clockid_t c, struct timespec *t) { int r = syscall(SYS_clock_gettime, c, t); if (c == CLOCK_REALTIME) t->tv_sec += OFF; return r; }
time_t time(time_t *t) { struct timeval now; gettimeofday(&now, 0); if (t) *t = now.tv_sec; return now.tv_sec; }
`

// supervise runs the server until it ends or its own standard input does; then
// it removes the cluster, unless the file keep says that it will be started
// again. So nothing is left when a test program is killed.
const supervise = `dir=$1; shift; exec 3<&0
"$@" </dev/null 3<&- & server=$!
(cat <&3 >/dev/null; kill -INT $server 2>/dev/null) & watch=$!
wait $server
kill $watch 2>/dev/null
[ -e "$dir/keep" ] || rm -rf "$dir"`

// Start makes and starts a cluster; it is stopped and removed when the test ends.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c, err := start(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// New makes and starts a cluster for what measures. Close it after use.
func New() (*Cluster, error) { return start(true) }

func start(fsync bool) (*Cluster, error) {
	c, err := newCluster()
	if err != nil {
		return nil, err
	}
	c.fsync = fsync
	return c, c.start()
}

// Close stops the server and removes the cluster.
func (c *Cluster) Close() {
	c.stop()
	_ = os.RemoveAll(c.dir) // there still if a test stopped it
}

// Database makes an empty database in the cluster and returns its URL.
func (c *Cluster) Database(t testing.TB, options ...string) string {
	t.Helper()
	return createDatabase(t, c.URL("postgres"), options)
}

// URL is the address of a database of the cluster. Its user is a superuser.
func (c *Cluster) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("spool", "secret-word"), Host: c.Address(), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Address is where the server listens.
func (c *Cluster) Address() string { return "127.0.0.1:" + strconv.Itoa(c.port) }

// Kill ends the server and its processes at once, as a loss of power would.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	first, err := os.ReadFile(filepath.Join(c.dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(first), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	c.keepData(t)
	children := childrenOf(pid)
	for _, p := range append([]int{pid}, children...) {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	c.stop()
}

func childrenOf(pid int) []int {
	out, err := osexec.Command("ps", "-A", "-o", "pid=,ppid=,args=").Output()
	if err != nil {
		return nil // they notice by themselves that the server is gone, a little later
	}
	var all []int
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		child, _ := strconv.Atoi(f[0])
		if f[1] == strconv.Itoa(pid) && child > 1 {
			all = append(all, child)
		}
	}
	return all
}

// Standby starts a second server that streams from this one. Nothing is committed
// until the standby has it.
func (c *Cluster) Standby(t testing.TB) *Cluster {
	t.Helper()
	s := &Cluster{bin: c.bin, as: c.as}
	var err error
	if s.dir, err = folder(s.as); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c.Stop(t)
	if out, err := c.command("cp", "-a", filepath.Join(c.dir, "data"), s.dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the data: %v\n%s", err, out)
	}
	c.Restart(t)
	follow := fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=spool'\n", c.port)
	for name, text := range map[string]string{"standby.signal": "", "postgresql.auto.conf": follow} {
		if err := os.WriteFile(filepath.Join(s.dir, "data", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s.as != nil {
			if err := os.Chown(filepath.Join(s.dir, "data", name), int(s.as.Credential.Uid), int(s.as.Credential.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		Exec(t, c.URL("postgres"), statement)
	}
	return s
}

// Promote makes a standby the server that takes writes. Its own commits wait for no
// standby.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	Exec(t, c.URL("postgres"), "SELECT pg_promote()")
}

// Restart starts the server again, after Kill or Stop, on the same data and port.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	var err error
	for range 50 {
		if err = c.run(); err == nil {
			return
		}
		// Processes of the killed server may still be about to end.
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal(err)
}

// Stop shuts the server down and cuts its clients off; the data stay.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	c.keepData(t)
	c.stop()
}

func (c *Cluster) keepData(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(c.keepFile(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) keepFile() string { return filepath.Join(c.dir, "keep") }

func (c *Cluster) stop() {
	if c.keep == nil {
		return
	}
	_ = c.keep.Close()
	<-c.done
	c.keep = nil
}

// newCluster makes a cluster in a folder of its own, owned by whoever runs it.
func newCluster() (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin}
	if c.as, err = user(); err != nil {
		return nil, err
	}
	if c.dir, err = folder(c.as); err != nil {
		return nil, err
	}
	cmd := c.command(filepath.Join(bin, "initdb"), "-D", filepath.Join(c.dir, "data"), "-U", "spool", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(c.dir)
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	// The user "locked" needs its password, for tests of refusals.
	hba := "host all locked 127.0.0.1/32 scram-sha-256\nlocal all all trust\nhost all,replication all 127.0.0.1/32 trust\n"
	return c, os.WriteFile(filepath.Join(c.dir, "data", "pg_hba.conf"), []byte(hba), 0o600)
}

func (c *Cluster) command(name string, args ...string) *osexec.Cmd {
	cmd := osexec.Command(name, args...)
	cmd.Dir, cmd.SysProcAttr = c.dir, c.as
	return cmd
}

// start picks a free port and starts the server; somebody else may take the
// port in between.
func (c *Cluster) start() error {
	var err error
	for range 5 {
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		c.port = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		if err = c.run(); err == nil {
			return nil
		}
	}
	_ = os.RemoveAll(c.dir)
	return err
}

// run starts the server under a supervisor and waits until it answers.
func (c *Cluster) run() error {
	if err := os.WriteFile(c.keepFile(), nil, 0o644); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := []string{"-c", supervise, "supervise", c.dir, filepath.Join(c.bin, "postgres"), "-D", filepath.Join(c.dir, "data"), "-p", strconv.Itoa(c.port), "-k", c.dir}
	for _, s := range append(settings, fmt.Sprintf("fsync=%t", c.fsync)) {
		args = append(args, "-c", s)
	}
	cmd := c.command("sh", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if off := os.Getenv(ClockEnv); off != "" {
		if cmd.Env, err = c.clockOff(off); err != nil {
			return err
		}
	}
	if c.keep, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.done = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(c.done)
	}()
	if err := c.answers(); err != nil {
		c.stop()
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("the test PostgreSQL does not answer: %w\n%s", err, text[max(0, len(text)-4000):])
	}
	return os.RemoveAll(c.keepFile())
}

// clockOff is the environment of a server whose clock is off.
func (c *Cluster) clockOff(by string) ([]string, error) {
	off, err := time.ParseDuration(by)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ClockEnv, err)
	}
	library := filepath.Join(c.dir, "clock.so")
	cc := osexec.Command("cc", "-shared", "-fPIC", "-o", library, fmt.Sprintf("-DOFF=(%d)", int(off.Seconds())), "-x", "c", "-")
	cc.Stdin = strings.NewReader(clock)
	if out, err := cc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s needs a C compiler: %w\n%s", ClockEnv, err, out)
	}
	return append(os.Environ(), "LD_PRELOAD="+library), nil
}

func (c *Cluster) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		select {
		case <-c.done:
			return errors.New("it ended at once")
		default:
		}
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
