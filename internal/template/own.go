package template

import (
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// InCode is the Source of agents that a program brings.
const InCode = "in code"

// Agents are those of a worker.
type Agents interface {
	Get(name string) (agent.SpecialistAgentConfig, bool)
	List() []agent.SpecialistAgentConfig
}

// With is a catalog with agents in code, which come before those of the same name.
func With(catalog Agents, own []agent.SpecialistAgentConfig) (Agents, error) {
	if len(own) == 0 {
		return catalog, nil
	}
	all := withOwn{catalog, map[string]agent.SpecialistAgentConfig{}}
	for _, c := range own {
		if err := agent.CheckAgentType(c.Name); err != nil {
			return nil, err
		}
		problem := ""
		if strings.TrimSpace(c.SystemPrompt) == "" {
			problem = "it has no SystemPrompt"
		}
		if _, double := all.own[c.Name]; double {
			problem = "there are two of this name"
		}
		for rule, gate := range c.Approval {
			if p := tool.CheckRule(rule, gate); p != "" {
				problem = p
			}
		}
		if c.OnDeny != "" && c.OnDeny != agent.OnDenyEnd && c.OnDeny != agent.OnDenyContinue {
			problem = "OnDeny is " + c.OnDeny + ": use " + agent.OnDenyEnd + " or " + agent.OnDenyContinue
		}
		if problem != "" {
			return nil, agent.Errorf(agent.CodeInvalid, "agent %s in code: %s", c.Name, problem)
		}
		c.Source = InCode
		all.own[c.Name] = clone(c)
	}
	return all, nil
}

type withOwn struct {
	Agents
	own map[string]agent.SpecialistAgentConfig
}

// Get returns an agent.
func (a withOwn) Get(name string) (agent.SpecialistAgentConfig, bool) {
	if c, ok := a.own[name]; ok {
		return clone(c), true
	}
	return a.Agents.Get(name)
}

// List returns all agents in the order of their names.
func (a withOwn) List() []agent.SpecialistAgentConfig {
	list := slices.DeleteFunc(a.Agents.List(), func(c agent.SpecialistAgentConfig) bool { _, ok := a.own[c.Name]; return ok })
	for _, c := range a.own {
		list = append(list, clone(c))
	}
	slices.SortFunc(list, func(a, b agent.SpecialistAgentConfig) int { return strings.Compare(a.Name, b.Name) })
	return list
}
