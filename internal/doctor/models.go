package doctor

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/terminal"
)

// Model is a model as printed.
type Model struct {
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

// Provider is a provider as printed: its key never is.
type Provider struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	Source string `json:"source"`
	KeyEnv string `json:"keyEnv,omitempty"`
	KeySet bool   `json:"keySet"`
	// Available are the models that it lists; few servers list none.
	Available []string `json:"available"`
}

// Models is what was found out about models and their providers.
type Models struct {
	Models    []*Model   `json:"models"`
	Providers []Provider `json:"providers"`
	// Problems are those that no single model stands for.
	Problems []boot.Problem `json:"problems"`
	// Workers are what those that run now answer with; the rest is about one that is
	// started here.
	Workers []boot.Kind `json:"workers,omitempty"`
}

// Failed reports whether a model does not answer, or something else is wrong.
func (p Models) Failed() bool {
	return len(p.Problems) > 0 || slices.ContainsFunc(p.Models, func(m *Model) bool { return !m.Answers })
}

// Print prints models, problems and providers for people.
func (p Models) Print(to *printer.Printer) {
	for _, k := range p.Workers {
		to.Print("%s", terminal.Clean("a running worker uses "+k.String()))
	}
	for _, m := range p.Models {
		state := "answers"
		if !m.Answers {
			state = "DOES NOT ANSWER: " + m.Problem + "; to do: " + m.ToDo
		}
		to.Print("%s", terminal.Clean(m.title()+"  ("+strings.Join(m.Sources, "; ")+")  "+state))
	}
	for _, q := range p.Problems {
		to.Print("%s", terminal.Clean("NOT OK  "+q.Where+": "+q.What+"; to do: "+q.ToDo))
	}
	for _, one := range p.Providers {
		if len(one.Available) > 0 {
			to.Print("\n%s has: %s", terminal.Clean(titleOf(one.Name, one.URL)), terminal.OneLine(strings.Join(one.Available, ", "), 2000))
		}
	}
	if slices.ContainsFunc(p.Models, func(m *Model) bool { return m.Demo }) {
		to.Progress("the scripted demo model answers where no provider is named; set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) in the worker's environment for a real one")
	}
}

// title is the model and where it is asked.
func (m *Model) title() string {
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

// Models finds the models that a worker with these settings would ask, and asks
// them, each at the provider that it would ask.
func (d *Doctor) Models(ctx context.Context) Models {
	p := Models{Models: []*Model{}, Providers: []Provider{}, Problems: []boot.Problem{}}
	known, err := boot.LoadModels(d.Config, d.Env)
	if err != nil {
		p.Problems = append(p.Problems, boot.Problem{Where: "models", What: err.Error(), ToDo: "until then no worker starts, and one that runs goes on with what it read when it started"})
		return p
	}
	p.Problems = append(p.Problems, known.Problems()...)
	for _, u := range uses(d.Config) {
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
func uses(cfg config.Config) []use {
	list := []use{{cfg.Model, "", cfg.Source(config.Model)}}
	catalog, _ := template.Load(boot.Folders(cfg))
	caller, _ := catalog.Get(mainAgent)
	for _, c := range catalog.List() {
		if c.Model == "" && c.Provider == "" {
			continue
		}
		source := "agent " + c.Name + ", " + catalog.ModelPlace(c.Name)
		list = append(list, use{cmp.Or(c.Model, cfg.Model), c.Provider, source})
		called := use{cmp.Or(c.Model, cmp.Or(caller.Model, cfg.Model)), cmp.Or(c.Provider, caller.Provider), source + ", called by " + caller.Name}
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

// add notes a use; what is asked alike is one model.
func (p *Models) add(known *boot.Models, u use) {
	at, err := known.Table.Route(u.model, u.provider)
	if err != nil {
		m := &Model{Model: u.model, Provider: u.provider, Sources: []string{u.source}, Problem: err.Error(), ToDo: "see " + u.source}
		if u.provider != "" {
			m.Model += " of provider " + u.provider
		}
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
	m := &Model{Model: at.Model, Provider: at.Provider, URL: agent.MaskURL(one.URL), URLSource: one.Source, Sources: []string{u.source}, Default: len(p.Models) == 0}
	if one.URL == "" {
		m.Model, m.URLSource, m.Demo, m.Answers = "demo", "", true, true
		m.Sources = []string{"neither OPENAI_API_KEY nor OPENAI_BASE_URL is set"}
		if slices.ContainsFunc(p.Models, func(m *Model) bool { return m.Demo }) {
			return
		}
	}
	p.Models = append(p.Models, m)
}

// ask asks providers for their lists, then the models for a word.
func (p *Models) ask(ctx context.Context, known *boot.Models) {
	model, err := known.Client(nil, nil)
	if err != nil {
		p.Problems = append(p.Problems, boot.Problem{Where: "models", What: err.Error(), ToDo: "mend the settings of that provider"})
		return
	}
	var wg sync.WaitGroup
	names := append([]string{""}, slices.Sorted(maps.Keys(known.Table.Providers))...)
	lists := make([][]string, len(names))
	for i, name := range names {
		wg.Go(func() { lists[i] = available(ctx, known.Provider(name)) })
	}
	wg.Wait()
	has := map[string][]string{}
	for i, name := range names {
		has[name] = lists[i]
		if one := known.Provider(name); one.URL != "" {
			p.Providers = append(p.Providers, Provider{name, agent.MaskURL(one.URL), one.Source, one.KeyEnv, one.Key.IsSet(), append([]string{}, lists[i]...)})
		}
	}
	for _, m := range p.Models {
		if m.Answers || m.Problem != "" {
			continue
		}
		wg.Go(func() { m.ask(ctx, model, known.Provider(m.Provider), has[m.Provider]) })
	}
	wg.Wait()
}
