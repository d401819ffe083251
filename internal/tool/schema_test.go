package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/schema"
)

// nested is n times open around middle.
func nested(open, middle, end string, n int) string {
	return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
}

// list is n texts made of their numbers.
func list(n int, format string) string {
	var out []string
	for i := range n {
		out = append(out, strings.ReplaceAll(format, "#", fmt.Sprint(i)))
	}
	return strings.Join(out, ",")
}

// A schema is refused by its size before it is compiled, wherever it comes from.
func TestSchemasAreBoundedBeforeTheyAreCompiled(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"not":        {nested(`{"not":`, `{}`, `}`, 2300), "nested more than 64"},
		"properties": {nested(`{"properties":{"a":`, `{}`, `}}`, 1500), "nested more than 64"},
		"lists":      {`{"enum":` + nested(`[`, ``, `]`, 9000) + `}`, "nested more than 64"},
		"long":       {`{"description":"` + strings.Repeat("x", schema.Longest) + `"}`, "bytes"},
		"values":     {`{"enum":[` + list(6000, "#") + `]}`, "more than 5000 values"},
		"pattern":    {`{"pattern":"` + strings.Repeat("x{900}", 30) + `"}`, "more than 20000 steps"},
		"patterns":   {`{"properties":{` + list(60, `"p#":{"pattern":"x{900}"}`) + `}}`, "more than 20000 steps"},
		"names":      {`{"patternProperties":{` + list(60, `"#x{900}":{}`) + `}}`, "more than 20000 steps"},
		"number":     {`{"multipleOf":1e-999999}`, "exponent"},
	} {
		_, err := AnswerSchema(json.RawMessage(c.schema))
		assert.ErrorContains(t, err, c.want, name)
		assert.ErrorContains(t, CheckSchema(agent.ToolSpec{Name: "t", Schema: json.RawMessage(c.schema)}), c.want, name)
		_, problem := CheckAnswer(json.RawMessage(c.schema), "1")
		assert.Contains(t, problem, c.want, name)
	}
	for name, fine := range map[string]string{
		"deep":   nested(`{"properties":{"a":`, `{"type":"string"}`, `}}`, 30),
		"broad":  `{"properties":{` + list(1200, `"p#":{"type":"string"}`) + `}}`,
		"itself": `{"properties":{"children":{"items":{"$ref":"#"}}}}`,
	} {
		_, err := AnswerSchema(json.RawMessage(fine))
		assert.NoError(t, err, name)
	}
}

// Small schemas by which a check would take years: the work is counted, and the check ends.
func TestTheWorkOfACheckIsBounded(t *testing.T) {
	// Each of 40 parts asks for the next one, NEXT, more than once.
	chain := func(use string) string {
		var parts strings.Builder
		for i := range 40 {
			fmt.Fprintf(&parts, `"d%d":%s,`, i, strings.ReplaceAll(use, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)))
		}
		return `{"$ref":"#/$defs/d0","$defs":{` + parts.String() + `"d40":{"type":"object"}}}`
	}
	for name, c := range map[string]struct{ schema, answer string }{
		"allOf":        {chain(`{"allOf":[NEXT,NEXT]}`), `{}`},
		"anyOf fails":  {chain(`{"anyOf":[NEXT,NEXT]}`), `1`},
		"not":          {chain(`{"not":{"allOf":[{"not":NEXT},{"not":NEXT}]}}`), `1`},
		"if":           {chain(`{"if":NEXT,"then":NEXT,"else":NEXT}`), `{}`},
		"dependencies": {chain(`{"not":{"dependentSchemas":{"a":NEXT,"b":NEXT}}}`), `{"a":1,"b":2}`},
		"depth": {`{"$defs":{"n":{"allOf":[{"properties":{"a":{"$ref":"#/$defs/n"}}},{"properties":{"a":{"$ref":"#/$defs/n"}}}]}},"$ref":"#/$defs/n"}`,
			nested(`{"a":`, `1`, `}`, 100)},
		"dynamic ": {`{"$id":"x","$dynamicRef":"#n","$defs":{"m":{"$dynamicAnchor":"n","allOf":[{"properties":{"a":{"$dynamicRef":"#n"}}},{"properties":{"a":{"$dynamicRef":"#n"}}}]}}}`,
			nested(`{"a":`, `1`, `}`, 100)},
		"unique":  {`{"allOf":[` + list(300, `{"uniqueItems":true}`) + `]}`, `[` + list(50_000, "#") + `]`},
		"enum":    {`{"items":{"enum":[` + list(4000, "#") + `]}}`, `[` + strings.TrimSuffix(strings.Repeat("9999,", 50_000), ",") + `]`},
		"pattern": {`{"items":{"pattern":"(x+x+)+y{500}"}}`, `["` + nested("", strings.Repeat("x", 400_000), "", 1) + `"]`},
	} {
		_, problem := CheckAnswer(json.RawMessage(c.schema), c.answer)
		assert.Contains(t, Clip(problem, 500), "it takes too much work to check it", name)
	}
}

// What is large without being hard is checked, each value on its own.
func TestWhatIsLargeIsChecked(t *testing.T) {
	s, err := schema.Compile([]byte(`{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","pattern":"^[a-z]+$"}},"required":["id"]}}}}`), false)
	require.NoError(t, err)
	good := `{"rows":[` + list(20_000, `{"id":#,"name":"abc"}`) + `]}`
	bad := `{"rows":[` + list(200, `{"id":"#"}`) + `]}`
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, problem, notJSON := s.Check([]byte(good))
			assert.NoError(t, notJSON)
			assert.Empty(t, problem)
			_, problem, _ = s.Check([]byte(bad))
			assert.Contains(t, problem, "rows.0.id: got string, want integer")
			assert.Contains(t, problem, "; and 180 more")
		})
	}
	all.Wait()
	for _, text := range []string{nested("[", "", "]", 10_000), `{"n":1e999999}`, `{"n":` + strings.Repeat("9", 2000) + `}`, `[` + strings.Repeat("1,", 600_000) + `1]`} {
		_, _, notJSON := s.Check([]byte(text))
		assert.Error(t, notJSON, "%.20s", text)
	}
}
