package starter

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/exit"
)

// complete are command lines of all commands, with the arguments they need.
var complete = map[string]string{
	"dev": "dev --temporal-port 0", "demo": "demo", "web": "web --web-port 0", "web-token": "web-token u", "codec-server": "codec-server",
	"temporal-server": "temporal-server --program p --db d --port 0 --no-ui",
	"send":            "send -s s1 hello", "chat": "chat -s s1", "retry": "retry s1/default", "cancel": "cancel s1/default", "fork": "fork s1/default",
	"approvals": "approvals", "approve": "approve ID", "deny": "deny ID", "edit": "edit ID text", "questions": "questions", "answer": "answer ID text",
	"threads": "threads", "tasks": "tasks s1/default", "show": "show s1/default", "trace": "trace s1/default", "verify": "verify --all", "history": "history s1/default",
	"sessions list": "sessions list", "sessions load": "sessions load s1", "sessions export": "sessions export s1 --dir d", "sessions import": "sessions import .",
	"sessions delete": "sessions delete s1", "sessions expire": "sessions expire --older-than 30d",
	"agents": "agents", "tools": "tools", "models": "models", "trust": "trust", "doctor": "doctor", "mcp": "mcp", "version": "version", "help": "help send", "completion": "completion bash", "complete": "complete",
}

var flagValues = map[string]string{
	"home": "elsewhere", "store": "sqlite:other.db", "user": "eve", "profile": "work", "task-queue": "q", "temporal-address": "127.0.0.1:1",
	"temporal-namespace": "n", "temporal-ui": "http://ui2", "server": "http://127.0.0.1:1/?token=a-token-of-nobody-here",
}

// leaves are the paths of all commands of the grammar.
func leaves(n *kong.Node) (paths []string) {
	for _, c := range n.Children {
		if len(c.Children) == 0 {
			paths = append(paths, commandPath(c))
		}
		paths = append(paths, leaves(c)...)
	}
	return paths
}

// Every command uses a global flag or refuses it, with what to do: none is dropped.
func TestNoGlobalFlagIsDropped(t *testing.T) {
	t.Parallel()
	var cli grammar
	parser, err := kong.New(&cli, lists, kong.Bind(&app{}))
	require.NoError(t, err)
	commands := leaves(parser.Model.Node)
	require.Len(t, uses, len(commands))
	var known []string
	for _, f := range parser.Model.Flags {
		if f.Name != "help" {
			known = append(known, f.Name)
		}
	}
	b := newBench(t)
	for _, command := range commands {
		require.Contains(t, uses, command, "say which global flags it uses")
		used := strings.Fields(uses[command])
		assert.Subset(t, known, used)
		for _, g := range globals {
			if slices.Contains(used, g.flag) {
				continue
			}
			r := b.run(append(strings.Fields(complete[command]), "--"+g.flag, flagValues[g.flag])...)
			assert.Equal(t, exit.Usage, r.code, "%s --%s: %s", command, g.flag, r.errout)
			assert.Contains(t, r.errout, "--"+g.flag+" changes nothing here, leave it out: ", command)
		}
	}
	assert.Len(t, globals, len(known)-1, "all but --json set a setting")
}

// What is used is seen to be: another store, home, user, profile, or server is asked.
func TestGlobalFlagsThatAreUsed(t *testing.T) {
	b := newBench(t)
	root := b.answered("s1", "m1", "hello", "hi")
	for command, list := range uses {
		if strings.Contains("dev demo web codec-server", command) { // run on; their own tests start them
			continue
		}
		used, line := strings.Fields(list), strings.Fields(complete[command])
		if slices.Contains(used, "store") {
			r := b.run(append(line, "--store", "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")...)
			assert.Equal(t, exit.Unavailable, r.code, "%s: %s", command, r.errout)
			assert.Contains(t, r.out+r.errout, "127.0.0.1", command)
		}
	}
	for _, command := range []string{"history", "verify", "doctor", "show"} { // others ask it once the store holds what they name
		address, met := listener(t)
		r := b.run(append(strings.Fields(complete[command]), "--temporal-address", address)...)
		assert.Positive(t, met(), r.errout)
	}
	assert.Contains(t, b.run("trace", "--temporal-namespace", "spaces", "--temporal-ui", "http://ui2", root).out, "http://ui2/namespaces/spaces/workflows/")
	for _, flags := range [][]string{{"--user", "eve"}, {"--profile", "work"}} {
		assert.Equal(t, exit.NotFound, b.run(append(flags, "tasks", root)...).code)
	}
	other := filepath.Join(t.TempDir(), "elsewhere")
	assert.Contains(t, b.run("threads", "--home", other).errout, other)
	assert.Contains(t, b.run("doctor", "--task-queue", "special").out, "special")
}

// listener counts who connects, and answers nobody.
func listener(t *testing.T) (string, func() int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var met atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			met.Add(1)
			_ = c.Close()
		}
	}()
	return l.Addr().String(), met.Load
}

// A web server has a store, a Temporal server and users of its own.
func TestFlagsBesideAWebServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := flagValues["server"]
	for _, flag := range []string{"store", "user", "profile"} {
		for _, command := range []string{"threads", "doctor", "send hello"} {
			r := b.run(append(strings.Fields(command), "--"+flag, flagValues[flag], "--server", server)...)
			assert.Equal(t, exit.Usage, r.code, r.errout)
			assert.Contains(t, r.errout, "--"+flag+" changes nothing beside a web server (--server)")
		}
	}
	b.more = []string{"SPOOL_SERVER=" + server}
	for _, command := range []string{"threads", "doctor"} {
		r := b.run(command, "--store", "sqlite:other.db")
		assert.Equal(t, exit.Usage, r.code, r.errout)
		assert.Contains(t, r.errout, "(SPOOL_SERVER, from environment SPOOL_SERVER)")
	}
	r := b.run("doctor")
	assert.Equal(t, exit.Unavailable, r.code)
	assert.Contains(t, r.out, "server               NOT OK")
	assert.NotContains(t, r.out, "a-token-of-nobody")
}

func TestDevRefusesWhatItsOwnServerDecides(t *testing.T) {
	b := newBench(t)
	for flag, want := range map[string]string{"temporal-address": "give --temporal HOST:PORT", "temporal-namespace": "it counts with --temporal HOST:PORT", "temporal-ui": "it counts with --temporal HOST:PORT"} {
		r := b.run("dev", "--"+flag, flagValues[flag])
		assert.Equal(t, exit.Usage, r.code)
		assert.Contains(t, r.errout, want)
	}
	r := b.run("demo", "--home", "x")
	assert.Equal(t, exit.Usage, r.code)
	assert.Contains(t, r.errout, "the demo makes a home of its own")
}
