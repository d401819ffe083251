// Package memorytest is the conformance suite of memory.ConversationMemoryStore.
//
// RunStore checks that a store keeps the contract of docs/state-machine.md:
// every edge, every fence, every repetition. Each case is named by the sentence
// of its rule. Where the contract is silent the suite asserts nothing, so that
// stores may differ there.
//
// The rules are in packages by subject below internal, and what they are made of
// in internal/suite. Package processtest has what needs other processes.
package memorytest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/copycases"
	"github.com/spool-agents/spool/memory/memorytest/internal/peoplecases"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
	"github.com/spool-agents/spool/memory/memorytest/internal/treecases"
	"github.com/spool-agents/spool/memory/memorytest/internal/turncases"
	"github.com/spool-agents/spool/memory/verify"
)

// Harness tells the suite how to make stores and what they can do.
type Harness = suite.Harness

// Clock is a clock that stands still until it is moved. Safe for concurrent use.
type Clock = suite.Clock

// NewClock makes a clock that shows a fixed time of whole milliseconds.
func NewClock() *Clock { return suite.NewClock() }

// Picture is a PNG, another one for each n.
func Picture(n int) []byte { return suite.Picture(n) }

// Showing is a message that shows kept images.
func Showing(r memory.SendRequest, names ...string) memory.SendRequest {
	return suite.Showing(r, names...)
}

// Must returns v, or ends the test: Must(store.Read())(t).
func Must[T any](v T, err error) func(t suite.Failer) T { return suite.Must(v, err) }

// Fails checks that an operation has an error of one of the codes, and returns its
// text: Fails(store.Write())(t, code).
func Fails[T any](v T, err error) func(t suite.Failer, codes ...agent.Code) string {
	return suite.Fails(v, err)
}

// RunStore runs every case of the suite on stores of h, each on a store of its
// own, and the property test.
func RunStore(t *testing.T, h Harness) {
	t.Helper()
	groups := slices.Concat(turncases.Groups, peoplecases.Groups, treecases.Groups, copycases.Groups)
	if h.Durable {
		groups = append(groups, suite.Group{Name: "durable", Rules: turncases.DurableRules})
	}
	if h.MultiProcess {
		groups = append(groups, suite.Group{Name: "processes", Rules: turncases.ProcessRules})
	}
	for _, g := range groups {
		t.Run(g.Name, func(t *testing.T) {
			for _, r := range g.Rules {
				t.Run(r.Name, func(t *testing.T) { r.Check(t, h) })
			}
		})
	}
	t.Run("random operations keep every invariant and repetitions change nothing", func(t *testing.T) {
		runRandom(t, h)
	})
}

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
	return steps.Run(func() {
		for {
			claim := steps.Must(s.TakeNext(ctx, memory.TakeRequest{ThreadID: thread, RunID: strconv.Itoa(os.Getpid())}))
			if claim.Turn == nil {
				return
			}
			for step := claim.Step; !runStep(ctx, s, *claim.Turn, step, say); step++ {
			}
		}
	})
}

// runStep reports whether the step was the turn's last.
func runStep(ctx context.Context, s memory.ConversationMemoryStore, turn memory.Turn, step int, say func(words ...any)) (last bool) {
	fence := memory.Fence{Scope: fmt.Sprint(os.Getpid(), "/", turn.ID, "/", step), Number: 1}
	start := steps.Must(s.BeginModel(ctx, memory.ModelBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Fence: fence}))
	stored := start.Stored
	if stored == nil {
		say("ask", turn.ID, step)
		reply := agent.ModelReply{Content: "answer", Usage: agent.Usage{PromptTokens: 3, CompletionTokens: 2}}
		if step == 1 {
			reply.Calls = []agent.Call{agent.NewCall("x", "lookup", `{}`), agent.NewCall("x", "lookup", `{}`)}
		}
		steps.Check(s.AppendChunk(ctx, memory.Chunk{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: start.Attempt, Text: "ans"}))
		saved := steps.Must(s.SaveReply(ctx, memory.ReplyRecord{ThreadID: turn.ThreadID, TurnID: turn.ID, Step: step, Attempt: start.Attempt, Reply: reply}))
		say("replied", turn.ID, step)
		stored = &saved
	}
	if len(stored.Calls) == 0 {
		steps.Must(s.CloseTurn(ctx, suite.Completed(turn, step)))
		say("closed", turn.ID)
		return true
	}
	for _, c := range stored.Calls {
		start := steps.Must(s.BeginTool(ctx, memory.ToolBegin{ThreadID: turn.ThreadID, TurnID: turn.ID, CallID: c.ID, Fence: fence, Repeatable: true}))
		if start.Final {
			continue
		}
		say("run", turn.ID, c.ID)
		steps.Check(s.SaveResult(ctx, suite.Result(c, start.Attempt, "found")))
		say("ran", turn.ID, c.ID)
	}
	steps.Must(s.SaveToolRound(ctx, suite.Round(turn, step)))
	return false
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
