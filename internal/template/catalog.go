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
}

type loaded struct {
	config   agent.SpecialistAgentConfig
	hides    []string // sources of templates of the same name that came later
	nameLine int      // where the file names it, or 1
	// modelLine is where the file names its provider, else its model.
	modelLine int
}

// Load reads the templates of .spool/agents and .claude/agents in the project
// directory, of home/agents, folders in them included, and the built-in ones; of
// one name the first wins. A file that cannot be used is skipped with a warning. extraTools are the names of
// tools beyond the built-in ones that a template may list without a warning. An
// empty directory name is left out.
func Load(projectDir, home string, extraTools ...string) (*Catalog, []Warning) {
	c := &Catalog{byName: map[string]loaded{}, dirs: folders(projectDir, home)}
	var warnings []Warning
	known := knownTools(extraTools)
	for _, dir := range c.dirs {
		warnings = append(warnings, c.addDir(os.DirFS(dir), dir, known)...)
	}
	files, _ := fs.Sub(builtin, "builtin")
	return c, append(warnings, c.addDir(files, "", known)...)
}

// folders are where templates are looked for, the first one first.
func folders(projectDir, home string) (dirs []string) {
	if projectDir != "" {
		dirs = append(dirs, filepath.Join(projectDir, ".spool", "agents"), filepath.Join(projectDir, ".claude", "agents"))
	}
	if home != "" {
		dirs = append(dirs, filepath.Join(home, "agents"))
	}
	return dirs
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

// addDir adds the files of one folder.
func (c *Catalog) addDir(dir fs.FS, path string, known map[string]bool) (warnings []Warning) {
	here := map[string]string{} // names of this folder, to report doubles
	walk(dir, func(rel string, _ fs.DirEntry, err error) {
		file, source := filepath.Join(path, rel), BuiltIn
		if path != "" {
			source = file
		}
		if err != nil {
			warnings = append(warnings, Warning{File: file, Text: fmt.Sprintf("the folder cannot be read: %v", err)})
			return
		}
		raw, err := fs.ReadFile(dir, rel)
		if err != nil {
			warnings = append(warnings, Warning{File: file, Text: fmt.Sprintf("skipped: %v", err)})
			return
		}
		t, found := parse(file, string(raw), known)
		warnings = append(warnings, found...)
		if t == nil {
			return
		}
		t.config.Source = source
		name := t.config.Name
		if first, double := here[name]; double {
			warnings = append(warnings, Warning{file, t.nameLine, fmt.Sprintf("skipped: %s has the same name %q", first, name)})
			return
		}
		here[name] = file
		first, taken := c.byName[name]
		if !taken {
			c.byName[name] = *t
			return
		}
		first.hides = append(first.hides, source)
		c.byName[name] = first
	})
	return warnings
}

// Get returns a template.
func (c *Catalog) Get(name string) (agent.SpecialistAgentConfig, bool) {
	t, ok := c.byName[name]
	return clone(t.config), ok
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
		list = append(list, clone(c.byName[name].config))
	}
	return list
}

// Unrouted warns of templates whose model or provider route refuses: their model
// calls will fail. It is for who knows the providers.
func (c *Catalog) Unrouted(route func(model, provider string) error) (warnings []Warning) {
	for _, name := range c.Names() {
		t := c.byName[name]
		if err := route(t.config.Model, t.config.Provider); err != nil {
			warnings = append(warnings, Warning{t.config.Source, t.modelLine, fmt.Sprintf("agent %s cannot be used: %v", name, err)})
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

// clone keeps callers from changing the catalog through slices and maps.
func clone(c agent.SpecialistAgentConfig) agent.SpecialistAgentConfig {
	c.Tools = slices.Clone(c.Tools)
	c.Approval = maps.Clone(c.Approval)
	return c
}
