package starter

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/template"
)

// probeTimeout bounds the question whether a model answers.
const probeTimeout = 30 * time.Second

type modelsCmd struct{}

// modelInfo is a model as printed.
type modelInfo struct {
	Model    string `json:"model"`
	Provider string `json:"provider"`
	// Source is the setting or the agent's file that names the model.
	Source  string `json:"source"`
	Default bool   `json:"default"`
	Demo    bool   `json:"demo"`
	// Answers says that it answered a call of a few tokens just now; otherwise
	// Problem says why not, and ToDo what can be done.
	Answers bool   `json:"answers"`
	Problem string `json:"problem,omitempty"`
	ToDo    string `json:"todo,omitempty"`
	TookMs  int64  `json:"tookMs"`
}

// Run asks each model that a worker with these settings would use for a word.
func (modelsCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	list := probeModels(ctx, cfg)
	available := availableModels(ctx, cfg)
	failed := false
	for _, m := range list {
		failed = failed || !m.Answers
	}
	if a.json {
		err = a.printJSON(map[string]any{"models": list, "available": append([]string{}, available...)})
	} else {
		for _, m := range list {
			state := "answers"
			if !m.Answers {
				state = "DOES NOT ANSWER: " + m.Problem + "; " + m.ToDo
			}
			a.print("%s  %s  (%s)  %s", clean(m.Model), clean(m.Provider), clean(m.Source), clean(state))
		}
		if len(available) > 0 {
			a.print("\nthe provider has: %s", oneLine(strings.Join(available, ", "), 2000))
		}
		if cfg.Demo() {
			a.progress("this is the scripted demo model; set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) in the worker's environment for a real one")
		}
	}
	if failed && err == nil {
		return ended(exitFailed)
	}
	return err
}

// probeModels lists the default model and those that agents name, and asks them.
func probeModels(ctx context.Context, cfg config.Config) []modelInfo {
	if cfg.Demo() {
		return []modelInfo{{Model: "demo", Provider: "built in (scripted)", Source: "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set", Default: true, Demo: true, Answers: true}}
	}
	provider := agent.MaskURL(cfg.OpenAIBaseURL)
	if provider == "" {
		provider = "https://api.openai.com/v1"
	}
	list := []modelInfo{{Model: cfg.Model, Provider: provider, Source: sourceOf(cfg, config.Model), Default: true}}
	catalog, _ := template.Load(cfg.Workspace, cfg.Home)
	for _, c := range catalog.List() {
		if c.Model != "" && !slices.ContainsFunc(list, func(m modelInfo) bool { return m.Model == c.Model }) {
			list = append(list, modelInfo{Model: c.Model, Provider: provider, Source: "agent " + c.Name + ", " + c.Source})
		}
	}
	for _, name := range cfg.FallbackModels {
		if !slices.ContainsFunc(list, func(m modelInfo) bool { return m.Model == name }) {
			list = append(list, modelInfo{Model: name, Provider: provider, Source: "fallback, " + sourceOf(cfg, config.FallbackModels)})
		}
	}
	model, err := boot.Model(cfg)
	var wg sync.WaitGroup
	for i := range list {
		if err != nil {
			list[i].Problem, list[i].ToDo = err.Error(), "mend the settings of the provider ("+sourceOf(cfg, config.OpenAIBaseURL)+")"
			continue
		}
		wg.Go(func() { list[i].ask(ctx, model, cfg) })
	}
	wg.Wait()
	return list
}

func sourceOf(cfg config.Config, name string) string {
	for _, s := range cfg.Explain() {
		if s.Name == name {
			return s.Source
		}
	}
	return "default"
}

// ask makes a call of a few tokens. A reply that was cut off at these is an answer.
func (m *modelInfo) ask(ctx context.Context, model agent.Model, cfg config.Config) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	began, limit := time.Now(), 16
	_, err := model.Generate(ctx, agent.ModelRequest{
		Model: m.Model, MaxTokens: &limit, Messages: []agent.Message{{Role: agent.RoleUser, Content: agent.Text("Say ok.")}},
	}, nil)
	m.TookMs = time.Since(began).Milliseconds()
	var e *agent.ModelError
	switch {
	case err == nil:
		m.Answers = true
		return
	case ctx.Err() != nil:
		m.Problem, m.ToDo = "no answer within "+probeTimeout.String(), "see whether the provider is up"
		return
	case !errors.As(err, &e):
		m.Problem, m.ToDo = err.Error(), "see whether the provider is up"
		return
	case e.Code == agent.ModelCutOff:
		m.Answers = true
		return
	}
	m.Problem = e.Error()
	switch e.Code {
	case agent.ModelAuth:
		m.ToDo = "check OPENAI_API_KEY (" + sourceOf(cfg, config.OpenAIKey) + ")"
	case agent.ModelUnreachable, agent.ModelBadResponse:
		m.ToDo = "check OPENAI_BASE_URL (" + sourceOf(cfg, config.OpenAIBaseURL) + ") and whether the provider is up"
	case agent.ModelRateLimited:
		m.ToDo = "wait, or raise the limit of the key at the provider"
	default:
		m.ToDo = "check SPOOL_MODEL (" + m.Source + ")"
	}
}

// availableModels asks the provider for its list; few servers have none, and
// then the list is empty.
func availableModels(ctx context.Context, cfg config.Config) []string {
	if cfg.Demo() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	base := cfg.OpenAIBaseURL
	if base == "" {
		base = "https://api.openai.com/v1"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/models", nil)
	if err != nil {
		return nil
	}
	if cfg.OpenAIKey.IsSet() {
		r.Header.Set("Authorization", "Bearer "+cfg.OpenAIKey.Reveal())
	}
	resp, err := http.DefaultClient.Do(r)
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
