package mcp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

const numbers = `{"any":[9007199254740993,-9223372036854775808,18446744073709551615,0.1000000000000000055511151231257827,100000000000000000000.50,-0,12345678901234567890123456789]}`

// Numbers keep their digits, over each transport: in arguments, structured results and schemas.
func TestCase_M01_NumbersAreExact(t *testing.T) {
	address := freeAddress(t)
	serveHTTP(t, address)
	f := begin(t, object{"pipe": stdio(t, "-odd"), "web": object{"url": "http://" + address, "headers": object{"Authorization": "Bearer sesame"}}})
	for _, name := range []string{"mcp__pipe__exact", "mcp__web__exact"} {
		r := f.tools.Run(t.Context(), name, agent.ToolRun{CallID: "c", Args: json.RawMessage(numbers)})
		assert.Equal(t, numbers, r.Content, name)
	}
	spec, ok := f.tools.Lookup("mcp__pipe__lookahead")
	require.True(t, ok)
	assert.Contains(t, string(spec.Spec().Schema), `"default":9007199254740993`)
}

// A failure that only structured content tells of is told.
func TestCase_M01_StructuredErrors(t *testing.T) {
	f := begin(t, object{"s": stdio(t)})
	r := f.tools.Run(t.Context(), "mcp__s__exact", agent.ToolRun{CallID: "c", Args: json.RawMessage(`{"text":"fail","any":9007199254740993}`)})
	assert.Equal(t, agent.CallFailed, r.Status)
	assert.JSONEq(t, `{"text":"fail","any":9007199254740993}`, r.Content)
}

// Text that repeats the structured content is left out; one that differs in a digit is not.
func TestCase_M01_RepeatedContent(t *testing.T) {
	for text, want := range map[string]string{`{"n": 9007199254740993}`: `{"n": 9007199254740993}`, `{"n":9007199254740992}`: "{\"n\":9007199254740992}\n{\"n\":9007199254740993}"} {
		message := encoded(object{"result": object{"content": []object{{"type": "text", "text": text}}, "structuredContent": json.RawMessage(`{"n":9007199254740993}`)}})
		assert.Equal(t, want, resultIn(t, exactly(message)).Content)
	}
}

// What stands where a list or a yes should is not lost.
func TestCase_M10_OddShapesOfAResult(t *testing.T) {
	for message, want := range map[string]agent.ToolResult{
		`{"result":{"content":"said","isError":"yes"}}`:                   {Content: "said", Status: agent.CallFailed},
		`{"result":{"content":{"type":"text","text":"alone"}}}`:           {Content: "alone", Status: agent.CallSuccess},
		`{"result":{"content":[{"type":"text","text":"x"}],"isError":1}}`: {Content: "x", Status: agent.CallFailed},
	} {
		got := resultIn(t, exactly([]byte(message)))
		assert.Equal(t, want.Content, got.Content, message)
		assert.Equal(t, want.Status, got.Status, message)
	}
}

const shownBlocks = "before\n[block of type video not shown]\n[block of type tool_use not shown]\n[block of type image not shown]\n[block of type unknown not shown]\n" +
	"[block of type unknown not shown]\n[block of type unknown not shown]\n[block of type unknown not shown]\n[block of type xy not shown]\n" +
	"[resource without content]\n[resource a:b n]\nafter\n{\"id\":9007199254740993}"

// A block that is not known, or broken, is named; the rest is given.
func TestCase_M10_UnknownBlocksAreNamed(t *testing.T) {
	f := begin(t, object{"s": rudely(t, "plain")})
	assert.Equal(t, shownBlocks, f.ok("mcp__s__blocks", nil))
}

// The same in an answer that is a document, and in streams with the line ends of each kind.
func TestCase_M10_UnknownBlocksOverHTTP(t *testing.T) {
	for name, wrap := range map[string]func(string) (kind, body string){
		"document": func(s string) (string, string) { return "application/json", s },
		"stream": func(s string) (string, string) {
			return "text/event-stream", ": hello\n\nevent: message\ndata: " + s + "\n\n"
		},
		"crlf": func(s string) (string, string) {
			return "text/event-stream; charset=utf-8", "id: 1\r\ndata:" + s + "\r\n\r\n"
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m rpc
			if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			switch {
			case m.Method == "initialize":
				answer(w, m.ID, object{"protocolVersion": "2025-11-25", "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "rude", "version": "1"}})
			case len(m.ID) == 0:
				w.WriteHeader(http.StatusAccepted)
			case m.Method == "tools/list":
				answer(w, m.ID, object{"tools": []object{{"name": "blocks", "inputSchema": object{"type": "object"}}}})
			default:
				kind, body := wrap(string(encoded(object{"jsonrpc": "2.0", "id": m.ID, "result": json.RawMessage(blocks)})))
				w.Header().Set("Content-Type", kind)
				_, _ = w.Write([]byte(body))
			}
		}))
		f := begin(t, object{"web": object{"url": server.URL}})
		assert.Equal(t, shownBlocks, f.ok("mcp__web__blocks", nil), name)
		f.stop()
		f.stop = func() {}
		server.Close()
	}
}

// A tool that is broken takes no other one along.
func TestCase_M10_BrokenToolsTakeNothingAlong(t *testing.T) {
	var m struct{ Result sdk.ListToolsResult }
	require.NoError(t, json.Unmarshal(exactly([]byte(`{"id":1,"result":{"tools":[{"name":"good","inputSchema":{"type":"object"},"title":"T"},{"name":17},null,"x",{"name":"odd","description":"d","annotations":"none","title":5,
		"inputSchema":{"type":"object","properties":{"n":{"maximum":9007199254740993}}}}]}}`)), &m))
	require.Len(t, m.Result.Tools, 5)
	assert.Equal(t, [5]string{"good", "", "", "", "odd"}, [5]string{m.Result.Tools[0].Name, m.Result.Tools[1].Name, m.Result.Tools[2].Name, m.Result.Tools[3].Name, m.Result.Tools[4].Name})
	assert.Equal(t, [2]string{"T", "d"}, [2]string{m.Result.Tools[0].Title, m.Result.Tools[4].Description})
	assert.Contains(t, string(encoded(schemaIn(m.Result.Tools[4]))), "9007199254740993")
}

// What needs no change stays as it is, byte for byte.
func TestCase_M10_OtherMessagesStayAsTheyAre(t *testing.T) {
	for _, text := range []string{
		``, `{`, `[]`, `7`, `{"jsonrpc":"2.0","method":"notifications/message","params":{"result":1}}`, `{"id":1,"error":{"code":1,"message":"x"}}`,
		`{"id":1,"result":{"content":[{"type":"text","text":"<a> & b"}]}}`, `{"id":1,"result":null}`, `{"id":1,"result":{}}`, `{"id":1,"result":"x"}`,
	} {
		assert.Equal(t, text, string(exactly([]byte(text))))
	}
}

func resultIn(t *testing.T, message []byte) agent.ToolResult {
	t.Helper()
	var m struct{ Result sdk.CallToolResult }
	require.NoError(t, json.Unmarshal(message, &m))
	return resultOf(agent.ToolRun{}, &m.Result)
}

// A list whose cursor repeats itself, breaks off or has no end is used as far as it goes.
func TestCase_M06_PagingEnds(t *testing.T) {
	f := begin(t, object{
		"same": rudely(t, "same page"), "broken": rudely(t, "broken page"), "turns": rudely(t, "turns"), "empty": rudely(t, "pages"),
		"slow": with(rudely(t, "slow pages"), object{"startTimeout": 3000}), "plain": rudely(t, "plain"),
	})
	eventually(t, "the slow one is used as far as it came", func() bool { return strings.Contains(f.log.String(), "mcpServer=slow tools=") })
	names := strings.Join(f.names(), " ")
	for _, name := range []string{"mcp__same__echo", "mcp__broken__echo", "mcp__turns__t0", "mcp__turns__t1", "mcp__turns__t2", "mcp__slow__t1", "mcp__plain__echo"} {
		eventually(t, name, func() bool { return strings.Contains(strings.Join(f.names(), " "), name) })
	}
	assert.NotContains(t, names, "mcp__empty__")
	for _, server := range []string{"same", "turns", "empty"} {
		assert.Regexp(t, "repeats itself.*mcpServer="+server, f.log.String())
	}
	assert.Regexp(t, "does not give the rest.*mcpServer=broken", f.log.String())
	assert.Equal(t, "echo", f.ok("mcp__slow__t1", nil), "its session goes on")
}
