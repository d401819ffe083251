package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/httpapi"
)

// Bodies that would cost much more than they weigh are refused before anything is done
// with them, on every route that takes one, in words.
func TestHostileBodiesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := io.CopyN(z, zeros{}, 64<<20)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	send := func(path, body string, header ...string) answer {
		r := b.request(http.MethodPost, path, nil)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return b.send(r)
	}
	tried := 0
	for _, o := range httpapi.Operations() {
		if o.Method != http.MethodPost || strings.HasSuffix(o.Path, "/logout") {
			continue
		}
		tried++
		path := strings.NewReplacer("{thread}", "a%2Fdefault", "{user}", "tester", "{chatId}", "a%2Fdefault",
			"{approval}", "appr_0123456789abcdef_1", "{question}", "quest_0123456789abcdef").Replace(o.Path)
		for name, c := range map[string]struct {
			answer answer
			status int
			says   string
		}{
			"depth":    {send(path, `{"content":`+deep+`}`), 400, "nested more than 200"},
			"values":   {send(path, `{"a":[`+strings.Repeat("1,", 510_000)+`1]}`), 0, ""},
			"exponent": {send(path, `{"n":1e999999999}`), 400, "exponent"},
			"gzip":     {send(path, bomb.String(), "Content-Encoding", "gzip"), 415, "Content-Encoding"},
			"list":     {send(path, `[]`), 400, "has to be an object"},
			"bytes":    {send(path, "{\"content\":\"\xff\"}"), 400, "not valid UTF-8"},
			"charset":  {send(path, `{}`, "Content-Type", "application/json; charset=utf-16"), 415, "charset utf-16"},
		} {
			if name == "values" { // too many, or too large for the route
				require.Contains(t, []int{400, 413}, c.answer.status, "%v: %s", o, c.answer.body)
				continue
			}
			require.Equal(t, c.status, c.answer.status, "%v %s: %s", o, name, c.answer.body)
			require.Contains(t, c.answer.body, c.says, "%v %s", o, name)
		}
	}
	require.Greater(t, tried, 8)
	b.get("/api/v1/threads?status=x").fails(400, "invalid", "waiting_for_approval")
	send("/api/v1/messages", `{"content":" \n\t"}`).fails(400, "invalid", "is empty")
	send("/api/v1/messages", `{"content":[{"type":"text","text":" "}]}`).fails(400, "invalid", "is empty")
	send("/api/v1/messages", `{"sessionId":"x-1","content":"hi"}`).is(202)
	mine := b.request(http.MethodPost, "/api/v1/messages", map[string]any{"sessionId": "x-1", "content": "hi"})
	b.send(as(mine, other)).fails(409, "conflict", "the session name x-1 cannot be used: choose another")
	decision := "/api/v1/approvals/appr_0123456789abcdef_1/decision"
	for body, says := range map[string]string{
		`{"verdict":"deny","verdict":"approve"}`: `\"verdict\" is there twice`,
		`{"verdict":"deny","Verdict":"approve"}`: `\"Verdict\" is not known`,
		`{"VERDICT":"approve"}`:                  `\"VERDICT\" is not known`,
		`{"verdict":7}`:                          `\"verdict\" cannot be of the kind number`,
		`{"verdict":"approve","calls":[]}`:       "name a call, or leave calls out",
	} {
		require.Contains(t, send(decision, body).is(400).body, says)
	}
	send("/v1/chat/completions", `{"model":"orchestrator","Model":"general","messages":[{"role":"user","content":"a","content":"b"}]}`).
		refused(400, "messages.0.content", "is there twice")
	send("/v1/chat/completions", `{"MODEL":"orchestrator","messages":[{"role":"user","content":"a"}]}`).refused(400, "model", "is missing")

	for schema, says := range map[string]string{
		strings.Repeat(`{"not":`, 2300) + `{}` + strings.Repeat(`}`, 2300): "nested more than",
		`{"enum":[` + strings.Repeat("1,", 6000) + `1]}`:                   "more than 5000 values",
	} {
		body := b.send(b.request(http.MethodPost, "/api/v1/messages", map[string]any{"content": "script: say x", "answerSchema": raw(schema)})).is(400).body
		require.Contains(t, body, says)
	}
}

// raw is JSON as it stands.
type raw string

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// dripping is a client whose body does not come to its end before its time is over.
type dripping struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (d *dripping) SetReadDeadline(t time.Time) error {
	d.deadlines = append(d.deadlines, t)
	return nil
}
func (d *dripping) Read(p []byte) (int, error) {
	if len(d.deadlines) == 0 {
		return copy(p, "{"), nil
	}
	return 0, os.ErrDeadlineExceeded
}

// A body has a minute to come, a header ten seconds; who takes longer is cut off.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, path := range []string{"/api/v1/messages", "/v1/chat/completions"} {
		w := &dripping{ResponseRecorder: httptest.NewRecorder()}
		r := b.request(http.MethodPost, path, map[string]any{})
		r.Body, r.ContentLength = io.NopCloser(w), 1<<20
		b.server.ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code, w.Body.String())
		require.Contains(t, w.Body.String(), "did not arrive")
		require.WithinDuration(t, time.Now().Add(time.Minute), w.deadlines[0], time.Minute)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(ctx, l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	require.NoError(t, err)
	left, err := io.ReadAll(c) // ends when the server has had enough
	require.NoError(t, err)
	require.NotContains(t, string(left), "200 OK")
	stop()
	require.NoError(t, <-served)
}
