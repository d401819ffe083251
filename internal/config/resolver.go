package config

import (
	"fmt"
	"os"
	"sort"

	"github.com/spool-agents/spool/agent"
)

// layer holds the values one source offers, by setting name.
type layer map[string]found

// resolver finds values along the layers and keeps what it found and what was
// wrong.
type resolver struct {
	dir     string
	env     func(string) string
	environ func() []string
	flags   layer
	// layers stand below flags and environment, highest first.
	layers   []layer
	used     map[string]found
	problems []string
	userHome string
}

func newResolver(o Options) *resolver {
	r := &resolver{dir: workingDir(o.Dir), env: o.Env, environ: o.Environ, flags: layer{}, used: map[string]found{}}
	if r.env == nil {
		r.env = os.Getenv
		if r.environ == nil {
			r.environ = os.Environ
		}
	}
	if r.environ == nil {
		r.environ = func() []string { return nil }
	}
	r.userHome = userHome(r.env)
	for name, v := range o.Flags {
		if _, ok := lookup(name); !ok {
			r.problem("flag %s does not exist; allowed: %s", flagName(name), settingNames())
			continue
		}
		r.flags[name] = found{v, "flag " + flagName(name), r.dir}
	}
	sort.Strings(r.problems)
	return r
}

func (r *resolver) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// find returns the first value that is set, unchecked.
func (r *resolver) find(s setting) (found, bool) {
	if f := r.flags[s.name]; f.value != "" {
		return f, true
	}
	if v := r.env(s.env); v != "" {
		return found{v, "environment " + s.env, r.dir}, true
	}
	for _, l := range r.layers {
		if f := l[s.name]; f.value != "" {
			return f, true
		}
	}
	return found{}, false
}

// get returns the checked value of a setting or its default.
func (r *resolver) get(name string) string { return r.getOr(name, "") }

// getOr is get with a default that is known only at run time.
func (r *resolver) getOr(name, fallback string) string {
	s, _ := lookup(name)
	f, ok := r.find(s)
	if !ok {
		if fallback == "" {
			fallback = s.fallback
		}
		f = found{fallback, "default", r.dir}
	}
	if f.value != "" && s.check != nil {
		out, allowed := s.check(f.value, place{f.base, r.userHome})
		if allowed != "" {
			r.problem("%s %q (from %s) is not valid: use %s", name, s.mask(f.value), f.source, allowed)
			return ""
		}
		f.value = out
	}
	r.used[name] = f
	return f.value
}

func (s setting) mask(v string) string {
	if s.name == EncryptionKeys {
		return maskKeys(v)
	}
	if s.secret {
		return NewSecret(v).String()
	}
	return agent.MaskURL(v)
}

func (r *resolver) explain() []Setting {
	var out []Setting
	for _, s := range settings {
		f := r.used[s.name]
		out = append(out, Setting{s.name, s.mask(f.value), f.source})
	}
	for _, name := range []string{"temporalApiKey", "temporalTls"} {
		if f, ok := r.used[name]; ok {
			out = append(out, Setting{name, f.value, f.source})
		}
	}
	return out
}
