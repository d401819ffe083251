package layout

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors are the packages of the SQL store, lowest first, with the ones that each
// may use. Their parent puts them together.
var floors = []struct{ name, below string }{
	{"rows", ""},
	{"rules", "rows"},
	{"read", "rows"},
	{"audit", "rows rules"},
	{"copy", "rows rules"},
}

// A floor of the store stands on those below it, and on nothing else of this module
// but the vocabulary and the port.
func TestFloorsOfTheStore(t *testing.T) {
	const room = "memory/internal/sqlstore"
	for _, floor := range floors {
		found := 0
		for _, s := range sources(t, room+"/"+floor.name) {
			found++
			for _, spec := range s.file.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				dir, ours := strings.CutPrefix(imported, module+"/")
				if !ours || dir == "agent" || dir == "agent/steps" || dir == "memory" {
					continue
				}
				below, ok := strings.CutPrefix(dir, room+"/")
				if !ok || !slices.Contains(strings.Fields(floor.below), below) {
					t.Errorf("%s imports %s: %s may use %q of the store's floors only", s.name, dir, floor.name, floor.below)
				}
			}
		}
		if found == 0 {
			t.Errorf("no files in %s/%s", room, floor.name)
		}
	}
}
