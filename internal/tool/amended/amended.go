// Package amended checks the arguments that a person gives a call in place of its model's.
package amended

import (
	"encoding/json"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/tool/schema"
)

// Check refuses, as CodeInvalid, arguments that no approval allows: those that the
// policies of the thread's agent deny, or that the schema of a built-in tool does not
// take. Only a worker knows other tools, links and the disk: it checks again before it runs.
func Check(t agent.Thread, name string, args json.RawMessage) error {
	spec := agent.ToolSpec{Name: name}
	for _, known := range tool.Builtin(tool.Options{TavilyKey: "any"}) {
		if known.Spec().Name == name {
			spec = known.Spec()
		}
	}
	if len(spec.Schema) > 0 {
		s, err := schema.Compile(spec.Schema, true)
		if err != nil {
			return err
		}
		_, problem, notJSON := s.Check(args)
		if notJSON != nil {
			problem = notJSON.Error()
		}
		if problem != "" {
			return agent.Errorf(agent.CodeInvalid, "the arguments for %s are not valid: %s", name, problem)
		}
	}
	for _, policy := range append(slices.Clone(t.Config.Bounds), t.Config.Approval) {
		if tool.Gate(spec, agent.ToolRun{Workdir: t.Workdir, Args: args}, policy) == agent.GateDeny {
			return agent.Errorf(agent.CodeInvalid, "the policy of agent %s denies %s with these arguments, and no approval changes that", t.Config.Name, name)
		}
	}
	return nil
}
