package layout

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// Long files hide what belongs together and what does not.
func TestFilesAreShort(t *testing.T) {
	const most, mostOfTests = 450, 600
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		limit := most
		if strings.HasSuffix(name, "_test.go") {
			limit = mostOfTests
		}
		if n := strings.Count(read(t, name), "\n"); n > limit {
			t.Errorf("%s has %d lines, more than %d: split it by subject", name, n, limit)
		}
	}
}

// A folder that cannot be read in an afternoon holds more than one job; the root is
// the façade and little else.
func TestFoldersAreSmall(t *testing.T) {
	const most, mostOfRoot = 4000, 1600
	lines := map[string]int{}
	for _, name := range files(t) {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			lines[path.Dir(name)] += strings.Count(read(t, name), "\n")
		}
	}
	for dir, n := range lines {
		if limit := map[bool]int{true: mostOfRoot, false: most}[dir == "."]; n > limit {
			t.Errorf("folder %s has %d lines of Go without tests, more than %d: split it by job", dir, n, limit)
		}
	}
}

// Unfinished work is an issue, not a comment; a test that cannot run says so at
// the end of `make test` and is chosen by a build tag, not skipped.
func TestNothingIsPutOff(t *testing.T) {
	for _, s := range sources(t, ".") {
		for _, word := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"} {
			for i, line := range strings.Split(s.text, "\n") {
				if containsWord(line, word) {
					t.Errorf("%s:%d: %s: do it, or file an issue", s.name, i+1, word)
				}
			}
		}
		if !s.test {
			continue
		}
		for _, call := range []string{".Skip(", ".Skipf(", ".SkipNow("} {
			if strings.Contains(s.text, "t"+call) || strings.Contains(s.text, "b"+call) {
				t.Errorf("%s calls t%s…): a test that cannot run is left out by a build tag and named by .ci/test", s.name, call)
			}
		}
	}
}

func containsWord(line, word string) bool {
	words := strings.FieldsFunc(line, func(r rune) bool { return r > 127 || !isWord(byte(r)) })
	return slices.Contains(words, word)
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// What is written here must hold on any machine.
func TestNoMachinePaths(t *testing.T) {
	unwanted := []string{"/" + "work/", "/" + "root/", "/" + "home/", "/" + "Users/", "proxy.golang" + ".org", "registry.npmjs" + ".org", "deb.debian" + ".org"}
	for _, name := range files(t) {
		if strings.HasSuffix(name, ".sum") || strings.HasSuffix(name, ".png") {
			continue
		}
		text := read(t, name)
		for _, u := range unwanted {
			if i := strings.Index(text, u); i >= 0 {
				t.Errorf("%s:%d names %q, which belongs to one machine or network", name, 1+strings.Count(text[:i], "\n"), u)
			}
		}
	}
}
