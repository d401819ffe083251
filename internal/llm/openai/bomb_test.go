package openai

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bomb answers with little that becomes endless when it is inflated.
func bomb(kind, head, more string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, err := io.WriteString(z, head)
		for piece := strings.Repeat(more, 1<<20/len(more)); err == nil; {
			_, err = io.WriteString(z, piece)
		}
	}
}

// A provider's reply is bounded after it was inflated, as one event, as many, and as one
// document.
func TestFault_A20_InflatedRepliesAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ kind, head, more string }{
		"one event":               {"text/event-stream", `data: {"choices":[{"index":0,"delta":{"content":"`, "x"},
		"events":                  {"text/event-stream", "", "data: " + says(strings.Repeat("word ", 1000)) + "\n\n"},
		"one event in many lines": {"text/event-stream", "data: {\"choices\":[{\"index\":0},\n", "data: {},{}\n"},
		"a document":              {"application/json", `{"choices":[{"message":{"content":"`, "x"},
		"spaces":                  {"application/json", `{`, " "},
	} {
		o := against(t, bomb(c.kind, c.head, c.more))
		require.ErrorContains(t, o.err, "larger than", name)
	}
}

// Arguments in very many pieces are not read again with each: the reply ends.
func TestFault_A21_ArgumentsInVeryManyPieces(t *testing.T) {
	for name, piece := range map[string]string{
		"objects":       `{"index":0,"function":{"name":"ls","arguments":{"k%d":1}}}`,
		"name repeated": `{"id":"c1","function":{"name":"ls","arguments":",{}"}}`,
	} {
		chunks := []string{calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{\"a\":[{}"}}`)}
		if name == "objects" {
			chunks = nil
		}
		for i := range 5000 {
			p := piece
			if strings.Contains(p, "%d") {
				p = fmt.Sprintf(p, i)
			}
			chunks = append(chunks, calls(p))
		}
		o := against(t, sends(events(append(chunks, ends("tool_calls"), done)...)), func(c *Config) { c.MaxReplyBytes = 200_000 })
		require.ErrorContains(t, o.err, "larger than", name)
	}
}

// What a provider wants back with a call is kept only if all that holds the call can be
// read again.
func TestFault_A22_DeepExtraContentIsLeftOut(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	o := against(t, sends(events(calls(`{"index":0,"id":"c1","function":{"name":"ls","arguments":"{}"},"extra_content":`+deep+`}`), ends("tool_calls"), done)))
	require.NoError(t, o.err)
	require.Len(t, o.reply.Calls, 1)
	require.Empty(t, o.reply.Calls[0].Extra)
}
