package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

const wide = `{"type":"object","required":["path"],"additionalProperties":false,"properties":{
	"path":{"type":"string"},"limit":{"type":"integer","minimum":0,"maximum":9223372036854775807},"share":{"type":"number"},"all":{"type":"boolean"},
	"names":{"type":"array","items":{"type":"string"}},"sizes":{"type":"array","items":{"type":"integer"}},
	"edits":{"type":"array","items":{"type":"object","required":["old"],"properties":{"old":{"type":"string"},"count":{"type":"integer"}}}},
	"where":{"type":"object","properties":{"line":{"type":"integer"}}},
	"either":{"type":["integer","boolean"]},"open":{"type":["string","integer"]},"any":{},
	"maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]},"kind":{"enum":["a","b"]},
	"near":{"$ref":"#/$defs/point"}},
	"$defs":{"point":{"type":"object","properties":{"x":{"type":"number"},"next":{"$ref":"#/$defs/point"}}}}}`

// Types that nearly fit become what the schema asks for, where it leaves one meaning.
func TestCase_W05_TypesThatNearlyFit(t *testing.T) {
	for in, want := range map[string]string{
		`"limit":"10"`: `"limit":10`, `"limit":" 10 "`: `"limit":10`, `"limit":10.0`: `"limit":10`, `"limit":1e3`: `"limit":1000`,
		`"limit":"10.0"`: `"limit":10`, `"limit":"9007199254740993"`: `"limit":9007199254740993`, `"limit":9223372036854775807,"all":"true"`: `"all":true,"limit":9223372036854775807`,
		`"share":"0.5"`: `"share":0.5`, `"share":"-1e-3"`: `"share":-1e-3`,
		`"all":"true"`: `"all":true`, `"all":"False"`: `"all":false`,
		`"limit":null`: ``, `"limit":null,"all":null`: ``, `"where":{"line":null}`: `"where":{}`,
		`"names":"a"`: `"names":["a"]`, `"names":["a",1]`: `"names":["a","1"]`, `"names":1`: `"names":["1"]`, `"names":"[\"a\",\"b\"]"`: `"names":["a","b"]`,
		`"sizes":"7"`: `"sizes":[7]`, `"sizes":["7",8.0]`: `"sizes":[7,8]`,
		`"edits":{"old":"<a&b>"}`: `"edits":[{"old":"<a&b>"}]`, `"edits":"[{'old':'x','count':'2',}]"`: `"edits":[{"count":2,"old":"x"}]`,
		`"where":"{\"line\":\"3\"}"`: `"where":{"line":3}`,
		`"either":"4"`:               `"either":4`, `"either":"true"`: `"either":true`, `"maybe":"5"`: `"maybe":5`,
		`"near":{"next":{"next":{"x":"1"}}}`: `"near":{"next":{"next":{"x":1}}}`,
	} {
		got := tool.Fit(agent.ToolSpec{Name: "x", Schema: json.RawMessage(wide)}, `{"path":"p",`+in+`}`)
		if want != "" {
			want = "," + want
		}
		require.JSONEq(t, `{"path":"p"`+want+`}`, got, in)
		require.NotContains(t, got, `\u003c`)
		require.NotContains(t, got, `9007199254740992`, in)
		require.NotContains(t, got, `9223372036854775808`, in)
	}
	got := tool.Fit(agent.ToolSpec{Name: "x", Schema: json.RawMessage(wide)}, `{"path":12345678901234567890}`)
	require.Equal(t, `{"path":"12345678901234567890"}`, got)
}

// What fits, what has two meanings and what has none stays as the model wrote it.
func TestCase_W05_TypesThatStay(t *testing.T) {
	for _, args := range []string{
		`{ "path": "1",  "limit": 10 }`, `{"path":"p","open":"10"}`, `{"path":"p","any":"10"}`, `{"path":"p","any":null}`, `{"path":"p","names":["10"]}`,
		`{"path":"p","maybe":null}`, `{"path":null}`, `{"path":"p","limit":"ten"}`, `{"path":"p","limit":"1.5"}`, `{"path":"p","limit":"0x10"}`, `{"path":"p","limit":"007"}`,
		`{"path":"p","limit":"-1"}`, `{"path":"p","limit":""}`, `{"path":"p","share":"1e999"}`, `{"path":"p","share":"NaN"}`, `{"path":"p","all":"yes"}`, `{"path":"p","all":1}`,
		`{"path":"p","kind":"c"}`, `{"path":["p"]}`, `{"limit":"10"}`, `{"path":"p","limit":"10","more":1}`, `{"path":"p","names":null,"limit":"x"}`, `{"path":"p","where":["a"]}`, `[]`, `"x"`, ``, `{`,
	} {
		require.Equal(t, args, tool.Fit(agent.ToolSpec{Name: "x", Schema: json.RawMessage(wide)}, args))
	}
	for _, schema := range []string{``, `{}`, `true`, `{"type":"object"}`, `{"type":"thing"}`, `{"$ref":"#"}`, `{"anyOf":[{"$ref":"#"},{"$ref":"#"}],"type":"object"}`} {
		require.Equal(t, `{"a":"1"}`, tool.Fit(agent.ToolSpec{Name: "x", Schema: json.RawMessage(schema)}, `{"a":"1"}`), schema)
	}
	two := `{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"integer"}}]}}}`
	require.Equal(t, `{"a":"1"}`, tool.Fit(agent.ToolSpec{Name: "x", Schema: json.RawMessage(two)}, `{"a":"1"}`))
}

// FuzzFit: whatever schema and arguments come, what is changed fits the schema.
func FuzzFit(f *testing.F) {
	f.Add(wide, `{"path":1,"limit":"10","names":"a","edits":"[{}]","near":{"next":{"x":"1"}}}`)
	f.Add(`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"object","additionalProperties":{"type":"array","items":{"$ref":"#"}}}]}}}`, `{"a":{"a":"1"}}`)
	f.Add(`{"type":"object","oneOf":[{"required":["a"]},{"properties":{"b":{"type":["boolean","null"]}}}],"properties":{"a":{"prefixItems":[{"type":"integer"}],"type":"array"}}}`, `{"b":"true","a":"1"}`)
	f.Fuzz(func(t *testing.T, schema, args string) {
		spec := agent.ToolSpec{Name: "x", Schema: json.RawMessage(schema)}
		clean, err := agent.ReadArguments(args)
		if err != nil {
			return
		}
		if _, err := tool.AnswerSchema(spec.Schema); err != nil {
			return
		}
		fitted := tool.Fit(spec, clean)
		if fitted == clean {
			return
		}
		if _, problem := tool.CheckAnswer(spec.Schema, fitted); problem != "" {
			t.Fatalf("%s became %s for %s: %s", clean, fitted, schema, problem)
		}
	})
}
