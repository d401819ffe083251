package tool

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spool-agents/spool/agent"
)

// protectedNames are files and folders that decide what agents may do, or that run
// commands: whatever rules say, a person is asked before a tool writes there.
var protectedNames = []string{".spool", ".claude", ".mcp.json", "spool.yaml", ".git"}

// protected reports whether a path has a protected name in it, in any spelling that
// some file system reads as that name: other case, characters that are not seen, dots
// and blanks at the end.
func protected(path string) bool {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		part = strings.TrimRight(strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Cf, r) {
				return -1
			}
			return r
		}, part), ". ")
		if slices.ContainsFunc(protectedNames, func(name string) bool { return strings.EqualFold(name, part) }) {
			return true
		}
	}
	return false
}

// lead is where a path of a call leads now.
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
	l.home = within(run.Home, path)
	return l
}

// leads follows what in the arguments of a call may be a path: of a tool of others
// nobody knows which arguments are.
func leads(w *workspace, run agent.ToolRun) lead {
	var all lead
	var value any
	_ = json.Unmarshal(run.Args, &value) // what cannot be read does not run
	for _, s := range textsIn(value) {
		const longest = 4096
		if len(s) <= longest && !strings.ContainsAny(s, "\n\x00") {
			l := leadOf(w, run, s)
			all.protected, all.home = all.protected || l.protected, all.home || l.home
		}
	}
	return all
}

func textsIn(value any) (texts []string) {
	switch v := value.(type) {
	case string:
		texts = append(texts, v)
	case []any:
		for _, e := range v {
			texts = append(texts, textsIn(e)...)
		}
	case map[string]any:
		for _, e := range v {
			texts = append(texts, textsIn(e)...)
		}
	}
	return texts
}
