package e2e

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// traceOf is the trace of a turn, once its last span has arrived: that of the turn.
func traceOf(t *testing.T, s *tt.Stack, c *collector, turnID string) string {
	t.Helper()
	turn, err := s.Store.Turn(s.Ctx(), turnID)
	require.NoError(t, err)
	id, err := s.Client.TraceID(s.Ctx(), turn)
	require.NoError(t, err)
	c.Await(id, "invoke_agent orchestrator")
	tt.Eventually(t, "the trace is whole", func() bool { return !strings.Contains(c.Tree(id), "? ") })
	time.Sleep(300 * time.Millisecond) // nothing may follow
	sound(t, c.Spans(id))
	return id
}

// sound checks what holds for every trace: no span twice, none that ends before it
// begins, and a parent for each but the root.
func sound(t *testing.T, spans []received) {
	t.Helper()
	seen, roots := map[string]bool{}, 0
	for _, s := range spans {
		require.False(t, seen[string(s.SpanId)], "%s has its id twice", s.Name)
		seen[string(s.SpanId)] = true
		require.LessOrEqual(t, s.StartTimeUnixNano, s.EndTimeUnixNano, s.Name)
		if len(s.ParentSpanId) == 0 {
			roots++
		}
	}
	require.Equal(t, 1, roots, "roots")
	for _, s := range spans {
		require.True(t, len(s.ParentSpanId) == 0 || seen[string(s.ParentSpanId)], "the parent of %s is missing", s.Name)
	}
}

// A turn with a tool, a sub-agent and a grandchild, sent over HTTP, is one trace: the
// message, what the worker did, and nothing else.
func TestTelemetry_TreeOfSpans(t *testing.T) {
	s, c := stack(t), startCollector(t)
	s.StartWorker(c.Env()...)
	web := s.StartWeb(c.Env()...)
	child := script.Script(script.Task("researcher", script.Script(add(3, 4), "say leaf")), "say child")
	body := fmt.Sprintf(`{"sessionId":%q,"messageId":"m1","content":%q}`, s.Session("s1"), script.Script(script.Calls(add(1, 2), script.Task("general", child)), "say done"))
	req, err := http.NewRequestWithContext(s.Ctx(), http.MethodPost, web.URL+"/api/v1/messages", strings.NewReader(body))
	require.NoError(t, err)
	const caller = "0af7651916cd43dd8448eb211c80319c"
	req.Header.Set("Authorization", "Bearer "+tt.WebToken)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("traceparent", "00-"+caller+"-b7ad6b7169203331-01")
	answer, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
	var turn memory.Turn
	tt.Eventually(t, "the turn is closed", func() bool {
		all := turns(t, s, s.Thread("s1"))
		if len(all) > 0 {
			turn = all[0]
		}
		return len(all) == 1 && turn.State == memory.TurnClosed
	})
	require.Equal(t, agent.ThreadCompleted, turn.Outcome, turn.Error)
	id := traceOf(t, s, c, turn.ID)
	require.Equal(t, `message
  invoke_agent orchestrator
    chat fake step=1 attempt=1
    chat fake step=2 attempt=1
    execute_tool assign_task step=1
      invoke_agent general
        chat fake step=1 attempt=1
        chat fake step=2 attempt=1
        execute_tool assign_task step=1
          invoke_agent researcher
            chat fake step=1 attempt=1
            chat fake step=2 attempt=1
            execute_tool calculator step=1 attempt=1
    execute_tool calculator step=1 attempt=1
  send
`, c.Tree(id, "spool.step", "spool.attempt"))
	attributes(t, s, c, id, turn)
	// The caller's trace and this one know each other.
	c.Await(caller, "POST /api/v1/messages")
	request := c.Spans(caller)[0]
	for _, span := range c.Spans(id) {
		if span.Name == "send" {
			require.Equal(t, "spool-web", span.Service)
			require.Equal(t, caller, hex.EncodeToString(span.Links[0].TraceId))
			require.Equal(t, request.SpanId, span.Links[0].SpanId)
		}
	}
	require.Equal(t, id, hex.EncodeToString(request.Links[0].TraceId))
	require.Equal(t, turn.ID, request.Attr("spool.turn_id"))
	metrics(t, c)
}

func attributes(t *testing.T, s *tt.Stack, c *collector, id string, turn memory.Turn) {
	t.Helper()
	for _, span := range c.Spans(id) {
		require.NotEmpty(t, span.Attr("spool.turn_id"), span.Name)
		require.NotEmpty(t, span.Attr("spool.thread_id"), span.Name)
		if span.Name == "send" {
			continue
		}
		require.Equal(t, "spool-worker", span.Service)
		require.Equal(t, turn.ThreadID, span.Attr("spool.root_thread_id"), span.Name)
		require.Equal(t, span.Attr("spool.thread_id"), span.Attr("gen_ai.conversation.id"), span.Name)
		switch {
		case strings.HasPrefix(span.Name, "chat "):
			require.Equal(t, "chat fake openai spool-script", strings.Join([]string{span.Attr("gen_ai.operation.name"), span.Attr("gen_ai.request.model"), span.Attr("gen_ai.provider.name"), span.Attr("gen_ai.response.model")}, " "))
			require.NotEmpty(t, span.Attr("gen_ai.usage.input_tokens"))
			require.NotEmpty(t, span.Attr("gen_ai.usage.output_tokens"))
			require.NotEmpty(t, span.Attr("gen_ai.response.finish_reasons"))
		case strings.HasPrefix(span.Name, "execute_tool "):
			require.Equal(t, "execute_tool", span.Attr("gen_ai.operation.name"))
			require.Equal(t, "success", span.Attr("spool.status"))
			_, err := s.Store.ToolCall(s.Ctx(), span.Attr("gen_ai.tool.call.id"))
			require.NoError(t, err)
		case span.Name == "invoke_agent general":
			require.NotEmpty(t, span.Attr("gen_ai.agent.id"))
		}
	}
}

// metrics checks that all are there, and that none is kept by id.
func metrics(t *testing.T, c *collector) {
	t.Helper()
	tt.Eventually(t, "turns are counted and at rest", func() bool {
		all := c.Metric("spool.turns")
		return len(all) > 0 && len(all[len(all)-1].GetSum().GetDataPoints()) == 3
	})
	for _, name := range []string{"spool.turns", "spool.turn.duration", "spool.tool.duration", "gen_ai.client.operation.duration", "gen_ai.client.token.usage",
		"spool.turns.open", "spool.inbox.waiting", "spool.approvals.waiting", "spool.questions.waiting", "spool.messages", "temporal_request"} {
		require.NotEmpty(t, c.Metric(name), name)
	}
	for name, all := range c.Metrics() {
		for _, m := range all {
			text := m.String()
			for _, id := range []string{"thread_id", "turn_id", "call_", "s1-", "conversation.id"} {
				require.NotContains(t, text, id, name)
			}
		}
	}
}

// Workers are killed in the middle of a model call and of a tool run, and runs
// continue as new: each attempt has one span, and the turn stays one trace.
func TestAll_Telemetry_KilledWorkers(t *testing.T) {
	s, c := stack(t), startCollector(t)
	env := append(c.Env(), "SPOOL_MAX_EVENTS=10")
	w := s.StartWorker(env...)
	r := s.Send("s1", script.Script(add(1, 2), until("x"), "slow 100ms say "+strings.Repeat("word ", 30)))
	turn := r.TurnID
	id, err := s.Client.TraceID(s.Ctx(), memory.Turn{ID: turn})
	require.NoError(t, err)
	c.Await(id, "execute_tool calculator")
	started(t, s, "x")
	tt.Eventually(t, "the second call's span arrives", func() bool { return strings.Contains(c.Tree(id, "spool.step"), "chat fake step=2") })
	w.Kill()
	w = s.StartWorker(env...)
	tt.Eventually(t, "the third step streams", func() bool {
		st, err := s.Store.Stream(s.Ctx(), r.ThreadID)
		return err == nil && st != nil && st.Step == 3 && st.Text != ""
	})
	c.Await(id, "execute_tool shell")
	w.Kill()
	s.StartWorker(env...)
	require.Equal(t, "completed", s.Wait(r).Status)
	require.Equal(t, id, traceOf(t, s, c, turn))
	tree := c.Tree(id, "spool.step", "spool.attempt", "error.type")
	var runs []string
	for _, line := range strings.Split(tree, "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "chat") || strings.HasPrefix(line, "execute_tool") {
			runs = append(runs, line)
		}
	}
	require.Equal(t, []string{
		"chat fake step=1 attempt=1", "chat fake step=2 attempt=1", "chat fake step=3 attempt=1 type=worker_lost", "chat fake step=3 attempt=2",
		"execute_tool calculator step=1 attempt=1", "execute_tool shell step=2 attempt=1 type=worker_lost",
	}, runs, tree)
}

// A turn that waits for a person in a parked run, handled by another worker, is one
// trace, in which the wait can be seen.
func TestTelemetry_ParkedTurn(t *testing.T) {
	s, c := stack(t), startCollector(t)
	ask(t, s)
	w := s.StartWorker(append(c.Env(), "SPOOL_WAIT_IN_RUN=100ms")...)
	r := pendingApproval(t, s, s.Send("s1", script.Script(count("x"), "say done")))
	parked(t, s, r.ThreadID)
	w.Stop()
	s.StartWorker(c.Env()...)
	decide(t, s, r.Pending[0].ApprovalID, memory.Approve)
	require.Equal(t, "completed", s.Wait(r).Status)
	tree := c.Tree(traceOf(t, s, c, r.TurnID), "spool.status")
	for _, name := range []string{"approval status=approve", "execute_tool shell status=success"} {
		require.Equal(t, 1, strings.Count(tree, name), tree)
	}
	require.Equal(t, 2, strings.Count(tree, "chat fake"), tree)
}

// Nothing that was said and no key leaves, failures that quote it included, unless it
// is asked for.
func TestAll_Telemetry_Content(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		t.Run(fmt.Sprintf("wanted=%v", wanted), func(t *testing.T) {
			s, c := stack(t), startCollector(t)
			env := append(c.Env(), "OPENAI_API_KEY=sk-secret-key")
			if wanted {
				env = append(env, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true")
			}
			s.StartWorker(env...)
			tool := script.Call("shell", map[string]any{"command": "echo out-xyzzy; exit 3"})
			invented := script.Call("xyzzy_tool", map[string]any{"a": "b"})
			r := s.Ask("s1", script.Script(script.Calls(tool, invented, script.Task("general", "script: say child-xyzzy")), "fail 400 say answer-xyzzy"))
			require.Equal(t, "failed", r.Status)
			id := traceOf(t, s, c, r.TurnID)
			tt.Eventually(t, "metrics arrive", func() bool { return len(c.Metric("spool.turns")) > 0 })
			raw := c.Raw()
			require.Contains(t, raw, "execute_tool shell")
			require.NotContains(t, raw, "sk-secret-key")
			require.NotContains(t, raw, tt.WebToken)
			require.Equal(t, wanted, strings.Contains(raw, "out-xyzzy"))
			require.Equal(t, wanted, strings.Contains(raw, "xyzzy"))
			tree := c.Tree(id, "error.type")
			require.Contains(t, tree, "chat fake type=bad_request")
			require.Contains(t, tree, "execute_tool unknown type=")
		})
	}
}

// An exporter that hangs delays no turn and no stop.
func TestTelemetry_HangingExporter(t *testing.T) {
	s, c := stack(t), startCollector(t)
	c.Hang()
	turns := func(name string) time.Duration {
		began := time.Now()
		for i := range 3 {
			r := s.Ask(fmt.Sprint(name, i), script.Script(add(1, 2), "say done"))
			require.Equal(t, "done", r.Response, r.Error)
		}
		return time.Since(began)
	}
	stop := func(w *tt.Process) time.Duration {
		began := time.Now()
		w.Signal(syscall.SIGTERM)
		<-w.Done()
		return time.Since(began)
	}
	w := s.StartWorker()
	alone := turns("a")
	stopped := stop(w)
	w = s.StartWorker(c.Env()...)
	require.Less(t, turns("b"), 4*alone+10*time.Second)
	require.Less(t, stop(w), 4*stopped+20*time.Second, w.Log()) // one last try to deliver, which is bounded
}

// Without the variables there is no telemetry; with a wrong one the worker says so.
func TestTelemetry_OffAndWrong(t *testing.T) {
	s, c := stack(t), startCollector(t)
	s.StartWorker(append(c.Env(), "OTEL_SDK_DISABLED=true")...)
	require.Equal(t, "done", s.Ask("s1", "script: say done").Response)
	require.Empty(t, c.Raw())
	w := s.SpawnWorker(append(c.Env(), "OTEL_TRACES_EXPORTER=nonsense", "SPOOL_STORE=sqlite:"+filepath.Join(t.TempDir(), "x.db"))...)
	<-w.Done()
	require.Contains(t, w.Log(), "OTEL_")
	require.Contains(t, w.Log(), "nonsense")
}
