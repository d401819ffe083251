package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
)

// described is the API's own description.
type described struct {
	t      *testing.T
	doc    map[string]any
	schema *jsonschema.Compiler

	mu   sync.Mutex
	seen map[httpapi.Operation]map[int]bool // statuses by operation
}

func newDescribed(t *testing.T) *described {
	t.Helper()
	raw, err := httpapi.OpenAPI()
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	d := &described{t: t, doc: doc.(map[string]any), schema: jsonschema.NewCompiler(), seen: map[httpapi.Operation]map[int]bool{}}
	d.schema.AssertFormat()
	require.NoError(t, d.schema.AddResource("openapi.json", doc))
	return d
}

func (d *described) operations() map[httpapi.Operation]bool {
	out := map[httpapi.Operation]bool{}
	for path, item := range d.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				out[httpapi.Operation{Method: strings.ToUpper(method), Path: path}] = true
			}
		}
	}
	return out
}

// at follows names from the document's root, and references on the way. It
// returns where it came to, as a JSON pointer.
func (d *described) at(names ...string) (map[string]any, string) {
	d.t.Helper()
	node, pointer := d.doc, ""
	for _, name := range names {
		next, ok := node[name].(map[string]any)
		if !ok {
			return nil, ""
		}
		node, pointer = next, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if ref, ok := node["$ref"].(string); ok {
			pointer = strings.TrimPrefix(ref, "#")
			node, _ = d.at(strings.Split(pointer[1:], "/")...)
		}
	}
	return node, pointer
}

// holds checks a document against the schema at a place.
func (d *described) holds(what string, raw []byte, names ...string) {
	d.t.Helper()
	node, pointer := d.at(names...)
	if node == nil {
		d.t.Errorf("%s: the document has no %v", what, names)
		return
	}
	d.mu.Lock()
	schema, err := d.schema.Compile("openapi.json#" + pointer)
	d.mu.Unlock()
	require.NoError(d.t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		d.t.Errorf("%s: %v\n%s", what, err, raw)
	}
}

func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	d := newDescribed(t)
	routes := map[httpapi.Operation]bool{}
	for _, o := range httpapi.Operations() {
		routes[o] = true
		op, _ := d.at("paths", o.Path, strings.ToLower(o.Method))
		require.NotEmpty(t, op["operationId"], "%v", o)
		require.NotEmpty(t, op["responses"].(map[string]any)["default"], "%v says how it fails", o)
		given, taken := map[string]bool{}, strings.Fields(httpapi.Takes(o)) // parameters of the path, and behind it
		item, _ := d.at("paths", o.Path)
		named := append(d.parameters(item, "query"), d.parameters(op, "query")...)
		if !slices.Equal(taken, []string{"*"}) {
			require.ElementsMatch(t, named, taken, "%v takes the parameters that are described, and no other", o)
		}
		for _, name := range append(d.parameters(item, "path"), d.parameters(op, "path")...) {
			given["{"+name+"}"] = true
		}
		for _, part := range strings.Split(o.Path, "/") {
			require.True(t, !strings.HasPrefix(part, "{") || given[part], "%v: parameter %s is described", o, part)
		}
	}
	require.Equal(t, routes, d.operations())
}

// parameters are the names of those that a path or an operation has in one place.
func (d *described) parameters(of map[string]any, in string) (names []string) {
	list, _ := of["parameters"].([]any)
	for _, p := range list {
		p := p.(map[string]any)
		if ref, ok := p["$ref"].(string); ok {
			p, _ = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		if p["in"] == in {
			names = append(names, p["name"].(string))
		}
	}
	return names
}

// The document is OpenAPI 3.1, as its own schema says.
func TestTheDocumentIsOpenAPI(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "openapi-3.1.json"))
	require.NoError(t, err)
	meta, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("meta.json", meta))
	schema, err := c.Compile("meta.json")
	require.NoError(t, err)
	require.NoError(t, schema.Validate(newDescribed(t).doc))
}

// RoundTrip sends a request and holds the answer against the document, and the
// request too if it was accepted.
func (d *described) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		sent, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, err
	}
	again := func() *http.Response {
		res.Body = io.NopCloser(bytes.NewReader(raw))
		return res
	}
	o, known := d.operationOf(r)
	if !known { // an unknown path is answered with an error
		d.holds(r.URL.Path, raw, "components", "schemas", "Error")
		return again(), nil
	}
	d.mu.Lock()
	if d.seen[o] == nil {
		d.seen[o] = map[int]bool{}
	}
	d.seen[o][res.StatusCode] = true
	d.mu.Unlock()
	what := fmt.Sprintf("%s %s answers %d", r.Method, r.URL, res.StatusCode)
	op := []string{"paths", o.Path, strings.ToLower(o.Method)}
	response := append(op, "responses", strconv.Itoa(res.StatusCode))
	if node, _ := d.at(response...); node == nil {
		if res.StatusCode < 400 {
			d.t.Errorf("%s, which is not described", what)
		}
		response = append(op, "responses", "default")
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	content, _ := d.at(append(slices.Clone(response), "content")...)
	if content[kind] == nil {
		d.t.Errorf("%s with %s, which is not described", what, kind)
	}
	if kind == "application/json" {
		d.holds(what, raw, append(slices.Clone(response), "content", kind, "schema")...)
	}
	if res.StatusCode < 300 && len(sent) > 0 {
		d.holds("the body that was accepted: "+what, sent, append(slices.Clone(op), "requestBody", "content", "application/json", "schema")...)
	}
	if res.StatusCode < 300 {
		d.takes(what, r, op)
	}
	if kind == "text/event-stream" {
		for _, e := range (answer{d.t, res.StatusCode, res.Header, string(raw)}).events() {
			if schema := map[string]string{"update": "Update", "thread": "Thread", "failure": "Error", "asked": "Asked", "health": "Health"}[e.name]; schema != "" {
				d.holds(what, []byte(e.data), "components", "schemas", schema)
			}
		}
	}
	return again(), nil
}

// takes checks that the parameters of a request are described.
func (d *described) takes(what string, r *http.Request, op []string) {
	d.t.Helper()
	node, _ := d.at(op...)
	known := d.parameters(node, "query")
	for name := range r.URL.Query() {
		if !slices.Contains(known, name) {
			d.t.Errorf("%s: the parameter %s was accepted and is not described", what, name)
		}
	}
}

// operationOf finds the route of a request, by its parts.
func (d *described) operationOf(r *http.Request) (httpapi.Operation, bool) {
	parts := strings.Split(r.URL.EscapedPath(), "/")
	for _, o := range httpapi.Operations() {
		want := strings.Split(o.Path, "/")
		same := o.Method == r.Method && len(want) == len(parts)
		for i := 0; same && i < len(want); i++ {
			same = want[i] == parts[i] || strings.HasPrefix(want[i], "{")
		}
		if same {
			return o, true
		}
	}
	return httpapi.Operation{}, false
}

// A scripted run uses every operation; each answer, right or wrong, is as the
// document says.
func TestAnswersAreAsTheDocumentSays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := newDescribed(t)
	b.do = d
	b.asks()
	b.StartWorker()
	b.get("/healthz").is(200)
	b.get("/livez").is(200)
	b.get("/readyz").is(200)
	b.get("/metrics").is(200)
	b.get("/api/v1/openapi.json").is(200)
	b.post("/api/v1/login", map[string]string{"token": token}).is(200)
	b.post("/api/v1/login", map[string]string{"token": "a wrong one"}).fails(401, "unauthorized")
	b.post("/api/v1/logout", nil).is(200)
	b.get("/api/v1/me").is(200)
	png := memorytest.Picture(1)
	kept := b.post("/api/v1/images", map[string]any{"data": png}).is(200)
	var image struct{ URL string }
	kept.into(&image)
	require.Equal(t, string(png), b.get("/api/v1/images/"+strings.TrimPrefix(image.URL, "image:")).is(200).body)
	b.post("/api/v1/images", map[string]any{"data": []byte("<svg>")}).fails(400, "invalid")
	b.get("/api/v1/images/..%2Fweb.key").fails(404, "not_found")
	b.get("/api/v1/agents").is(200)

	child := script.Script(script.Calls(script.Call("shell", map[string]any{"command": "echo hello"})), "echo the child saw")
	r := b.say("s", script.Script("think hm => "+script.Calls(script.Call("calculator", map[string]any{"expression": "6*7"}), script.Task("general", child)), "echo it says"))
	pending := b.ends(r)
	require.Equal(t, "waiting_for_approval", pending.Status)
	thread := "/api/v1/threads/" + id(r.ThreadID)
	b.get(thread + "?events=true&last=3").is(200)
	b.post("/api/v1/messages", map[string]any{"threadId": r.ThreadID, "content": "go on"}).fails(409, "conflict", "approval")
	b.get("/api/v1/approvals").is(200)
	b.get("/api/v1/open?last=3&inspect=nobody%2Fdefault&thread=" + id(r.ThreadID)).is(200)
	b.get("/api/v1/views?thread=" + id(r.ThreadID)).is(200)
	b.get("/api/v1/views?thread=1&thread=2&thread=3&thread=4&thread=5").fails(400, "invalid", "four")
	b.get("/api/v1/follow?threads=true&once=true").is(200)
	b.get("/api/v1/approvals?thread=" + id(r.ThreadID)).is(200)
	decision := "/api/v1/approvals/" + pending.Pending[0].ApprovalID + "/decision"
	b.post(decision, map[string]any{"verdict": "perhaps"}).fails(400, "invalid")
	b.post(decision, map[string]any{"verdict": memory.ApproveAll, "narrow": true}).is(200)
	b.post(decision, map[string]any{"verdict": memory.ApproveAll, "narrow": true}).is(200)
	b.post(decision, map[string]any{"verdict": memory.Deny}).fails(409, "conflict", "tester")
	end := b.ends(r)
	require.Equal(t, "completed", end.Status, end.Error)
	require.Contains(t, end.Response, "hello")

	b.get("/api/v1/decisions").is(200)
	session := "session=" + id(b.Session("s"))
	require.Contains(t, b.get("/api/v1/permissions?"+session).is(200).body, `"rule":"shell(echo *)"`)
	allowed := b.request(http.MethodDelete, "/api/v1/permissions?agent=general&source=built+in&rule=shell%28echo+%2A%29&"+session, nil)
	b.send(allowed).is(200)
	b.send(allowed).fails(404, "not_found", "shell(echo *)")
	b.get("/api/v1/threads?all=true&limit=1").is(200)
	b.get("/api/v1/threads?after=nonsense").fails(400, "invalid", "the list before")
	b.get(thread + "/messages?limit=2").is(200)
	b.get(thread + "/messages?before=3&limit=5&calls=true").is(200)
	b.get(thread+"/messages?before=3&after=1").fails(400, "invalid")
	b.get(thread+"/messages?bogus=1").fails(400, "invalid", "bogus")
	b.get(thread + "/events?after=2&limit=1000").is(200)
	b.get(thread + "/tasks").is(200)
	b.get(thread + "/trace").is(200)
	b.get(thread + "/tails").is(200)
	b.get(thread + "/turns/" + r.TurnID + "?served=true").is(200)
	b.get(thread + "/turns").is(200)
	b.spans(r)
	b.get(thread+"/turns/nonsense").fails(404, "not_found")
	var calls struct {
		ToolCalls []struct{ ID, SubAgentThreadID string }
	}
	b.get(thread + "/tool-calls").is(200).into(&calls)
	b.get("/api/v1/tool-calls/" + calls.ToolCalls[0].ID + "/output").is(200)
	b.get("/api/v1/tool-calls/nonsense/output").fails(404, "not_found")
	b.get("/api/v1/tool-calls/" + calls.ToolCalls[0].ID + "/before").is(200)
	sub := calls.ToolCalls[1].SubAgentThreadID
	b.get("/api/v1/threads/" + sub + "/trace").is(200)

	require.NotEmpty(t, b.get(thread+"/follow?untilIdle=true").is(200).events())
	b.get(thread+"/follow?from=nonsense").fails(400, "invalid", "cursor")
	require.NotEmpty(t, b.post(thread+"/follow", map[string]any{"untilIdle": true}).is(200).events())
	b.get("/api/v1/follow").fails(400, "invalid", "thread=")
	b.get("/api/v1/follow?thread=nonsense%2Fx").fails(404, "not_found")

	chat := "/api/v1/users/tester/orch-chats/" + id(r.ThreadID)
	b.get("/api/v1/users/tester/orch-chats?limit=1").is(200)
	b.get(chat).is(200)
	b.get(chat + "/messages").is(200)
	b.get(chat + "/tasks").is(200)
	b.get(chat + "/sub-agents").is(200)
	b.get(chat + "/sub-agents/" + sub).is(200)
	b.get(chat + "/sub-agents/" + sub + "/messages").is(200)
	require.Contains(t, b.get(chat+"/sub-agents/"+sub+"/tool-calls").is(200).body, `"userId":"tester"`)
	b.tree(r.ThreadID)
	var again struct{ ThreadID, TurnID string }
	b.post(chat+"/messages", map[string]any{"role": "user", "content": "script: slow 100ms say " + strings.Repeat("word ", 300)}).is(202).into(&again)
	b.post(thread+"/fork", map[string]any{"conversationId": "again", "requestId": "f1"}).is(200)
	b.post(thread+"/fork", map[string]any{"at": "nothing"}).fails(404, "not_found")
	b.opens(r.ThreadID)
	b.post(thread+"/cancel", map[string]any{"turnId": again.TurnID}).is(200)
	b.post(thread+"/cancel", map[string]any{"turnId": again.TurnID}).is(200)
	b.post(thread+"/retry", map[string]any{"requestId": "r1"}).is(202)
	b.opens(r.ThreadID)
	b.post(thread+"/cancel", map[string]any{"all": true}).is(200)
	b.get("/v1/models").is(200)
	b.get("/v1/models/general").is(200)
	b.get("/v1/models/nobody").is(404)
	ask := map[string]any{"model": "orchestrator", "messages": []any{map[string]any{"role": "user", "content": "script: say hi"}}}
	b.post("/v1/chat/completions", ask).is(200)
	ask["stream"] = true
	b.post("/v1/chat/completions", ask).is(200)
	ask["n"] = 2
	b.post("/v1/chat/completions", ask).is(400)
	r = b.say("q", script.Script(script.Call("ask_user", map[string]any{"question": "Which one?"}), "echo you said"))
	asked := b.ends(r)
	require.Equal(t, "waiting_for_user", asked.Status)
	b.get("/api/v1/questions").is(200)
	b.get("/api/v1/threads/" + id(r.ThreadID)).is(200)
	require.Contains(t, b.get("/api/v1/threads/"+id(r.ThreadID)+"/trace").is(200).body, "Which one?")
	reply := "/api/v1/questions/" + asked.Questions[0].QuestionID + "/answer"
	b.post(reply, map[string]any{"text": "the blue one"}).is(200)
	b.post(reply, map[string]any{"text": "the blue one"}).is(200)
	b.post(reply, map[string]any{"text": "the red one"}).fails(409, "conflict", "tester")
	require.Contains(t, b.ends(r).Response, "the blue one")
	r = b.say("q", script.Script(script.Call("ask_user", map[string]any{"question": "And now?"}), "echo you said"))
	require.Equal(t, "waiting_for_user", b.ends(r).Status)
	var told spool.Reply
	b.post("/api/v1/messages", map[string]any{"threadId": r.ThreadID, "content": "now this"}).is(202).into(&told)
	require.NotNil(t, told.Answered, "a plain message answers the one open question")
	require.Contains(t, b.ends(r).Response, "now this")
	r = b.say("bad", "script: fail 400 say never")
	require.Equal(t, "failed", b.ends(r).Status)
	for _, path := range []string{"", "/trace"} {
		require.Contains(t, b.get("/api/v1/threads/"+id(r.ThreadID)+path).is(200).body, `"error":{"code":"bad_request","message":`)
	}
	b.waitsForTheModel()
	b.manages()
	b.get("/api/v1/nothing/here").fails(404, "not_found")
	b.Verify()

	for o := range d.operations() {
		good := false
		for status := range d.seen[o] {
			good = good || status < 300
		}
		if o.Path == "/api/v1/follow" { // never ends: TestOneStreamForAPage reads it
			continue
		}
		require.True(t, good, "%v was not used with success", o)
	}
}
