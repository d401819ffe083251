package activities

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/sqlite"
)

// A quick call that takes longer than a second is ended and given back; the one beside
// it keeps its result, and neither has the round saved before both have one.
func TestQuickCallsThatTakeLongAreGivenBack(t *testing.T) {
	ctx := t.Context()
	store, err := sqlite.OpenMemory(ctx, sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	ended := make(chan struct{})
	slow := tool.Func(agent.ToolSpec{Name: "slow", Schema: []byte(`{"type":"object"}`), ReadOnly: true, Repeatable: true, Quick: true},
		func(ctx context.Context, r agent.ToolRun, _ struct{}) agent.ToolResult {
			if r.Attempt > 1 {
				return agent.ToolOK("at last")
			}
			<-ctx.Done()
			close(ended)
			return agent.ToolFailed(agent.ErrAborted, "stopped")
		})
	tools, err := tool.New(tool.Calculator(), slow)
	require.NoError(t, err)
	a := &Activities{Store: store, Tools: tools, worker: "this"}

	ref, stored := replied(t, store, call("slow", `{}`), call("calculator", `{"expression":"6*7"}`))
	for _, c := range a.calls(stored) {
		require.True(t, c.Quick, c.Summary)
	}

	round, left, err := a.runQuick(ctx, ref, []string{stored[0].ID, stored[1].ID})
	require.NoError(t, err)
	require.Nil(t, round)
	require.Equal(t, []string{stored[0].ID}, left)
	<-ended
	state, err := store.StepState(ctx, memory.RoundRequest{ThreadID: ref.Thread, TurnID: ref.Turn, Step: 1})
	require.NoError(t, err)
	require.Equal(t, agent.CallPending, state.Calls[0].Status)
	require.Equal(t, "42", state.Calls[1].Result)
	require.False(t, a.calls(state.Calls)[0].Quick, "it gets an activity of its own")

	// Should it be asked for all the same, what has its result does not run again.
	round, left, err = a.runQuick(ctx, ref, []string{stored[0].ID, stored[1].ID})
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, 2, round.Results)
	messages, err := store.Messages(ctx, ref.Thread, 0, 0)
	require.NoError(t, err)
	require.Equal(t, "at last", messages[2].Content.String())
}

// A model that invents tools, 500 in a reply, costs one local activity and no more.
func TestCallsOfUnknownToolsAreQuick(t *testing.T) {
	store, err := sqlite.OpenMemory(t.Context(), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	tools, err := tool.New(tool.Calculator())
	require.NoError(t, err)
	a := &Activities{Store: store, Tools: tools}
	ref, stored := replied(t, store, call("no_such_tool", `{}`), call(agent.ToolTaskOutput, `{}`))
	calls := a.calls(stored)
	require.True(t, calls[0].Quick)
	require.False(t, calls[1].Quick, "it waits for a task")
	_, left, err := a.runQuick(t.Context(), ref, []string{stored[0].ID})
	require.NoError(t, err)
	require.Empty(t, left)
	refused, err := store.ToolCall(t.Context(), stored[0].ID)
	require.NoError(t, err)
	require.Equal(t, agent.ErrToolNotFound, refused.ErrorReason)
}

func call(name, args string) agent.Call {
	return agent.Call{Function: agent.CallFunction{Name: name, Arguments: args}}
}

// replied opens a turn whose model has called tools.
func replied(t *testing.T, store memory.ConversationMemoryStore, calls ...agent.Call) (contract.Ref, []agent.ToolCall) {
	t.Helper()
	sent, err := store.Send(t.Context(), memory.SendRequest{UserID: "u", SessionID: "s", MessageID: "m", Content: agent.Text("hi")})
	require.NoError(t, err)
	claim, err := store.TakeNext(t.Context(), memory.TakeRequest{ThreadID: sent.ThreadID, Config: &agent.SpecialistAgentConfig{Name: DefaultAgent}})
	require.NoError(t, err)
	ref := contract.Ref{Thread: sent.ThreadID, Turn: claim.Turn.ID, Step: 1}
	begun, err := store.BeginModel(t.Context(), memory.ModelBegin{ThreadID: ref.Thread, TurnID: ref.Turn, Step: 1})
	require.NoError(t, err)
	stored, err := store.SaveReply(t.Context(), memory.ReplyRecord{ThreadID: ref.Thread, TurnID: ref.Turn, Step: 1, Attempt: begun.Attempt, Reply: agent.ModelReply{Calls: calls}})
	require.NoError(t, err)
	return ref, stored.Calls
}

// Whichever call of a reply runs first, people are asked in the order of the reply.
func TestQuestionsAreOpenedInTheOrderOfTheReply(t *testing.T) {
	store, err := sqlite.OpenMemory(t.Context(), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	a := &Activities{Store: store}
	var asked []agent.Call
	var want []string
	for i := range 12 { // two digits sort among one
		want = append(want, fmt.Sprintf("q%d?", i))
		asked = append(asked, call(agent.ToolAskUser, fmt.Sprintf(`{"question":"%s"}`, want[i])))
	}
	asked[3], want = call(agent.ToolAskUser, `{}`), slices.Delete(want, 3, 4) // its own activity refuses it
	ref, calls := replied(t, store, asked...)
	for _, i := range []int{11, 4, 3, 0} {
		ref.Call = calls[i].ID
		_, err := a.OpenQuestion(t.Context(), ref)
		require.NoError(t, err)
		var got []string
		open, err := store.Questions(t.Context(), memory.QuestionFilter{OpenOnly: true})
		require.NoError(t, err)
		for _, q := range open {
			got = append(got, q.Text)
		}
		require.Equal(t, want, got)
	}
}
