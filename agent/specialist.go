package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AssignParams are the arguments of assign_task.
type AssignParams struct {
	Agent        string `json:"agent"`
	Task         string `json:"task"`
	Description  string `json:"description,omitempty"`
	Resume       string `json:"resume,omitempty"`
	Background   bool   `json:"background,omitempty"`
	ShareContext bool   `json:"shareContext,omitempty"`
}

// ParseAssignParams reads and checks the arguments of a call.
func ParseAssignParams(args json.RawMessage) (AssignParams, error) {
	var p AssignParams
	if err := strict(args, &p); err != nil {
		return p, Errorf(CodeInvalid, "assign_task: %v; it takes agent, task and optionally description, resume, background, shareContext", err)
	}
	if p.Agent == "" || strings.TrimSpace(p.Task) == "" {
		return p, Errorf(CodeInvalid, "assign_task needs both agent and task")
	}
	return p, nil
}

// DelegationPolicy says who may delegate to whom, and how much. The zero value
// allows nothing: MaxDepth 0 disables delegation.
type DelegationPolicy struct {
	// EnabledAgents maps agent types to false to disable them; an agent that is
	// not mentioned is allowed.
	EnabledAgents map[string]bool
	// MaxDepth is how deep sub-agents may nest below the main thread.
	MaxDepth int
	// MaxFanOut bounds the open children of one thread.
	MaxFanOut int
	// The budgets of a whole tree of agents run from one message of a person on
	// the root thread to the next; 0 = no limit. MaxDescendants bounds the
	// sub-agents made, MaxTokens and MaxPrice (US dollars) the use of models,
	// MaxTime that of models and tools; waiting for people does not count.
	MaxDescendants int
	MaxTokens      int64
	MaxPrice       float64
	MaxTime        time.Duration
}

// DefaultDelegationPolicy is used where nothing else is configured.
func DefaultDelegationPolicy() DelegationPolicy {
	return DelegationPolicy{MaxDepth: 3, MaxFanOut: 8, MaxDescendants: 100}
}

// PolicyDecision is the answer of a policy.
type PolicyDecision struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"`
}

// Decide says whether a thread at a depth may delegate to an agent type.
func (p DelegationPolicy) Decide(agentType string, depth int) PolicyDecision {
	if p.MaxDepth <= 0 {
		return PolicyDecision{Reason: "delegation is disabled (depth limit 0)"}
	}
	if depth >= p.MaxDepth {
		return PolicyDecision{Reason: fmt.Sprintf("the depth limit of %d is reached: this agent is at depth %d and may not delegate further", p.MaxDepth, depth)}
	}
	if on, mentioned := p.EnabledAgents[agentType]; mentioned && !on {
		return PolicyDecision{Reason: fmt.Sprintf("agent %q is disabled by configuration", agentType)}
	}
	return PolicyDecision{Allowed: true}
}

// Enabled lists the agents of a catalog that the policy lets a thread at a depth use.
func (p DelegationPolicy) Enabled(agents []SpecialistAgentConfig, depth int) []SpecialistAgentConfig {
	var out []SpecialistAgentConfig
	for _, a := range agents {
		if p.Decide(a.Name, depth).Allowed {
			out = append(out, a)
		}
	}
	return out
}

// SpecialistAgentFactory makes the configuration a sub-agent runs with.
type SpecialistAgentFactory struct {
	// Current holds the values in force where a template has none.
	Current SpecialistAgentConfig
}

// Build merges, field by field, the template, then the current configuration,
// then the parent's. Model and provider are one field: a model is asked where it was
// named. A child's tools are at most its parent's.
func (f SpecialistAgentFactory) Build(template, parent SpecialistAgentConfig, params AssignParams) SpecialistAgentConfig {
	c := template
	for _, from := range []SpecialistAgentConfig{f.Current, parent} {
		if c.Model == "" && c.Provider == "" {
			c.Model, c.Provider = from.Model, from.Provider
		}
	}
	c.Temperature = cmp.Or(c.Temperature, f.Current.Temperature, parent.Temperature)
	c.TopP = cmp.Or(c.TopP, f.Current.TopP, parent.TopP)
	c.MaxTokens = cmp.Or(c.MaxTokens, f.Current.MaxTokens, parent.MaxTokens)
	c.MaxSteps = cmp.Or(c.MaxSteps, DefaultSubAgentSteps)
	c.ShareContext = c.ShareContext || params.ShareContext
	c.Tools = IntersectTools(c.Tools, parent.Tools)
	c.Unagreed = c.Unagreed || parent.Unagreed
	c.Bounds = append(slices.Concat(c.Bounds, parent.Bounds), parent.Approval)
	if c.Approval == nil {
		c.Approval = parent.Approval
	}
	c.OnDeny = cmp.Or(c.OnDeny, f.Current.OnDeny, parent.OnDeny)
	return c
}

const (
	// DefaultSubAgentSteps bounds the model calls of a sub-agent's turn.
	DefaultSubAgentSteps = 100
	// NoStepLimit is stated by a template that wants none; 0 is not stated.
	NoStepLimit = -1
)

// IntersectTools returns the list of tools that both lists admit, in the terms
// of MayUse.
func IntersectTools(want, allowed []string) []string {
	switch {
	case want == nil:
		return slices.Clone(allowed)
	case allowed == nil:
		return slices.Clone(want)
	}
	out := []string{}
	add := func(names, by []string) {
		for _, n := range names {
			if MayUse(by, n) && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	add(want, allowed)
	add(allowed, want) // a narrower pattern of the other list
	return out
}

// MayUse reports whether a list of tools admits name. A nil list admits all, an
// empty one none; an entry may end in * as in mcp__github__*, and mcp__github
// alone means all tools of that server.
func MayUse(tools []string, name string) bool {
	if tools == nil {
		return true
	}
	for _, t := range tools {
		prefix, pattern := strings.CutSuffix(t, "*")
		switch {
		case t == name, pattern && strings.HasPrefix(name, prefix):
			return true
		case strings.HasPrefix(t, "mcp__") && strings.Count(t, "__") == 1 && strings.HasPrefix(name, t+"__"):
			return true
		}
	}
	return false
}
