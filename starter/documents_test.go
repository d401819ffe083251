package main

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/temporaltest"
)

// elsewhere are lines of documents that are not run here, with what shows that they work.
// Their flags are checked by TestDocumentsNameFlagsThatExist.
var elsewhere = map[string]string{
	"make demo":        "TestDemo, and .ci/readme runs it",
	"make test":        "CI",
	"bin/starter demo": "TestDemo",
	"bin/starter dev":  "the stack of this test is one",
	"bin/worker":       "TestDevRunsRestartsAndEndsItsParts: dev runs it",
	"temporal workflow show -w s1/default --codec-endpoint": "TestNothingIsReadableUnderEncryption",
	"SPOOL_FAULTS=60 go test -run 'TestChaos$'":             "make chaos",
}

// lasting are commands that serve until they are ended; they are ended once they say this.
var lasting = map[string]string{"bin/starter web --host": "Open http", "starter codec-server": "http://127.0.0.1:"}

var shBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// Every command of a block of README and docs does what a reader expects of it: it is run
// as it stands there, in the order of the page, on a stack of the demo model.
func TestAll_TheBlocksOfDocumentsRun(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	require.NoError(t, err)
	u := newUser(t)
	bin := filepath.Dir(temporaltest.Starter())
	require.NoError(t, os.Symlink(bin, filepath.Join(u.work, "bin")))
	u.env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "SPOOL_HOME=" + filepath.Join(u.home, ".spool")}
	require.NoError(t, os.WriteFile(filepath.Join(u.work, "AGENTS.md"), []byte("Be brief."), 0o644))
	code, _, errout := u.run("trust", "--yes")
	require.Equal(t, 0, code, errout)
	_, info, _ := u.dev()
	r := &reader{user: u, web: info.Web, temporal: info.Temporal, used: map[string]bool{}}
	for _, page := range append([]string{filepath.Join("..", "README.md")}, pages...) {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, text := range regexp.MustCompile("(?s)Write `~/(\\S+)`:\n\n```markdown\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
			file := filepath.Join(u.home, text[1])
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			require.NoError(t, os.WriteFile(file, []byte(text[2]), 0o600))
		}
		r.page, r.exports = filepath.Base(page), ""
		for _, m := range shBlock.FindAllStringSubmatch(string(raw), -1) {
			for _, line := range strings.Split(strings.TrimSpace(m[1]), "\n") {
				r.types(line)
			}
		}
	}
	for line := range elsewhere {
		assert.True(t, r.used[line], "no document has %s: take it out of elsewhere", line)
	}
}

// reader does what documents say.
type reader struct {
	*user
	page          string
	exports       string // of the page so far
	web, temporal string
	used          map[string]bool // of elsewhere
}

func (r *reader) types(line string) {
	r.t.Helper()
	if strings.HasPrefix(line, "export ") {
		r.exports += strings.Replace(line, "localhost:7233", r.temporal, 1) + "\n"
		return
	}
	for begins := range elsewhere {
		if line == begins || strings.HasPrefix(line, begins+" ") {
			r.used[begins] = true
			return
		}
	}
	for begins, ready := range lasting {
		if strings.HasPrefix(line, begins) {
			r.serves(line, ready)
			return
		}
	}
	want := 0
	if strings.Contains(line, "call shell") {
		want = 6 // it asks first
	}
	cmd := r.shell(r.exports + r.filled(line))
	cmd.Stdin = strings.NewReader("")
	raw, err := cmd.CombinedOutput()
	if strings.Contains(line, "/follow") { // until the reader has enough
		assert.Contains(r.t, string(raw), "event:", "%s: %s", r.page, line)
		return
	}
	require.Equal(r.t, want, cmd.ProcessState.ExitCode(), "%s: %s: %v\n%s", r.page, line, err, raw)
}

func (r *reader) shell(script string) *exec.Cmd {
	cmd := r.command()
	sh := exec.Command("sh", "-c", script)
	sh.Dir, sh.Env = cmd.Dir, cmd.Env
	return sh
}

// serves runs a command until it is ready, and ends it.
func (r *reader) serves(line, ready string) {
	r.t.Helper()
	cmd, said := r.shell(r.exports+"exec "+line), &log{}
	cmd.Stdout, cmd.Stderr = said, said
	require.NoError(r.t, cmd.Start())
	assert.Eventually(r.t, func() bool { return strings.Contains(said.String(), ready) }, patience, 20*time.Millisecond, "%s: %s: %s", r.page, line, said)
	require.NoError(r.t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(r.t, cmd.Wait(), "%s: %s: %s", r.page, line, said)
}

var word = map[string]*regexp.Regexp{}

func init() {
	for _, name := range []string{"ID", "CALL", "QUESTION", "SESSION", "DIR"} {
		word[name] = regexp.MustCompile(`\b` + name + `\b`)
	}
}

// filled is a line with what a reader puts in place of its words.
func (r *reader) filled(line string) string {
	at, err := url.Parse(r.web)
	require.NoError(r.t, err)
	code, _, _ := strings.Cut(line, " #")
	code = strings.NewReplacer("http://127.0.0.1:8080/?token=...", r.web, "127.0.0.1:8080", at.Host, "$TOKEN", at.Query().Get("token"), "curl -N ", "curl -sN --max-time 5 ").Replace(code)
	for name, re := range word {
		if re.MatchString(code) {
			code = re.ReplaceAllLiteralString(code, r.stands(name))
		}
	}
	return code
}

// stands is something that a word of the documents can stand for.
func (r *reader) stands(name string) string {
	r.t.Helper()
	switch name {
	case "SESSION", "DIR":
		r.run("send", "-s", "doc", "script: say hi")
		r.run("sessions", "export", "doc", "--dir", "out")
		return map[string]string{"SESSION": "doc", "DIR": "out"}[name]
	}
	script := `script: call shell {"command":"date"} ;; say done`
	if name == "QUESTION" {
		script = "script: ask where? ;; say done"
	}
	code, out, errout := r.run("send", "--json", script)
	require.Equal(r.t, 6, code, errout)
	var doc struct {
		Pending   []struct{ ApprovalID string }
		Questions []struct{ QuestionID string }
	}
	require.NoError(r.t, json.Unmarshal([]byte(out), &doc))
	if name == "QUESTION" {
		return doc.Questions[0].QuestionID
	}
	return doc.Pending[0].ApprovalID
}
