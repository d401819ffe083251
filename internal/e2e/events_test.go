package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/httplog"
	"github.com/spool-agents/spool/internal/httplog/httplogtest"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// payloads are the fields of each event's data: those of CHECKLIST appendix B
// that are always there, those that may be, and what Spool adds.
var payloads = map[string]struct{ always, maybe, added string }{
	agent.EventMessageStarted:     {always: "content toolNames"},
	agent.EventToolCalls:          {always: "toolCalls", maybe: "usage"},
	agent.EventToolCall:           {always: "intent arguments toolCallId", maybe: "sub_agent_thread_id gate"},
	agent.EventApprovalRequired:   {always: "approvalId toolCalls agent", added: "threadId"},
	agent.EventApprovalResponse:   {always: "approvalId decision", maybe: "approvedCalls editInstruction", added: "threadId arguments"},
	agent.EventToolResponse:       {always: "toolCallId name status durationMs", maybe: "result resultRef preview size errorReason sub_agent_thread_id"},
	agent.EventAssistantMessage:   {always: "messageId content", maybe: "usage"},
	agent.EventMemoryAppended:     {always: "fromSeq toSeq"},
	agent.EventStreamFinish:       {always: "finishReason usage", added: "messageId model"},
	agent.EventQuestionAsked:      {always: "questionId agent text", added: "taskId task toolCallId threadId"},
	agent.EventQuestionAnswered:   {always: "questionId answeredBy", added: "state agent answer threadId"},
	agent.EventSubAgentStarted:    {always: "agentId agentName toolCallId", added: "sub_agent_thread_id"},
	agent.EventSubAgentToolCall:   {always: "agentId toolCallId toolName arguments", added: "parentToolCallId"},
	agent.EventSubAgentToolResult: {always: "agentId toolCallId toolName durationMs status", added: "parentToolCallId"},
	agent.EventSubAgentCompleted:  {always: "agentId agentName status result durationMs", added: "parentToolCallId sub_agent_thread_id"},
	agent.EventSubAgentMetrics:    {always: "agentId metrics", added: "parentToolCallId"},
	agent.EventDone:               {always: "responseTimeMs usage"},
	agent.EventError:              {always: "code message retryable"},
}

// elsewhere are the types that other scenarios show: what needs a server of
// tools, a conversation that is too long, or an edit at rest.
var elsewhere = []string{agent.EventMCPStderr, agent.EventContextSummary, agent.EventMemoryEdited, agent.EventToolProgress, agent.EventWarning}

// everyEvent is a conversation in which everything happens that events tell: a
// sub-agent with a tool, a question, an approval, streamed text with reasoning, a
// failure. It returns the pieces of text that a follower got.
func everyEvent(t *testing.T, s *tt.Stack) (threadID string, streamed []spool.TextUpdate) {
	t.Helper()
	child := script.Script(add(1, 1), "say two")
	r := s.Send("s1", script.Script(
		script.Calls(add(2, 3), script.Task("general", child)), "ask which one?", count("gated"),
		"think I have all of it => slow 60ms say one two three four five six seven eight nine ten eleven twelve"))
	followed := make(chan error, 1)
	go func() {
		followed <- s.Client.Follow(s.Ctx(), r.ThreadID, "", spool.FollowOptions{UntilTurn: r.TurnID}, func(u spool.Update) error {
			if u.Text != nil {
				streamed = append(streamed, *u.Text)
			}
			return nil
		})
	}()
	answer(t, s, openQuestions(t, s, r.ThreadID, 1)[0].ID, "the second")
	p := pendingApproval(t, s, r)
	decide(t, s, p.Pending[0].ApprovalID, memory.Approve)
	require.Equal(t, "completed", s.Wait(r).Status)
	require.NoError(t, <-followed)
	require.Equal(t, "failed", s.Ask("s1", script.Script("fail 400 say never")).Status)
	return r.ThreadID, streamed
}

// Row 41: every type of event, with the fields that its payload has and no other.
func TestRow41_EventPayloads(t *testing.T) {
	s := stack(t)
	ask(t, s)
	s.StartWorker()
	id, streamed := everyEvent(t, s)
	seen := map[string]bool{}
	for _, e := range events(t, s, id) {
		want, known := payloads[e.Type]
		if !known {
			require.Contains(t, elsewhere, e.Type, "this event has no row in the table")
			continue
		}
		seen[e.Type] = true
		var data map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(e.Data, &data), e.Type)
		for _, field := range strings.Fields(want.always) {
			assert.Contains(t, data, field, "%s: %s", e.Type, e.Data)
		}
		allowed := strings.Fields(want.always + " " + want.maybe + " " + want.added)
		for field := range data {
			assert.Contains(t, allowed, field, "%s: %s", e.Type, e.Data)
		}
		assert.Equal(t, id, e.ThreadID)
		assert.NotZero(t, e.Seq)
		assert.NotEmpty(t, e.TurnID, e.Type)
	}
	assert.Equal(t, slices.Sorted(maps.Keys(payloads)), slices.Sorted(maps.Keys(seen)), "every type appears")

	// assistant_chunk and reasoning_chunk are not in the log: followers get them.
	var text, reasoning string
	for _, u := range streamed {
		assert.NotEmpty(t, u.MessageID)
		text, reasoning = text+u.Text, reasoning+u.Reasoning
	}
	assert.Contains(t, text, "one two three")
	assert.Contains(t, reasoning, "I have all of it")
}

// Row 40: one line per call to a model, streamed and failed ones included, in the
// folder of the session and profile; keys are masked. Off, there is no file.
func TestRow40_HTTPLog(t *testing.T) {
	t.Parallel()
	const secret = "sk-0123456789abcdef-quite-secret"
	s := tt.New(t)
	off := s.StartWorker()
	quiet := s.Ask("off", "script: say nothing is logged")
	require.Equal(t, "completed", quiet.Status, quiet.Error)
	require.NoDirExists(t, filepath.Join(s.Dir, "profiles"))
	off.Kill()
	s.StartWorker("SPOOL_HTTP_LOG=true", "OPENAI_API_KEY="+secret)

	ok := s.Ask("on", script.Script(add(1, 2), script.Task("general", "script: say from below"), "fail 503 x1 say my key is "+secret))
	require.Equal(t, "completed", ok.Status, ok.Error)
	bad := s.Ask("on", "script: fail 401 x1 say never")
	require.Equal(t, "failed", bad.Status)
	dir, err := sessionfile.ProfileDir(s.Dir, "default")
	require.NoError(t, err)
	path, err := sessionfile.Folder{Dir: dir}.HTTPLog(s.Session("on"))
	require.NoError(t, err)
	var entries []httplog.Entry
	tt.Eventually(t, "every call has its line", func() bool {
		var lost int
		entries, lost, err = httplogtest.Read(path)
		require.NoError(t, err)
		require.Zero(t, lost)
		return len(entries) == 6 // two rounds, a sub-agent, 503, its repetition, 401
	})
	statuses := map[int]int{}
	threads := map[string]bool{}
	for _, e := range entries {
		statuses[e.Status]++
		threads[e.ThreadID] = true
		require.True(t, e.Streamed)
		require.NotEmpty(t, e.TurnID)
		require.Contains(t, e.URL, "/chat/completions")
		require.Contains(t, string(e.Request), `"messages"`)
		require.Equal(t, []string{"***"}, e.RequestHeaders["Authorization"])
		if e.Status == 200 {
			require.Contains(t, string(e.Response), "chat.completion.chunk")
		}
	}
	require.Equal(t, map[int]int{200: 4, 503: 1, 401: 1}, statuses)
	require.Len(t, threads, 2, "the sub-agent's calls are in its session's log")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(raw), secret)
	require.Equal(t, len(entries), strings.Count(string(raw), "\n"))
}
