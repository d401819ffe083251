package copy

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestEveryTableIsArchived: whoever adds a table decides whether exports, imports
// and forks carry it.
func TestEveryTableIsArchived(t *testing.T) {
	// Records have messages in a form that other programs read, images are moved apart; reservations are of what is under way, and changes are
	// not about one thread.
	known := []string{"messages", "image_refs", "images", "reservations", "changes"}
	for _, part := range archived {
		known = append(known, part.table)
	}
	create := regexp.MustCompile(`(?i)CREATE TABLE (\w+)`)
	for _, dir := range []string{"../../../sqlite/schema", "../../../postgres/schema"} {
		files, err := os.ReadDir(dir)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, f := range files {
			text, err := os.ReadFile(dir + "/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range create.FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains(known, m[1]) {
					t.Errorf("%s/%s: table %s is neither archived nor left out by name", dir, f.Name(), m[1])
				}
			}
		}
	}
}
