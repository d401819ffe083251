package mcp

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/mcp/mcptest"
	"github.com/spool-agents/spool/internal/trust"
)

// A user has a server in HOME/mcp.json: its tools are offered as
// mcp__server__tool, run, and carry the idempotency key of the call.
func TestToolsOfAServer(t *testing.T) {
	f := begin(t, object{"test server": stdio(t)})
	require.Contains(t, f.names(), "mcp__test_server__echo")
	assert.Equal(t, "echo: hello", f.ok("mcp__test_server__echo", object{"text": "hello"}))
	assert.Equal(t, "call-mcp__test_server__key", f.ok("mcp__test_server__key", nil))
	r := f.call("mcp__test_server__fail", nil)
	assert.Equal(t, agent.CallFailed, r.Status)
	assert.Contains(t, r.Content, "the moon is in the wrong phase")
	r = f.call("mcp__test_server__echo", object{"text": 7})
	assert.Equal(t, agent.ErrInvalidInput, r.ErrorReason)
	r = f.call("mcp__test_server__nothing", nil)
	assert.Equal(t, agent.ErrToolNotFound, r.ErrorReason)
}

func TestContentOfAllKindsBecomesText(t *testing.T) {
	f := begin(t, object{"s": stdio(t)})
	text := []string{
		"some text", "[image, image/png, N bytes: not shown]", "[audio, audio/wav, 4 bytes: not shown]", "[resource memo://2, application/pdf, 4 bytes: not shown]",
		"[resource file:///a.txt a]", "[resource memo://1]\nthe memo", `{"answer":42}`,
	}
	size := regexp.MustCompile(`png, \d+ bytes`) // is the encoder's affair
	assert.Equal(t, strings.Join(text, "\n"), size.ReplaceAllString(f.ok("mcp__s__contents", nil), "png, N bytes"))
	assert.Equal(t, `{"answer":42}`, f.ok("mcp__s__structured", nil))
	r := f.call("mcp__s__refuse", nil)
	assert.Equal(t, [2]any{agent.CallFailed, "no such page"}, [2]any{r.Status, r.Content})

	tool, ok := f.tools.Lookup("mcp__s__contents")
	require.True(t, ok)
	var kept []string
	r, err := tool.Run(t.Context(), agent.ToolRun{CallID: "c", Args: []byte("{}"), Keep: func(what, kind string, data []byte) string {
		kept = append(kept, what+" "+kind)
		assert.NotEmpty(t, data)
		return "[kept]"
	}})
	require.NoError(t, err)
	assert.Equal(t, []string{"image image/png", "audio audio/wav", "resource memo://2 application/pdf"}, kept)
	assert.Contains(t, r.Content, "some text\n[kept]\n[kept]\n[kept]\n[resource file")
}

func TestFault_D2_LargeResultOfAServer(t *testing.T) {
	f := begin(t, object{"s": stdio(t)})
	assert.Len(t, f.ok("mcp__s__big", object{"bytes": 20 << 20}), 20<<20, "more than the SDK takes by itself")
}

// A message that is longer than anything is the error of its call; those after
// it are read as ever.
func TestMessageThatIsTooLong(t *testing.T) {
	for name, message := range map[string][2]string{
		"id first": {`{"jsonrpc":"2.0","id":7,"result":"`, `"}`},
		"id last":  {`{"result":"`, `","jsonrpc":"2.0","id":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			from, w := io.Pipe()
			go func() {
				_, _ = io.WriteString(w, message[0])
				block := []byte(strings.Repeat("x", 1<<20))
				for range longestMessage>>20 + 1 {
					_, _ = w.Write(block)
				}
				_, _ = io.WriteString(w, message[1]+"\n"+`{"jsonrpc":"2.0","id":8,"result":{}}`+"\n")
				_ = w.Close()
			}()
			var got strings.Builder
			require.ErrorIs(t, copyMessages(&got, from, func(string) {}), io.EOF)
			lines := strings.Split(strings.TrimSpace(got.String()), "\n")
			require.Len(t, lines, 2)
			assert.Contains(t, lines[0], `"id":7,"error"`)
			assert.Contains(t, lines[0], "ask for less")
			assert.Contains(t, lines[1], `"id":8`)
		})
	}
}

// One session serves call after call; when its process was killed the next call
// gets a new one.
func TestSessionsAreKeptAndOpenedAgain(t *testing.T) {
	f := begin(t, object{"s": stdio(t)})
	first := f.ok("mcp__s__pid", nil)
	assert.Equal(t, first, f.ok("mcp__s__pid", nil))
	kill(t, first)
	eventually(t, "the death is noticed", func() bool { return strings.Contains(f.log.String(), "the session with the MCP server ended") })
	second := f.ok("mcp__s__pid", nil)
	assert.NotEqual(t, first, second)
	f.stop()
	eventually(t, "a server ends with its worker", func() bool { return !alive(second) })
}

// F5: a server that dies in mid-call is a clear error, and says whether the call
// may have taken effect. One that does no harm twice is called again.
func TestFault_F5_ServerDiesInMidCall(t *testing.T) {
	f := begin(t, object{"s": stdio(t)})
	r := f.call("mcp__s__die", object{"file": f.path("died")})
	assert.Equal(t, agent.ErrNetwork, r.ErrorReason)
	assert.Contains(t, r.Content, "not known")
	assert.Contains(t, r.Content, "out of cheese", "what the server said last")
	assert.Equal(t, "died\n", f.file("died"), "it was not repeated")
	assert.Equal(t, "alive", f.ok("mcp__s__die_once", object{"file": f.path("once")}))
	assert.Equal(t, "echo: x", f.ok("mcp__s__echo", object{"text": "x"}))
}

// F5: one slow call times out, which the server is told, and the next one works
// in the same session.
func TestFault_F5_SlowCallTimesOut(t *testing.T) {
	f := begin(t, object{"s": with(stdio(t), object{"timeout": "300ms"})})
	pid := f.ok("mcp__s__pid", nil)
	r := f.call("mcp__s__write", object{"file": f.path("w"), "ms": 60_000})
	assert.Equal(t, agent.ErrTimeout, r.ErrorReason)
	assert.Contains(t, r.Content, "300ms")
	eventually(t, "the server is told of the cancel", func() bool { return f.file("w") == "start\ncancelled\n" })
	assert.Equal(t, pid, f.ok("mcp__s__pid", nil))
}

func TestCancelReachesTheServer(t *testing.T) {
	f := begin(t, object{"s": stdio(t)})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the call runs", func() bool { return f.file("w") != "" })
		cancel()
	}()
	r := f.callIn(ctx, "mcp__s__write", object{"file": f.path("w"), "ms": 60_000})
	assert.Equal(t, agent.ErrAborted, r.ErrorReason)
	eventually(t, "the server is told", func() bool { return f.file("w") == "start\ncancelled\n" })
}

// F5: a server that cannot be started is a clear error; others are not held up.
func TestFault_F5_DeadServers(t *testing.T) {
	f := begin(t, object{
		"good": stdio(t), "broken": stdio(t, "-broken"), "missing": object{"command": "no-such-program-here"},
		"slow":   with(stdio(t, "-late", "1m"), object{"startTimeout": 200}),
		"nobody": object{"url": "http://127.0.0.1:1/mcp"}, "unset": object{"command": "${SPOOL_TEST_UNSET}"},
	})
	assert.Equal(t, "echo: x", f.ok("mcp__good__echo", object{"text": "x"}))
	for server, why := range map[string]string{
		"broken": "no database at localhost:1", "missing": "not installed", "slow": "did not answer within 200ms",
		"nobody": "connection refused", "unset": "SPOOL_TEST_UNSET",
	} {
		r := f.call("mcp__"+server+"__echo", nil)
		assert.Equal(t, agent.ErrNetwork, r.ErrorReason, server)
		assert.Contains(t, r.Content, why, server)
	}
}

// A server that is late is not offered at first; a call of its tools waits for it.
func TestLateServerJoins(t *testing.T) {
	f := prepare(t, nil)
	f.start()
	f.write(filepath.Join(f.home, "mcp.json"), object{"s": stdio(t, "-late", "500ms")})
	eventually(t, "the new entry is seen", func() bool { _, ok := f.tools.Lookup("mcp__s__echo"); return ok })
	spec, _ := f.tools.Lookup("mcp__s__echo")
	assert.False(t, spec.Spec().Repeatable, "nothing is known of the tool")
	assert.Equal(t, agent.GateAsk, f.tools.Gate("mcp__s__echo", agent.ToolRun{}, nil))
	assert.Equal(t, "echo: x", f.ok("mcp__s__echo", object{"text": "x"}))
	assert.Contains(t, f.names(), "mcp__s__echo")
}

// Greetings on stdout, which break the protocol, are treated as stderr.
func TestJunkOnStdout(t *testing.T) {
	f := begin(t, object{"s": stdio(t, "-junk")})
	assert.Equal(t, "echo: x", f.ok("mcp__s__echo", object{"text": "x"}))
}

func TestStderrAndProgressAreTold(t *testing.T) {
	f := begin(t, object{"my server": stdio(t)})
	f.ok("mcp__my_server__shout", object{"text": "disk is full"})
	eventually(t, "stderr", func() bool {
		return strings.Contains(strings.Join(f.told(), "\n"), "mcp_stderr {ServerID:my server Data:disk is full\n}")
	})
	f.ok("mcp__my_server__write", object{"file": f.path("w"), "ms": 100})
	eventually(t, "progress", func() bool {
		return strings.Contains(strings.Join(f.told(), "\n"), "tool_progress {ToolCallID:call-mcp__my_server__write Progress:80 Total:100 Message:writing}")
	})
}

func TestListChanged(t *testing.T) {
	f := begin(t, object{"s": stdio(t)})
	assert.NotContains(t, f.names(), "mcp__s__extra")
	f.ok("mcp__s__grow", nil)
	eventually(t, "the new tool is offered", func() bool { return f.tools.Run(t.Context(), "mcp__s__extra", agent.ToolRun{}).Content == "extra" })
	assert.Contains(t, f.names(), "mcp__s__extra")
}

// A server may change its list before the session is open.
func TestListChangedAtOnce(t *testing.T) {
	for range 5 {
		f := begin(t, object{"s": stdio(t, "-eager")})
		eventually(t, "the early tool is offered", func() bool { return f.tools.Run(t.Context(), "mcp__s__early", agent.ToolRun{}).Content == "early" })
		f.stop()
		f.stop = func() {}
	}
}

// The worker's environment holds secrets: a server gets what env names.
func TestCleanEnvironment(t *testing.T) {
	t.Setenv("SPOOL_TEST_SECRET", "hush")
	f := begin(t, object{"s": with(stdio(t), object{"env": object{"TOKEN": "${SPOOL_TEST_SECRET}", "MODE": "${SPOOL_TEST_MODE:-fast}"}})})
	env := f.ok("mcp__s__environment", nil)
	assert.NotContains(t, env, "SPOOL_TEST_SECRET")
	assert.Contains(t, env, "TOKEN=hush")
	assert.Contains(t, env, "MODE=fast")
	assert.Contains(t, env, "PATH=")
}

// Streamable HTTP: headers, a refusal that says what to do, and a server that
// was started again, which forgot the session.
func TestStreamableHTTP(t *testing.T) {
	t.Setenv("SPOOL_TEST_TOKEN", "sesame")
	address := freeAddress(t)
	server := serveHTTP(t, address)
	url := "http://" + address + "/mcp"
	f := begin(t, object{
		"web":    object{"type": "http", "url": url, "headers": object{"Authorization": "Bearer ${SPOOL_TEST_TOKEN}"}},
		"denied": object{"url": url},
	})
	assert.Equal(t, "echo: x", f.ok("mcp__web__echo", object{"text": "x"}))
	assert.Len(t, f.ok("mcp__web__big", object{"bytes": 20 << 20}), 20<<20)
	f.ok("mcp__web__write", object{"file": f.path("w"), "ms": 60})
	eventually(t, "progress", func() bool { return strings.Contains(strings.Join(f.told(), "\n"), "tool_progress") })
	r := f.call("mcp__denied__echo", nil)
	assert.Contains(t, r.Content, "401")
	assert.Contains(t, r.Content, "mcp.json")

	require.NoError(t, server.Process.Kill())
	_ = server.Wait()
	r = f.call("mcp__web__key", nil)
	assert.Equal(t, agent.ErrNetwork, r.ErrorReason, r.Content)
	serveHTTP(t, address)
	assert.Equal(t, "echo: again", f.ok("mcp__web__echo", object{"text": "again"}))
}

// F6: the context that was used to connect ends; the session does not.
func TestFault_F6_ShortContextDoesNotEndASession(t *testing.T) {
	address := freeAddress(t)
	serveHTTP(t, address)
	f := prepare(t, nil)
	for name, entry := range map[string]object{
		"pipe": stdio(t), "web": {"url": "http://" + address, "headers": object{"Authorization": "Bearer sesame"}},
	} {
		t.Run(name, func(t *testing.T) {
			f.write(f.path(name), object{name: entry})
			file := readFile(trust.Book{}, f.work, name, f.work, "", os.Getenv)
			s := newServer(file.Servers[0], os.Getenv, f.options().Log, func() {})
			defer s.close()
			ctx, cancel := context.WithCancel(t.Context())
			l, err := s.open(ctx)
			require.NoError(t, err)
			cancel()
			time.Sleep(50 * time.Millisecond)
			select {
			case <-l.gone:
				t.Fatal("the session ended with the context of the call that opened it")
			default:
			}
			again, err := s.open(t.Context())
			require.NoError(t, err)
			assert.Same(t, l, again)
		})
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func serveHTTP(t *testing.T, address string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(mcptest.TestServer(t), "-http", address, "-token", "sesame")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	eventually(t, "the server listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return cmd
}

func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(n, syscall.SIGKILL))
}

func alive(pid string) bool {
	n, _ := strconv.Atoi(pid)
	stat, _ := os.ReadFile("/proc/" + pid + "/stat") // a zombie is dead
	return n > 0 && syscall.Kill(n, 0) == nil && !strings.Contains(string(stat), ") Z")
}

// Nobody is asked about a call whose server cannot be reached: it was never up, it
// died and does not come back, or nobody agreed to its file.
func TestCheckRefusesWhatNoServerAnswers(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	f := prepare(t, object{"up": stdio(t), "broken": stdio(t, "-broken"), "dying": stdio(t, "-unless", flag)})
	f.write(f.path(".mcp.json"), object{"project": stdio(t)})
	f.start()
	check := func(name string, within time.Duration) (agent.ToolResult, bool) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return f.tools.Check(ctx, name, agent.ToolRun{Args: []byte(`{"text":"x"}`)})
	}
	pid := f.ok("mcp__dying__pid", nil)
	require.NoError(t, os.WriteFile(flag, nil, 0o600))
	kill(t, pid)
	eventually(t, "the death is noticed", func() bool { return strings.Contains(f.log.String(), "the session with the MCP server ended") })
	for name, want := range map[string]string{
		"mcp__broken__echo": "no database", "mcp__dying__echo": "cannot be reached", "mcp__project__echo": "agreed to that file",
		"mcp__up__nothing": "no tool", "mcp__nobody__x": "no tool",
	} {
		res, refused := check(name, time.Minute)
		assert.True(t, refused, name)
		assert.Contains(t, res.Content, want, name)
	}
	_, refused := check("mcp__up__echo", time.Minute)
	assert.False(t, refused)
	f.write(filepath.Join(f.home, "mcp.json"), object{"slow": stdio(t, "-late", "1m")})
	eventually(t, "the new entry is seen", func() bool { _, ok := f.tools.Lookup("mcp__slow__echo"); return ok })
	_, refused = check("mcp__slow__echo", time.Second)
	assert.False(t, refused, "it may still come")
}

// A check that brings a server up leaves the real tool's schema and approval to go by.
func TestCheckBringsTheServerUp(t *testing.T) {
	f := prepare(t, nil)
	f.start()
	f.write(filepath.Join(f.home, "mcp.json"), object{"s": stdio(t, "-late", "500ms")})
	eventually(t, "the new entry is seen", func() bool { _, ok := f.tools.Lookup("mcp__s__echo"); return ok })
	res, refused := f.tools.Check(t.Context(), "mcp__s__echo", agent.ToolRun{Args: []byte(`{"text":7}`)})
	assert.True(t, refused)
	assert.Equal(t, agent.ErrInvalidInput, res.ErrorReason, res.Content)
	assert.Contains(t, f.names(), "mcp__s__echo")
}
