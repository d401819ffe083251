package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func ptr[T any](v T) *T { return &v }

func TestRow01_AssignParams(t *testing.T) {
	p, err := ParseAssignParams([]byte(`{"agent":"general","task":"do it","background":true}`))
	require.NoError(t, err)
	require.Equal(t, AssignParams{Agent: "general", Task: "do it", Background: true}, p)
	for _, bad := range []string{``, `{}`, `[]`, `{"agent":"x"}`, `{"task":"x"}`, `{"agent":"x","task":"  "}`, `{"agent":1,"task":"x"}`, `{"agent":"x","task":"y","extra":1}`} {
		_, err := ParseAssignParams([]byte(bad))
		require.Equal(t, CodeInvalid, CodeOf(err), bad)
	}
}

func TestRow03_DelegationPolicy(t *testing.T) {
	p := DelegationPolicy{MaxDepth: 2, EnabledAgents: map[string]bool{"off": false, "on": true}}
	require.True(t, p.Decide("on", 0).Allowed)
	require.True(t, p.Decide("not-mentioned", 1).Allowed)
	require.Contains(t, p.Decide("off", 0).Reason, "disabled")
	require.Contains(t, p.Decide("on", 2).Reason, "depth limit of 2")
	require.False(t, DelegationPolicy{}.Decide("on", 0).Allowed, "depth 0 disables delegation")
	list := []SpecialistAgentConfig{{Name: "off"}, {Name: "on"}}
	require.Equal(t, []SpecialistAgentConfig{{Name: "on"}}, p.Enabled(list, 0))
	require.Empty(t, p.Enabled(list, 2))
}

func TestRow05_FactoryPrecedence(t *testing.T) {
	parent := SpecialistAgentConfig{Model: "parent", Provider: "parent", Temperature: ptr(0.1), TopP: ptr(0.1), MaxTokens: ptr(1), Approval: map[string]string{"shell": "deny"}}
	current := SpecialistAgentConfig{Model: "current", Provider: "current", Temperature: ptr(0.2)}
	f := SpecialistAgentFactory{Current: current}
	c := f.Build(SpecialistAgentConfig{Name: "x", Model: "template", Approval: map[string]string{"shell": "auto", "ls": "ask"}}, parent, AssignParams{ShareContext: true})
	require.Equal(t, "template", c.Model)
	require.Empty(t, c.Provider, "a model is asked where it was named")
	require.InDelta(t, 0.2, *c.Temperature, 0)
	require.InDelta(t, 0.1, *c.TopP, 0)
	require.Equal(t, 1, *c.MaxTokens)
	require.Equal(t, DefaultSubAgentSteps, c.MaxSteps)
	require.True(t, c.ShareContext)
	require.Equal(t, map[string]string{"shell": "auto", "ls": "ask"}, c.Approval)
	require.Equal(t, []map[string]string{{"shell": "deny"}}, c.Bounds, "a child is never allowed more than its parent")
	require.Equal(t, parent.Approval, f.Build(SpecialistAgentConfig{Name: "x"}, parent, AssignParams{}).Approval, "a child without a policy follows its parent's")
	require.Len(t, f.Build(SpecialistAgentConfig{Name: "y"}, c, AssignParams{}).Bounds, 2)
}

func TestRow07_ChildToolsAreAtMostTheParents(t *testing.T) {
	for _, c := range []struct{ want, allowed, out []string }{
		{nil, nil, nil},
		{nil, []string{"ls"}, []string{"ls"}},
		{[]string{"ls", "shell"}, nil, []string{"ls", "shell"}},
		{[]string{"ls", "shell"}, []string{"ls", "glob"}, []string{"ls"}},
		{[]string{"shell"}, []string{"ls"}, []string{}},
		{[]string{"mcp__github__*"}, []string{"mcp__github__read"}, []string{"mcp__github__read"}},
		{[]string{"mcp__github"}, []string{"mcp__github__*", "ls"}, []string{"mcp__github__*"}},
	} {
		require.Equal(t, c.out, IntersectTools(c.want, c.allowed), "%v ∩ %v", c.want, c.allowed)
	}
	require.False(t, MayUse([]string{}, "ls"), "an empty list admits nothing")
	require.True(t, MayUse(nil, "ls"))
}

// Row 5: for each field the template comes first, then the configuration in
// force, then the parent.
func TestRow05_PrecedencePerField(t *testing.T) {
	for name, f := range map[string]struct {
		set func(c *SpecialistAgentConfig, n int)
		get func(c SpecialistAgentConfig) any
	}{
		"model":       {func(c *SpecialistAgentConfig, n int) { c.Model = string(rune('0' + n)) }, func(c SpecialistAgentConfig) any { return c.Model }},
		"provider":    {func(c *SpecialistAgentConfig, n int) { c.Provider = string(rune('0' + n)) }, func(c SpecialistAgentConfig) any { return c.Provider }},
		"temperature": {func(c *SpecialistAgentConfig, n int) { c.Temperature = ptr(float64(n)) }, func(c SpecialistAgentConfig) any { return *c.Temperature }},
		"topP":        {func(c *SpecialistAgentConfig, n int) { c.TopP = ptr(float64(n)) }, func(c SpecialistAgentConfig) any { return *c.TopP }},
		"onDeny":      {func(c *SpecialistAgentConfig, n int) { c.OnDeny = string(rune('0' + n)) }, func(c SpecialistAgentConfig) any { return c.OnDeny }},
		"maxTokens":   {func(c *SpecialistAgentConfig, n int) { c.MaxTokens = ptr(n) }, func(c SpecialistAgentConfig) any { return *c.MaxTokens }},
	} {
		t.Run(name, func(t *testing.T) {
			value := func(n int) any { var c SpecialistAgentConfig; f.set(&c, n); return f.get(c) }
			var template, current, parent SpecialistAgentConfig
			f.set(&parent, 3)
			require.Equal(t, value(3), f.get(SpecialistAgentFactory{Current: current}.Build(template, parent, AssignParams{})), "the parent's")
			f.set(&current, 2)
			require.Equal(t, value(2), f.get(SpecialistAgentFactory{Current: current}.Build(template, parent, AssignParams{})), "the configuration's")
			f.set(&template, 1)
			require.Equal(t, value(1), f.get(SpecialistAgentFactory{Current: current}.Build(template, parent, AssignParams{})), "the template's")
		})
	}
}
