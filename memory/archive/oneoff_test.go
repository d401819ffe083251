package archive_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sessionfile"
	"github.com/spool-agents/spool/memory/verify"
)

// placesZ lists the ways to all single values of a document.
func placesZ(v any, at []any) (out [][]any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			out = append(out, placesZ(e, append(at[:len(at):len(at)], k))...)
		}
	case []any:
		for i, e := range v {
			out = append(out, placesZ(e, append(at[:len(at):len(at)], i))...)
		}
	default:
		return [][]any{at}
	}
	return out
}

// changeZ edits one value of a document in place.
func changeZ(doc any, at []any) {
	for _, step := range at[:len(at)-1] {
		doc = childZ(doc, step)
	}
	last := at[len(at)-1]
	var by any
	switch old := childZ(doc, last).(type) {
	case string:
		by = map[string]any{"s":nil,"n":7.0,"e":"","l":[]any{}}[os.Getenv("EDIT")]
	case float64:
		by = map[string]any{"s":"y","n":nil,"e":-old,"l":1e15}[os.Getenv("EDIT")]
	case bool:
		by = !old
	default:
		by = "x"
	}
	if m, ok := doc.(map[string]any); ok {
		m[last.(string)] = by
	} else {
		doc.([]any)[last.(int)] = by
	}
}

func childZ(doc, step any) any {
	if m, ok := doc.(map[string]any); ok {
		return m[step.(string)]
	}
	return doc.([]any)[step.(int)]
}

// rawZ are words of databases and programs, which say nothing to a person.
var rawZ = regexp.MustCompile(`(?i)sqlite|sql:|constraint|datatype|SQLSTATE|unmarshal|converting|goroutine`)

// Whatever value of an export is edited: it imports only if the store is sound then, and
// a refusal is in words.
func TestOneOff(t *testing.T) {
	a := store(t, memorytest.NewClock())
	sub := answer(t, a, send(t, a, user, "s1", "default", "hello"), "general")
	f := folder(t)
	_, err := archive.Export(t.Context(), a, f, owner, "s1", sessionfile.EventOptions{})
	ok(t, err)
	main, err := f.Path(mainSession("s1"))
	ok(t, err)
	childZ, err := f.Path(subAgent(strings.TrimPrefix(sub, "agent:general:"), "s1/default", "s1/default"))
	ok(t, err)
	for _, path := range []string{main, childZ} {
		whole, err := os.ReadFile(path)
		ok(t, err)
		var doc any
		ok(t, json.Unmarshal(whole, &doc))
		for _, at := range placesZ(doc, nil) {
			var edited any
			ok(t, json.Unmarshal(whole, &edited))
			changeZ(edited, at)
			text, err := json.Marshal(edited)
			ok(t, err)
			ok(t, os.WriteFile(path, text, 0o600))
			s := store(t, memorytest.NewClock())
			in, err := archive.Import(t.Context(), s, f, owner, "")
			ok(t, err)
			for _, r := range in.Refused {
				if rawZ.MatchString(r.Error()) {
					t.Errorf("%v: %s", at, r.Error())
				}
			}
			report, err := verify.Check(t.Context(), s, verify.Options{})
			ok(t, err)
			for _, v := range report.Violations {
				t.Errorf("%v imports, but %s", at, v)
			}
			ok(t, s.Close())
		}
		ok(t, os.WriteFile(path, whole, 0o600))
	}
}

