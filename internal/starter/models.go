package starter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/template"
)

type modelsCmd struct{}

// modelInfo is a model as printed.
type modelInfo struct {
	// Model is what the provider is asked for.
	Model string `json:"model"`
	// Provider is its name in models.yaml, "" for the one of the settings; URL is its
	// address and URLSource what sets that.
	Provider  string `json:"provider"`
	URL       string `json:"url,omitempty"`
	URLSource string `json:"urlSource,omitempty"`
	// Sources are the settings and the agents' files that name the model.
	Sources []string `json:"sources"`
	Default bool     `json:"default"`
	Demo    bool     `json:"demo"`
	// Answers says that it answered a call of a few tokens just now; otherwise
	// Problem says why not, and ToDo what can be done.
	Answers bool   `json:"answers"`
	Problem string `json:"problem,omitempty"`
	ToDo    string `json:"todo,omitempty"`
	TookMs  int64  `json:"tookMs"`
}

// providerInfo is a provider as printed: its key never is.
type providerInfo struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	Source string `json:"source"`
	KeyEnv string `json:"keyEnv,omitempty"`
	KeySet bool   `json:"keySet"`
	// Available are the models that it lists; few servers list none.
	Available []string `json:"available"`
	// Unused says that no setting and no agent names a model of it.
	Unused bool `json:"unused,omitempty"`
}

// probe is what models and doctor found.
type probe struct {
	Models    []*modelInfo   `json:"models"`
	Providers []providerInfo `json:"providers"`
	// Problems are those that no single model stands for.
	Problems []boot.Problem `json:"problems"`
}

func (p probe) failed() bool {
	return len(p.Problems) > 0 || slices.ContainsFunc(p.Models, func(m *modelInfo) bool { return !m.Answers })
}

// Run asks each model that a worker with these settings would use for a word.
func (modelsCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	p := a.probeModels(ctx, cfg)
	if a.json {
		err = a.printJSON(p)
	} else {
		a.printModels(p)
	}
	if p.failed() && err == nil {
		return ended(exitFailed)
	}
	return err
}

func (a *app) printModels(p probe) {
	for _, m := range p.Models {
		state := "answers"
		if !m.Answers {
			state = "DOES NOT ANSWER: " + m.Problem + "; to do: " + m.ToDo
		}
		a.print("%s  (%s)  %s", clean(m.title()), clean(strings.Join(m.Sources, "; ")), clean(state))
	}
	for _, q := range p.Problems {
		a.print("NOT OK  %s: %s; to do: %s", clean(q.Where), clean(q.What), clean(q.ToDo))
	}
	for _, one := range p.Providers {
		broken := slices.ContainsFunc(p.Problems, func(q boot.Problem) bool { return q.Where == one.Source })
		if one.Unused && !broken {
			a.print("\n%s answers; no model names it yet [%s]", clean(titleOf(one.Name, one.URL)), clean(one.Source))
		}
		if len(one.Available) > 0 {
			a.print("\n%s has: %s", clean(titleOf(one.Name, one.URL)), oneLine(strings.Join(one.Available, ", "), 2000))
		}
	}
	if slices.ContainsFunc(p.Models, func(m *modelInfo) bool { return m.Demo }) {
		a.progress("the scripted demo model answers where no provider is named; set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) in the worker's environment for a real one")
	}
}

// title is the model and where it is asked.
func (m *modelInfo) title() string {
	if m.Demo {
		return m.Model + "  built in (scripted)"
	}
	if m.URL == "" {
		return m.Model
	}
	return m.Model + " at " + titleOf(m.Provider, m.URL) + " [" + m.URLSource + "]"
}

func titleOf(provider, url string) string {
	if provider == "" {
		return url
	}
	return url + " (provider " + provider + ")"
}

// probeModels finds the models that a worker with these settings would ask, and asks
// them, each at the provider that it would ask.
func (a *app) probeModels(ctx context.Context, cfg config.Config) probe {
	p := probe{Models: []*modelInfo{}, Providers: []providerInfo{}, Problems: []boot.Problem{}}
	known, err := boot.LoadModels(cfg, a.lookup)
	if err != nil {
		p.Problems = append(p.Problems, boot.Problem{Where: "models", What: err.Error(), ToDo: "until then no worker starts, and one that runs goes on with what it read when it started"})
		return p
	}
	p.Problems = append(p.Problems, known.Problems()...)
	for _, u := range a.uses(cfg) {
		p.add(known, u)
	}
	p.ask(ctx, known)
	return p
}

// use is a model and a provider that are named together.
type use struct{ model, provider, source string }

// uses lists the models that settings and agents name. An agent that is called by
// another one takes what its file leaves out from its caller, which is the agent of
// main threads here.
func (a *app) uses(cfg config.Config) []use {
	list := []use{{cfg.Model, "", cfg.Source(config.Model)}}
	catalog, _ := template.Load(cfg.Workspace, cfg.Home)
	caller, _ := catalog.Get(mainAgent)
	for _, c := range catalog.List() {
		if c.Model == "" && c.Provider == "" {
			continue
		}
		source := "agent " + c.Name + ", " + catalog.ModelPlace(c.Name)
		list = append(list, use{or(c.Model, cfg.Model), c.Provider, source})
		called := use{or(c.Model, or(caller.Model, cfg.Model)), or(c.Provider, caller.Provider), source + ", called by " + caller.Name}
		if called.model != list[len(list)-1].model || called.provider != c.Provider {
			list = append(list, called)
		}
	}
	for _, name := range cfg.FallbackModels {
		list = append(list, use{name, "", "fallback, " + cfg.Source(config.FallbackModels)})
	}
	return list
}

// mainAgent answers on main threads (activities.DefaultAgent).
const mainAgent = "orchestrator"

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// add notes a use; what is asked alike is one model.
func (p *probe) add(known *boot.Models, u use) {
	at, err := known.Table.Route(u.model, u.provider)
	if err != nil {
		name := u.model
		if u.provider != "" {
			name += " of provider " + u.provider
		}
		m := &modelInfo{Model: name, Provider: u.provider, Sources: []string{u.source}, Problem: err.Error(), ToDo: "see " + u.source}
		var unknown *agent.UnknownProvider
		if errors.As(err, &unknown) {
			m.Problem, m.ToDo = unknown.What(), unknown.ToDo()
		}
		p.Models = append(p.Models, m)
		return
	}
	for _, m := range p.Models {
		if m.Model == at.Model && m.Provider == at.Provider && m.Sources != nil && m.Problem == "" {
			if !slices.Contains(m.Sources, u.source) {
				m.Sources = append(m.Sources, u.source)
			}
			return
		}
	}
	one := known.Provider(at.Provider)
	m := &modelInfo{Model: at.Model, Provider: at.Provider, URL: agent.MaskURL(one.URL), URLSource: one.Source, Sources: []string{u.source}, Default: len(p.Models) == 0}
	if one.URL == "" {
		m.Model, m.URLSource, m.Demo, m.Answers = "demo", "", true, true
		m.Sources = []string{"neither OPENAI_API_KEY nor OPENAI_BASE_URL is set"}
		if slices.ContainsFunc(p.Models, func(m *modelInfo) bool { return m.Demo }) {
			return
		}
	}
	p.Models = append(p.Models, m)
}

// ask asks providers for their lists, then the models for a word.
func (p *probe) ask(ctx context.Context, known *boot.Models) {
	model, err := known.Client(nil, nil)
	if err != nil {
		p.Problems = append(p.Problems, boot.Problem{Where: "models", What: err.Error(), ToDo: "mend the settings of that provider"})
		return
	}
	var wg sync.WaitGroup
	names := []string{""}
	for name := range known.Table.Providers {
		names = append(names, name)
	}
	slices.Sort(names)
	lists, failed := make([][]string, len(names)), make([]*agent.ModelError, len(names))
	for i, name := range names {
		wg.Go(func() { lists[i], failed[i] = availableModels(ctx, known.Provider(name)) })
	}
	wg.Wait()
	available := map[string][]string{}
	for i, name := range names {
		available[name] = lists[i]
		if one := known.Provider(name); one.URL != "" {
			unused := name != "" && !slices.ContainsFunc(p.Models, func(m *modelInfo) bool { return m.Provider == name })
			p.Providers = append(p.Providers, providerInfo{name, agent.MaskURL(one.URL), one.Source, one.KeyEnv, one.Key.IsSet(), append([]string{}, lists[i]...), unused})
			if unused && failed[i] != nil {
				p.Problems = append(p.Problems, boot.Problem{Where: one.Source, What: "provider " + name + ", which no model names, does not answer at " + agent.MaskURL(one.URL) + ": " + failed[i].Message, ToDo: failed[i].Remedy()})
			}
		}
	}
	for _, m := range p.Models {
		if m.Answers || m.Problem != "" {
			continue
		}
		wg.Go(func() { m.ask(ctx, model, known.Provider(m.Provider), available[m.Provider]) })
	}
	wg.Wait()
}
