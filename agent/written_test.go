package agent_test

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
)

// A file is the same text, however an editor saves it.
func TestCase_B01_WrittenText(t *testing.T) {
	for in, want := range map[string]string{
		"\ufeffa: é\r\nb\r": "a: é\nb\n", "a\n": "a\n", "": "", "\ufeff": "", "\xff\xfea\x00\r\x00\n\x00\xe9\x00": "a\né", "\xfe\xff\x00a": "a",
	} {
		got, err := agent.WrittenText([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%q is %q, %v", in, got, err)
		}
	}
	_, err := agent.WrittenText([]byte("a\nb\r\ncaf\xe9\n"))
	var text *agent.NotTextError
	if !errors.As(err, &text) || text.Line != 3 {
		t.Errorf("%v", err)
	}
}

// What cannot be read is told in words of the file.
func TestCase_B01_PlainProblems(t *testing.T) {
	type row struct{ B bool }
	var into struct{ A []row }
	for in, want := range map[string]string{`{"A":{}}`: "A must be an array, not object", `{"A":[{"B":"yes"}]}`: "A.B must be true or false, not string", `{`: "unexpected end of JSON input"} {
		if got := agent.PlainProblem(json.Unmarshal([]byte(in), &into).Error()); got != want {
			t.Errorf("%s is %q", in, got)
		}
	}
	if got := agent.PlainProblem(json.Unmarshal([]byte(`[]`), new(row)).Error()); got != "it must be an object or text, not array" {
		t.Error(got)
	}
	if got := agent.PlainProblem("window: cannot unmarshal string into Go struct field content.Models of type int64"); got != "window must be a whole number, not string" {
		t.Error(got)
	}
}

func FuzzWrittenText(f *testing.F) {
	for _, s := range []string{"a\r\nb", "\ufeff\ufeffx", "\xff\xfe\x00\xd8", "caf\xe9"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := agent.WrittenText(data)
		if err != nil {
			return
		}
		if !utf8.Valid(out) {
			t.Fatalf("%q becomes %q", data, out)
		}
		again, err := agent.WrittenText(append([]byte("\ufeff"), out...))
		if err != nil || string(again) != string(out) {
			t.Fatalf("%q with a mark becomes %q, %v", out, again, err)
		}
	})
}
