package mcp

import (
	"encoding/json"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

const longestDescription = 4 << 10

// anything is the schema of arguments that only the server can judge.
const anything = `{"type":"object","properties":{}}`

// schemaOf makes of a server's schema one that every provider accepts: an object
// at the top, without unions there, and one that compiles. The server still
// checks the arguments, so what is dropped here costs a better error only. A
// schema that cannot be used is told in note, for the description.
func schemaOf(name string, input any) (schema json.RawMessage, note string) {
	m, ok := input.(map[string]any)
	if !ok { // missing, a boolean, a list
		return json.RawMessage(anything), ""
	}
	m = tidy(m).(map[string]any)
	m["type"] = "object"
	if _, ok := m["properties"].(map[string]any); !ok {
		m["properties"] = map[string]any{}
	}
	for _, union := range []string{"anyOf", "oneOf", "allOf"} {
		merge(m, union)
	}
	for _, word := range []string{"$schema", "$id", "not", "enum", "const", "if", "then", "else"} {
		delete(m, word)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return json.RawMessage(anything), ""
	}
	if tool.CheckSchema(agent.ToolSpec{Name: name, Schema: raw}) == nil {
		return raw, ""
	}
	whole, err := json.Marshal(input)
	if err != nil {
		return json.RawMessage(anything), ""
	}
	return json.RawMessage(anything), "\n\nThe arguments, as JSON schema: " + tool.Clip(string(whole), longestDescription)
}

// merge moves the properties of a union at the top into the top itself: providers
// refuse unions there. What only some alternatives require is not required.
func merge(m map[string]any, union string) {
	parts, ok := m[union].([]any)
	if !ok {
		delete(m, union)
		return
	}
	delete(m, union)
	properties := m["properties"].(map[string]any)
	for _, p := range parts {
		alternative, _ := p.(map[string]any)
		more, _ := alternative["properties"].(map[string]any)
		for k, v := range more {
			if _, there := properties[k]; !there {
				properties[k] = v
			}
		}
		if union == "allOf" {
			if need, ok := alternative["required"].([]any); ok {
				have, _ := m["required"].([]any)
				m["required"] = append(have, need...)
			}
		}
	}
	if m["additionalProperties"] == false && union != "allOf" {
		delete(m, "additionalProperties")
	}
}

// tidy copies a schema and writes the empty schema of additionalProperties as
// true, which means the same: not every provider takes an object there.
func tidy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			if m, ok := x.(map[string]any); ok && k == "additionalProperties" && len(m) == 0 {
				out[k] = true
				continue
			}
			out[k] = tidy(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = tidy(x)
		}
		return out
	}
	return v
}

// describe is the text a model reads about a tool.
func describe(server, description, title string) string {
	text := strings.TrimSpace(tool.CleanText(description))
	if text == "" {
		text = strings.TrimSpace(tool.CleanText(title))
	}
	if text == "" {
		text = "A tool of the MCP server " + server + "."
	}
	return tool.Clip(text, longestDescription)
}
