package filestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/filestore"
	"github.com/spool-agents/spool/memory/memorytest"
)

// TestImagesAreFiles, which are made anew from the journal, and the journal from
// them, and which go with the last thread that shows them.
func TestImagesAreFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, filestore.Options{})
	name := memorytest.Must(s.KeepImage(t.Context(), memorytest.Picture(1)))(t)
	memorytest.Must(s.Send(t.Context(), memorytest.Showing(request("s1", "m"), name)))(t)
	ok(t, memorytest.RunTurns(t.Context(), s, "s1/default"))
	ok(t, s.Close())
	file := filepath.Join(dir, "images", name)
	for _, gone := range []string{filepath.Join(dir, "images"), filepath.Join(dir, ".spool")} {
		ok(t, os.RemoveAll(gone))
		s = open(t, dir, filestore.Options{})
		data, err := s.Image(t.Context(), name)
		if err != nil || string(data) != string(memorytest.Picture(1)) {
			t.Fatalf("without %s: %v", gone, err)
		}
		if data, err = os.ReadFile(file); err != nil || string(data) != string(memorytest.Picture(1)) {
			t.Fatalf("without %s: %v", gone, err)
		}
		memorytest.Sound(t, s)
		ok(t, s.Close())
	}
	s = open(t, dir, filestore.Options{})
	memorytest.Must(s.DeleteTree(t.Context(), memory.DeleteRequest{ThreadID: "s1/default"}))(t)
	ok(t, s.Flush())
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the image is left: %v", err)
	}
}
