package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/schema"
)

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

// AnswerSchema is the JSON schema for an answer in what a person gave: the schema, or one
// of the wrappers in which programs for OpenAI's API keep it. Its error says what keeps it
// from being used.
func AnswerSchema(given json.RawMessage) (json.RawMessage, error) {
	bare := unwrapped(given)
	if _, err := answerSchema(bare); err != nil {
		return nil, err
	}
	var keys map[string]any
	if json.Unmarshal(bare, &keys) == nil && len(keys) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(keys)), isKeyword) {
		return nil, agent.Errorf(agent.CodeInvalid, "the schema of the answer demands nothing: %s is no keyword of JSON schema; give the schema itself, such as {\"type\":\"object\",\"properties\":{…}}", slices.Sorted(maps.Keys(keys))[0])
	}
	return bare, nil
}

// unwrapped takes a schema out of its wrappers: {"response_format":…}, {"text":…},
// {"format":…}, {"type":"json_schema","json_schema":…}, {"name":…,"schema":…,"strict":…}.
func unwrapped(given json.RawMessage) json.RawMessage {
	const deepest = 4
	for range deepest {
		var keys map[string]json.RawMessage
		if len(given) > schema.Longest || json.Unmarshal(given, &keys) != nil {
			break
		}
		if typ := string(keys["type"]); typ != "" && typ != `"json_schema"` {
			break // a schema
		}
		for _, beside := range []string{"type", "name", "description", "strict"} {
			delete(keys, beside)
		}
		for _, name := range []string{"response_format", "text", "format", "json_schema", "schema"} {
			if inner := keys[name]; len(keys) == 1 && len(inner) > 0 && inner[0] == '{' {
				given = inner
			}
		}
	}
	return given
}

// isKeyword reports whether a key of a schema demands something, or leads to what does.
func isKeyword(key string) bool {
	return strings.HasPrefix(key, "$") || slices.Contains([]string{
		"type", "enum", "const", "properties", "required", "items", "prefixItems", "contains", "additionalProperties", "patternProperties", "propertyNames", "anyOf", "oneOf", "allOf", "not",
		"if", "then", "else", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
		"minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties", "unevaluatedItems", "additionalItems", "definitions",
	}, key)
}

func answerSchema(text json.RawMessage) (*schema.Schema, error) {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "the schema of the answer is not JSON")
	}
	s, err := schema.Compile(text, false)
	return s, agent.Wrap(err, agent.CodeInvalid, "the schema of the answer is not a usable JSON schema")
}

// fenced is an answer whose JSON stands in a code fence.
var fenced = regexp.MustCompile("(?s)^```[a-zA-Z]*\\s*\n(.*?)\n?```$")

// CheckAnswer checks an answer against a JSON schema. It returns the answer without
// what models like to put around it, and what is wrong with it, if anything.
func CheckAnswer(by json.RawMessage, answer string) (clean, problem string) {
	clean = strings.TrimSpace(answer)
	if m := fenced.FindStringSubmatch(clean); m != nil {
		clean = strings.TrimSpace(m[1])
	}
	s, err := answerSchema(by)
	if err != nil {
		return clean, err.Error()
	}
	_, problem, notJSON := s.Check([]byte(clean))
	if notJSON != nil {
		problem = fmt.Sprintf("it is not one JSON value: %v", notJSON)
	}
	return clean, problem
}
