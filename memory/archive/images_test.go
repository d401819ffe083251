package archive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// showing sends a message with an image and runs its turn.
func showing(t *testing.T, s memory.ConversationMemoryStore, session string, n int) (thread, name string) {
	t.Helper()
	name = memorytest.Must(s.KeepImage(t.Context(), memorytest.Picture(n)))(t)
	r := memory.SendRequest{UserID: user, Profile: "default", SessionID: session, MessageID: "m-" + name[:8], Content: agent.Text("look"), WhenBusy: memory.Queue}
	sent := memorytest.Must(s.Send(t.Context(), memorytest.Showing(r, name)))(t)
	ok(t, memorytest.RunTurns(t.Context(), s, sent.ThreadID))
	return sent.ThreadID, name
}

// roundTrip exports a session and imports it into an empty store.
func roundTrip(t *testing.T, from, to memory.ConversationMemoryStore) {
	t.Helper()
	f := folder(t)
	thread, name := showing(t, from, "s1", 1)
	out := memorytest.Must(archive.Export(t.Context(), from, f, owner, "s1", sessionfile.EventOptions{}))(t)
	same(t, "missing", len(out.MissingImages), 0)
	data := memorytest.Must(os.ReadFile(filepath.Join(f.Dir, "images", name)))(t)
	same(t, "file", data, memorytest.Picture(1))
	in := memorytest.Must(archive.Import(t.Context(), to, f, owner, ""))(t)
	same(t, "imported", [3]int{len(in.Added), len(in.Refused), len(in.MissingImages)}, [3]int{1, 0, 0})
	data = memorytest.Must(to.Image(t.Context(), name))(t)
	same(t, "image", data, memorytest.Picture(1))
	memorytest.Sound(t, to)
	memorytest.Must(to.DeleteTree(t.Context(), memory.DeleteRequest{UserID: user, ThreadID: thread}))(t)
}

// TestImagesTravelWithExports: whoever imports an export sees what was shown.
func TestImagesTravelWithExports(t *testing.T) {
	clock := memorytest.NewClock()
	roundTrip(t, store(t, clock), store(t, clock))
}

// TestImagesOfExportsThatAreNotWhole: without its images an export is imported as
// before, the import says which are missing, and a second import adds them.
func TestImagesOfExportsThatAreNotWhole(t *testing.T) {
	clock := memorytest.NewClock()
	a, b, f := store(t, clock), store(t, clock), folder(t)
	_, name := showing(t, a, "s1", 1)
	_, changed := showing(t, a, "s1", 2)
	memorytest.Must(archive.Export(t.Context(), a, f, owner, "s1", sessionfile.EventOptions{}))(t)
	path := filepath.Join(f.Dir, "images", name)
	ok(t, os.Rename(path, path+".away"))
	ok(t, os.WriteFile(filepath.Join(f.Dir, "images", changed), memorytest.Picture(3), 0o600))
	in := memorytest.Must(archive.Import(t.Context(), b, f, owner, ""))(t)
	same(t, "added and missing", [2]any{len(in.Added), in.MissingImages}, [2]any{1, []string{name}})
	if len(in.Refused) != 1 || !strings.Contains(in.Refused[0].Error(), "its name tells other bytes") {
		t.Errorf("%v", in.Refused)
	}
	found := memorytest.Must(b.Audit(t.Context(), "s1/default"))(t)
	same(t, "findings", len(found), 2)

	ok(t, os.Rename(path+".away", path))
	_, err := archive.Export(t.Context(), a, f, owner, "s1", sessionfile.EventOptions{}) // mends the changed one
	ok(t, err)
	in = memorytest.Must(archive.Import(t.Context(), b, f, owner, ""))(t)
	same(t, "again", [4]int{len(in.Added), len(in.Present), len(in.Refused), len(in.MissingImages)}, [4]int{0, 1, 0, 0})
	clock.Advance(48 * time.Hour)
	memorytest.Must(b.KeepImage(t.Context(), memorytest.Picture(4)))(t)
	memorytest.Sound(t, b)
}

// TestImagesOfRemovedFiles go with the last file that refers to them.
func TestImagesOfRemovedFiles(t *testing.T) {
	clock := memorytest.NewClock()
	a, f := store(t, clock), folder(t)
	for _, session := range []string{"s1", "s2"} {
		_, _ = showing(t, a, session, 1)
		memorytest.Must(archive.Export(t.Context(), a, f, owner, session, sessionfile.EventOptions{}))(t)
	}
	for i, left := range []int{1, 0} {
		memorytest.Must(f.DeleteSession([]string{"s1", "s2"}[i]))(t)
		names := memorytest.Must(f.ImageNames())(t)
		same(t, "left", len(names), left)
	}
}
