package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/terminal"
)

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
