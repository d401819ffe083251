package httpapi_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/health"
	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// listens reads a stream until it is told something.
func (b *bench) listens(path string) (until func(what string, said func(sse) bool) sse) {
	b.t.Helper()
	res, err := b.do.RoundTrip(b.request(http.MethodGet, path, nil))
	require.NoError(b.t, err)
	require.Equal(b.t, http.StatusOK, res.StatusCode)
	b.t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	return func(what string, said func(sse) bool) sse {
		b.t.Helper()
		var e sse
		for lines.Scan() {
			switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
			case "event":
				e.name = value
			case "data":
				if e.data = value; said(e) {
					return e
				}
			}
		}
		b.t.Fatalf("the stream ended before %s: %v", what, lines.Err())
		return e
	}
}

type firstData struct {
	Me        struct{ UserID string }
	Agents    []struct{ Name string }
	Threads   []agent.Thread
	Since     string
	Approvals []spool.ApprovalRequest
	Questions []spool.QuestionRequest
	Health    []struct{ Kind, Text string }
	Views     map[string]spool.View
	Missing   map[string]string
}

// One answer has all that the page shows at first: who asks, the list, both threads with
// what their rows do not tell, and what waits for the person in all conversations. A
// stream tells then when that changes.
func TestFirstDataInOneAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.asks()
	b.StartWorker()
	child := script.Script(script.Calls(script.Call("shell", map[string]any{"command": "echo hello"})), "say the child is done")
	asks := b.say("asks", script.Script(script.Task("general", child), "say all done"))
	pending := b.ends(asks).Pending
	require.Len(t, pending, 1)
	question := b.ends(b.say("question", script.Script(script.Call("ask_user", map[string]any{"question": "Which one?"}), "echo you said"))).Questions[0]
	told := b.listens("/api/v1/follow?threads=true")
	first := told("what waits", func(e sse) bool { return e.name == "asked" })
	require.Contains(t, first.data, pending[0].ApprovalID)
	require.Contains(t, first.data, "Which one?")

	var got firstData
	sub := pending[0].ThreadID
	b.get("/api/v1/open?thread=" + id(asks.ThreadID) + "&inspect=" + id(sub)).is(200).into(&got)
	require.Equal(t, "tester", got.Me.UserID)
	require.Len(t, got.Agents, 3)
	require.Len(t, got.Threads, 2)
	require.NotEmpty(t, got.Since)
	for _, listed := range got.Threads {
		require.Empty(t, listed.Config.SystemPrompt, "a list is short")
	}
	require.Len(t, got.Approvals, 1)
	a := got.Approvals[0]
	require.Equal(t, []string{pending[0].ApprovalID, child, sub}, []string{a.ApprovalID, a.Task, a.ThreadID})
	require.Contains(t, a.Topic, "script: call assign_task")
	require.Equal(t, got.Views[sub].Thread.Workdir, a.Workdir)
	require.NotZero(t, a.CreatedAt)
	require.Equal(t, question.QuestionID, got.Questions[0].QuestionID)
	require.Contains(t, got.Questions[0].Topic, "ask_user")
	require.Empty(t, got.Health)
	require.Empty(t, got.Missing)
	require.Len(t, got.Views, 2)
	require.NotEmpty(t, got.Views[sub].Thread.Config.SystemPrompt, "a view has the snapshot")
	require.Equal(t, []string{agent.EventStreamFinish, agent.EventApprovalRequired}, types(got.Views[sub].Events))

	b.post("/api/v1/approvals/"+a.ApprovalID+"/decision", map[string]any{"verdict": "approve"}).is(200)
	told("that the approval is decided", func(e sse) bool { return e.name == "asked" && !strings.Contains(e.data, a.ApprovalID) })
	b.post("/api/v1/questions/"+question.QuestionID+"/answer", map[string]any{"text": "the blue one"}).is(200)
	require.Contains(t, b.ends(spool.Reply{ThreadID: question.ThreadID, TurnID: b.lastTurn(question.ThreadID)}).Response, "the blue one")
	require.Equal(t, "completed", b.ends(asks).Status)

	got = firstData{}
	b.get("/api/v1/open?thread=" + id(question.ThreadID) + "&inspect=nobody%2Fdefault").is(200).into(&got)
	require.Contains(t, got.Missing["nobody/default"], "does not exist")
	require.Equal(t, []string{agent.EventStreamFinish, agent.EventQuestionAsked, agent.EventQuestionAnswered, agent.EventStreamFinish, agent.EventDone}, types(got.Views[question.ThreadID].Events))
	var page struct{ Events []agent.Event }
	b.get("/api/v1/threads/" + id(asks.ThreadID) + "/messages?before=3&calls=true").is(200).into(&page)
	require.Contains(t, types(page.Events), agent.EventApprovalResponse)
	require.Contains(t, types(page.Events), agent.EventDone)
}

// Long answers are compressed for who takes that; others are as they are.
func TestAnswersOfThePageAreCompressed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.request(http.MethodGet, "/api/v1/open", nil)
	tt.Eventually(t, "the answers are the same", func() bool { // what is away on a slow machine changes them
		plain := b.get("/api/v1/open") // Go's client asks for gzip by itself, and unpacks
		r.Header.Set("Accept-Encoding", "gzip")
		packed := b.send(r)
		require.Equal(t, "gzip", packed.header.Get("Content-Encoding"))
		z, err := gzip.NewReader(strings.NewReader(packed.body))
		require.NoError(t, err)
		raw, err := io.ReadAll(z)
		require.NoError(t, err)
		r.Header.Set("Accept-Encoding", "identity")
		none := b.send(r)
		require.Empty(t, none.header.Get("Content-Encoding"))
		return plain.body == string(raw) && plain.body == none.body
	})
	r = b.request(http.MethodGet, "/api/v1/open?last=none", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	b.send(r).fails(400, "invalid")
}

func types(events []agent.Event) (out []string) {
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

// lastTurn is the newest turn of a thread.
func (b *bench) lastTurn(thread string) string {
	b.t.Helper()
	turn, err := b.Store.LastTurn(b.Ctx(), thread)
	require.NoError(b.t, err)
	return turn.ID
}

// What is away is told while it is, with the time since when it is known, and not any
// more when it is back: on a stream without being asked.
func TestHealthIsTold(t *testing.T) {
	t.Parallel()
	var workers, temporal atomic.Bool
	temporal.Store(true)
	b := newBench(t, func(o *httpapi.Options) {
		o.Demo = true
		o.Health = health.New(health.Store(o.Store), health.Part{Name: health.TemporalPart, Check: func(context.Context) error {
			if !temporal.Load() {
				return errors.New("refused")
			}
			return nil
		}}, health.Polled(func(context.Context) int {
			if workers.Load() {
				return 1
			}
			return 0
		}))
	})
	told := b.listens("/api/v1/follow?threads=true")
	says := func(kinds ...string) func(sse) bool {
		return func(e sse) bool {
			var lines struct {
				Health []struct{ Kind, Text, Since string }
			}
			if e.name != "health" {
				return false
			}
			require.NoError(t, json.Unmarshal([]byte(e.data), &lines))
			var got []string
			for _, l := range lines.Health {
				require.NotEmpty(t, l.Text)
				require.Equal(t, l.Kind != "demo", l.Since != "")
				got = append(got, l.Kind)
			}
			return slices.Equal(got, kinds)
		}
	}
	told("no worker", says("worker", "demo"))
	var got firstData
	b.get("/api/v1/open").is(200).into(&got)
	require.Equal(t, "worker", got.Health[0].Kind)
	b.get("/readyz").is(200)
	temporal.Store(false)
	told("Temporal is away: nobody can tell about workers", says("temporal", "demo"))
	workers.Store(true)
	temporal.Store(true)
	told("all is well", says("demo"))
	tt.Eventually(t, "the answer is as short", func() bool {
		got = firstData{}
		b.get("/api/v1/open").is(200).into(&got)
		return len(got.Health) == 1
	})
}
