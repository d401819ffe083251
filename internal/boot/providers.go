package boot

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/httplog"
	"github.com/spool-agents/spool/internal/llm"
	"github.com/spool-agents/spool/internal/llm/openai"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/models"
	"github.com/spool-agents/spool/memory"
)

// Provider is a server of models as settings and the user's table have it.
type Provider struct {
	// Name is its name in the table, "" for the one of the settings.
	Name string
	// URL is its base URL, which may hold secrets; "" is the scripted demo model.
	URL string
	// Source says what sets the URL: FILE:LINE, or a setting and where it comes from.
	Source string
	// KeyEnv is the environment variable of its key; "" = it needs none.
	KeyEnv string
	Key    config.Secret
}

// named says which provider of the table names something, "" for the one of the settings.
func (p Provider) named() string {
	if p.Name == "" {
		return ""
	}
	return ", which provider " + p.Name + " (" + p.Source + ") names"
}

// KeyOrigin says where its key comes from, or should.
func (p Provider) KeyOrigin() string {
	switch {
	case p.KeyEnv == "":
		return "no key is sent: provider " + p.Name + " of " + p.Source + " names no apiKeyEnv"
	case !p.Key.IsSet():
		return "no key is sent: " + p.KeyEnv + p.named() + " is not set in the worker's environment"
	}
	return "the key is the one of " + p.KeyEnv + p.named()
}

// Address names what sets its URL.
func (p Provider) Address() string {
	if p.Name == "" {
		return "OPENAI_BASE_URL (" + p.Source + ")"
	}
	return "baseUrl of provider " + p.Name + " (" + p.Source + ")"
}

// Place is where its models are asked, for people.
func (p Provider) Place() agent.ModelPlace {
	at := agent.ModelPlace{Provider: p.Name, Address: p.Address(), KeyToDo: "check " + p.KeyEnv + p.named()}
	switch {
	case p.KeyEnv == "":
		at.KeyToDo = "name the variable of its key as apiKeyEnv of provider " + p.Name + " (" + p.Source + ")"
	case !p.Key.IsSet():
		at.KeyToDo = "set " + p.KeyEnv + " where the worker is started"
	}
	return at
}

// Models is what settings and the user's table say of models and their providers.
type Models struct {
	// Table is of one moment: what changes in the file later counts for the next one.
	Table *models.Table
	cfg   config.Config
	env   func(string) string
}

// LoadModels reads the table of models. It fails, with code invalid, where no worker
// starts: if the table cannot be used, or the model of the settings has no provider.
func LoadModels(cfg config.Config, env func(string) string) (*Models, error) {
	state := models.Row{Match: "*", Window: cfg.ContextWindow}
	if p := cfg.Price; p != (agent.Price{}) {
		state.Price = &p
	} else if cfg.Demo() {
		state.Price = &agent.Price{} // the scripted model costs nothing
	}
	table, err := models.Load(cfg.Home, state)
	if err != nil {
		return nil, err
	}
	m := &Models{Table: table, cfg: cfg, env: env}
	if err := m.Routable(cfg.Model, ""); err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "%s (from %s)", config.Model, cfg.Source(config.Model))
	}
	return m, nil
}

// Routable says what is wrong with a model and a provider that are named together.
func (m *Models) Routable(model, provider string) error {
	_, err := m.Table.Route(model, provider)
	return err
}

// Provider returns one by its name; "" is the one of the settings.
func (m *Models) Provider(name string) Provider {
	if name != "" {
		p := m.Table.Providers[name]
		out := Provider{Name: name, URL: p.BaseURL, Source: p.Source, KeyEnv: p.APIKeyEnv}
		if p.APIKeyEnv != "" {
			out.Key = config.NewSecret(m.env(p.APIKeyEnv))
		}
		return out
	}
	p := Provider{URL: m.cfg.OpenAIBaseURL, Source: m.cfg.Source(config.OpenAIBaseURL), KeyEnv: "OPENAI_API_KEY", Key: m.cfg.OpenAIKey}
	if p.URL == "" {
		p.Source = "default of OPENAI_BASE_URL"
		if !m.cfg.Demo() {
			p.URL = openai.DefaultBaseURL
		}
	}
	return p
}

// KeyVariables are the environment variables that hold keys of models and of tools:
// only workers need them.
func (m *Models) KeyVariables() []string {
	names := []string{"OPENAI_API_KEY", "TAVILY_API_KEY"}
	for _, p := range m.Table.Providers {
		if p.APIKeyEnv != "" {
			names = append(names, p.APIKeyEnv)
		}
	}
	return names
}

// Problem is a mistake that a worker can start with: where it stands, what it is,
// and what to do.
type Problem struct {
	Where string `json:"where"`
	What  string `json:"what"`
	ToDo  string `json:"todo"`
}

// String is one line: where, what, what to do.
func (p Problem) String() string { return p.Where + ": " + p.What + ": " + p.ToDo }

// Problems are the mistakes in settings and table; those of agents are in their
// catalog's Unrouted.
func (m *Models) Problems() (found []Problem) {
	for _, name := range slices.Sorted(maps.Keys(m.Table.Providers)) {
		if p := m.Provider(name); p.KeyEnv != "" && !p.Key.IsSet() {
			found = append(found, Problem{p.Source, fmt.Sprintf("provider %s has no key, as the environment has no %s", name, p.KeyEnv),
				"set it where the worker is started, or leave apiKeyEnv out if this provider needs no key"})
		}
	}
	for _, name := range m.cfg.FallbackModels {
		if err := m.Routable(name, ""); err != nil {
			found = append(found, Problem{config.FallbackModels + " (from " + m.cfg.Source(config.FallbackModels) + ")", err.Error(), "until then it takes over from no model"})
		}
	}
	return found
}

// Client makes the model: a client for each provider, each with a limiter of its
// own, as limits are per provider and key. store and log are for the log of what goes
// over the wire; without store there is none.
func (m *Models) Client(store memory.ConversationMemoryStore, log *slog.Logger) (agent.Model, error) {
	secrets := []string{m.cfg.OpenAIKey.Reveal(), m.cfg.TavilyKey.Reveal()}
	for name := range m.Table.Providers {
		secrets = append(secrets, m.Provider(name).Key.Reveal())
	}
	client := func(p Provider, model string) (agent.Model, error) {
		c := openai.Config{BaseURL: p.URL, APIKey: p.Key.Reveal(), Model: model, IdleTimeout: m.cfg.IdleTimeout}
		var wire *httplog.Log
		if m.cfg.HTTPLog && store != nil {
			wire = &httplog.Log{
				Home: m.cfg.Home, Threads: store, Secrets: secrets,
				Report: func(err error) { log.Warn("http log", "error", err) },
			}
			c.Transport = wire.Transport
		}
		made, err := openai.New(c)
		if err != nil {
			return nil, agent.Wrap(err, agent.CodeInvalid, "provider %s (%s)", p.Name, p.Source)
		}
		limited := llm.Placed(llm.Limited(made), p.Place(), p.KeyOrigin())
		if wire != nil {
			return wire.Model(limited), nil
		}
		return limited, nil
	}
	router := llm.Router{Default: noModel{}, Providers: map[string]agent.Model{}}
	if m.cfg.DemoModel {
		router.Default = script.Model{}
	}
	var err error
	if own := m.Provider(""); own.URL != "" {
		if router.Default, err = client(own, m.cfg.Model); err != nil {
			return nil, err
		}
	}
	for name := range m.Table.Providers {
		if router.Providers[name], err = client(m.Provider(name), ""); err != nil {
			return nil, err
		}
	}
	return router, nil
}
