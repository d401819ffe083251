package memorytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/verify"
)

// fataler is the part of testing.T and rapid.T that cases use.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// env is a store under test with the steps that cases are made of.
type env struct {
	fataler
	test   *testing.T
	h      Harness
	s      memory.ConversationMemoryStore
	ctx    context.Context
	scopes int
}

const (
	user      = "alice"
	otherUser = "mallory"
)

func newEnv(t *testing.T, h Harness) *env {
	t.Helper()
	return &env{fataler: t, test: t, h: h, s: h.Open(t), ctx: t.Context()}
}

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error (%s): %v", agent.CodeOf(err), err)
	}
}

// code checks that an error has one of the codes.
func (e *env) code(err error, codes ...agent.Code) {
	e.Helper()
	if !slices.Contains(codes, agent.CodeOf(err)) {
		e.Fatalf("error %q (%v), want code %v", agent.CodeOf(err), err, codes)
	}
}

func (e *env) stale(err error) {
	e.Helper()
	e.code(err, agent.CodeStale)
	if !errors.Is(err, memory.ErrStale) {
		e.Errorf("errors.Is(%v, memory.ErrStale) does not hold", err)
	}
}

func equal[T any](e *env, what string, got, want T) {
	e.Helper()
	if !reflect.DeepEqual(got, want) {
		e.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

// must returns v, or ends the case.
func must[T any](e *env) func(v T, err error) T {
	e.Helper()
	return func(v T, err error) T {
		e.Helper()
		e.ok(err)
		return v
	}
}

// fence is an attempt of an activity of its own.
func (e *env) fence() memory.Fence {
	e.scopes++
	return memory.Fence{Scope: fmt.Sprintf("run-%d/1", e.scopes), Number: 1}
}

func message(session, id, text string) memory.SendRequest {
	return memory.SendRequest{
		UserID: user, Profile: "default", SessionID: session, ConversationID: agent.DefaultConversation,
		MessageID: id, Content: agent.Text(text), Workdir: "/w", WhenBusy: memory.Queue,
	}
}

func (e *env) send(session, id string) memory.SendResult {
	e.Helper()
	return must[memory.SendResult](e)(e.s.Send(e.ctx, message(session, id, "text of "+id)))
}

func (e *env) steer(session, id string) memory.SendResult {
	e.Helper()
	r := message(session, id, "text of "+id)
	r.WhenBusy = memory.Steer
	return must[memory.SendResult](e)(e.s.Send(e.ctx, r))
}

func mainConfig() *agent.SpecialistAgentConfig {
	return &agent.SpecialistAgentConfig{Name: "orchestrator", SystemPrompt: "You answer.", Tools: []string{"lookup", "assign_task"}}
}

// take claims and expects a turn.
func (e *env) take(threadID string) memory.Turn {
	e.Helper()
	claim, err := e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: threadID, RunID: "run-of-" + threadID, Config: mainConfig()})
	e.ok(err)
	if claim.Turn == nil {
		e.Fatalf("nothing to take in %s", threadID)
	}
	return *claim.Turn
}

// started sends a message in a session of its own and opens its turn.
func (e *env) started(session string) memory.Turn {
	e.Helper()
	return e.take(e.send(session, "m1").ThreadID)
}

func (e *env) begin(t memory.Turn, step int) int {
	e.Helper()
	st := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, e.modelBegin(t, step)))
	if st.Stored != nil {
		e.Fatalf("step %d of %s has a stored reply", step, t.ID)
	}
	return st.Attempt
}

func (e *env) modelBegin(t memory.Turn, step int) memory.ModelBegin {
	return memory.ModelBegin{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Fence: e.fence()}
}

// usage is what a reply costs in this suite.
func usage() agent.Usage {
	return agent.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15, Price: 0.25}
}

func record(t memory.Turn, step, attempt int, text string, calls ...agent.Call) memory.ReplyRecord {
	r := memory.ReplyRecord{
		ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Attempt: attempt, Duration: 20 * time.Millisecond,
		Reply: agent.ModelReply{Content: text, Calls: calls, FinishReason: "stop", Usage: usage(), Model: "demo"},
	}
	for _, c := range calls {
		r.Gates = append(r.Gates, agent.GateAuto)
		r.Delegations = append(r.Delegations, c.Function.Name == "assign_task")
	}
	return r
}

// reply begins a step and stores a reply.
func (e *env) reply(t memory.Turn, step int, text string, calls ...agent.Call) memory.StoredReply {
	e.Helper()
	return must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, record(t, step, e.begin(t, step), text, calls...)))
}

func lookup(n int) agent.Call {
	return agent.NewCall("provider-1", "lookup", fmt.Sprintf(`{"query":"q%d"}`, n))
}

// calls opens a step with n calls of lookup.
func (e *env) calls(t memory.Turn, step, n int) []agent.ToolCall {
	e.Helper()
	var list []agent.Call
	for i := range n {
		list = append(list, lookup(i))
	}
	return e.reply(t, step, "", list...).Calls
}

func (e *env) toolBegin(c agent.ToolCall, repeatable bool) memory.ToolBegin {
	return memory.ToolBegin{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Fence: e.fence(), Repeatable: repeatable}
}

func (e *env) beginTool(c agent.ToolCall, repeatable bool) int {
	e.Helper()
	st := must[memory.ToolStart](e)(e.s.BeginTool(e.ctx, e.toolBegin(c, repeatable)))
	if st.Final {
		e.Fatalf("call %s is final (%s)", c.ID, st.Call.Status)
	}
	return st.Attempt
}

func result(c agent.ToolCall, attempt int, text string) memory.ToolOutcome {
	return memory.ToolOutcome{
		ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Attempt: attempt,
		Result: agent.ToolOK(text), Duration: 7 * time.Millisecond,
	}
}

// runTool runs a call to its result.
func (e *env) runTool(c agent.ToolCall, text string) {
	e.Helper()
	e.ok(e.s.SaveResult(e.ctx, result(c, e.beginTool(c, true), text)))
}

func round(t memory.Turn, step int) memory.RoundRequest {
	return memory.RoundRequest{ThreadID: t.ThreadID, TurnID: t.ID, Step: step}
}

func (e *env) saveRound(t memory.Turn, step int) memory.RoundSaved {
	e.Helper()
	return must[memory.RoundSaved](e)(e.s.SaveToolRound(e.ctx, round(t, step)))
}

func completed(t memory.Turn, step int) memory.CloseRequest {
	return memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCompleted, Step: step}
}

func failed(t memory.Turn, step int, reason agent.Reason) memory.CloseRequest {
	return memory.CloseRequest{
		ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadFailed, Step: step,
		Reason: reason, Code: string(reason), Message: "it went wrong",
	}
}

func cancelled(t memory.Turn, step int) memory.CloseRequest {
	return memory.CloseRequest{
		ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCancelled, Step: step,
		Reason: agent.ReasonCancelled, Code: "cancelled", Message: "cancelled by alice",
	}
}

func (e *env) close(r memory.CloseRequest) memory.Closed {
	e.Helper()
	return must[memory.Closed](e)(e.s.CloseTurn(e.ctx, r))
}

// answer stores a final reply for a step and closes the turn with it.
func (e *env) answer(t memory.Turn, step int, text string) memory.Closed {
	e.Helper()
	e.reply(t, step, text)
	return e.close(completed(t, step))
}

func (e *env) thread(id string) agent.Thread {
	e.Helper()
	return must[agent.Thread](e)(e.s.Thread(e.ctx, user, id))
}

func (e *env) turn(id string) memory.Turn {
	e.Helper()
	return must[memory.Turn](e)(e.s.Turn(e.ctx, id))
}

func (e *env) call(id string) agent.ToolCall {
	e.Helper()
	return must[agent.ToolCall](e)(e.s.ToolCall(e.ctx, id))
}

func (e *env) messages(threadID string) []agent.Message {
	e.Helper()
	return must[[]agent.Message](e)(e.s.Messages(e.ctx, threadID, 0, 10_000))
}

func (e *env) events(threadID string) []agent.Event {
	e.Helper()
	return must[[]agent.Event](e)(e.s.Events(e.ctx, threadID, 0, 10_000))
}

func (e *env) inbox(threadID string) []memory.InboxEntry {
	e.Helper()
	return must[[]memory.InboxEntry](e)(e.s.Inbox(e.ctx, threadID))
}

// entry finds an inbox entry by kind and id.
func (e *env) entry(threadID string, kind memory.EntryKind, id string) memory.InboxEntry {
	e.Helper()
	for _, x := range e.inbox(threadID) {
		if x.Kind == kind && (x.ID == id || kind == memory.EntryChild && x.ChildTurn == id) {
			return x
		}
	}
	e.Fatalf("no %s entry %s in %s", kind, id, threadID)
	return memory.InboxEntry{}
}

// eventsOf returns the payloads of a type, in order.
func (e *env) eventsOf(threadID, typ string) []map[string]any {
	e.Helper()
	var out []map[string]any
	for _, ev := range e.events(threadID) {
		if ev.Type != typ {
			continue
		}
		var d map[string]any
		e.ok(json.Unmarshal(ev.Data, &d))
		out = append(out, d)
	}
	return out
}

// types lists event types in order, without those that the contract leaves open.
func (e *env) types(threadID string) []string {
	e.Helper()
	var out []string
	for _, ev := range e.events(threadID) {
		switch ev.Type {
		case agent.EventMemoryAppended, agent.EventStreamFinish:
		default:
			out = append(out, ev.Type)
		}
	}
	return out
}

// state is all that is readable of a tree, for comparisons.
func (e *env) state(root string) string {
	e.Helper()
	return e.stateBut(root, func(*agent.Thread) {})
}

// stateBut is state without what of each thread does not count.
func (e *env) stateBut(root string, leaveOut func(*agent.Thread)) string {
	e.Helper()
	var out []any
	ids := []string{root}
	for len(ids) > 0 {
		id := ids[0]
		ids = ids[1:]
		turns := must[[]memory.Turn](e)(e.s.TurnsOf(e.ctx, id))
		th := e.thread(id)
		leaveOut(&th)
		out = append(out, th, e.messages(id), e.events(id), e.inbox(id), turns,
			must[[]agent.Task](e)(e.s.Tasks(e.ctx, id)), must[[]agent.ToolCall](e)(e.s.ToolCalls(e.ctx, id)),
			must[*memory.Streamed](e)(e.s.Stream(e.ctx, id)),
			must[[]memory.Approval](e)(e.s.Approvals(e.ctx, memory.ApprovalFilter{ThreadID: id})),
			must[[]memory.Question](e)(e.s.Questions(e.ctx, memory.QuestionFilter{ThreadID: id})), must[[]memory.Summary](e)(e.s.Summaries(e.ctx, id)))
		for _, t := range turns {
			out = append(out, must[[]memory.Step](e)(e.s.Steps(e.ctx, t.ID)))
		}
		for _, c := range must[[]agent.Thread](e)(e.s.Children(e.ctx, id)) {
			ids = append(ids, c.ID)
		}
	}
	return string(must[[]byte](e)(json.Marshal(out)))
}

// unchanged checks that an operation changes nothing that can be read.
func (e *env) unchanged(root string, op func()) {
	e.Helper()
	before := e.state(root)
	op()
	if after := e.state(root); after != before {
		e.Fatalf("the operation changed something\nbefore: %s\nafter:  %s", before, after)
	}
}

// sound checks the invariants and counters of a tree.
func (e *env) sound(root string) {
	e.Helper()
	rep, err := verify.Check(e.ctx, e.s, verify.Options{Threads: []string{root}})
	e.ok(err)
	for _, v := range rep.Violations {
		e.Errorf("%s", v)
	}
	if !rep.OK {
		e.Fatalf("the tree of %s breaks %d rules", root, len(rep.Violations))
	}
	e.counted(root)
	e.rightAlready(root)
}

// counted checks that the counters of a thread equal its rows.
func (e *env) counted(threadID string) {
	e.Helper()
	e.windows(threadID)
	th := e.thread(threadID)
	equal(e, "messageCount", th.MessageCount, int64(len(e.messages(threadID))))
	equal(e, "toolCallCount", th.ToolCallCount, int64(len(must[[]agent.ToolCall](e)(e.s.ToolCalls(e.ctx, threadID)))))
	var sum agent.Usage
	for _, t := range must[[]memory.Turn](e)(e.s.TurnsOf(e.ctx, threadID)) {
		sum = sum.Add(t.Usage)
	}
	equal(e, "totalTokens", th.TotalTokens, sum.TotalTokens)
	equal(e, "promptTokens", th.PromptTokens, sum.PromptTokens)
	equal(e, "completionTokens", th.CompletionTokens, sum.CompletionTokens)
	equal(e, "requestCount", th.RequestCount, sum.Requests)
}

func contains(e *env, what, text, part string) {
	e.Helper()
	if !strings.Contains(text, part) {
		e.Fatalf("%s: %q does not contain %q", what, text, part)
	}
}
