package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/temporaltest"
)

// example builds a program of examples, a module of its own, as a reader would.
func example(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(temporaltest.Root(), "examples", name)
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stderr = t.TempDir(), t.Output()
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+temporaltest.SharedServer(t).Address, "OPENAI_API_KEY=")
	return cmd
}

func TestAll_ExampleOwnTool(t *testing.T) {
	out, err := example(t, "own-tool").Output()
	require.NoError(t, err)
	assert.Equal(t, "I looked it up:\n\norder 7 is on its way\n", string(out))
}

func TestAll_ExampleOwnAgents(t *testing.T) {
	out, err := example(t, "own-agents").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "588")
	assert.Contains(t, string(out), ": The accountant has worked it out.\n")
	assert.Contains(t, string(out), "handed to accountant with status success\n")
}

func TestAll_ExampleBot(t *testing.T) {
	bot := example(t, "bot")
	hello := `{"id":"1","channel":"help","thread":"t","user":"ada","text":"script: say hello"}` + "\n"
	bot.Stdin = strings.NewReader(hello + hello + `{"id":"2","channel":"help","thread":"u","user":"bob","text":"script: call shell {\"command\":\"date\"}"}` + "\n")
	out, err := bot.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "help/t to ada: hello\n")
	assert.Contains(t, string(out), "help/u to bob: I may not run shell here.\n")
}

func TestAll_ExampleApprovals(t *testing.T) {
	service := example(t, "approvals", "127.0.0.1:0")
	stdout, err := service.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, service.Start())
	t.Cleanup(func() { _ = service.Process.Kill(); _ = service.Wait() })
	line := make([]byte, 200)
	n, err := stdout.Read(line)
	require.NoError(t, err)
	base := "http://" + strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "serving "))
	call := func(method, path, body string, into any) {
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode, string(text))
		require.NoError(t, json.Unmarshal(text, into))
	}
	var sent spool.Reply
	call("POST", "/ask", `script: call refund {"order": 7} ;; echo Done:`, &sent)
	var open []spool.ApprovalRequest
	temporaltest.Eventually(t, "the approval waits", func() bool {
		call("GET", "/approvals", "", &open)
		return len(open) == 1
	})
	assert.Equal(t, "refund", open[0].ToolCalls[0].ToolName)
	var done spool.Decided
	call("POST", "/approvals/"+open[0].ApprovalID, `{"verdict": "approve"}`, &done)
	var v spool.View
	temporaltest.Eventually(t, "the answer comes", func() bool {
		call("GET", "/answer?thread="+sent.ThreadID, "", &v)
		return v.Thread.Status.Final()
	})
	assert.Contains(t, v.Messages[len(v.Messages)-1].Content.String(), "order 7 is paid back")
}

func TestAll_ExampleReplay(t *testing.T) {
	test := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./...")
	test.Dir = filepath.Join(temporaltest.Root(), "examples", "replay")
	out, err := test.CombinedOutput()
	require.NoError(t, err, string(out))
}
