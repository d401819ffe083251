package template

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
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
}

type loaded struct {
	config agent.AgentConfig
	hides  []string // sources of templates of the same name that came later
}

// Load reads the templates of .spool/agents and .claude/agents in the project
// directory, of home/agents and the built-in ones; of one name the first wins. A
// file that cannot be used is skipped with a warning. extraTools are the names of
// tools beyond the built-in ones that a template may list without a warning. An
// empty directory name is left out.
func Load(projectDir, home string, extraTools ...string) (*Catalog, []Warning) {
	c := &Catalog{byName: map[string]loaded{}}
	var warnings []Warning
	var dirs []string
	if projectDir != "" {
		dirs = append(dirs, filepath.Join(projectDir, ".spool", "agents"), filepath.Join(projectDir, ".claude", "agents"))
	}
	if home != "" {
		dirs = append(dirs, filepath.Join(home, "agents"))
	}
	known := knownTools(extraTools)
	for _, dir := range dirs {
		warnings = append(warnings, c.addDir(os.DirFS(dir), dir, known)...)
	}
	files, _ := fs.Sub(builtin, "builtin")
	return c, append(warnings, c.addDir(files, "", known)...)
}

// addDir adds the .md files of one directory in the order of their names.
func (c *Catalog) addDir(dir fs.FS, path string, known map[string]bool) (warnings []Warning) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return []Warning{{File: path, Text: fmt.Sprintf("the folder cannot be read: %v", err)}}
	}
	here := map[string]string{} // names of this directory, to report doubles
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".md") {
			continue
		}
		file, source := filepath.Join(path, e.Name()), BuiltIn
		if path != "" {
			source = file
		}
		raw, err := fs.ReadFile(dir, e.Name())
		if err != nil {
			warnings = append(warnings, Warning{File: file, Text: fmt.Sprintf("skipped: %v", err)})
			continue
		}
		t, found := parse(file, string(raw), known)
		warnings = append(warnings, found...)
		if t == nil {
			continue
		}
		t.config.Source = source
		name := t.config.Name
		if first, double := here[name]; double {
			warnings = append(warnings, Warning{File: file, Text: fmt.Sprintf("skipped: %s has the same name %q", first, name)})
			continue
		}
		here[name] = file
		first, taken := c.byName[name]
		if !taken {
			c.byName[name] = *t
			continue
		}
		first.hides = append(first.hides, source)
		c.byName[name] = first
	}
	return warnings
}

// Get returns a template.
func (c *Catalog) Get(name string) (agent.AgentConfig, bool) {
	t, ok := c.byName[name]
	return clone(t.config), ok
}

// Names lists the templates in order.
func (c *Catalog) Names() []string {
	names := make([]string, 0, len(c.byName))
	for name := range c.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// List returns all templates in the order of their names; Source says where
// each came from.
func (c *Catalog) List() []agent.AgentConfig {
	var list []agent.AgentConfig
	for _, name := range c.Names() {
		list = append(list, clone(c.byName[name].config))
	}
	return list
}

// Hides lists the sources of templates that the one in force took the place of.
func (c *Catalog) Hides(name string) []string { return slices.Clone(c.byName[name].hides) }

// clone keeps callers from changing the catalog through slices and maps.
func clone(c agent.AgentConfig) agent.AgentConfig {
	c.Tools = slices.Clone(c.Tools)
	if c.Approval != nil {
		m := make(map[string]string, len(c.Approval))
		for k, v := range c.Approval {
			m[k] = v
		}
		c.Approval = m
	}
	return c
}
