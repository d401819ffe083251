package sqlstore

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestEveryTableIsForked: whoever adds a table decides what a fork makes of it.
func TestEveryTableIsForked(t *testing.T) {
	known := []string{
		"threads", "inbox", "turns", "summaries", "steps", "events", "tool_calls", "outputs", "asks", "tasks", "forgotten", "forks", // copied
		"sessions", "approved_tools", "configs", // shared with the original
		"chunks", "budgets", "reservations", // of what is under way, which a fork is not
	}
	for _, part := range archived {
		if !slices.Contains(known, part.table) {
			t.Errorf("Fork knows nothing of table %s: copy its rows in forkwrite.go, or say here why not", part.table)
		}
	}
}

// TestEveryTableIsArchived: whoever adds a table decides whether exports carry it.
func TestEveryTableIsArchived(t *testing.T) {
	// messages stand in records as such; images are moved apart, and what refers to
	// them follows from the rest; changes are not about one thread.
	known := []string{"messages", "images", "image_refs", "changes", "approvals", "questions"} // the last two were replaced by asks
	for _, part := range archived {
		known = append(known, part.table)
	}
	create := regexp.MustCompile(`(?i)CREATE TABLE (\w+)`)
	for _, dir := range []string{"../../sqlite/schema", "../../postgres/schema"} {
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
