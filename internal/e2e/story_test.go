package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	querypb "go.temporal.io/api/query/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/llmtest"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// uiOf is what Temporal's web UI shows of a thread's last run: current details, summary,
// memo, and the search attribute WaitsFor.
func uiOf(t *testing.T, s *tt.Stack, thread string) string {
	t.Helper()
	q, err := s.Temporal.WorkflowService().QueryWorkflow(s.Ctx(), &workflowservice.QueryWorkflowRequest{
		Namespace: "default", Execution: &commonpb.WorkflowExecution{WorkflowId: thread}, Query: &querypb.WorkflowQuery{QueryType: "__temporal_workflow_metadata"},
	})
	require.NoError(t, err)
	var meta sdkpb.WorkflowMetadata
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(q.GetQueryResult(), &meta))
	d, err := s.Temporal.DescribeWorkflow(s.Ctx(), thread, "")
	require.NoError(t, err)
	text := meta.GetCurrentDetails()
	plain := func(name string, p *commonpb.Payload) {
		if p != nil {
			var v any
			require.NoError(t, converter.GetDefaultDataConverter().FromPayload(p, &v))
			text += fmt.Sprintf("\n%s=%v", name, v)
		}
	}
	plain("summary", d.RawResponse.GetExecutionConfig().GetUserMetadata().GetSummary())
	info := d.RawResponse.GetWorkflowExecutionInfo()
	for name, p := range info.GetMemo().GetFields() {
		plain(name, p)
	}
	plain("WaitsFor", info.GetSearchAttributes().GetIndexedFields()["WaitsFor"])
	return text
}

// tells waits until Temporal's web UI shows all these texts of a thread.
func tells(t *testing.T, s *tt.Stack, thread string, texts ...string) {
	t.Helper()
	seen := ""
	defer func() {
		if t.Failed() {
			t.Logf("it shows:\n%s", seen)
		}
	}()
	tt.Eventually(t, "the UI shows what "+thread+" does", func() bool {
		seen = uiOf(t, s, thread)
		for _, text := range texts {
			if !strings.Contains(seen, text) {
				return false
			}
		}
		return true
	})
}

// summaries are what the events of a thread's runs say of model calls, timers and saves.
func eventSummaries(t *testing.T, s *tt.Stack, thread string) (all []string) {
	t.Helper()
	runs, err := s.Client.Runs(s.Ctx(), thread)
	require.NoError(t, err)
	for _, run := range runs {
		h := s.Temporal.GetWorkflowHistory(s.Ctx(), thread, run.RunID, false, 0)
		for h.HasNext() {
			e, err := h.Next()
			require.NoError(t, err)
			if p := e.GetUserMetadata().GetSummary(); p != nil {
				var text string
				require.NoError(t, converter.GetDefaultDataConverter().FromPayload(p, &text))
				all = append(all, text)
			}
		}
	}
	return all
}

// What a person reads in Temporal's web UI in the middle of a turn that parks twice:
// turn, step, sub-agents, tokens, and what is waited for, on the open run of each
// thread; and the list of what waits for a person.
func TestAll_TemporalTellsTheStory(t *testing.T) {
	s := stack(t)
	ask(t, s)
	s.StartWorker(parksSoon...)
	r := s.Send("s1", script.Script(
		script.Task("general", script.Script(count("x"), "say counted")),
		llmtest.Ask("which one?"), "say done"))
	p := pendingApproval(t, s, r)
	child := p.Pending[0].ThreadID
	parked(t, s, r.ThreadID)
	parked(t, s, child)

	tells(t, s, r.ThreadID, "**Turn** `"+r.TurnID+"`, step 1,", "**Agent** `orchestrator` on `fake`", "**Waits for** `sub-agents since ",
		"- **general** ["+child+"](/namespaces/default/workflows/", "working: `script: ", "WaitsFor=children")
	tells(t, s, child, "**Parent** ["+r.ThreadID+"](/namespaces/default/workflows/"+url.PathEscape(r.ThreadID)+")", "**Agent** `general` on `fake`: `script: ",
		"**Waits for** `approval of shell(command=", " by a person since ", "WaitsFor=person", "parentThread="+r.ThreadID, "parentToolCallId=call_", "task=general: script: ")
	decide(t, s, p.Pending[0].ApprovalID, memory.Approve)
	q := openQuestions(t, s, r.ThreadID, 1)[0]
	parked(t, s, r.ThreadID)
	tells(t, s, r.ThreadID, "step 2,", "**Waits for** `answer to ask_user(question=which one?) by a person since ", "WaitsFor=person")
	require.NotContains(t, uiOf(t, s, r.ThreadID), " 0 tokens so far")

	waits := func() (ids []string) {
		list, err := s.Temporal.ListWorkflow(s.Ctx(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: "default", Query: fmt.Sprintf(`WaitsFor = "person" AND ExecutionStatus = "Running" AND RootThreadId = "%s"`, r.ThreadID),
		})
		require.NoError(t, err)
		for _, e := range list.GetExecutions() {
			ids = append(ids, e.GetExecution().GetWorkflowId())
		}
		return ids
	}
	tt.Eventually(t, "the list of what waits for a person", func() bool { w := waits(); return len(w) == 1 && w[0] == r.ThreadID })
	answer(t, s, q.ID, "this one")
	require.Equal(t, "done", s.Wait(r).Response)
	noRun(t, s, r.ThreadID)
	tt.Eventually(t, "nothing waits any more", func() bool { return len(waits()) == 0 })
	require.NotContains(t, uiOf(t, s, r.ThreadID), "WaitsFor")

	all := strings.Join(append(eventSummaries(t, s, r.ThreadID), eventSummaries(t, s, child)...), "\n")
	for _, text := range []string{"step 1: fake, 1 messages", "takes the next message", "then the run parks", "looks for the decision", "looks for the sub-agent's end", "shell(command="} {
		require.Contains(t, all, text)
	}
	replays(t, s, r.ThreadID)
	replays(t, s, child)
}

// A model call that its provider asks to make later shows until when, and the thread is
// found by it.
func TestTemporalTellsOfAProvidersPause(t *testing.T) {
	s := stack(t)
	s.StartWorker()
	r := s.Send("s1", "script: fail 429 after 30s say done")
	tells(t, s, r.ThreadID, "**Waits for** `fake@", " until ", "WaitsFor=provider")
	cancel(t, s, r)
	require.Equal(t, string(agent.ThreadCancelled), s.Wait(r).Status)
	require.NotContains(t, uiOf(t, s, r.ThreadID), "WaitsFor")
	replays(t, s, r.ThreadID)
}
