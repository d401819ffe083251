// Package models is the table of what is known of models: context windows and
// prices. It is data, in models.yaml; a file of the same form in Spool's home comes
// before it.
package models

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/spool-agents/spool/agent"
)

// File is the name of the user's table in Spool's home.
const File = "models.yaml"

//go:embed models.yaml
var builtin []byte

// Row is what is stated of the models that match a pattern.
type Row struct {
	// Match is a model's name, in which * stands for anything.
	Match     string `yaml:"match"`
	Window    int64  `yaml:"window"`
	MaxOutput int64  `yaml:"maxOutput"`
	Price     *Price `yaml:"price"`
	// Images says whether it takes images.
	Images *bool `yaml:"images"`
}

// Price is in US dollars per million tokens.
type Price struct {
	Input  float64 `yaml:"input"`
	Cached float64 `yaml:"cached"`
	Output float64 `yaml:"output"`
}

// Provider is a server of models beside the one of the settings.
type Provider struct {
	// BaseURL ends before /chat/completions.
	BaseURL string `yaml:"baseUrl"`
	// APIKeyEnv names the environment variable that holds its key; "" = no key.
	APIKeyEnv string `yaml:"apiKeyEnv"`
}

type file struct {
	Models    []Row               `yaml:"models"`
	Providers map[string]Provider `yaml:"providers"`
}

// Table answers by its rows, from the top. Safe for concurrent use.
type Table struct {
	// Providers are those of the user, by name.
	Providers map[string]Provider

	rows  []Row
	known sync.Map // of lookups
}

// Load reads the user's table in home, if there is one, then takes what the
// settings state of all models, then the built-in table.
func Load(home string, settings Row) (*Table, error) {
	var user file
	path := filepath.Join(home, File)
	switch body, err := os.ReadFile(path); {
	case err == nil:
		if user, err = parse(body); err != nil {
			return nil, agent.Wrap(err, agent.CodeInvalid, "%s is no table of models", path)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, agent.Wrap(err, agent.CodeInvalid, "%s cannot be read", path)
	}
	own, err := parse(builtin)
	if err != nil {
		return nil, fmt.Errorf("the built-in table of models: %w", err)
	}
	settings.Match = "*"
	return &Table{Providers: user.Providers, rows: append(append(user.Models, settings), own.Models...)}, nil
}

func parse(body []byte) (file, error) {
	var f file
	if err := yaml.UnmarshalWithOptions(body, &f, yaml.DisallowUnknownField()); err != nil {
		return f, err
	}
	for i, r := range f.Models {
		switch {
		case strings.TrimSpace(r.Match) == "":
			return f, fmt.Errorf("row %d has no match: name a model, * stands for anything", i+1)
		case r.Window < 0, r.MaxOutput < 0, r.Price != nil && (r.Price.Input < 0 || r.Price.Cached < 0 || r.Price.Output < 0):
			return f, fmt.Errorf("row %d (%s) has a negative number", i+1, r.Match)
		case r.Window > 0 && r.Window < 256:
			return f, fmt.Errorf("row %d (%s) has a window of %d tokens: 256 is the least", i+1, r.Match, r.Window)
		}
	}
	for name, p := range f.Providers {
		u, err := url.Parse(p.BaseURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return f, fmt.Errorf("provider %s has no baseUrl of the form http(s)://host/path", name)
		}
		if name == "" || strings.ContainsAny(name, "@ \t") {
			return f, fmt.Errorf("provider %q: a name has no @ and no space", name)
		}
	}
	return f, nil
}

// Lookup returns what is known of a model; fields that are not are zero.
func (t *Table) Lookup(model string) agent.ModelInfo {
	if known, ok := t.known.Load(model); ok {
		return known.(agent.ModelInfo)
	}
	var info agent.ModelInfo
	priced, sees := false, (*bool)(nil)
	for _, r := range t.rows {
		if !matches(r.Match, model) {
			continue
		}
		if info.Window == 0 {
			info.Window = r.Window
		}
		if info.MaxOutput == 0 {
			info.MaxOutput = r.MaxOutput
		}
		if sees == nil && r.Images != nil {
			sees, info.Images = r.Images, *r.Images
		}
		if !priced && r.Price != nil {
			priced = true
			info.Price = agent.Price{Input: r.Price.Input, Cached: r.Price.Cached, Output: r.Price.Output}
		}
	}
	t.known.Store(model, info)
	return info
}

// matches compares a pattern with a model's name, with and without its maker's.
func matches(pattern, model string) bool {
	pattern, model = strings.ToLower(strings.TrimSpace(pattern)), strings.ToLower(model)
	model, _, _ = strings.Cut(model, "@") // the provider
	return glob(pattern, model) || glob(pattern, model[strings.LastIndexByte(model, '/')+1:])
}

// glob compares with a pattern in which * stands for anything, slashes included.
func glob(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}
