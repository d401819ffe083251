package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory/memorytest"
)

type obj = map[string]any

func said(role string, content any) obj { return obj{"role": role, "content": content} }

// chat is a client that asks a server.
type chat struct {
	*bench
	named string // in X-Spool-Thread
	key   string
	more  obj // other fields of its requests
}

// ask sends messages.
func (c *chat) ask(messages ...any) answer {
	c.t.Helper()
	body := obj{"model": "orchestrator", "messages": messages}
	for k, v := range c.more {
		body[k] = v
	}
	r := c.request(http.MethodPost, "/v1/chat/completions", body)
	if c.named != "" {
		r.Header.Set("X-Spool-Thread", c.named)
	}
	if c.key != "" {
		r.Header.Set("Idempotency-Key", c.key)
	}
	return c.send(r)
}

// text is the answer, and the conversation that gave it.
func (a answer) text() (text, thread string) {
	a.t.Helper()
	var out struct {
		Choices []struct{ Message struct{ Content string } }
	}
	a.is(200).into(&out)
	return out.Choices[0].Message.Content, a.header.Get("X-Spool-Thread")
}

// refused checks that an error is as OpenAI's clients know them.
func (a answer) refused(status int, param string, words ...string) {
	a.t.Helper()
	var out struct {
		Error struct{ Message, Type, Param, Code string }
	}
	a.is(status).into(&out)
	require.Equal(a.t, "invalid_request_error", out.Error.Type, a.body)
	require.NotEmpty(a.t, out.Error.Code)
	require.Equal(a.t, param, out.Error.Param, a.body)
	for _, w := range words {
		require.Contains(a.t, out.Error.Message, w)
	}
}

// heard are the texts of the user in a conversation.
func (b *bench) heard(thread string) (out []string) {
	b.t.Helper()
	all, err := b.Store.Messages(b.Ctx(), thread, 0, 0)
	require.NoError(b.t, err)
	for _, m := range all {
		if m.Role == agent.RoleUser {
			out = append(out, m.Content.String())
		}
	}
	return out
}

// breaks lets the model refuse everything for a while.
func (b *bench) breaks(during func()) {
	b.Model.Raw(func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusBadRequest) })
	during()
	b.Model.Raw(nil)
}

func dataURL(kind string, data []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
}

func shows(text string, images ...any) []any {
	parts := []any{obj{"type": "text", "text": text}}
	for _, url := range images {
		parts = append(parts, obj{"type": "image_url", "image_url": url})
	}
	return parts
}

// Images in data: URLs are kept in the store like any image.
func TestCase_F01_ImagesAsDataURLs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	one, two := memorytest.Picture(1), memorytest.Picture(2)
	name := func(data []byte) string {
		n, err := agent.ImageName(data)
		require.NoError(t, err)
		return "image:" + n
	}
	c := &chat{bench: b}
	spaced := dataURL("image/jpeg", one) // clients mistake the kind, and break lines
	urlSafe := "data:image/png;base64," + base64.RawURLEncoding.EncodeToString(two)
	first := said("user", shows("script: say seen", obj{"url": dataURL("image/png", one), "detail": "low"}, obj{"url": spaced[:40] + "\n" + spaced[40:]}, dataURL("IMAGE/PNG", two), obj{"url": "https://example.com/x.png"}, obj{"url": urlSafe}))
	text, thread := c.ask(first).text()
	require.Equal(t, "seen", text)
	stored, err := b.Store.Messages(b.Ctx(), thread, 0, 1)
	require.NoError(t, err)
	parts := stored[0].Content.Parts
	require.Len(t, parts, 6)
	var urls []string
	for _, p := range parts[1:] {
		urls = append(urls, p.ImageURL.URL)
	}
	require.Equal(t, []string{name(one), name(one), name(two), "https://example.com/x.png", name(two)}, urls)
	require.Equal(t, "low", parts[1].ImageURL.Detail)
	kept, err := b.Store.Image(b.Ctx(), strings.TrimPrefix(name(two), "image:"))
	require.NoError(t, err)
	require.Equal(t, two, kept)

	text, again := c.ask(first, said("assistant", "seen"), said("user", "script: say more")).text()
	require.Equal(t, []string{"more", thread}, []string{text, again}, "the same images are the same history")
	_, other := c.ask(said("user", shows("look", obj{"url": dataURL("image/png", one)})), said("assistant", "elsewhere"), said("user", "hi")).text()
	stored, err = b.Store.Messages(b.Ctx(), other, 0, 1)
	require.NoError(t, err)
	require.Contains(t, stored[0].Content.Parts[0].Text, "look\n[image 1]")
	require.Equal(t, name(one), stored[0].Content.Parts[1].ImageURL.URL)
	for word, url := range map[string]string{
		"no PNG":        dataURL("image/svg+xml", []byte("<svg/>")),
		"base64":        "data:image/png;base64,!!!!",
		"not in base64": "data:image/png,abc",
		"damaged":       dataURL("image/png", one[:20]),
		"too big":       dataURL("image/png", append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, agent.MaxImage)...)),
	} {
		c.ask(said("system", "x"), said("user", shows("look", obj{"url": url}))).refused(400, "messages[1].content[1].image_url.url", word)
	}
	b.Verify()
}

// The file of the case, as it is.
func TestCase_F01_TheFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	raw, err := os.ReadFile("testdata/data-url-image.json")
	require.NoError(t, err)
	var body obj
	require.NoError(t, json.Unmarshal(raw, &body))
	b.post("/v1/chat/completions", body).refused(404, "model", `"auto"`)
	body["model"] = "orchestrator"
	_, thread := b.post("/v1/chat/completions", body).text()
	require.Equal(t, []string{"what is this?"}, b.heard(thread))
	b.Verify()
}

// What clients send beside their messages is taken, left aside, or refused in words.
func TestCase_F02_WhatIsSentBesideMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	session := b.Session("meta")
	hi := said("user", "script: say hi")
	c := &chat{bench: b}
	for _, more := range []obj{
		{"metadata": obj{"conversation": session, "n": 1, "f": 2.5, "ok": true, "none": nil, "deep": obj{"a": 1}}},
		{"metadata": nil, "stream_options": nil, "response_format": nil, "n": nil, "tools": nil, "stream": false},
		{"metadata": obj{"conversation": 42}},
		{"store": true, "user": "me", "seed": 7, "max_completion_tokens": 5, "max_tokens": 5, "temperature": 0, "top_p": 1, "stop": []string{"x"}, "logit_bias": obj{}, "parallel_tool_calls": false, "reasoning_effort": "low", "service_tier": "auto", "unknown": obj{"a": 1}},
		{"tools": []any{obj{"type": "function", "function": obj{"name": "f"}}}, "tool_choice": "none"},
		{"functions": []any{obj{"name": "f"}}, "function_call": "none"},
		{"tools": []any{}, "tool_choice": "auto", "n": 1, "response_format": obj{"type": "text"}},
	} {
		c.more = more
		text, thread := c.ask(hi).text()
		require.Equal(t, "hi", text)
		if m, _ := more["metadata"].(obj); m["conversation"] != nil {
			require.Contains(t, []string{session + "/default", "42/default"}, thread)
		}
	}
	for param, more := range map[string]obj{
		"metadata":                             {"metadata": "session"},
		"metadata.conversation":                {"metadata": obj{"conversation": "a b"}},
		"n":                                    {"n": 2},
		"tools":                                {"tools": []any{obj{"type": "function"}}},
		"functions":                            {"functions": []any{obj{"name": "f"}}, "function_call": "auto"},
		"response_format.type":                 {"response_format": obj{"type": "xml"}},
		"response_format.json_schema.schema":   {"response_format": obj{"type": "json_schema", "json_schema": obj{"name": "x"}}},
		"stream":                               {"stream": "yes"},
		"model":                                {"model": "gpt-4o"},
		"messages":                             {"messages": []any{}},
		"messages[0].role":                     {"messages": []any{said("wizard", "x")}},
		"messages[0].content[0].type":          {"messages": []any{said("user", []any{obj{"type": "input_audio", "input_audio": obj{"data": "", "format": "wav"}}})}},
		"messages[1].content[0].type":          {"messages": []any{hi, said("user", []any{obj{"type": "file", "file": obj{"file_id": "f"}}})}},
		"messages[0].content":                  {"messages": []any{said("user", []any{obj{"type": "image_url", "image_url": obj{"url": "ftp://x"}}})}},
		"messages[0].content[0].image_url.url": {"messages": []any{said("user", []any{obj{"type": "image_url", "image_url": obj{"url": "file:///etc/passwd"}}})}},
		"messages[0].content[0].image_url.detail": {"messages": []any{said("user", []any{obj{"type": "image_url", "image_url": obj{"url": "https://x/y.png", "detail": "huge"}}})}},
		"messages.content":                        {"messages": []any{said("user", 7)}},
	} {
		c.more = more
		status := 400
		if param == "model" {
			status = 404
		}
		c.ask(hi).refused(status, param)
	}
	c.more = obj{"model": ""}
	c.ask(hi).refused(400, "model", "is missing")
	c.more = nil
	c.ask(said("user", "")).refused(400, "messages", "not empty")
	c.ask(hi, said("assistant", "prefill")).refused(400, "messages", "the user's")
	r := b.request(http.MethodPost, "/v1/chat/completions", nil)
	r.Body = nil
	b.send(r).is(400)
	b.Verify()
}

// Answers in JSON: an object of any kind, or one that fits a schema.
func TestCase_F03_ResponseFormats(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	c := &chat{bench: b, more: obj{"response_format": obj{"type": "json_object"}}}
	text, _ := c.ask(said("user", `script: say {"a":1}`)).text()
	require.JSONEq(t, `{"a":1}`, text)
	c.more = obj{"response_format": obj{"type": "json_schema", "json_schema": obj{"name": "x", "strict": true, "description": "d", "schema": obj{"type": "object", "properties": obj{"a": obj{"type": "integer"}}, "required": []string{"a"}, "additionalProperties": false}}}}
	text, _ = c.ask(said("user", `script: say {"a":2}`)).text()
	require.JSONEq(t, `{"a":2}`, text)
	c.more = obj{"response_format": obj{"type": "json_schema", "json_schema": obj{"name": "x", "schema": obj{"type": "nonsense"}}}}
	c.ask(said("user", "x")).is(400)
	b.Verify()
}

// Messages of the system and the developer are instructions: of a new conversation, of
// one that is named, and again only when they change.
func TestCase_F04_SystemMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	c := &chat{bench: b, named: b.Session("sys")}
	_, thread := c.ask(said("user", "hello")).text()
	_, _ = c.ask(said("system", "Be brief."), said("user", "one")).text()
	_, _ = c.ask(said("system", "Be brief."), said("user", "two")).text()
	_, _ = c.ask(said("developer", []any{obj{"type": "text", "text": "Be long."}}), said("user", "three"), said("system", "And kind.")).text()
	_, _ = c.ask(said("system", "Be brief."), said("user", "four")).text()
	got := b.heard(thread)
	require.Len(t, got, 5)
	require.Equal(t, "hello", got[0])
	for i, want := range map[int][]string{1: {"The application", "system:\nBe brief.", "one"}, 3: {"system:\nBe long.", "system:\nAnd kind.", "three"}, 4: {"system:\nBe brief.", "four"}} {
		for _, w := range want {
			require.Contains(t, got[i], w)
		}
	}
	require.Equal(t, "two", got[2])

	c.named = ""
	text, thread := c.ask(said("system", "Today is Monday."), said("user", "alpha")).text()
	_, again := c.ask(said("system", "Today is Tuesday."), said("user", "alpha"), said("assistant", text), said("user", "beta")).text()
	require.Equal(t, thread, again, "instructions are no part of the history")
	got = b.heard(thread)
	require.Len(t, got, 2)
	require.Contains(t, got[0], "system:\nToday is Monday.")
	require.Contains(t, got[1], "system:\nToday is Tuesday.")
	b.Verify()
}

// A client that sends its history with each message goes on with its conversation; one
// that edits it begins another.
func TestCase_F05_HistoriesSentAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	c := &chat{bench: b}
	u1, u2, u3 := said("user", `script: call calculator {"expression":"6*7"} ;; echo it is`), said("user", "script: say two"), said("user", []any{obj{"type": "text", "text": "script: say three"}})
	a1, thread := c.ask(u1).text()
	a2, second := c.ask(u1, said("assistant", a1), u2).text()
	a3, third := c.ask(u1, said("assistant", []any{obj{"type": "text", "text": " " + a1 + "\n"}}), u2, said("assistant", a2), said("assistant", ""), u3).text()
	require.Equal(t, []string{thread, thread, "two", "three"}, []string{second, third, a2, a3})
	require.Len(t, b.heard(thread), 3)

	// An edited message, at the end and before.
	a4, edited := c.ask(u1, said("assistant", a1), said("user", "script: say other")).text()
	require.NotEqual(t, thread, edited)
	require.Len(t, b.heard(edited), 1)
	require.Contains(t, b.heard(edited)[0], "assistant:\n"+a1)
	_, on := c.ask(u1, said("assistant", a1), said("user", "script: say other"), said("assistant", a4), u3).text()
	require.Equal(t, edited, on, "the edited one goes on, too")
	_, before := c.ask(said("user", "script: say changed"), said("assistant", a1), u2, said("assistant", a2), u3).text()
	require.NotContains(t, []string{thread, edited}, before)
	_, anew := c.ask(u1, said("assistant", a1), u2, said("assistant", a2), u3).text()
	require.NotContains(t, []string{thread, edited, before}, anew, "another answer, elsewhere")
	require.Len(t, b.heard(thread), 3)

	// Two that went alike are neither.
	hello := said("user", "script: say hello")
	_, x := c.ask(hello).text()
	_, y := c.ask(hello).text()
	_, z := c.ask(hello, said("assistant", "hello"), u2).text()
	require.NotContains(t, []string{x, y}, z)
	require.NotEqual(t, x, y)

	// Tools of the client, in a history of elsewhere.
	call := obj{"role": "assistant", "content": nil, "tool_calls": []any{obj{"id": "c1", "type": "function", "function": obj{"name": "weather", "arguments": `{"in":"Bonn"}`}}}}
	_, tools := c.ask(said("user", "Rain?"), call, obj{"role": "tool", "tool_call_id": "c1", "content": "sunny"}, obj{"role": "assistant", "content": nil, "refusal": "I cannot say"}, u2).text()
	require.Contains(t, b.heard(tools)[0], "weather")
	require.Contains(t, b.heard(tools)[0], "tool:\nsunny")
	require.Contains(t, b.heard(tools)[0], "I cannot say")
	b.Verify()
}

// After a turn that failed the same history is sent again, in all the ways that clients
// have: nothing is doubled.
func TestCase_F06_AfterAFailedTurn(t *testing.T) {
	t.Parallel()
	for name, named := range map[string]bool{"named": true, "by its history": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.StartWorker()
			c := &chat{bench: b}
			if named {
				c.named = b.Session("failed")
			}
			u1, bad, u3 := said("user", "script: say one"), said("user", "script: say late"), said("user", "script: say three")
			a1 := said("assistant", "one")
			_, thread := c.ask(u1).text()
			b.breaks(func() {
				c.ask(u1, a1, bad).is(500)
				c.ask(u1, a1, bad).is(500)
			})
			require.Len(t, b.heard(thread), 2, "the same again is another try")
			text, same := c.ask(u1, a1, bad).text()
			require.Equal(t, []string{"late", thread}, []string{text, same})
			require.Len(t, b.heard(thread), 2)
			worse := said("user", "script: fail 400 say never")
			c.ask(u1, a1, bad, said("assistant", "late"), worse).is(500)
			text, same = c.ask(u1, a1, bad, said("assistant", "late"), worse, u3).text()
			require.Equal(t, []string{"three", thread}, []string{text, same})
			require.Equal(t, []string{"script: say one", "script: say late", "script: fail 400 say never", "script: say three"}, b.heard(thread))
			b.Verify()
		})
	}
}

// The first message of a conversation, too.
func TestCase_F06_TheFirstMessageFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	c := &chat{bench: b}
	u1, u2 := said("user", "script: say one"), said("user", "script: say two")
	b.breaks(func() { c.ask(u1).is(500) })
	text, thread := c.ask(u1).text()
	require.Equal(t, "one", text)
	require.Len(t, b.heard(thread), 1)
	turns, err := b.Store.TurnsOf(b.Ctx(), thread)
	require.NoError(t, err)
	require.Len(t, turns, 2, "another try of the same message")
	_, next := c.ask(u1).text()
	require.NotEqual(t, thread, next, "what was answered is not asked again there")

	// Another form of the answer, or another agent, is another request: after a failure, and
	// where a conversation is named.
	schema := func(a string) obj {
		return obj{"response_format": obj{"type": "json_schema", "json_schema": obj{"name": "x", "schema": obj{"type": "object", "properties": obj{a: obj{"type": "integer"}}, "required": []string{a}}}}}
	}
	count := said("user", `script: say {"a":1}`)
	for _, named := range []string{"", b.Session("forms")} {
		c.named, c.more = named, nil
		b.breaks(func() { c.ask(count).is(500) })
		c.more = schema("b")
		c.ask(count).is(500)
		c.more = schema("a")
		text, fits := c.ask(count).text()
		require.JSONEq(t, `{"a":1}`, text)
		last, err := b.Store.LastTurn(b.Ctx(), fits)
		require.NoError(t, err)
		require.Contains(t, string(last.AnswerSchema), `"a"`)
		c.more = schema("b")
		c.ask(count).is(500)
		c.ask(count).is(500) // the same again is another try
		c.more = nil
		text, plain := c.ask(count).text()
		require.JSONEq(t, `{"a":1}`, text)
		last, err = b.Store.LastTurn(b.Ctx(), plain)
		require.NoError(t, err)
		require.Empty(t, last.AnswerSchema)
		if named != "" {
			require.Len(t, b.heard(plain), 5, "each form once")
			b.breaks(func() { c.ask(u2).is(500) })
			c.more = obj{"model": "general"}
			_, same := c.ask(u2).text()
			th, err := b.Store.Thread(b.Ctx(), "tester", same)
			require.NoError(t, err)
			require.Equal(t, "general", th.Config.Name)
		}
	}
	c.named, c.more = "", nil
	b.breaks(func() { c.ask(u2).is(500) })
	text, both := c.ask(u2, u1).text()
	require.Equal(t, "one", text)
	require.Equal(t, []string{"script: say two", "script: say one"}, b.heard(both))
	b.Verify()
}

// A request whose answer did not arrive is sent again while its turn runs, and after.
func TestCase_F07_AnAnswerThatDidNotArrive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	session := b.Session("lost")
	c := &chat{bench: b, named: session}
	slow := said("user", "script: slow 50ms say "+strings.Repeat("word ", 40)+"end")
	r := b.request(http.MethodPost, "/v1/chat/completions", obj{"model": "orchestrator", "stream": true, "messages": []any{slow}})
	r.Header.Set("X-Spool-Thread", session)
	res, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	res.Body.Close()
	text, thread := c.ask(slow).text()
	require.True(t, strings.HasSuffix(text, "word end"))
	require.Len(t, b.heard(thread), 1)

	u2, u3 := said("user", "script: say two"), said("user", "script: say three")
	_, _ = c.ask(slow, said("assistant", text), u2).text()
	again, _ := c.ask(slow, said("assistant", text), u2).text()
	require.Equal(t, "two", again)
	require.Len(t, b.heard(thread), 2, "the last message again is answered anew")
	c.ask(slow, said("assistant", text), said("user", "script: say edited")).refused(409, "messages", "has gone on", "fork")
	require.Len(t, b.heard(thread), 2)
	_, _ = c.ask(u3).text()
	require.Len(t, b.heard(thread), 3, "a client that sends no history adds to the end")

	c.named = b.Session("asked")
	ask := said("user", `script: call ask_user {"question":"Which one?"} ;; echo you said`)
	question, asked := c.ask(ask).text()
	require.Equal(t, "Which one?", question)
	question, _ = c.ask(ask).text()
	require.Equal(t, "Which one?", question, "the question is not answered by itself")
	text, _ = c.ask(ask, said("assistant", question), said("user", "the blue one")).text()
	require.Contains(t, text, "the blue one")
	require.Len(t, b.heard(asked), 1)
	more, _ := c.ask(ask, said("assistant", question), said("user", "the blue one"), said("assistant", text), u2).text()
	require.Equal(t, "two", more)
	b.Verify()
}

// The same key is the same outcome, on every route that writes; with another body it is
// refused.
func TestCase_F08_IdempotencyKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	c := &chat{bench: b, named: b.Session("keys"), key: "k1"}
	u1, u2 := said("user", "script: say one"), said("user", "script: say two")
	_, thread := c.ask(u1).text()
	_, _ = c.ask(u1).text()
	c.ask(u2).is(409)
	c.key = "k2"
	for range 2 {
		text, _ := c.ask(u1, said("assistant", "one"), u2).text()
		require.Equal(t, "two", text)
	}
	require.Len(t, b.heard(thread), 2)
	c.key = "k3"
	bad := said("user", "script: say late")
	b.breaks(func() {
		c.ask(bad).is(500)
		c.ask(bad).is(500)
	})
	c.key = "k4" // another try
	for range 2 {
		text, _ := c.ask(bad).text()
		require.Equal(t, "late", text)
	}
	require.Len(t, b.heard(thread), 3)

	keyed := func(path, key string, body any) answer {
		r := b.request(http.MethodPost, path, body)
		r.Header.Set("Idempotency-Key", key)
		return b.send(r)
	}
	type reply struct{ ThreadID, TurnID, MessageID, ConversationID string }
	twice := func(status int, path, key string, body any) reply {
		var one, two reply
		keyed(path, key, body).is(status).into(&one)
		keyed(path, key, body).is(status).into(&two)
		require.Equal(t, one, two, path)
		return one
	}
	sent := twice(202, "/api/v1/messages", "m", obj{"content": "script: say hi"})
	keyed("/api/v1/messages", "m", obj{"content": "script: say ho"}).fails(409, "conflict", "this Idempotency-Key was used for another request")
	tt.Eventually(t, "the turn ends", func() bool {
		th, err := b.Store.Thread(b.Ctx(), "tester", sent.ThreadID)
		return err == nil && th.Status == agent.ThreadCompleted
	})
	one := "/api/v1/threads/" + id(sent.ThreadID)
	twice(202, "/api/v1/users/tester/orch-chats/"+id(sent.ThreadID)+"/messages", "c", obj{"content": "script: say chat"})
	keyed("/api/v1/users/tester/orch-chats/"+id(sent.ThreadID)+"/messages", "c", obj{"content": "other"}).fails(409, "conflict")
	tt.Eventually(t, "the second turn ends", func() bool {
		th, err := b.Store.Thread(b.Ctx(), "tester", sent.ThreadID)
		return err == nil && th.Status == agent.ThreadCompleted && len(b.heard(sent.ThreadID)) == 2
	})
	twice(202, one+"/retry", "r", obj{})
	twice(200, one+"/fork", "f", obj{"at": sent.MessageID})
	keyed(one+"/fork", "f", obj{}).fails(409, "conflict")
	keyed(one+"/fork", strings.Repeat("k", 256), obj{}).fails(400, "invalid", "256")
	b.Verify()
}
