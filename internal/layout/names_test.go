package layout

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pinned are the names that stand in histories, stores, exports and scripts. A
// rename is a migration: old histories and old rows keep the old name.
func pinned(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	for line := range strings.Lines(read(t, "internal/layout/testdata/names.txt")) {
		name, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		value, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		names[name] = value
	}
	return names
}

// unpinned are string constants that are prose or go nowhere.
var unpinned = []string{"agent.TextUnknown", "agent.TextEdited", "agent.ThreadStates"}

func TestNamesArePinned(t *testing.T) {
	found, pinned := map[string]string{}, pinned(t)
	for _, dir := range []string{"internal/contract", "agent", "memory"} {
		for _, s := range sources(t, dir) {
			if s.test || s.dir != dir {
				continue
			}
			for name, value := range stringConstants(s.file) {
				found[s.file.Name.Name+"."+name] = value
			}
		}
	}
	for name, value := range found {
		want, ok := pinned[name]
		switch {
		case !ok && !slices.Contains(unpinned, name):
			t.Errorf("%s = %q is a new name: pin it in testdata/names.txt", name, value)
		case ok && value != want:
			t.Errorf("%s is %q, but %q stands in histories and stores: a rename needs a migration", name, value, want)
		}
	}
	for name, value := range pinned {
		if _, ok := found[name]; !ok {
			t.Errorf("%s = %q is gone: old histories and stores still have it", name, value)
		}
	}
}

// stringConstants returns the constants of a file that are string literals.
func stringConstants(f *ast.File) map[string]string {
	out := map[string]string{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec) // a const declaration holds nothing else
			for i, name := range v.Names {
				if i >= len(v.Values) || !name.IsExported() {
					continue
				}
				if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					out[name.Name], _ = strconv.Unquote(lit.Value)
				}
			}
		}
	}
	return out
}
