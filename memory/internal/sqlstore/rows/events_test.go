package rows

import (
	"strings"
	"testing"
)

// Arguments of a model are a value that every document can hold.
func TestArgumentsFitIntoDocuments(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for arguments, want := range map[string]string{
		"": `{}`, `{"a":[1]}`: `{"a":[1]}`, `{"a":`: `"{\"a\":"`, deep: `"` + deep + `"`, `{"n":1e999999}`: `"{\"n\":1e999999}"`,
	} {
		if got := string(JSONArgs(arguments)); got != want {
			t.Errorf("%.30s became %.60s", arguments, got)
		}
	}
}
