package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/spool-agents/spool/agent"
)

// mostFits bounds the looks at one call: schemas may refer to themselves.
const mostFits = 10_000

// fitter counts what is left of them.
type fitter struct{ left int }

// Fit gives a JSON text the types that the schema asks for, where they nearly are
// these and the schema leaves one meaning:
//
//   - a text that holds a number, a truth value, a list or an object, for one of these
//   - a number or a truth value, for a text; 10.0, for an integer
//   - one value, for a list of such values
//   - null, for a property that need not be there
//
// What fits, and what would not fit even so, comes back as it is.
func (s *Schema) Fit(text string) string {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if s == nil || err != nil {
		return text
	}
	f, fits := fitter{mostFits}, false
	var fitted any
	ended := s.bounded(func() {
		fitted = f.fit(s.compiled, doc)
		fits = s.compiled.Validate(fitted) == nil
	})
	if !ended || !fits || reflect.DeepEqual(fitted, doc) {
		return text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(fitted) != nil {
		return text
	}
	return strings.TrimSpace(b.String())
}

// fit is a value as near to a schema as it can be made; v is not changed.
func (f *fitter) fit(s *jsonschema.Schema, v any) any {
	if f.left--; s == nil || f.left < 0 {
		return v
	}
	switch list := v.(type) {
	case map[string]any:
		v = f.fitObject(s, list)
	case []any:
		v = f.fitArray(s, list)
	}
	for _, part := range append([]*jsonschema.Schema{s.Ref}, s.AllOf...) {
		v = f.fit(part, v)
	}
	for _, choice := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		v = f.fitChoice(choice, v)
	}
	if s.Types == nil {
		return v
	}
	types := s.Types.ToStrings()
	if slices.Contains(types, "integer") && !slices.Contains(types, "number") {
		v = integral(v)
	}
	if s.Validate(v) == nil {
		return v
	}
	return onlyOne(v, func(add func(any)) {
		for _, kind := range types {
			if w, ok := as(kind, v); ok {
				if w = f.fit(s, w); s.Validate(w) == nil {
					add(w)
				}
			}
		}
	})
}

// onlyOne is the value that is found, if it is one; else v.
func onlyOne(v any, find func(add func(any))) any {
	var found []any
	find(func(w any) {
		if !slices.ContainsFunc(found, func(f any) bool { return reflect.DeepEqual(f, w) }) {
			found = append(found, w)
		}
	})
	if len(found) == 1 {
		return found[0]
	}
	return v
}

// fitChoice fits a value to the one of several schemas that takes it.
func (f *fitter) fitChoice(choice []*jsonschema.Schema, v any) any {
	for _, s := range choice {
		if s.Validate(v) == nil {
			return f.fit(s, v)
		}
	}
	return onlyOne(v, func(add func(any)) {
		for _, s := range choice {
			if w := f.fit(s, v); s.Validate(w) == nil {
				add(w)
			}
		}
	})
}

func (f *fitter) fitObject(s *jsonschema.Schema, object map[string]any) any {
	out := maps.Clone(object)
	for key, v := range object {
		of := s.Properties[key]
		if more, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && of == nil {
			of = more
		}
		if of == nil {
			continue
		}
		if v == nil && !slices.Contains(s.Required, key) && of.Validate(nil) != nil {
			delete(out, key)
			continue
		}
		out[key] = f.fit(of, v)
	}
	return out
}

func (f *fitter) fitArray(s *jsonschema.Schema, list []any) any {
	out := slices.Clone(list)
	items, _ := s.Items.(*jsonschema.Schema)
	if s.Items2020 != nil {
		items = s.Items2020
	}
	for i, v := range out {
		of := items
		if i < len(s.PrefixItems) {
			of = s.PrefixItems[i]
		}
		out[i] = f.fit(of, v)
	}
	return out
}

// as reads a value as one of another type.
func as(kind string, v any) (any, bool) {
	text, isText := v.(string)
	text = strings.TrimSpace(text)
	switch {
	case kind == "array" && !(isText && strings.HasPrefix(text, "[")):
		_, already := v.([]any)
		return []any{v}, !already && v != nil
	case kind == "string":
		switch v := v.(type) {
		case json.Number:
			return v.String(), true
		case bool:
			return strconv.FormatBool(v), true
		}
	case !isText:
	case kind == "integer", kind == "number":
		_, err := strconv.ParseFloat(text, 64)
		number := any(json.Number(text))
		if kind == "integer" {
			number = integral(number)
		}
		return number, err == nil && json.Valid([]byte(text))
	case kind == "boolean":
		return strings.EqualFold(text, "true"), strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
	case kind == "array", kind == "object":
		clean, err := agent.ReadJSON(text)
		if err != nil {
			return nil, false
		}
		decoded, err := jsonschema.UnmarshalJSON(strings.NewReader(clean))
		return decoded, err == nil
	}
	return nil, false
}

// integral writes a whole number such as 10.0 or 1e1 as an integer.
func integral(v any) any {
	n, ok := v.(json.Number)
	if !ok || !strings.ContainsAny(n.String(), ".eE") {
		return v
	}
	const exact = 1 << 53
	if f, err := n.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < exact {
		return json.Number(strconv.FormatInt(int64(f), 10))
	}
	return v
}
