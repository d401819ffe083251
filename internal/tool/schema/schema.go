// Package schema compiles JSON schemas that others wrote, checks values by them with
// bounded work, and gives values the types that they nearly have.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/spool-agents/spool/agent"
)

// Bounds of a schema that others wrote, and of the work to check a value by it. A
// few references make schemas whose check takes longer than anybody waits.
const (
	// Longest bounds the text of a schema, in bytes.
	Longest = 64 << 10
	// patternSteps are the steps of all patterns of a schema, once compiled.
	patternSteps = 20_000
	// checkWork is about as many values, each compared with one part of a schema.
	checkWork = 1_000_000
	// shownProblems of a value are named.
	shownProblems = 20
)

// writtenSchema bounds the text of a schema.
var writtenSchema = agent.JSONLimit{Depth: 64, Values: 5000}

// Schema is a compiled JSON schema; nil accepts everything. It is safe for concurrent use: it checks one
// value after another.
type Schema struct {
	compiled *jsonschema.Schema
	mu       sync.Mutex
	left     int // of the work for the value that is checked
	steps    int // of its patterns
}

// refuseLoader keeps schemas of strangers from reading files or the network.
type refuseLoader struct{}

func (refuseLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema refers to %s, which is not loaded", url)
}

// Compile makes a schema of its text. One whose $schema is not known is used all
// the same if anyDraft is set: it must not make a tool unusable.
func Compile(text []byte, anyDraft bool) (*Schema, error) {
	if len(text) > Longest {
		return nil, agent.Errorf(agent.CodeInvalid, "it has %d bytes, more than %d", len(text), Longest)
	}
	if err := writtenSchema.Check(text); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	s := &Schema{}
	err = s.compile(doc)
	if m, ok := doc.(map[string]any); err != nil && ok && anyDraft {
		delete(m, "$schema")
		s = &Schema{}
		err = s.compile(m)
	}
	return s, err
}

func (s *Schema) compile(doc any) (err error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(refuseLoader{})
	c.UseRegexpEngine(s.pattern)
	if err := c.AddResource("mem:///schema.json", doc); err != nil {
		return err
	}
	if s.compiled, err = c.Compile("mem:///schema.json"); err == nil {
		s.count(reflect.ValueOf(s.compiled), map[*jsonschema.Schema]bool{})
	}
	return err
}

// count has every part of the schema count the values that are compared with it. The
// format of a part is looked at before the parts below it are.
func (s *Schema) count(v reflect.Value, seen map[*jsonschema.Schema]bool) (parts int) {
	switch v.Kind() {
	case reflect.Pointer:
		switch v.Type() {
		case reflect.TypeFor[*jsonschema.Schema]():
			part := (*jsonschema.Schema)(v.UnsafePointer())
			if part != nil && !seen[part] {
				seen[part] = true
				s.countPart(part, s.count(v.Elem(), seen))
			}
			return 1
		case reflect.TypeFor[*jsonschema.DynamicRef]():
			return s.count(v.Elem(), seen)
		}
	case reflect.Interface:
		return s.count(v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			parts += s.count(v.Field(i), seen)
		}
	case reflect.Slice:
		for i := range v.Len() {
			parts += s.count(v.Index(i), seen)
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			parts += s.count(each.Value(), seen)
		}
	}
	return parts
}

func (s *Schema) countPart(part *jsonschema.Schema, below int) {
	cost, format := 1+below+len(part.Required), part.Format
	if part.Enum != nil { // which would be looked at before the format
		cost += len(part.Enum.Values)
		part.AllOf = append(part.AllOf, &jsonschema.Schema{Location: part.Location, DraftVersion: part.DraftVersion, Enum: part.Enum})
		part.Enum = nil
	}
	counted := jsonschema.Format{Validate: func(v any) error {
		s.spend(cost + size(v, part.UniqueItems))
		if format != nil {
			return format.Validate(v)
		}
		return nil
	}}
	if format != nil {
		counted.Name = format.Name
	}
	part.Format = &counted
}

// size is what it costs to look at a value, with all that is in it if it is whole.
func size(v any, whole bool) int {
	n := 0
	switch v := v.(type) {
	case string:
		return len(v) / 100
	case []any:
		for i := 0; whole && i < len(v); i++ {
			n += size(v[i], true)
		}
		return n + len(v)
	case map[string]any:
		if whole {
			for _, x := range v {
				n += size(x, true)
			}
		}
		return n + len(v)
	}
	return 0
}

// tooMuchWork ends a check, by a panic: it has no other end.
type tooMuchWork struct{}

const tooMuchWorkText = "it takes too much work to check it by its schema: make it shorter, or the schema simpler"

func (s *Schema) spend(n int) {
	if s.left -= n; s.left < 0 {
		panic(tooMuchWork{})
	}
}

func (s *Schema) pattern(text string) (jsonschema.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if s.steps += len(program.Inst); s.steps > patternSteps {
		return nil, fmt.Errorf("its patterns take more than %d steps", patternSteps)
	}
	compiled, err := regexp.Compile(text)
	return &pattern{compiled, len(program.Inst), s}, err
}

type pattern struct {
	*regexp.Regexp
	steps int
	of    *Schema
}

// MatchString counts the work of a match.
func (p *pattern) MatchString(text string) bool {
	p.of.spend(len(text) * p.steps / 100)
	return p.Regexp.MatchString(text)
}

// Check checks JSON text. It says that it is no JSON, or what is wrong with the value.
func (s *Schema) Check(text []byte) (value any, problem string, notJSON error) {
	if err := agent.Said.Check(text); err != nil {
		return nil, "", err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil || s == nil {
		return value, "", err
	}
	return value, s.problem(value), nil
}

// problem is what is wrong with a value, "" if nothing is.
func (s *Schema) problem(value any) string {
	var err error
	if !s.bounded(func() { err = s.compiled.Validate(value) }) {
		return tooMuchWorkText
	}
	if err == nil {
		return ""
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	var problems []string
	more := leaves(invalid, message.NewPrinter(language.English), &problems)
	text := strings.Join(problems, "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// bounded does what checks values, and reports whether it came to its end.
func (s *Schema) bounded(f func()) (done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = checkWork
	defer func() {
		r := recover()
		if _, much := r.(tooMuchWork); r != nil && !much {
			panic(r)
		}
	}()
	f()
	return true
}

// leaves collects the causes that have no further cause, and counts those for which
// there is no room.
func leaves(e *jsonschema.ValidationError, p *message.Printer, out *[]string) (more int) {
	if len(e.Causes) > 0 {
		for _, c := range e.Causes {
			more += leaves(c, p, out)
		}
		return more
	}
	if len(*out) == shownProblems {
		return 1
	}
	text := agent.Shorten(e.ErrorKind.LocalizedString(p), 400, "…")
	if len(e.InstanceLocation) > 0 {
		text = strings.Join(e.InstanceLocation, ".") + ": " + text
	}
	*out = append(*out, text)
	return 0
}
