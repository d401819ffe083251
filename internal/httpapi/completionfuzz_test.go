package httpapi

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// Whatever a client sends is refused, or becomes a message that the store takes: its
// images are references to what came with it, and nothing of the user's last words is
// lost.
func FuzzCompletionRequest(f *testing.F) {
	file, err := os.ReadFile("testdata/data-url-image.json")
	require.NoError(f, err)
	f.Add(file)
	for _, s := range []string{
		`{"model":"a","messages":[{"role":"user","content":"hi"}],"metadata":{"n":1,"conversation":null}}`,
		`{"messages":[{"role":"developer","content":[{"type":"text","text":"x"}]},{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","content":"t"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"image_url","image_url":"https://x/y.png"}]}]}`,
		`{"messages":[{"role":"assistant","refusal":"no","function_call":{"name":"f","arguments":"{}"}},{"role":"user","content":"a"},{"role":"user","content":["x"]}],"response_format":{"type":"json_object"},"tools":[1],"tool_choice":"none"}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"DATA:;base64,%41"}},{"type":"file"}]}],"response_format":{"type":"json_schema","json_schema":{"schema":null}}}`,
		`{"messages":[{"role":"user","content":7}],"metadata":[],"stream":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if agent.Said.Check(body) != nil {
			return
		}
		q, err := parseCompletion(body)
		if err != nil {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), err)
			return
		}
		latest, before := q.latest()
		require.Less(t, before, len(q.Messages))
		require.NotEmpty(t, said(latest))
		whole := q.whole()
		require.True(t, strings.HasSuffix(said(whole), said(joined(q.Messages[before:]))) || whole.Parts != nil)
		_, rest := cutInstructions(said(whole))
		require.NotEmpty(t, rest)
		for _, name := range whole.Images() {
			require.True(t, q.images[name] != nil || agent.CheckImageName(name))
		}
		again, err := json.Marshal(whole)
		require.NoError(t, err)
		var read agent.Content
		require.NoError(t, json.Unmarshal(again, &read))
		if len(latest.Images()) == len(whole.Images()) {
			require.NoError(t, agent.CheckContent(whole))
		}
	})
}
