// Package template loads agent templates: Markdown files with YAML front matter.
//
// The body is the system prompt, the only part that is required. Defaults: name
// is the file's name without .md; tools are all the agent may have; model is the
// worker's, then the parent's; stream is true; maxSteps is the worker's setting for
// a main thread and 100 for a sub-agent, and 0, if stated, is no limit; all else
// is the parent's or the provider's.
// Agent files of Claude Code are understood as they are.
package template

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/trust"
)

// BuiltIn is the Source of templates that come with the program.
const BuiltIn = "built in"

//go:embed builtin/*.md
var builtin embed.FS

// Warning is a problem in a template file that did not stop the loading.
type Warning struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0 if it concerns the whole file
	Text string `json:"text"`
	// Asks means that the file waits for a person's agreement, and nothing is wrong.
	Asks bool `json:"-"`
}

// String is FILE:LINE: TEXT.
func (w Warning) String() string {
	if w.Line == 0 {
		return w.File + ": " + w.Text
	}
	return fmt.Sprintf("%s:%d: %s", w.File, w.Line, w.Text)
}

// Catalog holds the templates that were found, one per name.
type Catalog struct {
	byName map[string]loaded
	dirs   []string
	offers []trust.Offer
	notes  *Notes
}

type loaded struct {
	config   agent.SpecialistAgentConfig
	hides    []string // sources of templates of the same name that came later
	nameLine int      // where the file names it, or 1
	// modelLine is where the file names its provider, else its model.
	modelLine int
	lines     map[string]int // where the file has its keys and its rules
	// file is what it stands in; project tells one of the project's folders. Those of the
	// user and those built in are agreed to.
	file            trust.File
	project, agreed bool
}

// Load reads the templates of .spool/agents and .claude/agents in the project's folder,
// of home/agents, folders in them included, and the built-in ones; of one name the first
// wins. A file that cannot be used is skipped with a warning; one of the project takes no
// other's place and only makes things stricter before a person has agreed to it. extraTools
// are the names of tools beyond the built-in ones that a template may list without a warning.
func Load(in Folders, extraTools ...string) (*Catalog, []Warning) {
	c := &Catalog{byName: map[string]loaded{}}
	var warnings []Warning
	known, all := knownTools(extraTools), map[string][]loaded{}
	book := trust.Open(in.Home)
	for _, f := range append(in.list(), folder{}) {
		if f.dir != "" {
			c.dirs = append(c.dirs, f.dir)
		}
		warnings = append(warnings, f.load(all, book, known)...)
	}
	warnings = append(warnings, c.settle(all, in.MaxSteps)...)
	return c, append(warnings, c.readNotes(in, book)...)
}

// folder is one that holds templates: of a project, where name is its path, or of the
// user; without dir it is what is built in.
type folder struct{ dir, project, name string }

// files are those in the folder; in a project's, no link leads out of the project.
func (in folder) files() (files fs.FS, done func()) {
	var root *os.Root
	var err error
	switch {
	case in.dir == "":
		files, err = fs.Sub(builtin, "builtin")
	case in.project == "":
		return os.DirFS(in.dir), func() {}
	default:
		if root, err = os.OpenRoot(in.project); err == nil {
			files, err = fs.Sub(root.FS(), in.name)
		}
	}
	if err != nil {
		return none{err}, func() {}
	}
	return files, func() {
		if root != nil {
			_ = root.Close()
		}
	}
}

type none struct{ err error }

func (n none) Open(string) (fs.File, error) { return nil, n.err }

// claudeAgents is the folder that Claude Code reads too. There a file without front matter
// is a note.
const claudeAgents = ".claude/agents"

// list is where templates are looked for, the first folder first. The user's own folder
// is no project's, whatever the project is.
func (in Folders) list() (list []folder) {
	own := filepath.Join(in.Home, "agents")
	for _, name := range []string{".spool/agents", claudeAgents} {
		if dir := filepath.Join(in.Project, name); in.Project != "" && (in.Home == "" || !trust.Same(dir, own)) {
			list = append(list, folder{dir, in.Project, name})
		}
	}
	if in.Home != "" {
		list = append(list, folder{dir: own})
	}
	return list
}

// walk visits the .md files of a folder and of those in it, in the order of their
// paths. Hidden folders and node_modules are left out.
func walk(dir fs.FS, visit func(name string, e fs.DirEntry, err error)) {
	_ = fs.WalkDir(dir, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			if name != "." || !errors.Is(err, fs.ErrNotExist) {
				visit(name, e, err)
			}
			return fs.SkipDir
		case e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules"):
			return fs.SkipDir
		case !e.IsDir() && strings.HasSuffix(e.Name(), ".md"):
			visit(name, e, nil)
		}
		return nil
	})
}

// mostFiles bounds the agent files of a folder, so that a person can look at what each
// asks for.
const mostFiles = 500

// load adds the templates of a folder to those of their names.
func (in folder) load(all map[string][]loaded, book trust.Book, known map[string]bool) (warnings []Warning) {
	dir, done := in.files()
	defer done()
	here := map[string]*loaded{} // by the names of this folder, to report doubles
	files := 0
	defer func() {
		if more := files - mostFiles; more > 0 {
			warnings = append(warnings, Warning{File: in.dir, Text: fmt.Sprintf("%d agent files were left out: at most %d of a folder are read", more, mostFiles)})
		}
	}()
	walk(dir, func(rel string, _ fs.DirEntry, err error) {
		if files++; files > mostFiles {
			return
		}
		file, source := filepath.Join(in.dir, rel), BuiltIn
		if in.dir != "" {
			source = file
		}
		if err != nil {
			warnings = append(warnings, Warning{File: file, Text: fmt.Sprintf("the folder cannot be read: %v", err)})
			return
		}
		read, err := in.read(dir, rel)
		if err != nil {
			w := Warning{File: file, Text: fmt.Sprintf("skipped: %v", err)}
			if text := (*agent.NotTextError)(nil); errors.As(err, &text) {
				w.Line = text.Line
			}
			warnings = append(warnings, w)
			return
		}
		t, found := parse(file, string(read.Raw), known)
		warnings = append(warnings, found...)
		if t == nil {
			return
		}
		if front, _, _ := split(string(read.Raw)); front == "" && in.name == claudeAgents {
			warnings = append(warnings, Warning{File: file, Line: 1, Text: "skipped: it has no front matter, and then it is no agent of Claude Code"})
			return
		}
		t.config.Source, t.file, t.project = source, read, in.project != ""
		t.agreed = !t.project || book.Agreed(read)
		name := t.config.Name
		if first := here[name]; first != nil && (first.agreed || !t.agreed) {
			warnings = append(warnings, Warning{File: file, Line: t.nameLine, Text: fmt.Sprintf("skipped: %s has the same name %q", first.config.Source, name)})
			return
		}
		here[name] = t
		all[name] = append(all[name], *t)
	})
	return warnings
}

func (in folder) read(dir fs.FS, rel string) (f trust.File, err error) {
	switch {
	case in.dir == "":
		f.Raw, err = fs.ReadFile(dir, rel)
	case in.project != "":
		return trust.ReadWithin(in.project, in.name+"/"+rel)
	default:
		return trust.Read(in.dir, rel)
	}
	return f, err
}

// Get returns a template.
func (c *Catalog) Get(name string) (agent.SpecialistAgentConfig, bool) {
	t, ok := c.byName[name]
	return c.told(t.config), ok
}

// Folders are those that were looked through, besides what is built in.
func (c *Catalog) Folders() []string { return slices.Clone(c.dirs) }

// Names lists the templates in order.
func (c *Catalog) Names() []string {
	return slices.Sorted(maps.Keys(c.byName))
}

// List returns all templates in the order of their names; Source says where
// each came from.
func (c *Catalog) List() []agent.SpecialistAgentConfig {
	var list []agent.SpecialistAgentConfig
	for _, name := range c.Names() {
		list = append(list, c.told(c.byName[name].config))
	}
	return list
}

// Unrouted warns of templates whose model or provider route refuses: their model
// calls will fail. It is for who knows the providers.
func (c *Catalog) Unrouted(route func(model, provider string) error) (warnings []Warning) {
	for _, name := range c.Names() {
		t := c.byName[name]
		if err := route(t.config.Model, t.config.Provider); err != nil {
			warnings = append(warnings, Warning{File: t.config.Source, Line: t.modelLine, Text: fmt.Sprintf("agent %s cannot be used: %v", name, err)})
		}
	}
	return warnings
}

// ModelPlace is where a template names its provider or model, FILE:LINE, or its
// source if it names neither.
func (c *Catalog) ModelPlace(name string) string {
	t := c.byName[name]
	if t.modelLine == 0 {
		return t.config.Source
	}
	return fmt.Sprintf("%s:%d", t.config.Source, t.modelLine)
}

// Hides lists the sources of templates that the one in force took the place of.
func (c *Catalog) Hides(name string) []string { return slices.Clone(c.byName[name].hides) }

// told is a copy of a template with the project's notes.
func (c *Catalog) told(t agent.SpecialistAgentConfig) agent.SpecialistAgentConfig {
	t = t.Clone()
	if c.notes != nil {
		t.SystemPrompt += c.notes.text
	}
	return t
}
