package archive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/sessionfile"
	"github.com/spool-agents/spool/memory/sqlite"
)

// contents are all files of a folder, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	ok(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var data []byte
			data, err = os.ReadFile(path)
			out[path] = string(data)
		}
		return err
	}))
	return out
}

// TestFault_C12_ExportOnFullDisk: the session has grown since its last export, and
// its files no longer fit. The error says so, the last export stays whole, nothing
// is left lying about; with room the same export succeeds.
func TestFault_C12_ExportOnFullDisk(t *testing.T) {
	clock := memorytest.NewClock()
	a, f := store(t, clock), folder(t)
	thread := send(t, a, user, "s1", "default", "hello")
	answer(t, a, thread, "general")
	export := func() error {
		_, err := archive.Export(t.Context(), a, f, owner, "s1", sessionfile.EventOptions{Enabled: true})
		return err
	}
	ok(t, export())
	before := contents(t, f.Dir)
	for _, text := range []string{strings.Repeat("large ", 100_000), "more"} {
		r := memory.SendRequest{UserID: user, Profile: "default", SessionID: "s1", MessageID: text[:4], Content: agent.Text(text), WhenBusy: memory.Queue}
		memorytest.Must(a.Send(t.Context(), r))(t)
		answer(t, a, thread, "")
	}
	release := memorytest.Must(processtest.LimitFiles(300_000))(t)
	err := export()
	ok(t, release())
	if agent.CodeOf(err) != agent.CodeUnavailable || !strings.Contains(err.Error(), f.Dir) || !strings.Contains(err.Error(), "full") {
		t.Fatalf("%v; want where, and that the disk is full", err)
	}
	same(t, "files", contents(t, f.Dir), before)
	ok(t, export())
	b := store(t, clock)
	memorytest.Must(archive.Import(t.Context(), b, f, owner, ""))(t)
	if everything(t, a) != everything(t, b) {
		t.Error("the export is not whole")
	}
}

// TestFault_C12_ExportIntoReadOnlyFolder as a user who may not write there.
func TestFault_C12_ExportIntoReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	processtest.OpenToAll(t, dir)
	closed := filepath.Join(dir, "closed")
	ok(t, os.Mkdir(closed, 0o555))
	lines, err := processtest.Start(t, "export", nil, closed).Lines()
	said := strings.Join(lines, "\n")
	if err != nil || !strings.HasPrefix(said, "unavailable") || !strings.Contains(said, closed) || !strings.Contains(said, "writable") {
		t.Fatalf("%s, %v; want unavailable, where, and what to do", said, err)
	}
	same(t, "files", len(contents(t, closed)), 0)
}

func TestMain(m *testing.M) {
	processtest.Main(m, map[string]processtest.Job{"export": exportAsNobody})
}

// exportAsNobody exports into a folder as a user who may not write there, and says
// what it is told.
func exportAsNobody(args []string) error {
	ctx := context.Background()
	s, err := sqlite.OpenMemory(ctx, sqlite.Options{})
	if err != nil {
		return err
	}
	sent, err := s.Send(ctx, memorytest.Request("s1", "m"))
	if err = errors.Join(err, memorytest.RunTurns(ctx, s, sent.ThreadID), processtest.BecomeNobody()); err != nil {
		return err
	}
	_, err = archive.Export(ctx, s, sessionfile.Folder{Dir: args[0]}, archive.Owner{}, "s1", sessionfile.EventOptions{})
	fmt.Println(agent.CodeOf(err), err)
	return s.Close()
}
