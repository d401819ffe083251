package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

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
		to.Print("%s", terminal.Visible("a running worker uses "+k.String()))
	}
	for _, m := range p.Models {
		state := "answers"
		if !m.Answers {
			state = "DOES NOT ANSWER: " + m.Problem + "; to do: " + m.ToDo
		}
		to.Print("%s", terminal.Visible(m.title()+"  ("+strings.Join(m.Sources, "; ")+")  "+state))
	}
	for _, q := range p.Problems {
		to.Print("%s", terminal.Visible("NOT OK  "+q.Where+": "+q.What+"; to do: "+q.ToDo))
	}
	for _, one := range p.Providers {
		if len(one.Available) > 0 {
			to.Print("\n%s has: %s", terminal.Visible(titleOf(one.Name, one.URL)), terminal.OneLine(strings.Join(one.Available, ", "), 2000))
		}
	}
	if slices.ContainsFunc(p.Models, func(m *Model) bool { return m.Demo }) {
		to.Progress("the scripted demo model answers where no provider is named; set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) in the worker's environment for a real one")
	}
}

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

const (
	// probeTimeout bounds the question whether a model answers.
	probeTimeout = 30 * time.Second
	// listTimeout bounds the question which models a provider has.
	listTimeout = 10 * time.Second
)

// ask makes a call of a few tokens. A reply that was cut off at these is an answer.
func (m *Model) ask(ctx context.Context, model agent.Model, at boot.Provider, has []string) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	began, limit := time.Now(), 16
	_, err := model.Generate(ctx, agent.ModelRequest{
		Model: m.Model + "@" + at.Name, MaxTokens: &limit, Messages: []agent.Message{{Role: agent.RoleUser, Content: agent.Text("Say ok.")}},
	}, nil)
	m.TookMs = time.Since(began).Milliseconds()
	var e *agent.ModelError
	isModel := errors.As(err, &e)
	switch {
	case err == nil, isModel && e.Code == agent.ModelCutOff:
		m.Answers = true
	case ctx.Err() != nil:
		m.Problem, m.ToDo = "no answer within "+probeTimeout.String(), "see whether "+m.URL+" is up and is the right address ("+m.URLSource+")"
	case !isModel:
		m.Problem, m.ToDo = err.Error(), "see whether the provider is up"
	default:
		m.Problem, m.ToDo = e.Error(), m.advice(e, at, has)
	}
}

// advice says what to do, and in which setting.
func (m *Model) advice(e *agent.ModelError, at boot.Provider, has []string) string {
	if e.Code != agent.ModelUnknown && e.Code != agent.ModelBadRequest {
		return e.Remedy()
	}
	text := "check the model's name (" + strings.Join(m.Sources, "; ") + ")"
	switch {
	case len(has) == 0 && e.Code == agent.ModelUnknown:
		text += ", and " + at.Address() + ": it must end before /chat/completions, mostly in /v1"
	case len(has) > 0 && !slices.Contains(has, m.Model):
		text += "; the provider lists " + terminal.OneLine(strings.Join(has, ", "), 300)
	}
	return text
}

// available asks a provider for its models. Few servers have no list; one that does not
// answer, or refuses the key, is reported by the models that are asked there.
func available(ctx context.Context, at boot.Provider) []string {
	if at.URL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	base, query, _ := strings.Cut(at.URL, "?")
	address := strings.TrimSuffix(strings.TrimRight(base, "/"), "/chat/completions") + "/models?" + query
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil
	}
	if at.Key.IsSet() {
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(at.Key.Reveal()))
	}
	// A redirect would carry the key elsewhere.
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(r)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var doc struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&doc) != nil {
		return nil
	}
	var ids []string
	for _, m := range doc.Data {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}
