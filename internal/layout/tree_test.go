package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../.."

// module is the import path of the repository's root.
const module = "github.com/spool-agents/spool"

// files lists the repository's files, as slash paths below the root. It asks no
// version control system: a downloaded archive is as good as a clone.
func files(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "bin", "dist", "node_modules", ".spool":
				return filepath.SkipDir
			}
			return nil
		}
		if d.Name() == ".git" { // of a second working tree: the path of the first one
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		out = append(out, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("found only %d files: is the test run inside the repository?", len(out))
	}
	return out
}

// read returns a file's text.
func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// source is a parsed Go file.
type source struct {
	name string // slash path below the root
	dir  string // "." for the root
	test bool
	text string
	file *ast.File
	fset *token.FileSet
}

// sources parses the Go files below dir, of all platforms and build tags.
func sources(t *testing.T, dir string) []source {
	t.Helper()
	var out []source
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") || dir != "." && !strings.HasPrefix(name, dir+"/") {
			continue
		}
		s := source{name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), text: read(t, name), fset: token.NewFileSet()}
		f, err := parser.ParseFile(s.fset, name, s.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		s.file = f
		out = append(out, s)
	}
	return out
}

// within reports whether dir is base or below it.
func within(dir, base string) bool {
	return dir == base || strings.HasPrefix(dir, base+"/")
}
