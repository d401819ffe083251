package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

func reduced(t *testing.T, text string) (schema, note string) {
	t.Helper()
	v, err := number(text)
	require.NoError(t, err, text)
	raw, note := schemaOf("t", v)
	return string(raw), note
}

// What a schema cannot keep is dropped and named; all else stays.
func TestCase_M03_SchemasAreKeptAsFarAsTheyCan(t *testing.T) {
	for name, c := range map[string]struct{ schema, want, note string }{
		"lookahead": {
			`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=.*x).+$","minLength":2},"b":{"type":"integer","default":9007199254740993}},"required":["b"]}`,
			`{"type":"object","properties":{"a":{"type":"string","minLength":2},"b":{"type":"integer","default":9007199254740993}},"required":["b"]}`, `properties.a.pattern "^(?=.*x).+$"`,
		},
		"pattern of names": {
			`{"type":"object","patternProperties":{"^(?!_)":{"type":"string"},"^x":{"type":"integer"}},"additionalProperties":false}`,
			`{"type":"object","properties":{},"patternProperties":{"^x":{"type":"integer"}}}`, `patternProperties.^(?!_) {"type":"string"}; additionalProperties false`,
		},
		"below not, oneOf and if": {
			`{"properties":{"a":{"not":{"pattern":"(?=a)"}},"b":{"oneOf":[{"pattern":"(?=a)"},{"pattern":"^b"}]},"c":{"if":{"pattern":"(?=a)"},"then":{"minLength":3}}}}`,
			`{"type":"object","properties":{"a":{},"b":{"anyOf":[{},{"pattern":"^b"}]},"c":{"then":{"minLength":3}}}}`, `properties.c.if`,
		},
		"root reference": {
			`{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"a":{"type":"string"},"next":{"$ref":"#/definitions/In"}},"required":["a"]}}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"next":{"$ref":"#/definitions/In"}},"required":["a"],"definitions":{"In":{"type":"object","properties":{"a":{"type":"string"},"next":{"$ref":"#/definitions/In"}},"required":["a"]}}}`, "",
		},
		"root anyOf": {
			`{"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"string"}},"required":["k","x"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]},{"type":"null"}]}`,
			`{"type":"object","properties":{"k":{"anyOf":[{"const":"a"},{"const":"b"}]},"x":{"type":"string"}},"required":["k"]}`, `one of these sets (anyOf): [["k","x"],["k"]]`,
		},
		"root oneOf of references": {
			`{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{"a":{"properties":{"x":{"type":"string"}},"required":["x"]},"b":{"properties":{"y":{"type":"string"}},"required":["y"]}}}`,
			`{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"$defs":{"a":{"properties":{"x":{"type":"string"}},"required":["x"]},"b":{"properties":{"y":{"type":"string"}},"required":["y"]}}}`, `one of these sets (oneOf): [["x"],["y"]]`,
		},
		"root allOf": {
			`{"allOf":[{"properties":{"x":{"type":"string"}},"required":["x"]},{"properties":{"x":{"minLength":2},"y":true},"required":["y"]}]}`,
			`{"type":"object","properties":{"x":{"allOf":[{"type":"string"},{"minLength":2}]},"y":{}},"required":["x","y"]}`, "",
		},
		"draft 4": {
			`{"id":"http://x/y#","$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"a":{"minimum":1,"exclusiveMinimum":true,"maximum":2,"exclusiveMaximum":false},"b":{"items":[{"type":"string"}],"additionalItems":{"type":"null"}}}}`,
			`{"id":"http://x/y#","type":"object","properties":{"a":{"exclusiveMinimum":1,"maximum":2},"b":{"prefixItems":[{"type":"string"}],"items":{"type":"null"},"additionalItems":{"type":"null"}}}}`, "",
		},
		"draft 2019": {`{"$recursiveAnchor":true,"properties":{"kids":{"items":{"$recursiveRef":"#"}}}}`, `{"type":"object","properties":{"kids":{"items":{"$ref":"#"}}}}`, ""},
		"types": {
			`{"type":["object","null"],"properties":{"a":{"type":["string","null"]},"b":{"type":"strnig","minLength":1},"c":7,"d":false,"e":{"required":true,"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"minLength":1},"c":{},"d":{"not":{}},"e":{"type":"string"}}}`, `properties.b.type "strnig"; properties.c 7; properties.e.required true`,
		},
		"references to nothing": {
			`{"properties":{"a":{"$ref":"https://example.com/s.json","description":"d"},"b":{"$ref":"#/nothing"},"c":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"description":"d"},"b":{},"c":{"type":"string"}}}`, `properties.a.$ref "https://example.com/s.json"; properties.b.$ref "#/nothing"`,
		},
		"a reference to itself": {`{"$ref":"#"}`, anything, "it refers to itself"},
		"names for parts": {
			`{"$id":"https://e/x","type":"object","$defs":{"T":{"type":"string"},"U":{"$anchor":"u","type":"null"}},"properties":{"a":{"$ref":"https://e/x#/$defs/T"},"b":{"$ref":"#u"}}}`,
			`{"type":"object","$defs":{"T":{"type":"string"},"U":{"$anchor":"u","type":"null"}},"properties":{"a":{"$ref":"#/$defs/T"},"b":{"$ref":"#u"}}}`, "",
		},
		"what holds for the others stays": {
			`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"pattern":"(?<=a)b"}},"additionalProperties":false},"pattern":{"type":"string"}},"unevaluatedProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{}},"additionalProperties":false},"pattern":{"type":"string"}},"unevaluatedProperties":false}`, `properties.a.properties.b.pattern "(?<=a)b"`,
		},
		"references into lists": {
			`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]},"b":{"$ref":"#/properties/a/anyOf/0"},"c":{"$ref":"#/properties/a/anyOf/7"}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]},"b":{"$ref":"#/properties/a/anyOf/0"},"c":{}}}`, `properties.c.$ref "#/properties/a/anyOf/7"`,
		},
		"references into the top": {
			`{"anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"$ref":"#/anyOf/0/properties/a"},"c":{"type":"integer"}}}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{},"c":{"type":"integer"}}}`, `properties.b.$ref "#/anyOf/0/properties/a"`,
		},
		"two parts of one name": {
			`{"properties":{"a":{"$anchor":"x","type":"string"},"b":{"$anchor":"x","type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, `properties.a.$anchor "x"`,
		},
		"no object":         {`{"type":"string"}`, anything, `type "string"`},
		"nothing":           {`null`, anything, ""},
		"true":              {`true`, anything, ""},
		"a list":            {`[]`, anything, "the whole []"},
		"a word at the top": {`{"type":"object","properties":{"a":{}},"if":{"required":["a"]},"not":{"required":["b"]}}`, `{"type":"object","properties":{"a":{}}}`, `not {"required":["b"]}; if {"required":["a"]}`},
		"a number":          {`{"properties":{"a":{"type":"number","multipleOf":1e-999999}}}`, `{"type":"object","properties":{"a":{"type":"number"}}}`, "multipleOf 1e-999999"},
	} {
		schema, note := reduced(t, c.schema)
		assert.JSONEq(t, c.want, schema, name)
		if c.note == "" {
			assert.Empty(t, note, name)
		}
		assert.Contains(t, note, c.note, name)
	}
}

// A part that is too large does not take the others along.
func TestCase_M03_LargeParts(t *testing.T) {
	deep := strings.Repeat(`{"properties":{"a":`, 300) + `{}` + strings.Repeat(`}}`, 300)
	for name, large := range map[string]string{
		"deep": deep, "words": `{"enum":["` + strings.Repeat("x", 200_000) + `"]}`, "pattern": `{"pattern":"` + strings.Repeat("x{900}", 30) + `"}`,
		"text": `{"description":"` + strings.Repeat("x", 200_000) + `"}`, "lists": `{"default":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
	} {
		schema, note := reduced(t, `{"properties":{"large":`+large+`,"n":{"type":"integer","minimum":3}},"required":["n"]}`)
		assert.Contains(t, schema, `"n":{"minimum":3,"type":"integer"}`, name)
		assert.Contains(t, schema, `"required":["n"]`, name)
		assert.Contains(t, note, "large", name)
		assert.Less(t, len(note), 5000, name)
	}
}

// The tools of a real server are checked by what is left of their schemas.
func TestCase_M03_ToolsOfAServer(t *testing.T) {
	f := begin(t, object{"s": stdio(t, "-odd")})
	for _, name := range []string{"mcp__s__lookahead", "mcp__s__root_reference"} {
		assert.Equal(t, agent.ErrInvalidInput, f.call(name, object{"n": "seven"}).ErrorReason, name)
		assert.Contains(t, f.ok(name, object{"n": 7}), "got map[n:7]", name)
	}
	spec, _ := f.tools.Lookup("mcp__s__lookahead")
	assert.Contains(t, spec.Spec().Description, `properties.word.pattern "^(?=.*x).+$"`)
}

// Whatever a server says, the schema is one that providers take, and the same each time.
func FuzzSchema(f *testing.F) {
	for _, text := range []string{
		`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#/$defs/a"}]}}}`, `{"properties":{"a":{"pattern":"(?!x)"}},"required":[1,"a"]}`,
		`{"allOf":[{"$ref":"#/allOf/0"},true,7]}`, `{"properties":[],"type":7,"oneOf":{}}`, `{"patternProperties":{"(":{}},"items":[{"exclusiveMinimum":true}]}`,
		`{"$dynamicRef":"#x","$anchor":7,"dependencies":{"a":["b"]},"$id":"::"}`, `{"properties":{"a":{"not":{"oneOf":[{"type":"x"}]},"anyOf":[]}}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := number(text)
		if err != nil || agent.Said.Check([]byte(text)) != nil {
			return
		}
		raw, note := schemaOf("t", v)
		require.NoError(t, tool.CheckSchema(agent.ToolSpec{Name: "t", Schema: raw}), text)
		var m map[string]any
		require.NoError(t, json.Unmarshal(raw, &m))
		require.Equal(t, "object", m["type"])
		require.IsType(t, map[string]any{}, m["properties"])
		for _, word := range []string{"$ref", "anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "$schema"} {
			require.NotContains(t, m, word)
		}
		again, noteAgain := schemaOf("t", v)
		require.Equal(t, [2]string{string(raw), note}, [2]string{string(again), noteAgain})
	})
}
