package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/spool-agents/spool/agent"
)

// validator checks arguments against a tool's schema.
type validator struct {
	name   string
	schema *jsonschema.Schema // nil accepts every object
}

// refuseLoader keeps schemas of strangers from reading files or the network.
type refuseLoader struct{}

func (refuseLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema refers to %s, which is not loaded", url)
}

func newValidator(spec agent.ToolSpec) (*validator, error) {
	v := &validator{name: spec.Name}
	if len(bytes.TrimSpace(spec.Schema)) == 0 {
		return v, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(spec.Schema))
	if err == nil {
		v.schema, err = compile(doc)
	}
	if m, ok := doc.(map[string]any); err != nil && ok {
		// A $schema that is not known must not make a tool unusable.
		delete(m, "$schema")
		v.schema, err = compile(m)
	}
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "the schema of tool %q is not usable", spec.Name)
	}
	return v, nil
}

// CheckSchema says what keeps a tool's schema from being used.
func CheckSchema(spec agent.ToolSpec) error {
	_, err := newValidator(spec)
	return err
}

func compile(doc any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(refuseLoader{})
	if err := c.AddResource("mem:///schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("mem:///schema.json")
}

// check returns "" or a text that tells the model what is wrong.
func (v *validator) check(args json.RawMessage) string {
	clean, err := agent.ReadArguments(string(args))
	if err != nil {
		return agent.RefuseArguments(v.name, err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(clean))
	if err != nil {
		return agent.RefuseArguments(v.name, err)
	}
	if v.schema == nil {
		return ""
	}
	err = v.schema.Validate(doc)
	if err == nil {
		return ""
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return fmt.Sprintf("The arguments of %s are not valid: %v", v.name, err)
	}
	var problems []string
	leaves(invalid, message.NewPrinter(language.English), &problems)
	return fmt.Sprintf("The arguments of %s are not valid: %s. Received: %s", v.name, strings.Join(problems, "; "), Clip(string(args), 400))
}

// leaves collects the causes that have no further cause.
func leaves(e *jsonschema.ValidationError, p *message.Printer, out *[]string) {
	if len(e.Causes) > 0 {
		for _, c := range e.Causes {
			leaves(c, p, out)
		}
		return
	}
	text := e.ErrorKind.LocalizedString(p)
	if len(e.InstanceLocation) > 0 {
		text = strings.Join(e.InstanceLocation, ".") + ": " + text
	}
	*out = append(*out, text)
}
