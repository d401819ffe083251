package httplog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spool-agents/spool/internal/httplog"
	"github.com/spool-agents/spool/internal/httplog/httplogtest"
)

const secret = "s3cr3t-Value_0123456789"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func call() httplog.Call {
	return httplog.Call{
		Entry: httplog.Entry{
			At: noon, ThreadID: "s1/default", TurnID: "t1", Step: 1, Attempt: 2, Method: "POST", URL: "https://api.example.com/v1/chat?model=x&n=2",
			RequestHeaders: map[string][]string{"Content-Type": {"application/json"}}, Status: 200, DurationMs: 1500,
		},
		Sent: `{"model":"m","max_tokens":100,"seed":9007199254740993}`, Received: `{"usage":{"total_tokens":12},"logprobs":[{"token":"Hello"}]}`,
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

// logOf is a log in a folder of its own, with the path of a session's file.
func logOf(t *testing.T, secrets ...string) (log *httplog.Log, path string) {
	t.Helper()
	home := t.TempDir()
	return &httplog.Log{Home: home, Threads: threads{}, Secrets: secrets}, filepath.Join(home, "profiles", "work", "sessions", "s1", "http-log.json")
}

// TestRow40_HTTPLog: a line per call, streamed and failed ones too; off is absent.
func TestRow40_HTTPLog(t *testing.T) {
	log, path := logOf(t, secret)
	streamed, failed := call(), call()
	streamed.Streamed, streamed.Received = true, "data: {\"x\":1}\n\ndata: [DONE]\n\n"
	failed.Status, failed.Received, failed.Err = 0, "", errors.New("connection refused for "+secret)
	for _, c := range []httplog.Call{call(), streamed, failed} {
		ok(t, log.Append(c))
	}
	text, err := os.ReadFile(path)
	ok(t, err)
	same(t, "lines", bytes.Count(text, []byte("\n")), 3)
	for line := range bytes.Lines(text) {
		if !json.Valid(line) {
			t.Errorf("no JSON: %s", line)
		}
	}
	got, lost, err := httplogtest.Read(path)
	ok(t, err)
	same(t, "read", []int{len(got), lost}, []int{3, 0})
	same(t, "body", string(got[0].Request), `{"max_tokens":100,"model":"m","seed":9007199254740993}`)
	same(t, "what is no secret", string(got[0].Response), `{"logprobs":[{"token":"Hello"}],"usage":{"total_tokens":12}}`)
	same(t, "address", got[0].URL, call().URL)
	same(t, "stream", []any{got[1].Streamed, string(got[1].Response), got[1].DurationMs}, []any{true, `"data: {\"x\":1}\n\ndata: [DONE]\n\n"`, int64(1500)})
	same(t, "failure", []any{got[2].Status, got[2].Error, got[2].Attempt}, []any{0, "connection refused for ***", 2})
	if empty, lost, err := httplogtest.Read(path + ".none"); len(empty)+lost > 0 || err != nil {
		t.Errorf("%v, %d, %v", empty, lost, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestRow40_SecretsAreMasked wherever they stand.
func TestRow40_SecretsAreMasked(t *testing.T) {
	const other = "abcdefGHIJKL0123456789"
	places := map[string]func(c *httplog.Call){
		"known value in a text":  func(c *httplog.Call) { c.Sent = "my value is " + secret + "." },
		"known value in a field": func(c *httplog.Call) { c.Sent = `{"note":"` + secret + `"}` },
		"known value in a path":  func(c *httplog.Call) { c.URL = "https://h/" + secret + "/x" },
		"error":                  func(c *httplog.Call) { c.Err = errors.New("401: Authorization: Bearer " + other) },
		"user of an address":     func(c *httplog.Call) { c.URL = "https://u:" + other + "@h/x" },
		"parameter":              func(c *httplog.Call) { c.URL = "https://h/x?api_key=" + other + "&a=b" },
		"parameter key":          func(c *httplog.Call) { c.URL = "https://h/x?key=" + other },
		"bearer in a body":       func(c *httplog.Call) { c.Received = `{"echo":"authorization was bearer ` + other + `"}` },
		"a provider's key":       func(c *httplog.Call) { c.Received = "Incorrect API key provided: sk-proj-" + other },
		"field in a stream":      func(c *httplog.Call) { c.Received = "data: {\"api_key\": \"" + other + "\"}\n\n" },
		"arguments of a tool": func(c *httplog.Call) {
			c.Sent = `{"tool_calls":[{"function":{"arguments":"{\"api_key\":\"` + other + `\"}"}}]}`
		},
		"arguments quoted twice": func(c *httplog.Call) {
			c.Sent = `{"a":"{\"b\":\"{\\\"password\\\": \\\"` + other + `\\\"}\"}"}`
		},
		"environment": func(c *httplog.Call) { c.Sent = `{"content":"OPENAI_API_KEY=` + other + `\nx"}` },
	}
	for _, name := range []string{"Authorization", "authorization", "Proxy-Authorization", "X-Api-Key", "api-key", "X-Goog-Api-Key", "Cookie", "Set-Cookie", "X-Auth-Token", "X-Amz-Security-Token", "Client-Secret"} {
		places["header "+name] = func(c *httplog.Call) {
			c.RequestHeaders = map[string][]string{name: {"Basic " + other, other}}
			c.ResponseHeaders = map[string][]string{name: {other}}
		}
	}
	for _, name := range []string{"api_key", "apiKey", "Authorization", "access_token", "client_secret", "password", "token"} {
		places["field "+name] = func(c *httplog.Call) { c.Sent = `{"a":[{"` + name + `":"` + other + `"}]}` }
	}
	for name, set := range places {
		t.Run(name, func(t *testing.T) {
			log, path := logOf(t, "", secret)
			c := call()
			set(&c)
			ok(t, log.Append(c))
			text, err := os.ReadFile(path)
			ok(t, err)
			if strings.Contains(string(text), other) || strings.Contains(string(text), secret) || !strings.Contains(string(text), "***") {
				t.Errorf("%s", text)
			}
			if got, lost, err := httplogtest.Read(path); len(got) != 1 || lost > 0 || err != nil {
				t.Errorf("%v, %d, %v", got, lost, err)
			}
		})
	}
}

// TestRow89_TornLineOfTheLog costs that line only, and the next call begins a
// line of its own.
func TestRow89_TornLineOfTheLog(t *testing.T) {
	log, path := logOf(t)
	ok(t, errors.Join(log.Append(call()), log.Append(call())))
	text, err := os.ReadFile(path)
	ok(t, err)
	ok(t, os.WriteFile(path, text[:len(text)-20], 0o600))
	got, lost, err := httplogtest.Read(path)
	ok(t, err)
	same(t, "torn", []int{len(got), lost}, []int{1, 1})
	ok(t, log.Append(call()))
	got, lost, err = httplogtest.Read(path)
	ok(t, err)
	same(t, "after the next call", []int{len(got), lost}, []int{2, 1})
}

// TestConcurrentCallsHaveLinesOfTheirOwn, of several logs of one session too.
func TestConcurrentCallsHaveLinesOfTheirOwn(t *testing.T) {
	first, path := logOf(t)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			log := &httplog.Log{Home: first.Home, Threads: threads{}}
			for n := range 20 {
				c := call()
				c.Sent = fmt.Sprintf(`{"w":%d,"n":%d,"text":%q}`, w, n, strings.Repeat("x", n*1000))
				if err := log.Append(c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, lost, err := httplogtest.Read(path)
	ok(t, err)
	same(t, "read", []int{len(got), lost}, []int{160, 0})
}

// TestAnyBodyIsALine: whatever arrives, the log stays lines of JSON.
func TestAnyBodyIsALine(t *testing.T) {
	log, path := logOf(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		c := call()
		c.Sent = string(rapid.SliceOf(rapid.Byte()).Draw(rt, "request"))
		c.Received = rapid.String().Draw(rt, "response")
		c.URL = rapid.String().Draw(rt, "url")
		c.ResponseHeaders = map[string][]string{rapid.String().Draw(rt, "name"): {rapid.String().Draw(rt, "value")}}
		if err := log.Append(c); err != nil {
			rt.Fatal(err)
		}
		if got, lost, err := httplogtest.Read(path); err != nil || len(got) != n || lost != 0 {
			rt.Fatalf("%d, %d, %v", len(got), lost, err)
		}
	})
	big, path := logOf(t)
	c := call()
	c.Received = `{"text":"` + strings.Repeat("ü", 2_000_000) + `"}`
	ok(t, big.Append(c))
	got, lost, err := httplogtest.Read(path)
	ok(t, err)
	same(t, "read", []int{len(got), lost}, []int{1, 0})
	if len(got[0].Response) > 2<<20 {
		t.Errorf("a body of %d bytes", len(got[0].Response))
	}
}
