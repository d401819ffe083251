package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestTry(t *testing.T) {
	for _, text := range []string{
		`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=.*x).+$"},"b":{"type":"integer"}},"required":["b"]}`,
		`{"type":"object","patternProperties":{"^(?!_)":{"type":"string"}},"additionalProperties":false}`,
		`{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"a":{"$ref":"#/definitions/In"}},"required":["a"]}}}`,
		`{"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"string"}},"required":["k","x"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]}`,
		`{"properties":{"a":{"type":"strnig"},"b":{"oneOf":[{"pattern":"(?=a)"},{"pattern":"^b"}]},"c":{"not":{"pattern":"(?=a)"}}}}`,
		`false`, `[]`, `{"properties":{"a":7,"b":{"$ref":"http://x/y"},"c":{"minimum":1,"exclusiveMinimum":true},"d":{"items":[{"type":"string"}],"additionalItems":false}}}`,
		`{"properties":{"a":{"pattern":"` + strings.Repeat("x{900}", 30) + `"},"b":{"pattern":"^a$"}}}`,
		`{"properties":{"a":{"multipleOf":1e-999999},"b":{"enum":["` + strings.Repeat("x", 70000) + `"]}}}`,
		strings.Repeat(`{"properties":{"a":`, 300) + `{}` + strings.Repeat(`}}`, 300),
		`{"$id":"https://x.dev/s/root.json","properties":{"a":{"$ref":"root.json#/$defs/b"},"c":{"$ref":"#there"},"d":{"$ref":"/s/item"}},"$defs":{"b":{"type":"string"},"t":{"$anchor":"there","type":"integer"},"i":{"$id":"/s/item","type":"null"}}}`,
	} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var v any
		_ = d.Decode(&v)
		s, note := schemaOf("t", v)
		fmt.Println(cutLine(text), "\n  ", string(s[:min(len(s), 600)]), "\n  ", note)
	}
}
