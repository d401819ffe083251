package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/mcp/mcptest"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/trust"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("SPOOL_TEST_RUDE"); mode != "" {
		runRude(mode)
		return
	}
	code := m.Run()
	mcptest.CleanUp()
	os.Exit(code)
}

type object = map[string]any

// stdio is the entry of a testserver with these flags.
func stdio(t *testing.T, flags ...string) object {
	return object{"command": mcptest.TestServer(t), "args": flags}
}

// with adds fields to an entry.
func with(entry object, fields object) object {
	for k, v := range fields {
		entry[k] = v
	}
	return entry
}

// fixture is a manager on files of its own.
type fixture struct {
	t          *testing.T
	home, work string
	tools      *tool.Live
	m          *Manager
	stop       func()
	log        *lockedBuffer
	mu         sync.Mutex
	notes      []string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// prepare makes the folders; the servers are those of the user.
func prepare(t *testing.T, servers object) *fixture {
	t.Helper()
	f := &fixture{t: t, home: t.TempDir(), work: t.TempDir(), log: &lockedBuffer{}, stop: func() {}}
	if servers != nil {
		f.write(filepath.Join(f.home, "mcp.json"), servers)
	}
	t.Cleanup(func() {
		f.stop()
		if t.Failed() {
			t.Log(f.log.String())
		}
	})
	return f
}

// begin starts a manager with servers of the user.
func begin(t *testing.T, servers object) *fixture {
	t.Helper()
	f := prepare(t, servers)
	f.start()
	return f
}

// write writes a file of servers; to that of the user, the person has agreed.
func (f *fixture) write(path string, servers object) {
	f.t.Helper()
	b, err := json.MarshalIndent(object{"mcpServers": servers}, "", "  ")
	require.NoError(f.t, err)
	if filepath.Dir(path) == f.home {
		require.NoError(f.t, trust.Agree(f.home, time.Now(), trust.File{Folder: f.home, Name: "mcp.json", Raw: b}))
	}
	require.NoError(f.t, os.WriteFile(path, b, 0o600))
}

// agree agrees to the project's file as it is.
func (f *fixture) agree() {
	f.t.Helper()
	require.NoError(f.t, trust.Agree(f.home, time.Now(), f.options().Files()[0].File))
}

func (f *fixture) options() Options {
	return Options{Workspace: f.work, Home: f.home, Env: os.Getenv, Log: slog.New(slog.NewTextHandler(f.log, nil))}
}

func (f *fixture) start() {
	f.t.Helper()
	var err error
	f.tools, err = tool.NewLive(func(name string) (agent.Tool, bool) { return f.m.Pending(name) })
	require.NoError(f.t, err)
	f.m = New(f.options(), func(list []agent.Tool) error { return f.tools.Set(list...) })
	f.stop = f.m.Start(f.t.Context())
}

func (f *fixture) names() []string {
	var names []string
	for _, s := range f.tools.Specs(nil) {
		names = append(names, s.Name)
	}
	return names
}

// call runs a tool as an activity does.
func (f *fixture) call(name string, args object) agent.ToolResult {
	f.t.Helper()
	return f.callIn(f.t.Context(), name, args)
}

func (f *fixture) callIn(ctx context.Context, name string, args object) agent.ToolResult {
	b, err := json.Marshal(args)
	require.NoError(f.t, err)
	return f.tools.Run(ctx, name, agent.ToolRun{CallID: "call-" + name, Workdir: f.work, Args: b, Note: func(event string, payload any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.notes = append(f.notes, fmt.Sprintf("%s %+v", event, payload))
	}})
}

func (f *fixture) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.notes...)
}

func (f *fixture) ok(name string, args object) string {
	f.t.Helper()
	r := f.call(name, args)
	require.Equal(f.t, agent.CallSuccess, r.Status, r.Content)
	return r.Content
}

// eventually polls, for as long as a slow machine needs.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 3*time.Minute, 10*time.Millisecond, what)
}

func (f *fixture) file(name string) string {
	b, err := os.ReadFile(filepath.Join(f.work, name))
	if err != nil {
		return ""
	}
	return string(b)
}

func (f *fixture) path(name string) string { return filepath.Join(f.work, name) }
