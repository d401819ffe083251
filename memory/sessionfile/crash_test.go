package sessionfile_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/sessionfile"
)

func TestMain(m *testing.M) {
	processtest.Main(m, map[string]processtest.Job{"save": childSaves})
}

// childSaves saves a session into a folder again and again, from one number to another.
func childSaves(args []string) error {
	first, err := strconv.Atoi(args[1])
	last, err2 := strconv.Atoi(args[2])
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	for n := first; n <= last; n++ {
		if _, err := (sessionfile.Folder{Dir: args[0]}).SaveSession(version(n)); err != nil {
			return err
		}
		fmt.Println(n)
	}
	return nil
}

// version is a session that says how often it was saved, in all its parts.
func version(n int) sessionfile.Session {
	s := session(sessionID, n)
	s.Depth = n
	for i := range s.Messages {
		s.Messages[i].Seq = int64(n)
	}
	return s
}

// versionOf checks that a session is whole and returns its version.
func versionOf(t *testing.T, f sessionfile.Folder) int {
	t.Helper()
	s, found, err := f.LoadSession(sessionID)
	if err != nil || !found {
		t.Fatalf("%t, %v", found, err)
	}
	same(t, "messages", s.Messages, version(s.Depth).Messages)
	return s.Depth
}

func startChild(t *testing.T, f sessionfile.Folder, from, to int, env ...string) *processtest.Process {
	t.Helper()
	return processtest.Start(t, "save", env, f.Dir, strconv.Itoa(from), strconv.Itoa(to))
}

// TestRow81_CrashPoints: a process that dies before the rename leaves the old
// file, one that dies after it the new one.
func TestRow81_CrashPoints(t *testing.T) {
	for point, want := range map[string]int{"during-session-save": 1, "before-session-save": 1, "after-session-save": 2} {
		f := folder(t)
		save(t, f, version(1))
		cmd := startChild(t, f, 2, 2, memory.CrashAtEnv+"="+point)
		_, err := cmd.Lines()
		if status, isStatus := cmd.ProcessState.Sys().(syscall.WaitStatus); err == nil || !isStatus || status.Signal() != syscall.SIGKILL {
			t.Fatalf("%s: the process ended with %v", point, cmd.ProcessState)
		}
		same(t, point, versionOf(t, f), want)
		list, broken, err := f.ListSessions(sessionfile.ListOptions{})
		if err != nil || len(list) != 1 || len(broken) > 0 {
			t.Errorf("%s: %v, %v, %v", point, list, broken, err)
		}
		save(t, f, version(3))
	}
}

// TestRow81_KilledSavers kills processes at random moments of 100 saves (1,000 with
// SPOOL_LONG=1): nothing acknowledged is missing, nothing is torn.
func TestRow81_KilledSavers(t *testing.T) {
	f := folder(t)
	save(t, f, version(0))
	writes := 100
	if os.Getenv("SPOOL_LONG") == "1" {
		writes = 1000
	}
	last, kills := 0, 0
	for ; last < writes; kills++ {
		p := startChild(t, f, last+1, last+100_000)
		acked := last
		for range 1 + rand.IntN(10) {
			if _, ok := p.Next(); !ok {
				t.Fatal("the process ended by itself")
			}
			acked++
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		_ = p.Process.Kill()
		rest, err := p.Lines()
		if err == nil {
			t.Fatal("the process ended by itself")
		}
		acked += len(rest)
		got := versionOf(t, f)
		if got < acked || got > acked+1 {
			t.Fatalf("version %d after %d was acknowledged", got, acked)
		}
		last = got
	}
	t.Logf("%d kills in %d saves", kills, last)
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	sessionID = "0195f3a1-7c4e-7b22-9d10-1f2e3d4c5b6a"
	agentID   = "general-1772366400000-0a1b2c3d4e5f"
)

func ok(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

func msg(id string, role agent.Role, minute int) agent.Message {
	return agent.Message{ID: id, Role: role, Content: agent.Text("text of " + id), Timestamp: noon.Add(time.Duration(minute) * time.Minute)}
}

// session is a main session whose last activity was at a minute.
func session(id string, minute int) sessionfile.Session {
	return sessionfile.Session{ID: id, Workdir: "/w", Messages: []agent.Message{msg("a", agent.RoleUser, minute-1), msg("b", agent.RoleAssistant, minute)}}
}

// child is a sub-agent's session below a parent thread.
func child(id, parent, root string, depth, minute int) sessionfile.Session {
	s := session(id, minute)
	s.AgentType, s.ParentThreadID, s.RootThreadID, s.Depth = "general", parent, root, depth
	return s
}

func folder(t *testing.T) sessionfile.Folder {
	t.Helper()
	return sessionfile.Folder{Dir: filepath.Join(t.TempDir(), "profiles", "default")}
}

func save(t *testing.T, f sessionfile.Folder, sessions ...sessionfile.Session) {
	t.Helper()
	for _, s := range sessions {
		if path, err := f.SaveSession(s); err != nil || path == "" {
			t.Fatalf("%q, %v", path, err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
	ok(t, os.WriteFile(path, []byte(text), 0o600))
}

func ids(list []sessionfile.Info) []string {
	out := []string{}
	for _, i := range list {
		out = append(out, i.ID)
	}
	return out
}

// names are the files and folders of a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
