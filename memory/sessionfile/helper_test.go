package sessionfile_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/sessionfile"
)

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
