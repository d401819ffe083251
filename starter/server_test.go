package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A laptop that reaches neither store nor Temporal does all that concerns threads by
// the link that dev printed.
func TestAll_ALaptopNeedsOnlyTheServer(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	_, info, _ := u.dev()
	laptop := newUser(t)
	run := func(want int, args ...string) (string, string) {
		t.Helper()
		cmd := laptop.command(args...)
		cmd.Env = append(cmd.Env, "SPOOL_SERVER="+info.Web, "SPOOL_STORE=postgres://nobody@127.0.0.1:1/none", "TEMPORAL_ADDRESS=127.0.0.1:1")
		var out, errout strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errout
		_ = cmd.Run() // the code says how it went
		require.Equal(t, want, cmd.ProcessState.ExitCode(), "%v\n%s\n%s", args, &out, &errout)
		return out.String(), errout.String()
	}

	out, errout := run(0, "send", "-s", "a", `script: call calculator {"expression":"6*7"} ;; echo it is`)
	assert.Contains(t, out, "42")
	assert.Contains(t, errout, "calculator(expression=6*7)", "progress is shown")
	out, _ = run(0, "send", "--json", "-s", "a", "--message-id", "m1", `script: call assign_task {"agent":"researcher","task":"script: call calculator {\"expression\":\"1+1\"} ;; say seen"} ;; say all done`)
	var doc struct{ Status, Response, ThreadID, TurnID string }
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	assert.Equal(t, "completed all done", doc.Status+" "+doc.Response)
	turn := doc.TurnID
	out, _ = run(0, "send", "--json", "-s", "a", "--message-id", "m1", `script: call assign_task {"agent":"researcher","task":"script: call calculator {\"expression\":\"1+1\"} ;; say seen"} ;; say all done`)
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	assert.Equal(t, turn, doc.TurnID, "a repeated message is the same turn")

	for _, command := range []string{"threads --all", "threads --all --status completed", "show agent:researcher:re", "show a/default", "show --events a/default", "show --follow a/default", "trace a/default", "tasks a/default"} {
		for _, format := range []string{"", " --json"} {
			words := strings.Fields(command + format)
			there, _ := run(0, words...)
			code, here, _ := u.run(words...)
			require.Equal(t, 0, code, words)
			assert.Equal(t, here, there, "the same as where the store is: %v", words)
		}
	}

	out, errout = run(6, "send", "--json", "-s", "b", `script: call shell {"command":"echo done > proof.txt"} ;; say finished`)
	assert.Contains(t, errout, "waiting for approval")
	var waiting struct{ Pending []struct{ ApprovalID string } }
	require.NoError(t, json.Unmarshal([]byte(out), &waiting))
	_, errout = run(4, "send", "-s", "b", "go on")
	assert.Contains(t, errout, waiting.Pending[0].ApprovalID)
	out, _ = run(0, "approvals")
	assert.Contains(t, out, "echo done > proof.txt")
	run(0, "approve", waiting.Pending[0].ApprovalID)
	run(0, "approve", waiting.Pending[0].ApprovalID)
	_, errout = run(4, "deny", waiting.Pending[0].ApprovalID)
	assert.Contains(t, errout, "tester")
	out, _ = run(0, "show", "--follow", "b/default")
	assert.Contains(t, out, "finished")
	assert.FileExists(t, filepath.Join(u.work, "proof.txt"))

	out, _ = run(6, "send", "--json", "-s", "c", `script: call ask_user {"question":"Which one?"} ;; echo you said`)
	var asked struct{ Questions []struct{ QuestionID string } }
	require.NoError(t, json.Unmarshal([]byte(out), &asked))
	out, _ = run(0, "questions", "c/default")
	assert.Contains(t, out, "Which one?")
	run(0, "answer", asked.Questions[0].QuestionID[:9], "the blue one")
	out, _ = run(0, "show", "--follow", "c/default")
	assert.Contains(t, out, "the blue one")

	run(0, "fork", "c/default", "-c", "again")
	out, _ = run(0, "send", "-s", "c", "-c", "again", "script: say forked")
	assert.Equal(t, "forked\n", out)
	run(0, "send", "--detach", "-s", "d", "script: first 60s say never")
	run(0, "cancel", "d/default")
	run(0, "retry", "--detach", "d/default")
	run(0, "cancel", "d/default", "--all")

	// The server dies in mid-stream; the command goes on.
	done := make(chan string)
	go func() {
		out, _ := run(0, "send", "-s", "e", "script: slow 100ms say one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen")
		done <- out
	}()
	require.Eventually(t, func() bool {
		code, out, _ := u.run("threads", "--json", "-s", "e")
		return code == 0 && strings.Contains(out, `"running"`)
	}, patience, 50*time.Millisecond, "the turn runs")
	require.NoError(t, syscall.Kill(info.PIDs.Web, syscall.SIGKILL))
	assert.Equal(t, "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen\n", <-done)

	run(3, "show", "nobody/default")
	run(6, "send", "-s", "f", `script: call shell {"command":"true"} ;; say finished`)
	out, _ = run(0, "approvals", "f")
	run(0, "approve", "--all-session", strings.Fields(out)[0][:8])
	chat := laptop.command("chat", "--server", info.Web, "-s", "f")
	chat.Stdin = strings.NewReader("/allowed\n/allowed revoke 1\n/allowed\n")
	said, err := chat.CombinedOutput()
	require.NoError(t, err)
	assert.Regexp(t, `(?s)1  shell  for orchestrator \(built in\).*asks again: shell.*nothing is allowed`, string(said))
	_, errout = run(2, "verify", "--all")
	assert.Contains(t, errout, "leave out --server")
	link, _, _ := strings.Cut(info.Web, "?")
	_, errout = run(2, "threads", "--server", link)
	assert.Contains(t, errout, "token")
	_, errout = run(2, "threads", "--server", link+"?token=a-wrong-token-of-nobody")
	assert.Contains(t, errout, "not known")
	_, errout = run(5, "threads", "--server", "http://127.0.0.1:1/?token=a-wrong-token-of-nobody")
	assert.Contains(t, errout, "http://127.0.0.1:1 cannot be reached")
	assert.NoFileExists(t, filepath.Join(laptop.home, "spool.db"))
}

// Users of a server have tokens of their own.
func TestWebServesUsersByTheirTokens(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	code, out, errout := u.run("web-token", "ada")
	require.Equal(t, 0, code, errout)
	token := strings.TrimSpace(out)
	raw, err := os.ReadFile(filepath.Join(u.home, "web-tokens"))
	require.NoError(t, err)
	assert.NotContains(t, string(raw), token)
	_, info, _ := u.dev()
	ada := newUser(t)
	link, _, _ := strings.Cut(info.Web, "?")
	ask := func(args ...string) string {
		cmd := ada.command(args...)
		cmd.Env = append(cmd.Env, "SPOOL_SERVER="+link, "SPOOL_SERVER_TOKEN="+token)
		out, err := cmd.Output()
		require.NoError(t, err, args)
		return string(out)
	}
	code, _, errout = u.run("send", "-s", "mine", "script: say mine")
	require.Equal(t, 0, code, errout)
	assert.Equal(t, "hers\n", ask("send", "-s", "hers", "script: say hers"))
	assert.NotContains(t, ask("threads"), "mine")
	_, out, _ = u.run("threads")
	assert.NotContains(t, out, "hers")

	// She cannot approve a command: the refusal says who can, and how.
	theirs := func(args ...string) (string, string) {
		cmd := ada.command(args...)
		cmd.Env = append(cmd.Env, "SPOOL_SERVER="+link, "SPOOL_SERVER_TOKEN="+token)
		var out, errout strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errout
		require.Error(t, cmd.Run(), args)
		return out.String(), errout.String()
	}
	out, _ = theirs("send", "--json", "-s", "orders", `script: call shell {"command":"touch done"} ;; say done`)
	var waiting struct{ Pending []struct{ ApprovalID string } }
	require.NoError(t, json.Unmarshal([]byte(out), &waiting))
	how := "approve " + waiting.Pending[0].ApprovalID + " --user ada"
	_, errout = theirs("approve", waiting.Pending[0].ApprovalID)
	assert.Contains(t, errout, how)
	code, _, errout = u.run(strings.Fields(how)...)
	require.Equal(t, 0, code, errout)
	assert.Contains(t, ask("show", "--follow", "orders/default"), "done")
	assert.FileExists(t, filepath.Join(u.work, "web-users", "ada", "done"))

	res, err := http.Get(link + "healthz")
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusOK, res.StatusCode)
}

// A store of one process has its worker and its web server in that process.
func TestAll_DevServesAStoreOfOneProcess(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	dev, info, _ := u.dev("--store", "memory:")
	require.NotEmpty(t, info.Web)
	laptop := newUser(t)
	for i, want := range []string{"42", "again"} {
		cmd := laptop.command("send", "--server", info.Web, "-s", "a", []string{`script: call calculator {"expression":"6*7"} ;; echo it is`, "script: say again"}[i])
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Contains(t, string(out), want)
	}
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	require.NoError(t, dev.Wait())
}

// A token that is made for a run is printed, once, in the link; one that was given,
// or that a user has, never is.
func TestWebPrintsOnlyTheTokenItMade(t *testing.T) {
	t.Parallel()
	first := func(u *user, env ...string) string {
		cmd := u.command("web", "--web-port", "0", "--temporal-address", "127.0.0.1:1")
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(strings.TrimPrefix(line, "Open "))
	}
	status := func(link string) int {
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		res, err := client.Get(link)
		require.NoError(t, err)
		defer res.Body.Close()
		return res.StatusCode
	}
	u := newUser(t)
	made := first(u)
	require.Contains(t, made, "/?token=")
	assert.Equal(t, http.StatusSeeOther, status(made))
	given := first(newUser(t), "SPOOL_WEB_TOKEN=a-token-that-was-given")
	assert.NotContains(t, given, "token")
	assert.Equal(t, http.StatusSeeOther, status(given+"?token=a-token-that-was-given"))
	code, _, errout := u.run("web-token", "ada")
	require.Equal(t, 0, code, errout)
	assert.NotContains(t, first(u), "token")
}
