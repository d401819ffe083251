package starter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// bench runs commands in process against a store in a home of its own, without
// Temporal.
type bench struct {
	t     *testing.T
	home  string
	store memory.ConversationMemoryStore
	n     int
	more  []string // of the environment
}

const owner = "tester"

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, home: t.TempDir()}
	store, err := spool.OpenStore(t.Context(), "sqlite:"+filepath.Join(b.home, "spool.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	b.store = store
	return b
}

// result is what a command did.
type result struct {
	code        int
	out, errout string
}

func (b *bench) env() []string {
	return append([]string{"SPOOL_HOME=" + b.home, "SPOOL_USER=" + owner, "TEMPORAL_ADDRESS=127.0.0.1:1", "HOME=" + b.home, "SPOOL_TEMPORAL_UI=http://ui"}, b.more...)
}

func (b *bench) run(args ...string) result { return b.feed("", args...) }

func (b *bench) feed(stdin string, args ...string) result {
	b.t.Helper()
	return b.runCtx(b.t.Context(), stdin, args...)
}

func (b *bench) runCtx(ctx context.Context, stdin string, args ...string) result {
	b.t.Helper()
	var out, errout bytes.Buffer
	code := Run(ctx, args, b.env(), strings.NewReader(stdin), &out, &errout)
	return result{code, out.String(), errout.String()}
}

// json decodes the one document on stdout.
func (r result) json(t *testing.T) map[string]any {
	t.Helper()
	var doc map[string]any
	dec := json.NewDecoder(strings.NewReader(r.out))
	require.NoError(t, dec.Decode(&doc), "stdout %q, stderr %q", r.out, r.errout)
	require.False(t, dec.More(), "one document on stdout: %s", r.out)
	return doc
}

func (b *bench) fence() memory.Fence {
	b.n++
	return memory.Fence{Scope: fmt.Sprintf("run/%d", b.n), Number: 1}
}

func (b *bench) send(session, id, text string) memory.SendResult {
	b.t.Helper()
	res, err := b.store.Send(b.t.Context(), memory.SendRequest{
		UserID: owner, Profile: "default", SessionID: session, ConversationID: agent.DefaultConversation,
		MessageID: id, Content: agent.Text(text), Workdir: b.home, WhenBusy: memory.Queue,
	})
	require.NoError(b.t, err)
	return res
}

func (b *bench) take(thread string) *memory.Turn {
	b.t.Helper()
	claim, err := b.store.TakeNext(b.t.Context(), memory.TakeRequest{ThreadID: thread, RunID: "run", Config: &agent.SpecialistAgentConfig{Name: "orchestrator", Stream: true}})
	require.NoError(b.t, err)
	require.NotNil(b.t, claim.Turn)
	return claim.Turn
}

// stream begins a model call and stores pieces of text.
func (b *bench) stream(turn *memory.Turn, step int, pieces ...string) int {
	b.t.Helper()
	ms, err := b.store.BeginModel(b.t.Context(), memory.ModelBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Fence: b.fence()})
	require.NoError(b.t, err)
	at := 0
	for _, p := range pieces {
		require.NoError(b.t, b.store.AppendChunk(b.t.Context(), memory.Chunk{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: ms.Attempt, Offset: at, Text: p}))
		at += len(p)
	}
	return ms.Attempt
}

// reply makes a model call whose reply has these calls.
func (b *bench) reply(turn *memory.Turn, step int, text string, gate agent.Gate, calls ...agent.Call) memory.StoredReply {
	b.t.Helper()
	attempt := b.stream(turn, step, text)
	r := memory.ReplyRecord{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: attempt,
		Reply: agent.ModelReply{Content: text, Calls: calls, Usage: agent.Usage{TotalTokens: 7, Requests: 1}}}
	for _, c := range calls {
		r.Gates = append(r.Gates, gate)
		r.Delegations = append(r.Delegations, c.Function.Name == "assign_task")
	}
	stored, err := b.store.SaveReply(b.t.Context(), r)
	require.NoError(b.t, err)
	return stored
}

func (b *bench) tool(call agent.ToolCall, result string) {
	b.t.Helper()
	started, err := b.store.BeginTool(b.t.Context(), memory.ToolBegin{ThreadID: call.ThreadID, TurnID: call.TurnID, CallID: call.ID, Fence: b.fence(), Repeatable: true})
	require.NoError(b.t, err)
	require.NoError(b.t, b.store.SaveResult(b.t.Context(), memory.ToolOutcome{ThreadID: call.ThreadID, TurnID: call.TurnID, CallID: call.ID, Attempt: started.Attempt, Result: agent.ToolOK(result)}))
}

func (b *bench) round(turn *memory.Turn, step int) {
	b.t.Helper()
	_, err := b.store.SaveToolRound(b.t.Context(), memory.RoundRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step})
	require.NoError(b.t, err)
}

func (b *bench) finish(turn *memory.Turn, step int, outcome agent.ThreadStatus) {
	b.t.Helper()
	req := memory.CloseRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Outcome: outcome, Step: step}
	if outcome == agent.ThreadFailed {
		req.Reason, req.Code, req.Message = agent.ReasonError, "bad_request", "the model \x1b[31mrefused"
	}
	_, err := b.store.CloseTurn(b.t.Context(), req)
	require.NoError(b.t, err)
}

// answered makes a finished turn: a message and its answer.
func (b *bench) answered(session, id, text, answer string) string {
	b.t.Helper()
	b.send(session, id, text)
	turn := b.take(session + "/default")
	b.reply(turn, 1, answer, agent.GateAuto)
	b.finish(turn, 1, agent.ThreadCompleted)
	return turn.ThreadID
}

// delegated makes a finished turn with a tool and a sub-agent.
func (b *bench) delegated(session string) (root, child string) {
	b.t.Helper()
	b.send(session, "m1", "do it")
	turn := b.take(session + "/default")
	stored := b.reply(turn, 1, "let me see", agent.GateAuto, agent.NewCall("x", "ls", `{"path":"."}`),
		agent.NewCall("y", "assign_task", `{"agent":"general","task":"count"}`))
	b.tool(stored.Calls[0], "a.txt")
	d, err := b.store.OpenDelegation(b.t.Context(), memory.DelegationRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: stored.Calls[1].ID,
		Config: agent.SpecialistAgentConfig{Name: "general"}, Task: "count", Limits: memory.DelegationLimits{MaxDepth: 3}})
	require.NoError(b.t, err)
	require.False(b.t, d.Refused, d.Refusal)
	sub := b.take(d.ChildThread)
	b.reply(sub, 1, "one file", agent.GateAuto)
	b.finish(sub, 1, agent.ThreadCompleted)
	res, err := b.store.TakeChildResult(b.t.Context(), memory.ChildResultRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: stored.Calls[1].ID})
	require.NoError(b.t, err)
	require.True(b.t, res.Done)
	b.round(turn, 1)
	b.reply(turn, 2, "there is one file", agent.GateAuto)
	b.finish(turn, 2, agent.ThreadCompleted)
	return turn.ThreadID, d.ChildThread
}

// asking makes a turn that waits for approval of two calls.
func (b *bench) asking(session string) (memory.Approval, *memory.Turn) {
	b.t.Helper()
	return b.asks(session, agent.NewCall("x", "shell", `{"command":"\u001b[2Jrm"}`), agent.NewCall("y", "file_write", `{"path":"p","content":"c"}`))
}

// askingFor makes a turn that waits for approval of one call.
func (b *bench) askingFor(session, tool, args string) (memory.Approval, *memory.Turn) {
	b.t.Helper()
	return b.asks(session, agent.NewCall("x", tool, args))
}

func (b *bench) asks(session string, calls ...agent.Call) (memory.Approval, *memory.Turn) {
	b.t.Helper()
	b.send(session, "m1", "write")
	turn := b.take(session + "/default")
	b.reply(turn, 1, "", agent.GateAsk, calls...)
	ap, err := b.store.OpenApproval(b.t.Context(), memory.RoundRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: 1})
	require.NoError(b.t, err)
	return ap, turn
}

// below delegates in a turn's first step and opens the child's turn.
func (b *bench) below(turn *memory.Turn, background bool) *memory.Turn {
	b.t.Helper()
	stored := b.reply(turn, 1, "", agent.GateAuto, agent.NewCall("y", "assign_task", `{"agent":"general","task":"count the files"}`))
	d, err := b.store.OpenDelegation(b.t.Context(), memory.DelegationRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: stored.Calls[0].ID,
		Config: agent.SpecialistAgentConfig{Name: "general"}, Task: "count the files", Background: background, Limits: memory.DelegationLimits{MaxDepth: 3}})
	require.NoError(b.t, err)
	return b.take(d.ChildThread)
}

func newCalls(tools ...string) (calls []agent.Call) {
	for i, name := range tools {
		calls = append(calls, agent.NewCall(fmt.Sprint(i), name, "{}"))
	}
	return calls
}
