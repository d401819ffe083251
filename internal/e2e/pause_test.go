package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// toldWaits are the waits of model calls in a thread's log.
func toldWaits(t *testing.T, s *tt.Stack, thread string) (waits []agent.ModelWait) {
	t.Helper()
	for _, e := range events(t, s, thread) {
		var w agent.Warning
		if e.Type == agent.EventWarning && json.Unmarshal(e.Data, &w) == nil && w.Code == agent.WarnModelWait {
			require.NotNil(t, w.Wait)
			require.NotEmpty(t, w.Message)
			waits = append(waits, *w.Wait)
		}
	}
	return waits
}

// waitingCalls waits until n model calls of a thread's tree wait.
func waitingCalls(t *testing.T, s *tt.Stack, thread string, n int) (waits []agent.ModelWait) {
	t.Helper()
	tt.Eventually(t, "model calls wait", func() bool {
		var err error
		waits, err = s.Client.ModelWaits(s.Ctx(), thread)
		return err == nil && len(waits) >= n
	})
	return waits
}

// A provider that asks for a pause: who follows the turn, now or later, in text or as
// JSON, sees what is waited for and until when, once, and nothing of it afterwards.
func TestFault_A11_APauseIsTold(t *testing.T) {
	s := begin(t)
	cmd := starterCommand(t, s, "send", "-s", s.Session("s1"), "script: fail 429 x1 after 20s say recovered")
	var out, progress strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &progress
	require.NoError(t, cmd.Start())
	id := s.Thread("s1")
	tt.Eventually(t, "the thread begins", func() bool {
		_, err := s.Store.Thread(s.Ctx(), "", id)
		return err == nil
	})
	w := waitingCalls(t, s, id, 1)[0]
	require.Equal(t, []any{id, id, "orchestrator", 2, agent.ModelRateLimited, true}, []any{w.ThreadID, w.RootThread, w.Agent, w.Attempt, w.Code, w.Asked})
	require.Contains(t, w.Reason, "HTTP 429")
	view := typed[spool.View](t, s, 0, "show", id)
	require.Equal(t, []agent.ModelWait{w}, view.Waits)
	shown, _, _ := starterApart(t, s, "threads")
	require.Contains(t, shown, "running (waits for the model)")
	shown, _, _ = starterApart(t, s, "show", id)
	require.Contains(t, shown, "waits    waiting for the provider until "+w.Until.Local().Format(time.TimeOnly)+` (rate limited: "`)
	status, err := s.Client.Status(s.Ctx(), id, view.Thread.OpenTurnID)
	require.NoError(t, err)
	require.Equal(t, view.Waits, status.Waits)
	node, err := s.Client.Trace(s.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, &w, node.Wait)
	late, _, _ := starterApart(t, s, "show", "--follow", "--json", id)
	require.Contains(t, late, `"code":"model_wait"`)
	require.Contains(t, late, `"until":"`+w.Until.Format("2006-01-02T15:04:05"))

	require.NoError(t, cmd.Wait())
	require.Equal(t, "recovered\n", out.String())
	require.Equal(t, 1, strings.Count(progress.String(), "waiting for the provider until"), progress.String())
	require.Regexp(t, `(?m)^… waiting for the provider until [0-9:]{8} \(rate limited: ".*"\), attempt 2$`, progress.String())
	records := s.Model.Records()
	require.False(t, records[1].At.Before(w.Until.Add(-50*time.Millisecond)), "the time that was told is the real one")
	require.Equal(t, []agent.ModelWait{w}, toldWaits(t, s, id), "once")
	line, err := s.Client.Spans(s.Ctx(), id, w.TurnID)
	require.NoError(t, err)
	var spans []string
	for _, span := range line.Spans {
		spans = append(spans, span.Kind+" "+span.Status)
		require.Equal(t, span.Kind == spool.SpanWait, span.DurationMs > 5000, "the wait is no time of the model")
	}
	require.Equal(t, []string{"model rate_limited", "wait rate_limited", "model stop"}, spans)
	require.Empty(t, typed[spool.View](t, s, 0, "show", id).Waits)
	late, after, _ := starterApart(t, s, "show", "--follow", id)
	require.NotContains(t, late+after, "waiting for the provider", "it is over")
}

// A cancel ends a turn at once, however long its provider wants it to wait.
func TestFault_A11_CancelDuringAPause(t *testing.T) {
	s := begin(t)
	r := s.Send("s1", "script: fail 429 x9 after 60s say never")
	waitingCalls(t, s, r.ThreadID, 1)
	// Another turn is held back by the limiter of the worker, without a call.
	held := s.Send("s2", "script: say never")
	w := waitingCalls(t, s, held.ThreadID, 1)[0]
	require.Equal(t, []any{true, true, 1, 429}, []any{w.Asked, w.Held, w.Attempt, w.Status}, "no request was made")
	require.Contains(t, w.Reason, "HTTP 429", "what the provider said to the other one")
	shown, _, _ := starterApart(t, s, "show", held.ThreadID)
	require.Contains(t, shown, "waits    held back until "+w.Until.Local().Format(time.TimeOnly)+": the provider asked everyone to wait (429: ")
	for _, r := range []spool.Reply{r, held} {
		begun := time.Now()
		cancel(t, s, r)
		require.Equal(t, "cancelled", s.Wait(r).Status)
		require.Less(t, time.Since(begun), 30*time.Second)
		waits, err := s.Client.ModelWaits(s.Ctx(), r.ThreadID)
		require.NoError(t, err)
		require.Empty(t, waits)
	}
	require.Len(t, s.Model.Records(), 1)
	require.EqualValues(t, 0, thread(t, s, held.ThreadID).RequestCount, "no request was made")
}

// The worker is killed while its provider has it wait: that is still told, and the
// next one makes the call when it is due, once.
func TestFault_A11_KillDuringAPause(t *testing.T) {
	s := stack(t)
	w := s.StartWorker()
	r := s.Send("s1", "script: fail 429 x1 after 15s say recovered")
	before := waitingCalls(t, s, r.ThreadID, 1)
	w.Kill()
	s.StartWorker()
	require.Equal(t, before, waitingCalls(t, s, r.ThreadID, 1))
	require.Equal(t, "recovered", s.Wait(r).Response)
	require.Equal(t, "user assistant", roles(messages(t, s, r.ThreadID)))
	require.Len(t, s.Model.Records(), 2)
	require.Equal(t, before, toldWaits(t, s, r.ThreadID))
}

// A summary that its provider does not make now is made later: the turn waits, and
// people are told.
func TestFault_A11_ASummaryWaits(t *testing.T) {
	s := stack(t)
	s.Model.Window = 12000
	var refused atomic.Int32
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !strings.Contains(string(body), agent.SummaryPrefix) || refused.Add(1) > 2 {
			s.Model.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", "3")
		http.Error(w, `{"error":{"message":"busy"}}`, http.StatusServiceUnavailable)
	}))
	defer busy.Close()
	s.StartWorker("SPOOL_CONTEXT_WINDOW=12000", "OPENAI_BASE_URL="+busy.URL+"/v1")
	r := s.Send("s1", script.Script(pages(t, s, 12, 6000), "say the end"))
	w := waitingCalls(t, s, r.ThreadID, 1)[0]
	require.Equal(t, []any{agent.ModelOverloaded, "busy", 2}, []any{w.Code, w.Reason, w.Attempt})
	r = s.Wait(r)
	require.Equal(t, "the end", r.Response, r.Error)
	require.Len(t, toldWaits(t, s, r.ThreadID), 2)
	require.Equal(t, 3, summaries(t, s, r.ThreadID)[0].Attempts)
}
