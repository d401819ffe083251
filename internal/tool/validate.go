package tool

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/schema"
)

// validator checks arguments against a tool's schema.
type validator struct {
	name   string
	schema *schema.Schema // nil accepts every object
}

func newValidator(spec agent.ToolSpec) (*validator, error) {
	v := &validator{name: spec.Name}
	if len(bytes.TrimSpace(spec.Schema)) == 0 {
		return v, nil
	}
	var err error
	if v.schema, err = schema.Compile(spec.Schema, true); err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "the schema of tool %q is not usable", spec.Name)
	}
	return v, nil
}

// CheckSchema says what keeps a tool's schema from being used.
func CheckSchema(spec agent.ToolSpec) error {
	_, err := newValidator(spec)
	return err
}

// check returns "" or a text that tells the model what is wrong.
func (v *validator) check(args json.RawMessage) string {
	clean, err := agent.ReadArguments(string(args))
	if err != nil {
		return agent.RefuseArguments(v.name, err)
	}
	value, problem, notJSON := v.schema.Check([]byte(clean))
	if notJSON != nil {
		return agent.RefuseArguments(v.name, notJSON)
	}
	if _, ok := value.(map[string]any); !ok {
		return fmt.Sprintf("The arguments of %s must be a JSON object. Received: %s", v.name, Clip(string(args), 400))
	}
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("The arguments of %s are not valid: %s. Received: %s", v.name, problem, Clip(string(args), 400))
}

// Fit gives the arguments of a call the types that the tool's schema asks for, as far as
// they nearly have them.
func Fit(spec agent.ToolSpec, args string) string {
	v, err := newValidator(spec)
	if err != nil {
		return args
	}
	return v.schema.Fit(args)
}
