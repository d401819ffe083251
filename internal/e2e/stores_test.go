package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// onOneProcess are scenarios of every kind that kill nothing: on stores that
// serve one process, worker and sender are the test itself. They are the same
// store in another place, so a few will do.
var onOneProcess = map[string]func(*testing.T){
	"delegation":                 TestRow52_DelegationTree,
	"cancel of descendants":      TestRow103_CancelReachesDescendants,
	"queued messages":            TestRow94_QueuedMessagesInOrder,
	"denial":                     TestRow64_Denial,
	"message before any worker":  testMessageBeforeTheWorker,
	"export and import of a run": testExportOfARun,
	"memory flow":                TestRow44_MemoryFlow,
}

// TestOnFiles runs them by SPOOL_STORE=file:DIR alone.
func TestOnFiles(t *testing.T) {
	t.Parallel()
	tt.OnFiles(t)
	for name, scenario := range onOneProcess {
		t.Run(name, scenario)
	}
}

// TestInMemory runs them by SPOOL_STORE=memory: alone.
func TestInMemory(t *testing.T) {
	t.Parallel()
	tt.InMemory(t)
	for name, scenario := range onOneProcess {
		t.Run(name, scenario)
	}
}

// testMessageBeforeTheWorker is Row 44: a message is safe before anybody works.
func testMessageBeforeTheWorker(t *testing.T) {
	s := stack(t)
	r := s.Send("s1", "script: say at last")
	inbox, err := s.Store.Inbox(s.Ctx(), r.ThreadID)
	require.NoError(t, err)
	require.Equal(t, memory.EntryWaiting, inbox[0].State)
	s.StartWorker()
	require.Equal(t, "at last", s.Wait(r).Response)
}

// TestRow44_MemoryFlow: the user's message is durable before the model is asked,
// the answer once it is complete.
func TestRow44_MemoryFlow(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", "script: first 2s say hello")
	tt.Eventually(t, "the model is asked", func() bool { return s.Model.Asked("hello", 0) == 1 })
	require.Equal(t, "user", roles(messages(t, s, r.ThreadID)))
	require.Equal(t, "hello", s.Wait(r).Response)
	require.Equal(t, "user assistant", roles(messages(t, s, r.ThreadID)))
}

// testExportOfARun moves a finished tree to another store and back.
func testExportOfARun(t *testing.T) {
	s := begin(t)
	r := s.Ask("s1", treeScript())
	require.Equal(t, "completed", r.Status, r.Error)
	want := snapshot(t, s, r.ThreadID)
	records, err := s.Store.ExportThreads(s.Ctx(), memory.ExportRequest{ThreadID: r.ThreadID, Below: true})
	require.NoError(t, err)
	deleted, err := s.Store.DeleteTree(s.Ctx(), memory.DeleteRequest{ThreadID: r.ThreadID})
	require.NoError(t, err)
	require.Len(t, deleted.Threads, len(records))
	_, err = s.Store.ImportThreads(s.Ctx(), memory.ImportRequest{Threads: records})
	require.NoError(t, err)
	require.Equal(t, want, snapshot(t, s, r.ThreadID))
	require.Equal(t, "goes on", s.Ask("s1", "script: say goes on").Response)
}

// TestRow79_FilesOfARun: a run with one child leaves one file for each, in one
// folder, although nobody closed the store.
func TestRow79_FilesOfARun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tt.OnStore(t, func(testing.TB) string { return "file:" + dir })
	s := tt.New(t)
	s.StartWorker()
	r := s.Ask("s1", script.Script(script.Task("general", script.Script(script.Task("researcher", "script: say deep"), "echo child:")), "echo root:"))
	require.Equal(t, "completed", r.Status, r.Error)
	tt.Eventually(t, "every thread has its file", func() bool {
		main, err := filepath.Glob(filepath.Join(dir, "session_*.json"))
		require.NoError(t, err)
		sub, err := filepath.Glob(filepath.Join(dir, "subagent_session_*.json"))
		require.NoError(t, err)
		if len(main) != 1 || len(sub) != 2 {
			return false
		}
		text, err := os.ReadFile(main[0])
		return err == nil && strings.Contains(string(text), `"id": "`+s.Session("s1")+`"`) && strings.Contains(string(text), r.Response[:5])
	})
	s.Verify()
}

// TestOneProcessStoresRefuseWorkers: a worker program says why at its start.
func TestOneProcessStoresRefuseWorkers(t *testing.T) {
	s := stack(t)
	for _, store := range []string{"file:" + t.TempDir(), "memory:"} {
		w := s.SpawnWorker("SPOOL_STORE=" + store)
		w.Ends(t, "the store "+store)
		require.Contains(t, w.Log(), "serves one process only")
		require.Contains(t, w.Log(), "sqlite:PATH")
	}
	_, err := s.Store.Thread(s.Ctx(), "", s.Thread("none"))
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

// TestSendRunsItsOwnWorker: with no worker program anywhere, send on a store of
// one process gets its answer, from one process to the next on files.
func TestSendRunsItsOwnWorker(t *testing.T) {
	s := stack(t)
	run := func(store string, args ...string) (string, string) {
		t.Helper()
		cmd := exec.Command(tt.Starter(), append([]string{"--store", store}, args...)...)
		cmd.Env, cmd.Dir = append(os.Environ(), s.Env...), s.Work
		var out, errout strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errout
		require.NoError(t, cmd.Run(), errout.String())
		return strings.TrimSpace(out.String()), errout.String()
	}
	dir := t.TempDir()
	out, said := run("file:"+dir, "send", "-s", s.Session("own"), script.Script(count("ran"), script.Task("general", "script: say from below"), "say first"))
	require.Equal(t, "first", out)
	require.NotContains(t, said, "search attribute")
	out, _ = run("file:"+dir, "send", "-s", s.Session("own"), "script: say second")
	require.Equal(t, "second", out)
	require.Equal(t, 1, lines(s.File("ran")))
	out, _ = run("file:"+dir, "verify", "--all")
	require.Equal(t, "ok, 2 threads checked", out)
	out, said = run("memory:", "send", "script: say of memory")
	require.Equal(t, "of memory", out)
	require.NotContains(t, said, "go on with", "there is nothing to go on with")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "the journal, a conversation, a sub-agent")
	require.NoDirExists(t, filepath.Join(s.Dir, "profiles"))
}
