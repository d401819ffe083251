// Package models is the table of what is known of models: context windows and
// prices. It is data, in models.yaml; a file of the same form in Spool's home comes
// before it.
package models

import (
	"cmp"
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
)

// File is the name of the user's table in Spool's home.
const File = "models.yaml"

//go:embed models.yaml
var builtin []byte

// Row is what is stated of the models that match a pattern.
type Row struct {
	// Match is a model's name, in which * stands for anything.
	Match     string       `yaml:"match"`
	Window    int64        `yaml:"window"`
	MaxOutput int64        `yaml:"maxOutput"`
	Price     *agent.Price `yaml:"price"`
	// Images says whether it takes images.
	Images *bool `yaml:"images"`
}

// Provider is a server of models beside the one of the settings.
type Provider struct {
	// BaseURL ends before /chat/completions.
	BaseURL string `yaml:"baseUrl"`
	// APIKeyEnv names the environment variable that holds its key; "" = no key.
	APIKeyEnv string `yaml:"apiKeyEnv"`
	// Source is where it stands, FILE:LINE.
	Source string `yaml:"-"`
}

type content struct {
	Models    []Row               `yaml:"models"`
	Providers map[string]Provider `yaml:"providers"`
}

// Table answers by its rows, from the top. Safe for concurrent use. It is what the
// files said when it was loaded.
type Table struct {
	// Providers are those of the user, by name.
	Providers map[string]Provider

	rows  []Row
	known sync.Map // of lookups
}

// Load reads the user's table in home, if there is one, then takes what settings or a
// program state, then the built-in table. Its error names the file and the line, and
// shows nothing of the file, which may hold a key.
func Load(home string, stated ...Row) (*Table, error) {
	for _, r := range stated {
		if problem := r.problem(); problem != "" {
			return nil, agent.Errorf(agent.CodeInvalid, "a row of models %s", problem)
		}
	}
	var user content
	file := filepath.Join(home, File)
	switch body, err := os.ReadFile(file); {
	case home != "" && err == nil:
		if body, err = agent.WrittenText(body); err != nil {
			return nil, wrong(file, 0, "%v", err)
		}
		if user, err = parse(file, body); err != nil {
			return nil, err
		}
	case home != "" && !errors.Is(err, fs.ErrNotExist):
		return nil, agent.Wrap(err, agent.CodeInvalid, "%s cannot be read", file)
	}
	own, err := parse("the built-in table of models", builtin)
	if err != nil {
		return nil, err
	}
	return &Table{Providers: user.Providers, rows: slices.Concat(user.Models, stated, own.Models)}, nil
}

// Route says where a model is asked: see agent.RouteModel.
func (t *Table) Route(model, provider string) (agent.ModelRoute, error) {
	return agent.RouteModel(model, provider, t.Providers)
}

// Lookup returns what is known of a model; fields that are not are zero.
func (t *Table) Lookup(model string) agent.ModelInfo {
	if known, ok := t.known.Load(model); ok {
		return known.(agent.ModelInfo)
	}
	name := model
	if at, err := t.Route(model, ""); err == nil {
		name = at.Model
	}
	var info agent.ModelInfo
	var price *agent.Price
	var images *bool
	for _, r := range t.rows {
		if matches(r.Match, name) {
			info.Window, info.MaxOutput = cmp.Or(info.Window, r.Window), cmp.Or(info.MaxOutput, r.MaxOutput)
			price, images = cmp.Or(price, r.Price), cmp.Or(images, r.Images)
		}
	}
	if price != nil {
		info.Price = *price
	}
	if images != nil {
		info.Images, info.NoImages = *images, !*images
	}
	t.known.Store(model, info)
	return info
}

// matches compares a pattern with a model's name, with and without its maker's, and
// without the version behind an @.
func matches(pattern, model string) bool {
	pattern, model = strings.ToLower(strings.TrimSpace(pattern)), strings.ToLower(model)
	short := model[strings.LastIndexByte(model, '/')+1:]
	bare, _, _ := strings.Cut(short, "@")
	return glob(pattern, model) || glob(pattern, short) || bare != "" && glob(pattern, bare)
}

// glob compares with a pattern in which * stands for anything, slashes included.
func glob(pattern, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}
