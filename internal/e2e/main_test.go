// Package e2e tests Spool as its users meet it: real worker processes, a real
// Temporal server, a store on disk, a model server on the wire.
package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

func TestMain(m *testing.M) {
	tt.Main(m, func() {
		if dir, err := variantDir(); err == nil {
			_ = os.RemoveAll(dir)
		}
	})
}

// stack makes an installation without workers for a test that may run beside
// others. When the test has ended well, all that is stored is verified.
func stack(t *testing.T) *tt.Stack {
	t.Helper()
	t.Parallel()
	s := tt.New(t)
	s.VerifyAtEnd()
	return s
}

// begin is stack with a worker; env is added to its settings.
func begin(t *testing.T, env ...string) *tt.Stack {
	t.Helper()
	s := stack(t)
	s.StartWorker(env...)
	return s
}

// count appends a line to a file of the workspace, so that the number of lines
// is the number of times the tool really ran.
func count(file string) string {
	return script.Call("shell", map[string]any{"command": "echo run >> " + file})
}

func slow(file string, seconds float64) string {
	return script.Call("shell", map[string]any{"command": fmt.Sprintf("echo start >> %s; sleep %g; echo end >> %s", file, seconds, file)})
}

// together is a call of the shell that ends once n such calls are at work.
func together(name string, n int) string {
	return script.Call("shell", map[string]any{"command": fmt.Sprintf("mkdir -p met; touch met/%s; until [ $(ls met | wc -l) -ge %d ]; do sleep 0.02; done", name, n)})
}

// until is a call of the shell that writes start into a file and is at work until
// there is a file go-FILE, then it writes end.
func until(file string) string {
	return script.Call("shell", map[string]any{"command": fmt.Sprintf("echo start >> %[1]s; until [ -e go-%[1]s ]; do sleep 0.02; done; echo end >> %[1]s", file)})
}

// letGo ends a call of until.
func letGo(t *testing.T, s *tt.Stack, file string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "go-"+file), nil, 0o600))
}

func add(a, b int) string {
	return script.Call("calculator", map[string]any{"expression": fmt.Sprintf("%d+%d", a, b)})
}

func lines(s string) int { return strings.Count(s, "\n") }

func messages(t *testing.T, s *tt.Stack, thread string) []agent.Message {
	t.Helper()
	m, err := s.Store.Messages(s.Ctx(), thread, 0, 0)
	require.NoError(t, err)
	return m
}

func events(t *testing.T, s *tt.Stack, thread string) []agent.Event {
	t.Helper()
	e, err := s.Store.Events(s.Ctx(), thread, 0, 0)
	require.NoError(t, err)
	return e
}

func callsOf(t *testing.T, s *tt.Stack, thread string) []agent.ToolCall {
	t.Helper()
	all, err := s.Store.ToolCalls(s.Ctx(), thread)
	require.NoError(t, err)
	return all
}

func tasksOf(t *testing.T, s *tt.Stack, thread string) []agent.Task {
	t.Helper()
	all, err := s.Store.Tasks(s.Ctx(), thread)
	require.NoError(t, err)
	return all
}

// said is all text of a thread.
func said(t *testing.T, s *tt.Stack, thread string) string {
	t.Helper()
	var b strings.Builder
	for _, m := range messages(t, s, thread) {
		b.WriteString(m.Content.String() + "\n")
	}
	return b.String()
}

// saved waits until a thread has n messages.
func saved(t *testing.T, s *tt.Stack, thread string, n int) {
	t.Helper()
	tt.Eventually(t, fmt.Sprintf("%d messages are saved", n), func() bool { return len(messages(t, s, thread)) >= n })
}

func send(t *testing.T, s *tt.Stack, m memory.SendRequest) spool.Reply {
	t.Helper()
	r, err := s.Client.Send(s.Ctx(), m)
	require.NoError(t, err)
	return r
}

func retry(t *testing.T, s *tt.Stack, r spool.Reply, id string) spool.Reply {
	t.Helper()
	again, err := s.Client.Retry(s.Ctx(), r.ThreadID, id)
	require.NoError(t, err)
	return again
}

func decide(t *testing.T, s *tt.Stack, target, verdict string) {
	t.Helper()
	_, err := s.Client.Decide(s.Ctx(), memory.Decision{By: "tester", Target: target, Verdict: verdict})
	require.NoError(t, err)
}

func roles(m []agent.Message) string {
	var out []string
	for _, x := range m {
		out = append(out, string(x.Role))
	}
	return strings.Join(out, " ")
}

func turns(t *testing.T, s *tt.Stack, thread string) []memory.Turn {
	t.Helper()
	ts, err := s.Store.TurnsOf(s.Ctx(), thread)
	require.NoError(t, err)
	return ts
}

func thread(t *testing.T, s *tt.Stack, id string) agent.Thread {
	t.Helper()
	th, err := s.Store.Thread(s.Ctx(), "", id)
	require.NoError(t, err)
	return th
}

// tree is a thread with all its descendants, root first, children in the order
// of their calls.
func tree(t *testing.T, s *tt.Stack, id string) []agent.Thread {
	t.Helper()
	out := []agent.Thread{thread(t, s, id)}
	children, err := s.Store.Children(s.Ctx(), id)
	require.NoError(t, err)
	slices.SortFunc(children, func(a, b agent.Thread) int { return strings.Compare(a.ParentToolCallID, b.ParentToolCallID) })
	for _, c := range children {
		out = append(out, tree(t, s, c.ID)...)
	}
	return out
}

// generated are the parts of ids that depend on the store or on time.
var generated = regexp.MustCompile(`-\d{13}-[0-9a-f]{12}|[0-9a-f]{16}`)

// durations are the parts of a delegation's result that depend on time or on
// how often the model had to be asked.
var durations = regexp.MustCompile(`(?mi)^.*(duration|tokens|price).*$`)

// shortIDs replaces hashes and creation times in ids by numbers in order of
// appearance.
func shortIDs(s string) string {
	seen := map[string]string{}
	return generated.ReplaceAllStringFunc(s, func(id string) string {
		if _, ok := seen[id]; !ok {
			seen[id] = fmt.Sprintf("#%d", len(seen)+1)
		}
		return seen[id]
	})
}
