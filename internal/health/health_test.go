package health

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

func get(t *testing.T, h http.Handler, path string) (int, Report) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	var r Report
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
	return w.Code, r
}

// A part that is missing is named; the program lives.
func TestReadyzNamesThePartThatIsMissing(t *testing.T) {
	h := Handler(New(Part{Name: "store", Check: func(context.Context) error { return errors.New("no route") }},
		Part{Name: "temporal", Check: func(context.Context) error { return nil }}), nil)
	code, r := get(t, h, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, Report{Parts: map[string]State{"store": {Problem: "no route"}, "temporal": {OK: true}}}, r)
	part, problem := r.Missing("temporal", "store")
	require.Equal(t, "store: no route", part+": "+problem)
	code, _ = get(t, h, "/livez")
	require.Equal(t, http.StatusOK, code)
}

// A check that hangs, whatever its context says, is bounded, not begun again, and
// hides no other part.
func TestACheckThatHangsIsBounded(t *testing.T) {
	var begun atomic.Int32
	hang := make(chan struct{})
	m := New(Part{Name: "store", Check: func(context.Context) error { begun.Add(1); <-hang; return nil }},
		Part{Name: "temporal", Check: func(context.Context) error { return nil }})
	for range 2 {
		r := m.Look()
		require.Equal(t, map[string]State{"store": {Problem: errSilent.Error()}, "temporal": {OK: true}}, r.Parts)
		m.last = Report{} // long ago
	}
	require.EqualValues(t, 1, begun.Load())
	close(hang)
	require.True(t, m.Look().Ready)
}

// What was found is used for a second: probes of many do not reach the store.
func TestManyProbesAreOneCheck(t *testing.T) {
	var checks atomic.Int32
	m := New(Part{Name: "store", Check: func(context.Context) error { checks.Add(1); return nil }})
	m.Look()
	first := m.at
	for m.Look(); m.at.Equal(first) && checks.Load() == 1; m.Look() {
	}
	require.Greater(t, m.at.Sub(first), fresh)
}

// model fails as it is told to.
type model struct{ err error }

func (m model) Generate(context.Context, agent.ModelRequest, func(agent.Delta)) (agent.ModelReply, error) {
	return agent.ModelReply{}, m.err
}

// A model is told of as last seen, and is no reason not to be ready.
func TestAModelIsToldOfAsLastSeen(t *testing.T) {
	for name, c := range map[string]struct {
		err error
		ok  bool
	}{
		"answers":      {nil, true},
		"is away":      {&agent.ModelError{Code: "unavailable", Retryable: true, Message: "502"}, false},
		"wants a key":  {&agent.ModelError{Code: agent.ModelAuth, Message: "401"}, false},
		"refuses this": {&agent.ModelError{Code: agent.ModelContextTooLong, Message: "too long"}, true},
		"was stopped":  {context.Canceled, true},
		"not called":   {&agent.ModelError{Code: "rate_limited", Retryable: true, NotCalled: true}, true},
	} {
		m := &Model{Model: model{c.err}}
		_, err := m.Generate(t.Context(), agent.ModelRequest{}, nil)
		require.Equal(t, c.err, err, name)
		r := New(m.Part()).Look()
		require.True(t, r.Ready, name)
		require.Equal(t, c.ok, r.Parts[ModelPart].OK, name)
	}
}
