package tool

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spool-agents/spool/agent"
)

// protectedNames are files and folders that decide what agents may do, or that run
// commands: whatever rules say, a person is asked before a tool writes there.
var protectedNames = []string{".spool", ".claude", ".mcp.json", "spool.yaml", ".git"}

// shortNames are what Windows calls them as well.
var shortNames = regexp.MustCompile(`^(git|spool|claude|mcp)~[0-9]+(\.|$)`)

// protected reports whether a path has a protected name in it, in any spelling that
// some file system reads as that name.
func protected(path string) bool {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		part = plainName(part)
		if slices.Contains(protectedNames, part) || shortNames.MatchString(part) {
			return true
		}
	}
	return false
}

// plainName is a name as file systems read it that look at little of it.
func plainName(name string) string {
	if name = oneSpelling(name); strings.ContainsAny(name, ":\x00") {
		name = name[:strings.IndexAny(name, ":\x00")] // before a stream of the file
	}
	return strings.Trim(strings.TrimRight(name, ". "), " \t\r\n")
}

// oneSpelling is a name in one spelling: without other case and without characters that are
// not seen.
func oneSpelling(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, name)
}

type lead struct {
	path      string // from the thread's folder, without links; "" = that is not known
	protected bool   // it leads to a protected name, as it is written or by a link
	home      bool   // it leads into Spool's own folder
}

// leadOf follows a path of a call. w may be nil: another worker may have the folder.
func leadOf(w *workspace, run agent.ToolRun, path string) lead {
	path = strings.TrimPrefix(path, "file://")
	l := lead{protected: protected(path)}
	if w == nil {
		return l
	}
	if rel, err := w.rel(path); err == nil {
		l.protected = protected(filepath.Join(w.above, rel))
	}
	if p, err := w.find(path, toLook); err == nil {
		l.path, l.protected = p.path, l.protected || protected(p.whole)
		p.close()
	}
	// Tools of others follow all links.
	if !filepath.IsAbs(path) {
		path = filepath.Join(run.Workdir, path)
	}
	base := realPath(cmp.Or(run.Workspace, run.Workdir))
	if rel, err := filepath.Rel(base, realPath(path)); err == nil && filepath.IsLocal(rel) {
		l.protected = l.protected || protected(rel)
	}
	l.home = slices.ContainsFunc(append([]string{run.Home}, run.Private...), func(own string) bool { return within(own, path) })
	return l
}

const (
	// longestPath bounds the texts that are followed as paths: of longer ones only the
	// lines are that begin as in a patch.
	longestPath = 4096
	// fewWords are no prose.
	fewWords = 3
	// mostPaths bounds how many texts of a call are followed.
	mostPaths = 2000
)

// leads follows what in the arguments of a call may be a path: of a tool of others
// nobody knows which arguments are. With too many of them a person is asked.
func leads(w *workspace, run agent.ToolRun) (all lead) {
	var value any
	_ = json.Unmarshal(run.Args, &value) // what cannot be read does not run
	seen := map[string]bool{}
	for _, text := range textsIn(value) {
		for _, c := range pathsIn(text) {
			if all.protected = all.protected || protected(c.path); !c.follow || seen[c.path] {
				continue
			}
			if seen[c.path] = true; len(seen) > mostPaths {
				all.protected = true
				return all
			}
			l := leadOf(w, run, c.path)
			all.protected, all.home = all.protected || l.protected, all.home || l.home
		}
	}
	return all
}

// textsIn are all texts of a value, the names of fields too.
func textsIn(value any) (texts []string) {
	switch v := value.(type) {
	case string:
		texts = append(texts, v)
	case []any:
		for _, e := range v {
			texts = append(texts, textsIn(e)...)
		}
	case map[string]any:
		for name, e := range v {
			texts = append(append(texts, name), textsIn(e)...)
		}
	}
	return texts
}

// patchHeader begins the lines of a patch that name a file.
var patchHeader = regexp.MustCompile(`^\s*(\+\+\+|---|\*\*\*|diff|index:|rename|copy|move)\s+(from\s|to\s)?`)

// candidate is what may be a path. follow says whether it is worth to look where it leads.
type candidate struct {
	path   string
	follow bool
}

// pathsIn are the parts of a text that may be paths: the text, and what stands between
// the separators of lists, quotes and lines, and between blanks.
func pathsIn(text string) (all []candidate) {
	short := len(text) <= longestPath
	if short {
		all = readings(text, true)
	}
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' || r == 0 }) {
		header := patchHeader.FindString(line)
		follow := (short || header != "") && len(line) <= longestPath
		for part := range strings.FieldsFuncSeq(line[len(header):], func(r rune) bool { return strings.ContainsRune(",;:|=<>\"'`()[]{}\t", r) }) {
			all = append(all, readings(part, follow)...)
			for _, word := range words(part) {
				all = append(all, readings(word, follow)...)
			}
		}
	}
	return all
}

// words are what of a text may be paths between blanks. Among many words those have a
// slash, as prose talks about names.
func words(text string) []string {
	all := strings.Fields(text)
	if len(all) <= fewWords {
		return all
	}
	return slices.DeleteFunc(all, func(word string) bool { return !strings.ContainsAny(word, `/\%`) })
}

// readings are a path as it is written, and as URLs, patches and tools that trim have it.
func readings(path string, follow bool) (all []candidate) {
	path = strings.TrimSpace(path)
	for range 3 { // a decoder may be called more than once
		plain, err := url.PathUnescape(path)
		if err != nil || plain == path {
			break
		}
		all, path = append(all, candidate{path, follow}), strings.TrimSpace(plain)
	}
	const scheme = "file://"
	if len(path) > len(scheme) && strings.EqualFold(path[:len(scheme)], scheme) {
		_, inHost, _ := strings.Cut(path[len(scheme):], "/")
		all = append(all, candidate{path[len(scheme):], follow}, candidate{"/" + inHost, follow})
	} else if strings.HasPrefix(path, "a/") || strings.HasPrefix(path, "b/") {
		all = append(all, candidate{path[2:], follow})
	}
	return append(all, candidate{path, follow})
}
