package starter

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/memory"
)

// evil is what a terminal must never get: it sets the title, clears the screen and
// turns text around.
const evil = "a\x1b]0;owned\x07\x1b[2J\u009b31m\u202eb\x00"

// atServer are commands that ask a server.
var atServer = []string{
	"threads", "threads --all", "show a/default", "show a", "show --events a/default", "show --follow a/default", "trace a/default", "tasks a/default",
	"approvals", "approvals --all", "approve ID", "deny ID", "questions", "answer ID text", "retry a/default", "retry --detach a/default",
	"cancel a/default", "cancel --all a/default", "fork a/default", "send hello", "send --detach hello", "send --follow -s a hello",
}

// askHostile runs a command with and without --json against a server, and checks that
// neither panics nor orders the terminal about.
func askHostile(t *testing.T, ctx context.Context, server, command string) (codes []int, said string) {
	t.Helper()
	for _, format := range []string{"", " --json"} {
		var out, errout strings.Builder
		env := []string{"HOME=" + t.TempDir(), "SPOOL_SERVER=" + server, "SPOOL_SERVER_TOKEN=a-token-of-the-user"}
		codes = append(codes, Run(ctx, strings.Fields(command+format), env, strings.NewReader(""), &out, &errout))
		for _, c := range []string{"\x1b", "\x07", "\x00"} {
			assert.NotContains(t, out.String()+errout.String(), c, "%s%s", command, format)
		}
		if format == "" {
			assert.NotContains(t, out.String()+errout.String(), "\u009b", command)
			assert.NotContains(t, out.String()+errout.String(), "\u202e", command)
		}
		assert.NotContains(t, out.String()+errout.String(), "a-token-of-the-user", command)
		said += out.String() + errout.String()
	}
	return codes, said
}

// hostile is a server that answers as f says.
func hostile(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// filled is a document of a type with evil in all its texts and one of everything.
func filled(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	switch t {
	case reflect.TypeFor[time.Time]():
		return reflect.ValueOf(time.Unix(1e9, 0))
	case reflect.TypeFor[json.RawMessage]():
		raw, _ := json.Marshal(map[string]string{evil: evil})
		return reflect.ValueOf(json.RawMessage(raw))
	case reflect.TypeFor[agent.Content]():
		return reflect.ValueOf(agent.Text(evil))
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(filled(t.Elem(), depth-1))
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.Append(v, filled(t.Elem(), depth-1)))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		if depth > 0 && t.Key().Kind() == reflect.String {
			v.SetMapIndex(filled(t.Key(), 0), filled(t.Elem(), depth-1))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(filled(t.Field(i).Type, depth-1))
			}
		}
	}
	return v
}

// everything holds the fields of everything that a server answers with, in one document.
func everything(t *testing.T) map[string]any {
	t.Helper()
	doc := map[string]any{"next": ""}
	for _, of := range []reflect.Type{
		reflect.TypeFor[spool.View](), reflect.TypeFor[spool.Reply](), reflect.TypeFor[spool.Node](), reflect.TypeFor[spool.Forked](), reflect.TypeFor[spool.Decided](),
		reflect.TypeFor[spool.Answered](), reflect.TypeFor[spool.Cancelled](), reflect.TypeFor[spool.Update](),
	} {
		raw, err := json.Marshal(filled(of, 5).Interface())
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &doc))
	}
	for name, of := range map[string]reflect.Type{
		"threads": reflect.TypeFor[agent.Thread](), "tasks": reflect.TypeFor[agent.Task](), "approvals": reflect.TypeFor[spool.ApprovalRequest](),
		"decisions": reflect.TypeFor[memory.Approval](), "questions": reflect.TypeFor[spool.QuestionRequest](), "waits": reflect.TypeFor[agent.ModelWait](),
	} {
		doc[name] = []any{filled(of, 5).Interface()}
	}
	return doc
}

// Whatever a server's texts hold, and whatever status it gives, a terminal is safe.
func TestAServersTextsGiveNoOrders(t *testing.T) {
	t.Parallel()
	doc := everything(t)
	for _, status := range []string{evil, "completed", "waiting_for_approval"} {
		for _, code := range []int{200, 409} {
			server := hostile(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Evil", "\u009b31m")
				body := map[string]any{"error": map[string]any{"code": "conflict", "message": evil, "pending": doc["approvals"], "questions": doc["questions"]}}
				if code == 200 {
					body = doc
					body["status"] = status
				}
				raw, err := json.Marshal(body)
				assert.NoError(t, err)
				if strings.HasSuffix(r.URL.Path, "/follow") && code == 200 {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = fmt.Fprintf(w, "event: update\ndata: %s\n\nevent: failure\ndata: {\"error\":{\"code\":\"%s\",\"message\":\"x\"}}\n\n", raw, "conflict")
					return
				}
				w.WriteHeader(code)
				_, _ = w.Write(raw)
			})
			for _, command := range atServer {
				askHostile(t, t.Context(), server, command)
			}
			if code != 200 && status != evil {
				break
			}
		}
	}
}

// Answers that are not what they should be are errors, and never end the program.
func TestAServersWrongAnswersAreErrors(t *testing.T) {
	t.Parallel()
	lists := []string{"threads", "tasks", "approvals", "decisions", "questions", "waits", "tails", "children", "messages", "toolCalls", "inbox", "events", "pending"}
	answers := []string{``, `null`, `{}`, `[]`, `"x"`, `1`, `true`, `{"thread":null}`, `{"thread":[]}`, `{"children":[null]}`, `{"children":[{"children":[null]}]}`, `<html>`, `{"threads":`, `{"n":1e999999}`,
		strings.Repeat(`{"children":[`, 5000) + strings.Repeat(`]}`, 5000)}
	for _, value := range []string{`null`, `[null]`, `[{}]`, `[[]]`, `{}`, `"x"`, `7`} {
		var fields []string
		for _, name := range lists {
			fields = append(fields, `"`+name+`":`+value)
		}
		answers = append(answers, `{"status":"completed",`+strings.Join(fields, ",")+`}`)
		answers = append(answers, `{`+fields[0]+`}`, `{`+fields[7]+`,"thread":`+value+`}`)
	}
	for _, body := range answers {
		server := hostile(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/follow") {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = fmt.Fprintf(w, "event: update\ndata: %s\n\nevent: end\ndata: %s\n\n", body, body)
				return
			}
			_, _ = io.WriteString(w, body)
		})
		for _, command := range atServer {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // one that goes on waiting is right, too
			askHostile(t, ctx, server, command)
			cancel()
		}
	}
}

// A server's answers are bounded, inflated or not; no token goes where it points.
func TestAServersAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var strayed atomic.Int64
	elsewhere := hostile(t, func(http.ResponseWriter, *http.Request) { strayed.Add(1) })
	endless := func(w io.Writer, piece string) {
		raw := []byte(strings.Repeat(piece, 1<<20/len(piece)))
		for {
			if _, err := w.Write(raw); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"endless body": {func(w http.ResponseWriter, _ *http.Request) { endless(w, " ") }, "is it a web server of Spool"},
		"endless event": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: update\ndata: ")
			endless(w, "x")
		}, "more than"},
		"bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.CopyN(z, strings.NewReader(strings.Repeat(" ", 32<<20)), 32<<20)
			_ = z.Close()
		}, ""},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
		}, "307"},
		"endless error": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest); endless(w, "x") }, "400"},
	} {
		t.Run(name, func(t *testing.T) {
			server := hostile(t, c.answer)
			for _, command := range []string{"threads", "show --follow a/default", "send --detach hello"} {
				codes, said := askHostile(t, t.Context(), server, command)
				for _, code := range codes {
					assert.NotEqual(t, exit.Done, code, "%s: %s", command, said)
				}
				assert.Contains(t, said, c.says, command)
			}
		})
	}
	assert.Zero(t, strayed.Load())
}

// One who waits for a server that sends a byte now and then can leave.
func TestOneCanLeaveASlowServer(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"threads", "show --follow a/default", "send hello"} {
		ctx, leave := context.WithCancel(t.Context())
		server := hostile(t, func(w http.ResponseWriter, r *http.Request) {
			for i := 0; r.Context().Err() == nil; i++ {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				if i == 3 {
					leave()
				}
				time.Sleep(time.Millisecond)
			}
		})
		codes, _ := askHostile(t, ctx, server, command)
		assert.NotContains(t, codes, exit.Done, command)
	}
}
