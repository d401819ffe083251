package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/trust"
)

// found is a value with where it was found and the directory that relative
// paths in it belong to.
type found struct{ value, source, base string }

// layer holds the values one source offers, by setting name.
type layer map[string]found

// resolver finds values along the layers and keeps what it found and what was
// wrong.
type resolver struct {
	table   []setting
	dir     string
	env     func(string) string
	environ func() []string
	flags   layer
	// layers stand below flags and environment, highest first.
	layers   []layer
	used     map[string]found
	problems []string
	userHome string
	tlsKey   string // the file of the client's key for Temporal
}

func newResolver(o Options, c *Config) *resolver {
	r := &resolver{table: settings(c), env: o.Env, environ: o.Environ, flags: layer{}, used: map[string]found{}}
	if r.dir, _ = filepath.Abs(o.Dir); o.Dir == "" {
		r.dir, _ = os.Getwd()
	}
	if r.env == nil {
		r.env, r.environ = os.Getenv, os.Environ
	}
	r.userHome = userHome(r.env)
	for name, v := range o.Flags {
		if _, ok := known[name]; !ok {
			r.problem("flag %s does not exist; allowed: %s", flagName(name), settingNames())
			continue
		}
		r.flags[name] = found{v, "flag " + flagName(name), r.dir}
	}
	slices.Sort(r.problems)
	return r
}

func (r *resolver) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r *resolver) failure() error {
	var all []error
	for _, text := range r.problems {
		all = append(all, agent.Errorf(agent.CodeInvalid, "%s", text))
	}
	return errors.Join(all...)
}

// addYAML adds the layers of spool.yaml: the folder's, as far as it counts, above that
// of home.
func (r *resolver) addYAML(c *Config) {
	_, own, problems := readYAML(c.Home)
	r.problems = append(r.problems, problems...)
	if f, ok := own[Home]; ok {
		r.problem("%s: home cannot be set inside the home directory; use SPOOL_HOME or --home", f.source)
	}
	if trust.Same(c.Home, r.dir) {
		r.layers = append(r.layers, own)
		return
	}
	file, folder, problems := readYAML(r.dir)
	agreed, at := trust.Open(c.Home).Agreed(file), place{r.dir, r.userHome}
	if !agreed { // nobody has asked for this file: it stops nothing
		for _, s := range r.table {
			if f := folder[s.name]; f.value != "" && s.folder != "" {
				if _, err := s.kind.read(f.value, at); err != nil {
					problems = append(problems, s.wrong(f, err))
				}
			}
		}
		if len(problems) > 0 {
			c.Folder = trust.Offer{File: file, Problem: strings.Join(problems, "; ")}
			first, _, _ := strings.Cut(problems[0], "; allowed")
			c.Ignored = append(c.Ignored, first+": nothing in this file counts; "+trust.Command(r.dir)+" shows all that is wrong")
			r.layers = append(r.layers, own)
			return
		}
	}
	r.problems = append(r.problems, problems...)
	if f, ok := folder[Home]; ok { // agreements are kept there
		c.Ignored = append(c.Ignored, f.source+": home is not taken from a folder's spool.yaml: use SPOOL_HOME or --home")
	}
	kept, asks := narrowed(folder, own, at)
	c.Folder = trust.Offer{File: file, Agreed: agreed}
	var names []string
	for _, f := range asks {
		names = append(names, f.name)
		c.Folder.Allows = append(c.Folder.Allows, trust.Line(f.name+":", f.value))
		if c.Folder.Agreed {
			kept[f.name] = f.found
		}
	}
	if len(names) > 0 && !c.Folder.Agreed {
		c.Ignored = append(c.Ignored, fmt.Sprintf("%s: before you agree to this file, it does not set %s: %s shows it and asks",
			asks[0].source, strings.Join(names, ", "), trust.Command(r.dir)))
	}
	r.layers = append(r.layers, kept, own)
}

// find returns the first value that is set, unchecked.
func (r *resolver) find(name string) (found, bool) {
	if f := r.flags[name]; f.value != "" {
		return f, true
	}
	if env := known[name].env; r.env(env) != "" {
		return found{r.env(env), "environment " + env, r.dir}, true
	}
	for _, l := range r.layers {
		if f := l[name]; f.value != "" {
			return f, true
		}
	}
	return found{}, false
}

func (r *resolver) get(name string) string {
	i := slices.IndexFunc(r.table, func(s setting) bool { return s.name == name })
	r.read(r.table[i], nil)
	return r.used[name].value
}

// read reads a setting; otherwise is a default that is known only at run time.
func (r *resolver) read(s setting, otherwise func() string) {
	f, ok := r.find(s.name)
	if !ok {
		f = found{s.fallback, "default", r.dir}
		if otherwise != nil {
			f.value = otherwise()
		}
	}
	if f.value != "" {
		out, err := s.kind.read(f.value, place{f.base, r.userHome})
		if err != nil {
			r.problem("%s", s.wrong(f, err))
		}
		f.value = out
	}
	r.used[s.name] = f
}

// wrong says what is not valid, where it stands and what to use.
func (s setting) wrong(f found, err error) string {
	use := s.allowed
	if !errors.Is(err, errWrong) {
		use = err.Error()
	}
	return fmt.Sprintf("%s %q (from %s) is not valid: use %s", s.name, s.show(f.value), f.source, use)
}

// show is a value without what is secret in it.
func (s setting) show(v string) string {
	if s.mask != nil {
		return s.mask(v)
	}
	return agent.MaskURL(v)
}

func (r *resolver) explain() []Setting {
	var out []Setting
	for _, s := range r.table {
		f := r.used[s.name]
		out = append(out, Setting{s.name, s.show(f.value), f.source})
	}
	for _, name := range []string{"temporalApiKey", "temporalTls"} {
		if f, ok := r.used[name]; ok {
			out = append(out, Setting{name, f.value, f.source})
		}
	}
	return out
}
