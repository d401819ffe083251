package config_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/trust"
)

// world is an isolated set of sources.
type world struct {
	t              *testing.T
	dir, home, xdg string
	env            map[string]string
	flags          map[string]string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), home: t.TempDir(), xdg: t.TempDir(), flags: map[string]string{}}
	w.env = map[string]string{"SPOOL_HOME": w.home, "HOME": w.xdg}
	t.Setenv("XDG_CONFIG_HOME", w.xdg)
	t.Setenv("HOME", w.xdg)
	return w
}

func (w *world) write(path, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o644))
}

func (w *world) yamlDir(text string) { w.write(filepath.Join(w.dir, "spool.yaml"), text) }

// agreedDir is yamlDir with a person's agreement.
func (w *world) agreedDir(text string) {
	w.yamlDir(text)
	w.agree()
}

func (w *world) agree() {
	w.t.Helper()
	f, err := trust.Read(w.dir, "spool.yaml")
	require.NoError(w.t, err)
	require.NoError(w.t, trust.Agree(w.home, time.Now(), f))
}

func (w *world) yamlHome(text string) { w.write(filepath.Join(w.home, "spool.yaml"), text) }

// toml writes the default TOML file; where that lies depends on the system.
func (w *world) toml(text string) string {
	dir, err := os.UserConfigDir()
	require.NoError(w.t, err)
	path := filepath.Join(dir, "temporalio", "temporal.toml")
	w.write(path, text)
	return path
}

// dev writes a live dev.json and returns its Temporal address.
func (w *world) dev() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = l.Close() })
	require.NoError(w.t, config.WriteDev(w.home, config.DevInfo{
		Temporal: l.Addr().String(), UI: "http://127.0.0.1:9999", Store: "sqlite:/dev-store.db",
		Home: w.home, PIDs: config.DevPIDs{Temporal: os.Getpid()},
	}))
	return l.Addr().String()
}

func (w *world) load() (config.Config, error) {
	return config.Load(config.Options{Flags: w.flags, Env: func(k string) string { return w.env[k] }, Dir: w.dir})
}

func (w *world) must() config.Config {
	w.t.Helper()
	c, err := w.load()
	require.NoError(w.t, err)
	return c
}

func source(c config.Config, name string) string {
	for _, s := range c.Explain() {
		if s.Name == name {
			return s.Source
		}
	}
	return ""
}

func TestDefaults(t *testing.T) {
	w := newWorld(t)
	c := w.must()
	assert.Equal(t, "localhost:7233", c.Temporal.HostPort)
	assert.Equal(t, "default", c.Temporal.Namespace)
	assert.Nil(t, c.Temporal.ConnectionOptions.TLS)
	assert.Equal(t, "sqlite:"+w.home+"/spool.db", c.Store)
	assert.Equal(t, w.dir, c.Workspace)
	assert.Equal(t, "default", c.Profile)
	assert.NotEmpty(t, c.User)
	assert.Empty(t, c.TaskQueue)
	assert.Equal(t, 15*time.Minute, c.RetryFor)
	assert.Equal(t, 2*time.Minute, c.IdleTimeout)
	assert.Equal(t, 100, c.MaxTurnsPerWorker)
	assert.Zero(t, c.MaxSteps)
	assert.True(t, c.Demo())
	assert.NotContains(t, c.WebApprovals, "shell")
	w.env["SPOOL_WEB_APPROVALS"] = "ls, shell(git log *, git diff),mcp__x__*"
	assert.Equal(t, []string{"ls", "shell(git log *, git diff)", "mcp__x__*"}, w.must().WebApprovals)
	assert.Nil(t, c.Dev)
	assert.Equal(t, "default", source(c, config.Store))
}

// Each row adds the next higher source; every step must win over all before.
func TestPrecedence(t *testing.T) {
	w := newWorld(t)
	step := func(address, src string) {
		t.Helper()
		c := w.must()
		assert.Equal(t, address, c.Temporal.HostPort)
		assert.Contains(t, source(c, config.TemporalAddress), src)
	}
	step("localhost:7233", "default")
	path := w.toml("[profile.default]\naddress = \"toml:1\"\n[profile.prod]\naddress = \"prod:1\"\nnamespace = \"p\"\n")
	step("toml:1", "default TOML profile default of "+path)
	w.yamlHome("temporalAddress: yamlhome:1\n")
	step("yamlhome:1", w.home+"/spool.yaml:1")
	w.agreedDir("# project\ntemporalAddress: yamldir:1\n")
	step("yamldir:1", w.dir+"/spool.yaml:2")
	step(w.dev(), "dev.json (running)")
	w.env["TEMPORAL_PROFILE"] = "prod"
	step("prod:1", "TOML profile prod of")
	w.env["TEMPORAL_ADDRESS"] = "env:1"
	step("env:1", "environment TEMPORAL_ADDRESS")
	w.flags[config.TemporalAddress] = "flag:1"
	step("flag:1", "flag --temporal-address")
}

func TestPrecedenceOfStore(t *testing.T) {
	w := newWorld(t)
	w.yamlHome("store: file:data")
	assert.Equal(t, "file:"+w.home+"/data", w.must().Store, "relative paths belong to their file")
	w.agreedDir("store: sqlite:x.db")
	assert.Equal(t, "sqlite:"+w.dir+"/x.db", w.must().Store)
	w.agreedDir("store: memory\n")
	assert.Equal(t, "memory:", w.must().Store)
	w.dev()
	assert.Equal(t, "sqlite:/dev-store.db", w.must().Store)
	w.env["SPOOL_STORE"] = "memory:"
	assert.Equal(t, "memory:", w.must().Store)
	w.flags[config.Store] = "postgres://u@h/db"
	assert.Equal(t, "postgres://u@h/db", w.must().Store)
}

func TestConnectionSourcesAreNotMixed(t *testing.T) {
	w := newWorld(t)
	w.toml("[profile.default]\naddress = \"cloud:7233\"\nnamespace = \"cloud\"\napi_key = \"secret-api-key-of-cloud\"\n")
	c := w.must()
	assert.NotNil(t, c.Temporal.ConnectionOptions.TLS, "an API key turns TLS on")
	assert.Contains(t, source(c, "temporalTls"), "default TOML profile")
	for _, s := range c.Explain() {
		assert.NotContains(t, s.Value, "secret-api")
	}

	address := w.dev()
	c = w.must()
	assert.Equal(t, address, c.Temporal.HostPort)
	assert.Equal(t, "default", c.Temporal.Namespace)
	assert.Equal(t, "http://127.0.0.1:9999", c.TemporalUI)
	assert.Nil(t, c.Temporal.ConnectionOptions.TLS, "the dev server has no TLS")

	w.env["TEMPORAL_ADDRESS"] = "localhost:1234"
	c = w.must()
	assert.Empty(t, c.TemporalUI, "the dev UI belongs to the dev server")
	assert.Equal(t, "cloud", c.Temporal.Namespace, "environment stands on the default profile")
}

func TestDeadDevIsIgnored(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	write := func(pids config.DevPIDs) {
		require.NoError(t, config.WriteDev(w.home, config.DevInfo{Temporal: address, PIDs: pids}))
	}
	live := func() bool { _, ok := config.ReadLive(w.home); return ok }

	write(config.DevPIDs{Temporal: os.Getpid()})
	assert.True(t, live())
	write(config.DevPIDs{Workers: []int{1 << 22, os.Getpid()}})
	assert.True(t, live(), "a stack on a foreign server lives as long as a worker")
	write(config.DevPIDs{Temporal: 1 << 22})
	assert.False(t, live(), "no such process")
	write(config.DevPIDs{})
	assert.False(t, live(), "no process at all")
	write(config.DevPIDs{Temporal: os.Getpid()})
	require.NoError(t, l.Close())
	assert.False(t, live(), "nothing listens")
	assert.Contains(t, w.must().NoTemporal("starter"), "with Temporal at "+address+", does not run any more: start starter dev again")
	w.env["TEMPORAL_ADDRESS"] = "127.0.0.1:1"
	assert.Equal(t, "no server answers at 127.0.0.1:1", w.must().NoTemporal("starter"))
	delete(w.env, "TEMPORAL_ADDRESS")
	w.write(config.DevPath(w.home), "{broken")
	assert.False(t, live())
	assert.Equal(t, "localhost:7233", w.must().Temporal.HostPort)
	require.NoError(t, config.RemoveDev(w.home))
	require.NoError(t, config.RemoveDev(w.home), "twice is fine")
	assert.False(t, live())
}

func TestDevFileIsPrivate(t *testing.T) {
	w := newWorld(t)
	w.dev()
	info, err := os.Stat(config.DevPath(w.home))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(w.home)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no temporary file stays behind")
}

func TestErrorsHaveCodeInvalid(t *testing.T) {
	w := newWorld(t)
	w.env["SPOOL_RETRY_FOR"] = "soon"
	_, err := w.load()
	assert.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

// Files with conversations, tokens or keys that settings name are listed, unless they lie
// in home anyway.
func TestPrivateFiles(t *testing.T) {
	w := newWorld(t)
	require.Empty(t, w.must().Private)
	in := func(name string) string { return filepath.Join(w.dir, name) }
	w.write(in("keys"), "k1=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	require.NoError(t, os.Chmod(in("keys"), 0o600))
	w.write(in("t.toml"), "")
	w.env["SPOOL_STORE"], w.env["SPOOL_WEB_TOKENS"], w.env["SPOOL_ENCRYPTION_KEYS"] = "sqlite:spool.db", "tokens", "file:keys"
	w.env["TEMPORAL_CONFIG_FILE"] = "t.toml"
	require.ElementsMatch(t, []string{in("spool.db"), in("spool.db-wal"), in("spool.db-shm"), in("spool.db-journal"), in("tokens"), in("keys"), in("t.toml")}, w.must().Private)
	w.env["SPOOL_STORE"], w.env["SPOOL_WEB_TOKENS"] = "file:threads?prefix=x", filepath.Join(w.home, "tokens")
	require.ElementsMatch(t, []string{in("threads"), in("keys"), in("t.toml")}, w.must().Private)
	w.env["SPOOL_STORE"] = "postgres://u@h/d"
	require.ElementsMatch(t, []string{in("keys"), in("t.toml")}, w.must().Private)
}
