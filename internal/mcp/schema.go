package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

const longestDescription = 4 << 10

// anything is the schema of arguments that only the server can judge.
const anything = `{"type":"object","properties":{}}`

// mostChecks bounds the work for a schema.
const mostChecks = 2000

// reducer makes a schema of one that cannot be used, from which it drops words.
type reducer struct {
	root   any
	id     string // by which references may name it
	text   string // all of it
	levels int    // what is nested deeper is dropped
	strict bool   // each part has to compile
	brief  bool   // without patterns and long values
	opened int    // parts that became one with the top
	checks int
	notes  []string
}

// schemaOf makes of a server's schema one that every provider accepts: an object at the
// top, without unions there, and one that compiles. It drops no more than it must, and
// names that in note, for the description. The server still checks the arguments.
func schemaOf(name string, input any) (schema json.RawMessage, note string) {
	for _, r := range []*reducer{{levels: 20}, {levels: 20, strict: true}, {levels: 20, strict: true, brief: true}, {levels: 5, strict: true, brief: true}, {levels: 1, strict: true, brief: true}} {
		root, _ := input.(map[string]any)
		id, _ := root["$id"].(string)
		r.root, r.id, r.text = input, strings.TrimSuffix(id, "#"), string(encoded(input))
		if input == nil || input == false {
			r.root = map[string]any{}
		}
		r.root, _ = r.part(r.root, "the whole", 0)
		r.root = r.top(r.root)
		again, _ := r.part(r.root, "the whole", 0) // references into what was at the top
		m := again.(map[string]any)
		for _, word := range []string{"not", "enum", "const", "if", "then", "else"} {
			r.without(m, word, word)
		}
		if !takesObject(m["type"]) {
			r.without(m, "type", "type")
		}
		m["type"] = "object"
		raw, err := json.Marshal(m)
		if err == nil && tool.CheckSchema(agent.ToolSpec{Name: name, Schema: raw}) == nil {
			return raw, r.told()
		}
	}
	return json.RawMessage(anything), "\n\nThe arguments, as JSON schema: " + tool.Clip(string(encoded(input)), longestDescription)
}

func (r *reducer) note(place string, what any) {
	raw := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(encoded(what)))
	if text := tool.CleanText(cutLine(place) + " " + cutLine(raw)); !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// told is the text of the notes.
func (r *reducer) told() string {
	const shown = 10
	if len(r.notes) == 0 {
		return ""
	}
	text := "\n\nThe schema of the arguments leaves out what the server also says: " + strings.Join(r.notes[:min(shown, len(r.notes))], "; ")
	if more := len(r.notes) - shown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// without drops a word.
func (r *reducer) without(m map[string]any, word, place string) {
	if x, there := m[word]; there {
		r.note(place, x)
		delete(m, word)
	}
}

// Words whose value is a schema, a list of schemas, or schemas by name.
var (
	ofOne  = []string{"additionalProperties", "unevaluatedProperties", "propertyNames", "items", "unevaluatedItems", "contains", "not", "if", "then", "else"}
	ofList = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	ofName = []string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)

// part copies a schema without what cannot be used, and reports whether that was anything.
func (r *reducer) part(v any, place string, level int) (out any, lost bool) {
	m, ok := v.(map[string]any)
	if _, isBool := v.(bool); !ok && !isBool || level > r.levels && len(m) > 0 {
		r.note(place, v)
		return map[string]any{}, true
	}
	m = modern(m)
	if v == false {
		m["not"] = map[string]any{}
	}
	for _, word := range slices.Sorted(maps.Keys(m)) {
		if _, there := m[word]; !there {
			continue // dropped with another one
		}
		here := strings.TrimPrefix(place+"."+word, "the whole.")
		if below, gone := r.word(m, word, here, level+1); below {
			r.loosen(m, word, here, gone)
			lost = true
		}
	}
	return m, lost
}

// word is part for the value of a word. gone says that a name is missing in it.
func (r *reducer) word(m map[string]any, word, place string, level int) (lost, gone bool) {
	set := func(x any, place string) any {
		x, less := r.part(x, place, level)
		lost = lost || less
		return x
	}
	list, _ := m[word].([]any)
	names, isMap := m[word].(map[string]any)
	_, isBool := m[word].(bool)
	switch {
	case slices.Contains(ofOne, word) && (isBool || isMap && len(names) == 0 && strings.HasSuffix(word, "Properties")):
		m[word] = m[word] != false // {} is true: not every provider takes an object there
	case slices.Contains(ofOne, word):
		m[word] = set(m[word], place)
	case slices.Contains(ofList, word) && len(list) > 0:
		list = slices.Clone(list)
		for i := range list {
			list[i] = set(list[i], fmt.Sprint(place, ".", i))
		}
		m[word] = list
	case slices.Contains(ofName, word) && isMap:
		names = maps.Clone(names)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			names[name] = set(names[name], place+"."+name)
			if _, err := regexp.Compile(name); word == "patternProperties" && (err != nil || r.brief) {
				r.without(names, name, place+"."+name)
				lost, gone = true, true
			}
		}
		m[word] = names
	default:
		lost = r.judge(m, word, place)
	}
	return lost, gone
}

func (r *reducer) judge(m map[string]any, word, place string) (lost bool) {
	if ref, ok := m[word].(string); ok && word == "$ref" {
		ref = cmp.Or(strings.TrimPrefix(ref, r.id), "#")
		m[word] = ref
		if name, ok := strings.CutPrefix(ref, "#"); ok && !r.brief && name != "" && strings.Contains(r.text, `"$anchor":`+string(encoded(name))) {
			return false
		}
		if _, lost = r.find(ref); lost {
			r.without(m, word, place)
		}
		return lost
	}
	raw, err := json.Marshal(m[word])
	r.checks++
	switch text, _ := m[word].(string); {
	case word == "type" && slices.Contains([]string{"object", "array", "string", "integer", "number", "boolean", "null"}, text), word == "description" && text != "" && len(raw) < 2<<10:
		r.checks-- // most words
	case r.strict && r.checks > mostChecks, err != nil, r.brief && (slices.Contains([]string{"pattern", "$anchor", "$dynamicAnchor"}, word) || len(raw) > 2<<10),
		r.strict && tool.CheckSchema(agent.ToolSpec{Schema: fmt.Appendf(nil, `{%q:%s}`, word, raw)}) != nil:
		r.without(m, word, place)
		return true
	}
	return false
}

// loosen takes away what would refuse more than before, now that a word says less, or that
// names in it are gone.
func (r *reducer) loosen(m map[string]any, word, place string, gone bool) {
	_, there := m[word]
	switch _, both := m["anyOf"]; {
	case slices.Contains([]string{"not", "if", "contains"}, word), word == "oneOf" && both:
		r.without(m, word, place)
	case word == "oneOf": // more than one of them may be right now
		m["anyOf"] = m[word]
		delete(m, word)
	case gone, !there && (slices.Contains(ofName, word) || slices.Contains(ofList, word) || word == "$ref"):
		for _, rest := range []string{"additionalProperties", "unevaluatedProperties", "unevaluatedItems"} {
			if m[rest] == false {
				r.without(m, rest, strings.TrimSuffix(place, word)+rest)
			}
		}
	}
}

// modern copies a schema, with words of older drafts as those of today.
func modern(m map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, m)
	for _, word := range []string{"$schema", "$id", "$recursiveAnchor"} {
		delete(out, word)
	}
	if ref, ok := out["$recursiveRef"]; ok {
		out["$ref"] = ref
		delete(out, "$recursiveRef")
	}
	for limit, word := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		if exclusive, ok := out[word].(bool); ok {
			if delete(out, word); exclusive && out[limit] != nil {
				out[word] = out[limit]
				delete(out, limit)
			}
		}
	}
	if list, ok := out["items"].([]any); ok {
		delete(out, "items")
		if out["prefixItems"] = list; out["additionalItems"] != nil {
			out["items"] = out["additionalItems"]
		}
	}
	return out
}

// find is the part that a reference within the schema means; lost says that there is none.
func (r *reducer) find(ref string) (v any, lost bool) {
	pointer, err := url.PathUnescape(ref)
	if steps := strings.Split(pointer, "/"); err == nil && steps[0] == "#" {
		v = r.root
		for _, step := range steps[1:] {
			step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
			m, _ := v.(map[string]any)
			list, _ := v.([]any)
			if v = m[step]; len(list) > 0 {
				if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(list) {
					v = list[i]
				}
			}
			if v == nil {
				return nil, true
			}
		}
		return v, false
	}
	return nil, true
}

// top writes a schema without a reference and without unions at its top: providers refuse
// them there. Their properties become its own.
func (r *reducer) top(v any) map[string]any {
	s, _ := v.(map[string]any)
	m := map[string]any{"properties": map[string]any{}}
	maps.Copy(m, s)
	if r.opened++; r.opened > 100 {
		r.note("the whole", "it refers to itself")
		return map[string]any{"properties": map[string]any{}}
	}
	if ref, ok := m["$ref"].(string); ok {
		target, _ := r.find(ref)
		part := r.top(target)
		delete(m, "$ref")
		for word, x := range part {
			if _, there := m[word]; !there {
				m[word] = x
			}
		}
		merge(m, []map[string]any{part}, "allOf")
	}
	for _, union := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[union].([]any)
		if delete(m, union); len(list) == 0 {
			continue
		}
		var parts []map[string]any
		var sets [][]any
		for _, p := range list {
			part := r.top(p)
			if need, _ := part["required"].([]any); takesObject(part["type"]) {
				for _, k := range slices.Sorted(maps.Keys(part["properties"].(map[string]any))) {
					if part["required"] == nil {
						need = append(need, k)
					}
				}
				parts, sets = append(parts, part), append(sets, need)
			}
		}
		if merge(m, parts, union); union != "allOf" {
			r.note("one of these sets ("+union+"):", sets)
			delete(m, "additionalProperties")
		}
	}
	return m
}

func takesObject(typ any) bool {
	return typ == nil || strings.Contains(string(encoded(typ)), `"object"`)
}

// merge adds the properties of parts to those of m. What only some alternatives require is
// not required.
func merge(m map[string]any, parts []map[string]any, union string) {
	need, _ := m["required"].([]any)
	properties, of, votes := maps.Clone(m["properties"].(map[string]any)), map[string][]any{}, map[any]int{}
	if union == "allOf" {
		for k, x := range properties {
			of[k] = []any{x}
		}
	}
	for _, part := range parts {
		more, _ := part["properties"].(map[string]any)
		for k, x := range more {
			if !slices.ContainsFunc(of[k], func(y any) bool { return reflect.DeepEqual(x, y) }) {
				of[k] = append(of[k], x)
			}
		}
		list, _ := part["required"].([]any)
		for _, k := range list {
			if votes[fmt.Sprint(k)]++; (union == "allOf" || votes[fmt.Sprint(k)] == len(parts)) && !slices.Contains(need, k) {
				need = append(slices.Clip(need), k)
			}
		}
	}
	for k, list := range of {
		_, own := properties[k]
		switch {
		case own && union != "allOf": // holds for every alternative
		case len(list) == 1:
			properties[k] = list[0]
		default:
			properties[k] = map[string]any{strings.Replace(union, "oneOf", "anyOf", 1): list}
		}
	}
	if m["properties"] = properties; len(need) > 0 {
		m["required"] = need
	}
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
