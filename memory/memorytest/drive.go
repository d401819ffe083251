package memorytest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/verify"
)

// Request is a message of its own text to a session's default conversation.
func Request(session, id string) memory.SendRequest {
	return memory.SendRequest{UserID: "u", SessionID: session, MessageID: id, Content: agent.Text("text of " + id), WhenBusy: memory.Queue}
}

// RunTurns is a small worker: it runs turns of a thread until the inbox is
// empty, going on with what it finds. Each turn has a step with two tool calls
// and one that answers.
func RunTurns(ctx context.Context, s memory.ConversationMemoryStore, thread string) error {
	return RunTurnsSaying(ctx, s, thread, func(...any) {})
}

// RunTurnsSaying is RunTurns that says what it does (ask a model, run a tool) and
// what the store acknowledged.
func RunTurnsSaying(ctx context.Context, s memory.ConversationMemoryStore, thread string, say func(words ...any)) error {
	for {
		claim, err := s.TakeNext(ctx, memory.TakeRequest{ThreadID: thread, RunID: strconv.Itoa(os.Getpid())})
		if err != nil || claim.Turn == nil {
			return err
		}
		for step, done := claim.Step, false; !done; step++ {
			if done, err = runStep(ctx, s, *claim.Turn, step, say); err != nil {
				return err
			}
		}
	}
}

func runStep(ctx context.Context, s memory.ConversationMemoryStore, turn memory.Turn, step int, say func(words ...any)) (bool, error) {
	fence := memory.Fence{Scope: fmt.Sprint(os.Getpid(), "/", turn.ID, "/", step), Number: 1}
	start, err := s.BeginModel(ctx, memory.ModelBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Fence: fence})
	if err != nil {
		return false, err
	}
	stored := start.Stored
	if stored == nil {
		say("ask", turn.ID, step)
		reply := agent.ModelReply{Content: "answer", Usage: agent.Usage{PromptTokens: 3, CompletionTokens: 2}}
		if step == 1 {
			reply.Calls = []agent.Call{agent.NewCall("x", "lookup", `{}`), agent.NewCall("x", "lookup", `{}`)}
		}
		err := s.AppendChunk(ctx, memory.Chunk{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: start.Attempt, Text: "ans"})
		if err != nil {
			return false, err
		}
		saved, err := s.SaveReply(ctx, memory.ReplyRecord{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: start.Attempt, Reply: reply})
		if err != nil {
			return false, err
		}
		say("replied", turn.ID, step)
		stored = &saved
	}
	if len(stored.Calls) == 0 {
		_, err := s.CloseTurn(ctx, memory.CloseRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Outcome: agent.ThreadCompleted, Step: step})
		if err == nil {
			say("closed", turn.ID)
		}
		return true, err
	}
	for _, c := range stored.Calls {
		start, err := s.BeginTool(ctx, memory.ToolBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: c.ID, Fence: fence, Repeatable: true})
		if err != nil {
			return false, err
		}
		if start.Final {
			continue
		}
		say("run", turn.ID, c.ID)
		err = s.SaveResult(ctx, memory.ToolOutcome{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: c.ID, Attempt: start.Attempt, Result: agent.ToolOK("found")})
		if err != nil {
			return false, err
		}
		say("ran", turn.ID, c.ID)
	}
	_, err = s.SaveToolRound(ctx, memory.RoundRequest{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step})
	return false, err
}

// Delegated runs the next turn of a thread, which has a sub-agent do its work, and
// returns the sub-agent's thread.
func Delegated(t testing.TB, s memory.ConversationMemoryStore, thread string) string {
	t.Helper()
	ctx := t.Context()
	turn := Must(s.TakeNext(ctx, memory.TakeRequest{ThreadID: thread, RunID: "run"}))(t).Turn
	say := func(step int, r agent.ModelReply) []agent.ToolCall {
		fence := memory.Fence{Scope: turn.ID, Number: step}
		start := Must(s.BeginModel(ctx, memory.ModelBegin{ThreadID: thread, TurnID: turn.ID, Step: step, Fence: fence}))(t)
		record := memory.ReplyRecord{ThreadID: thread, TurnID: turn.ID, Step: step, Attempt: start.Attempt, Reply: r, Delegations: []bool{true}[:len(r.Calls)]}
		return Must(s.SaveReply(ctx, record))(t).Calls
	}
	call := say(1, agent.ModelReply{Calls: []agent.Call{agent.NewCall("x", agent.ToolAssignTask, `{}`)}})[0].ID
	d := Must(s.OpenDelegation(ctx, memory.DelegationRequest{
		ThreadID: thread, TurnID: turn.ID, CallID: call, Task: "look it up", Config: agent.SpecialistAgentConfig{Name: "researcher"}, Limits: memory.DelegationLimits{MaxDepth: 1},
	}))(t)
	if err := RunTurns(ctx, s, d.ChildThread); err != nil {
		t.Fatal(err)
	}
	Must(s.TakeChildResult(ctx, memory.ChildResultRequest{ThreadID: thread, TurnID: turn.ID, CallID: call}))(t)
	Must(s.SaveToolRound(ctx, memory.RoundRequest{ThreadID: thread, TurnID: turn.ID, Step: 1}))(t)
	say(2, agent.ModelReply{Content: "it is so"})
	Must(s.CloseTurn(ctx, memory.CloseRequest{ThreadID: thread, TurnID: turn.ID, Outcome: agent.ThreadCompleted, Step: 2}))(t)
	return d.ChildThread
}

// Sound checks every rule on every thread of a store.
func Sound(t testing.TB, s verify.Store) {
	t.Helper()
	report := Must(verify.Check(t.Context(), s, verify.Options{}))(t)
	for _, v := range report.Violations {
		t.Error(v)
	}
}
