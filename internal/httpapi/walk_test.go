package httpapi_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory/memorytest"
)

// belongings are ids of what a user has, by the kind of id.
type belongings map[string]string

var nobodys = belongings{
	"user": "nobody", "session": "nobody", "thread": "nobody/default", "turn": "t0123456789abcdef", "call": "call_0123456789abcdef_1_0", "task": "task_0123456789abcdef_1_0",
	"approval": "appr_0123456789abcdef_1", "question": "quest_0123456789abcdef", "agent": "agent:general:general-1-0123456789ab", "message": "t0123456789abcdef.0",
}

// idsOf says what kind of id a parameter, or a member of a body, holds. "" = it names
// nothing that belongs to a user. A new name has to be added here.
var idsOf = map[string]string{
	"user": "user", "thread": "thread", "threadId": "thread", "chatId": "thread", "root": "thread", "parent": "thread", "prefix": "thread", "inspect": "thread", "X-Spool-Thread": "thread",
	"session": "session", "sessionId": "session", "turn": "turn", "turnId": "turn", "untilTurn": "turn", "call": "call", "calls": "call", "task": "task",
	"approval": "approval", "question": "question", "id": "agent", "at": "message",

	"name":  "", // the digest of an image: who knows it has the image, or a message that shows it
	"model": "", "agent": "", "workdir": "", "after": "", "before": "", "from": "", "since": "", "limit": "", "status": "", "rule": "", "source": "", "Last-Event-ID": "", "Idempotency-Key": "",
	"conversationId": "", "messageId": "", "requestId": "", "content": "", "messages": "", "text": "", "role": "", "verdict": "", "instruction": "", "arguments": "", "whenBusy": "",
	"answerSchema": "", "data": "", "token": "", "step": "", "q": "", "format": "", "topic": "", "stream_options": "", "metadata": "", "response_format": "",
}

// values are what a body needs beside ids, where "x" would not do.
var values = map[string]any{
	"role": "user", "status": "completed", "model": "general", "step": "1", "data": memorytest.Picture(1), "name": strings.Repeat("0", 64) + ".png",
	"messages": []any{map[string]any{"role": "user", "content": "script: say x"}},
}

// has makes something of every kind for a user. All that the user wrote has a word that
// stands nowhere else.
func (b *bench) has(user, token string) (mine belongings, word string) {
	b.t.Helper()
	word = "zebra-" + user
	send := func(session, text string) (r spool.Reply) {
		b.send(as(b.request(http.MethodPost, "/api/v1/messages", map[string]any{"sessionId": b.Session(session), "content": text}), token)).is(http.StatusAccepted).into(&r)
		return r
	}
	ends := func(r spool.Reply) (now spool.Reply) {
		tt.Eventually(b.t, "the turn waits for "+user, func() bool {
			b.send(as(b.request(http.MethodGet, "/api/v1/threads/"+id(r.ThreadID)+"/turns/"+r.TurnID, nil), token)).is(http.StatusOK).into(&now)
			return len(now.Pending)+len(now.Questions) > 0
		})
		return now
	}
	child := script.Script(script.Calls(script.Call("shell", map[string]any{"command": "echo " + word})), "say never")
	asks := send("thread-of-"+user, script.Script(script.Task("general", child), "say never"))
	pending := ends(asks).Pending[0]
	questions := ends(send("asks-of-"+user, script.Script(script.Call("ask_user", map[string]any{"question": word + "?"}), "say never"))).Questions
	return belongings{
		"user": user, "session": b.Session("thread-of-" + user), "thread": asks.ThreadID, "task": agent.TaskID(agent.CallID(asks.TurnID, 1, 0)), "turn": asks.TurnID, "call": pending.ToolCalls[0].ID,
		"approval": pending.ApprovalID, "question": questions[0].QuestionID, "agent": pending.ThreadID, "message": asks.TurnID + ".0",
	}, word
}

// attempt is a request to a route, with ids in its path or in one other place.
type attempt struct {
	path   string
	named  bool // the path has ids
	begins bool // with an id that nobody has, something new may begin
	header http.Header
	body   map[string]any
}

// walker tries every route of the document.
type walker struct {
	*bench
	d     *described
	token string
	mine  belongings
}

// kind is what a name holds. Nothing that a route takes is left out of the tests.
func (w walker) kind(o httpapi.Operation, name string) string {
	kind, known := idsOf[name]
	require.True(w.t, known, "%v takes %q: say in idsOf what it names", o, name)
	return kind
}

// parameters are those that the document gives a route, by where they stand.
func (w walker) parameters(o httpapi.Operation) map[string][]string {
	out := map[string][]string{}
	item, _ := w.d.at("paths", o.Path)
	op, _ := w.d.at("paths", o.Path, strings.ToLower(o.Method))
	for _, list := range []any{item["parameters"], op["parameters"]} {
		list, _ := list.([]any)
		for _, p := range list {
			p := w.resolve(p)
			if kind := p["schema"].(map[string]any)["type"]; kind != "boolean" && kind != "integer" {
				in := p["in"].(string)
				out[in] = append(out[in], p["name"].(string))
			}
		}
	}
	return out
}

func (w walker) resolve(node any) map[string]any {
	n := node.(map[string]any)
	if ref, ok := n["$ref"].(string); ok {
		n, _ = w.d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return n
}

// members are those of a route's body, and the ones without which it is not valid.
func (w walker) members(o httpapi.Operation) (all map[string]any, required []any) {
	schema, _ := w.d.at("paths", o.Path, strings.ToLower(o.Method), "requestBody", "content", "application/json", "schema")
	all, _ = schema["properties"].(map[string]any)
	required, _ = schema["required"].([]any)
	return all, required
}

// fill writes the path of a route with ids of somebody.
func (w walker) fill(o httpapi.Operation, ids belongings) string {
	path := o.Path
	for _, name := range w.parameters(o)["path"] {
		value, _ := values[name].(string)
		if kind := w.kind(o, name); kind != "" {
			value = ids[kind]
		}
		require.NotEmpty(w.t, value, "%v has no value for %s", o, name)
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	require.NotContains(w.t, path, "{", "%v", o)
	return path
}

// body is the least that a route takes.
func (w walker) body(o httpapi.Operation) map[string]any {
	all, required := w.members(o)
	if o.Method != http.MethodPost && o.Method != http.MethodPatch {
		return nil
	}
	body := map[string]any{}
	for _, name := range required {
		name := name.(string)
		schema := w.resolve(all[name])
		switch choices, _ := schema["enum"].([]any); {
		case values[name] != nil:
			body[name] = values[name]
		case len(choices) > 0:
			body[name] = choices[0]
		default:
			body[name] = "x"
		}
	}
	return body
}

// attempts are requests with ids of somebody: all in the path, and each elsewhere.
func (w walker) attempts(o httpapi.Operation, ids belongings) []attempt {
	own := w.fill(o, w.mine)
	path := w.fill(o, ids)
	out := []attempt{{path: path, named: path != own, body: w.body(o)}}
	mixed := maps.Clone(ids) // below one's own path
	mixed["user"] = w.mine["user"]
	if below := w.fill(o, mixed); below != path && below != own {
		out = append(out, attempt{path: below, named: true, begins: o.Method == http.MethodPost, body: w.body(o)})
	}
	parameters := w.parameters(o)
	for _, name := range parameters["query"] {
		if kind := w.kind(o, name); kind != "" {
			out = append(out, attempt{path: own + "?" + url.Values{name: {ids[kind]}}.Encode(), body: w.body(o)})
		}
	}
	for _, name := range parameters["header"] {
		if kind := w.kind(o, name); kind != "" {
			out = append(out, attempt{path: own, begins: true, header: http.Header{name: {ids[kind]}}, body: w.body(o)})
		}
	}
	all, _ := w.members(o)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		schema := w.resolve(all[name])
		if kind := schema["type"]; kind == "boolean" || kind == "integer" {
			continue
		}
		body := w.body(o)
		switch kind := w.kind(o, name); {
		case name == "from":
			body[name] = map[string]string{ids["thread"]: "0"}
		case kind == "":
			continue
		case schema["type"] == "array":
			body[name] = []string{ids[kind]}
		default:
			body[name] = ids[kind]
		}
		out = append(out, attempt{path: own, begins: true, body: body})
	}
	return out
}

// ask makes a request; what it answers has not the word. Ids of somebody in the answer
// are replaced: errors may name what was asked for. Of a stream it reads the beginning.
func (w walker) ask(o httpapi.Operation, a attempt, ids belongings, word string) answer {
	w.t.Helper()
	var body any
	if a.body != nil {
		body = a.body
	}
	r := as(w.request(o.Method, a.path, body), w.token)
	maps.Copy(r.Header, a.header)
	res, err := w.do.RoundTrip(r)
	require.NoError(w.t, err)
	defer res.Body.Close()
	var text strings.Builder
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for events := 0; events < 3 && lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "data: ") {
			events++
		}
	}
	out := strings.ReplaceAll(text.String(), `"administrator":"tester"`, "") // everybody is told
	require.NotContains(w.t, out, word, "%s asks %v %s %s", w.mine["user"], o, a.path, a.body)
	list := slices.SortedFunc(maps.Values(ids), func(a, b string) int { return len(b) - len(a) })
	for _, value := range list {
		out = strings.NewReplacer(value, "ID", url.PathEscape(value), "ID", url.QueryEscape(value), "ID").Replace(out)
	}
	return answer{w.t, res.StatusCode, res.Header, out}
}

// F2: what belongs to one user does not exist for another, administrator or not, on any
// route of the document: each answers as it does for what nobody has. A new route is
// tried without being named here.
func TestFault_F2_OtherUsers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.asks()
	b.StartWorker()
	d := newDescribed(t)
	owns, words := map[string]belongings{}, map[string]string{}
	tokens := map[string]string{"tester": token, "eve": other, "bob": third}
	for user, token := range tokens {
		owns[user], words[user] = b.has(user, token)
	}
	tried := 0
	for _, pair := range [][2]string{{"eve", "bob"}, {"eve", "tester"}, {"tester", "bob"}} {
		w := walker{b, d, tokens[pair[0]], owns[pair[0]]}
		for _, o := range httpapi.Operations() {
			theirs, none := w.attempts(o, owns[pair[1]]), w.attempts(o, nobodys)
			for i, a := range theirs {
				got := w.ask(o, a, owns[pair[1]], words[pair[1]])
				what, _ := json.Marshal(a.body)
				if a.begins && strings.Contains(got.body, "the session name ID cannot be used: choose another") {
					require.Equal(t, http.StatusConflict, got.status)
					tried++
					continue // what it would begin cannot have the name, whosever it is
				}
				if a.named && !strings.HasSuffix(o.Path, "/tails") { // those of a thread that does not exist yet are empty
					require.Equal(t, http.StatusNotFound, got.status, "%s asks %v %s %s: %s", pair[0], o, a.path, what, got.body)
				}
				tried++
				if a.begins && got.status == http.StatusNotFound {
					continue
				}
				want := w.ask(o, none[i], nobodys, words[pair[1]])
				require.Equal(t, want.status, got.status, "%s asks %v %s %s: %s", pair[0], o, a.path, what, got.body)
				if got.status >= 300 || a.named || strings.Contains(a.path, "?") {
					require.Equal(t, want.body, got.body, "%s asks %v %s %s", pair[0], o, a.path, what)
				}
			}
		}
	}
	require.Greater(t, tried, 150)
	for user, mine := range owns {
		w := walker{b, d, tokens[user], mine}
		for path, kind := range map[string]string{"/api/v1/approvals": "approval", "/api/v1/questions": "question"} {
			if user != "eve" { // who has tried things with her own
				require.Contains(t, w.ask(httpapi.Operation{Method: http.MethodGet}, attempt{path: path}, nil, "zebra-nobody").body, mine[kind], "nothing of it had an effect")
			}
		}
	}
}
