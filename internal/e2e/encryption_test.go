package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// payloadsOf lists the payloads of a message, search attributes left out. A copy is
// visited: visitors write.
func payloadsOf(t *testing.T, m proto.Message) []*commonpb.Payload {
	t.Helper()
	var out []*commonpb.Payload
	require.NoError(t, proxy.VisitPayloads(t.Context(), proto.Clone(m), proxy.VisitPayloadsOptions{
		SkipSearchAttributes: true,
		Visitor: func(_ *proxy.VisitPayloadsContext, p []*commonpb.Payload) ([]*commonpb.Payload, error) {
			out = append(out, p...)
			return p, nil
		},
	}))
	return out
}

// keysIn are the ids of the keys with which a message's payloads are encrypted; ""
// stands for those that are not.
func keysIn(t *testing.T, m proto.Message) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for _, p := range payloadsOf(t, m) {
		id := string(p.GetMetadata()["encryption-key-id"])
		if string(p.GetMetadata()["encoding"]) != "binary/encrypted" {
			id = ""
		}
		ids[id]++
	}
	return ids
}

// whole is all that the server keeps of a tree: the histories of all its threads'
// latest turns.
func whole(t *testing.T, s *tt.Stack, root string) *historypb.History {
	t.Helper()
	all := &historypb.History{}
	for _, th := range tree(t, s, root) {
		noRun(t, s, th.ID)
		all.Events = append(all.Events, historyOf(t, s, th.ID).events...)
	}
	return all
}

// secrets is a turn with words of its own in everything that people, model and tools
// say: in the task, in arguments, in a tool that is refused, and in a failure.
func secrets(t *testing.T, s *tt.Stack) spool.Reply {
	t.Helper()
	return s.Ask("s1", script.Script(
		script.Calls(script.Call("calculator", map[string]any{"expression": "4711+815"}), script.Call("shell", map[string]any{"command": "echo quixotic"})),
		script.Task("general", script.Script(script.Call("calculator", map[string]any{"expression": "31337+1"}), "say zanzibar")),
		"fail 400 say never"))
}

// words are what none of the histories may show: from what was said and asked for,
// and from summaries and failures.
var words = []string{"4711+815", "quixotic", "31337+1", "zanzibar", "calculator", "conversation thread", "sub-agent of", "HTTP 400", "bad_request", "step 1"}

// With keys nothing that was said, asked for or went wrong can be read in what
// Temporal stores: not in values, summaries, current details, nor in failures. The
// turn itself is what it is without, and its histories replay with the keys only.
func TestNothingIsReadableUnderEncryption(t *testing.T) {
	s := stack(t)
	s.Encrypt(tt.KeyA)
	s.StartWorker()
	r := secrets(t, s)
	require.Equal(t, "failed", r.Status)
	require.Contains(t, r.Error, "400", "the failure came back whole")

	h := whole(t, s, r.ThreadID)
	ids := keysIn(t, h)
	require.Empty(t, ids[""], "payloads that are not encrypted")
	require.Greater(t, ids["2025-01"], 50)
	text := h.String()
	for _, word := range words {
		assert.False(t, strings.Contains(text, word), word) // the text is too long to be shown
	}
	failures := 0
	require.NoError(t, proxy.VisitFailures(t.Context(), h, proxy.VisitFailuresOptions{Visitor: func(_ *proxy.VisitFailuresContext, f *failurepb.Failure) error {
		for ; f != nil; f = f.GetCause() {
			failures++
			assert.Equal(t, "Encoded failure", f.GetMessage())
			assert.Empty(t, f.GetStackTrace())
		}
		return nil
	}}))
	assert.Positive(t, failures, "the refused model call is a failure")

	// What the UI shows beside the history.
	d, err := s.Temporal.DescribeWorkflow(s.Ctx(), r.ThreadID, "")
	require.NoError(t, err)
	assert.Empty(t, keysIn(t, d.RawResponse)[""])
	assert.NotContains(t, d.RawResponse.String(), "conversation thread")
	q, err := s.Temporal.WorkflowService().QueryWorkflow(s.Ctx(), &workflowservice.QueryWorkflowRequest{
		Namespace: "default", Execution: &commonpb.WorkflowExecution{WorkflowId: r.ThreadID}, Query: &querypb.WorkflowQuery{QueryType: "__temporal_workflow_metadata"},
	})
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"2025-01": 1}, keysIn(t, q))

	codecServed(t, s, h)
	replayed(t, s, r.ThreadID)
}

// codecServed decrypts a history by a codec server, as the web UI does.
func codecServed(t *testing.T, s *tt.Stack, h *historypb.History) {
	t.Helper()
	const ui = "http://localhost:8233"
	at := s.StartCodecServer("--origin", ui)
	decode := func(origin string) ([]*commonpb.Payload, error) {
		return converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: at, ModifyRequest: func(r *http.Request) error {
			r.Header.Set("Origin", origin)
			r.Header.Set("X-Namespace", "default")
			return nil
		}}).Decode(payloadsOf(t, h))
	}
	plain, err := decode(ui)
	require.NoError(t, err)
	var text strings.Builder
	for _, p := range plain {
		text.Write(p.Data)
	}
	for _, word := range []string{"calculator(expression=4711+815)", "quixotic", "sub-agent of", "400"} {
		assert.Contains(t, text.String(), word)
	}
	for keys, says := range map[string]string{tt.KeyB: `"2025-01", which is missing in encryptionKeys`, mistaken: `cannot be decrypted with key "2025-01"`} {
		env := s.Env
		s.Env = append(slices.Clone(env), tt.EncryptionKeys(keys))
		at = s.StartCodecServer("--origin", ui)
		s.Env = env
		_, err := decode(ui)
		assert.ErrorContains(t, err, says)
	}
	_, err = decode("http://evil.example")
	assert.ErrorContains(t, err, "may not use this codec server")
}

// replayed runs the exported history of a thread through `worker replay`.
func replayed(t *testing.T, s *tt.Stack, thread string) {
	t.Helper()
	raw, err := s.Client.History(s.Ctx(), thread, "")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "history.json")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	for keys, want := range map[string]string{tt.KeyA: "ok", tt.KeyB + "," + tt.KeyA: "ok", tt.KeyB: `key "2025-01", which is missing in encryptionKeys`, "": `key "2025-01", which is missing in encryptionKeys`} {
		cmd := exec.CommandContext(t.Context(), tt.Worker(), "replay", file)
		cmd.Env = append(append(os.Environ(), s.Env...), tt.EncryptionKeys(keys))
		out, err := cmd.CombinedOutput()
		assert.Equal(t, want == "ok", err == nil, "%s", out)
		assert.Contains(t, string(out), want)
	}
}

// failedTasks counts the workflow tasks of a run that failed.
func failedTasks(t *testing.T, s *tt.Stack, thread string) int {
	t.Helper()
	n := 0
	for _, e := range historyOf(t, s, thread).events {
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED {
			n++
		}
	}
	return n
}

// A new first key with the old one behind it: turns that began under the old key go
// on, through kill -9 in a tool, in a sub-agent and in a stream.
func TestAll_RotationOfKeysUnderOpenTurns(t *testing.T) {
	s := stack(t)
	s.Encrypt(tt.KeyA)
	w := s.StartWorker()
	sent := []spool.Reply{
		s.Send("tool", script.Script(add(1, 2), until("tool"), "say one")),
		s.Send("child", script.Script(script.Task("general", script.Script(until("child"), "say below")), "say two")),
		s.Send("stream", script.Script(add(3, 4), until("stream"), "slow 300ms say "+strings.Repeat("word ", 20))),
	}
	for _, file := range []string{"tool", "child", "stream"} {
		started(t, s, file)
	}
	letGo(t, s, "stream")
	streaming(t, s, sent[2].ThreadID)
	w.Kill()
	s.Encrypt(tt.KeyB + "," + tt.KeyA)
	w = s.StartWorker()
	tt.Eventually(t, "the worker with both keys goes on", func() bool {
		return keysIn(t, &historypb.History{Events: historyOf(t, s, sent[1].ThreadID).events})["2026-11"] > 0
	})
	w.Kill()
	s.StartWorker()
	for i, r := range sent {
		require.EqualValues(t, agent.ThreadCompleted, s.Wait(r).Status)
		h := whole(t, s, r.ThreadID)
		ids := keysIn(t, h)
		assert.Positive(t, ids["2025-01"], "turn %d began under the old key", i)
		assert.Positive(t, ids["2026-11"], "turn %d went on under the new one", i)
		assert.Empty(t, ids[""])
	}
	// The next turn does not need the old key any more.
	h := whole(t, s, s.Ask("tool", "script: say three").ThreadID)
	assert.Equal(t, 1, len(keysIn(t, h)), "%v", keysIn(t, h))
}

// mistaken is the id of the first key with the bytes of the other.
var mistaken = "2025-01=" + strings.TrimPrefix(tt.KeyB, "2026-11=")

// A worker without the key fails workflow tasks, not turns: it says which key it
// lacks, and a worker that has it goes on. Runs that began without encryption go on
// with it, even if a client encrypted a cancel before any worker had the key.
func TestAll_WorkerWithoutTheKeyWaits(t *testing.T) {
	t.Parallel()
	const lacks, wrong = `key \"2025-01\", which is missing in encryptionKeys`, `cannot be decrypted with key \"2025-01\"`
	for name, c := range map[string]struct{ keys, says string }{"no keys": {"", lacks}, "another key": {tt.KeyB, lacks}, "another key under its id": {mistaken, wrong}} {
		t.Run(name, func(t *testing.T) {
			s := stack(t)
			s.Encrypt(tt.KeyA)
			w := s.StartWorker()
			r := s.Send("s1", script.Script(until("x"), add(1, 2), "say done"))
			started(t, s, "x")
			w.Kill()
			without := s.StartWorker(tt.EncryptionKeys(c.keys))
			require.NoError(t, s.Temporal.SignalWorkflow(s.Ctx(), r.ThreadID, "", contract.SignalNudge, nil))
			fresh := s.Send("s2", "script: say fresh")
			tt.Eventually(t, "the first workflow task fails", func() bool {
				open, err := s.Client.OpenRun(s.Ctx(), fresh.ThreadID)
				return err == nil && open && failedTasks(t, s, fresh.ThreadID) > 0
			})
			tt.Eventually(t, "a workflow task fails", func() bool { return failedTasks(t, s, r.ThreadID) > 0 })
			tt.Eventually(t, "the worker says which key it lacks", func() bool {
				return strings.Contains(without.Log(), c.says)
			})
			v, err := s.Client.Show(s.Ctx(), r.ThreadID, true)
			require.NoError(t, err, "the store is not encrypted: all can be read meanwhile")
			require.EqualValues(t, agent.ThreadRunning, v.Thread.Status)
			require.NotEmpty(t, v.Messages)
			open, err := s.Client.OpenRun(s.Ctx(), r.ThreadID)
			require.NoError(t, err)
			require.True(t, open, "the run ended for a missing key")
			without.Stop()
			s.StartWorker()
			require.Equal(t, "done", s.Wait(r).Response)
			require.Equal(t, "fresh", s.Wait(fresh).Response)
		})
	}
	t.Run("cancelled by a client with keys", func(t *testing.T) {
		s := stack(t)
		w := s.StartWorker()
		r := s.Send("s1", script.Script(script.Task("general", script.Script(slow("x", 60), "say never")), "say never"))
		started(t, s, "x")
		s.ClientWithKeys(tt.KeyA)
		cancel(t, s, r)
		tt.Eventually(t, "a workflow task fails", func() bool { return failedTasks(t, s, r.ThreadID) > 0 })
		w.Kill()
		s.StartWorker(tt.EncryptionKeys(tt.KeyA))
		require.Equal(t, "cancelled", s.Wait(r).Status)
		h := whole(t, s, r.ThreadID)
		assert.Positive(t, keysIn(t, h)[""])
		assert.Positive(t, keysIn(t, h)["2025-01"])
	})
}

// With workers of both kinds on a queue, as while keys are rolled out, turns take
// longer and none fails. How long is chance: Temporal hands out a task again after ever
// longer pauses, and any worker may get it.
func TestAll_WorkersWithAndWithoutKeys(t *testing.T) {
	s := stack(t)
	s.Encrypt(tt.KeyA)
	s.StartWorker()
	s.StartWorker()
	s.StartWorker(tt.EncryptionKeys(""))
	ctx, stop := context.WithTimeout(s.Ctx(), 3*tt.Patience)
	defer stop()
	var sent []spool.Reply
	for _, session := range []string{"a", "b", "c"} {
		sent = append(sent, s.Send(session, script.Script(add(1, 2), count(session), script.Task("general", script.Script(count(session), "say x")), "say done")))
	}
	for _, r := range sent {
		out, err := s.Client.Wait(ctx, r.ThreadID, r.TurnID, spool.WaitOptions{Patient: true})
		require.NoError(t, err)
		require.EqualValues(t, agent.ThreadCompleted, out.Status)
	}
	for _, session := range []string{"a", "b", "c"} {
		assert.Equal(t, 2, lines(s.File(session)), "each tool ran once")
	}
}
