// Package suite has what the cases of the conformance suite are made of.
package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/verify"
)

// Env is a store under test with the steps that cases are made of.
type Env struct {
	*testing.T
	H      Harness
	S      memory.ConversationMemoryStore
	Ctx    context.Context
	Scopes int
}

// User owns the threads of the cases, OtherUser none of them.
const (
	User      = "alice"
	OtherUser = "mallory"
)

func NewEnv(t *testing.T, h Harness) *Env {
	t.Helper()
	return On(t, h, h.Open(t))
}

func On(t *testing.T, h Harness, s memory.ConversationMemoryStore) *Env {
	return &Env{T: t, H: h, S: s, Ctx: t.Context()}
}

// Fatalf ends the case, and names its line: that of the first caller outside this package.
func (e *Env) Fatalf(format string, args ...any) {
	e.Helper()
	e.T.Fatalf(line()+format, args...)
}

func (e *Env) Errorf(format string, args ...any) {
	e.Helper()
	e.T.Errorf(line()+format, args...)
}

func line() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	f, more := frames.Next()
	for more && strings.Contains(f.Function, "/internal/suite.") {
		f, more = frames.Next()
	}
	return fmt.Sprintf("%s:%d: ", filepath.Base(f.File), f.Line)
}

func (e *Env) Ok(err error) {
	if err != nil {
		e.Fatalf("unexpected error (%s): %v", agent.CodeOf(err), err)
	}
}

func (e *Env) Code(err error, codes ...agent.Code) { code(e, err, codes) }

func (e *Env) Stale(err error) { code(e, err, []agent.Code{agent.CodeStale}) }

// Fails checks that an operation has an error of one of the codes, and returns its
// text: Fails(store.Write())(t, code).
func Fails[T any](_ T, err error) func(t Failer, codes ...agent.Code) string {
	return func(t Failer, codes ...agent.Code) string {
		t.Helper()
		code(t, err, codes)
		return err.Error()
	}
}

// code also checks that an error of CodeStale is memory.ErrStale.
func code(t Failer, err error, codes []agent.Code) {
	t.Helper()
	if !slices.Contains(codes, agent.CodeOf(err)) || (agent.CodeOf(err) == agent.CodeStale) != errors.Is(err, memory.ErrStale) {
		t.Fatalf("error %q (%v), want code %v", agent.CodeOf(err), err, codes)
	}
}

func Equal[T any](e *Env, what string, got, want T) {
	if !reflect.DeepEqual(got, want) {
		e.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

// Failer is what ends a test.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func Must[T any](v T, err error) func(t Failer) T {
	return func(t Failer) T {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error (%s): %v", agent.CodeOf(err), err)
		}
		return v
	}
}

func (e *Env) Fence() memory.Fence {
	e.Scopes++
	return memory.Fence{Scope: fmt.Sprintf("run-%d/1", e.Scopes), Number: 1}
}

func Message(session, id, text string) memory.SendRequest {
	return memory.SendRequest{
		UserID: User, Profile: "default", SessionID: session, ConversationID: agent.DefaultConversation,
		MessageID: id, Content: agent.Text(text), Workdir: "/w", WhenBusy: memory.Queue,
	}
}

func (e *Env) Send(session, id string) memory.SendResult {
	return Must(e.S.Send(e.Ctx, Message(session, id, "text of "+id)))(e)
}

func (e *Env) Steer(session, id string) memory.SendResult {
	r := Message(session, id, "text of "+id)
	r.WhenBusy = memory.Steer
	return Must(e.S.Send(e.Ctx, r))(e)
}

func MainConfig() *agent.SpecialistAgentConfig {
	return &agent.SpecialistAgentConfig{Name: "orchestrator", SystemPrompt: "You answer.", Tools: []string{"lookup", "assign_task"}}
}

func (e *Env) Take(threadID string) memory.Turn {
	claim, err := e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: threadID, RunID: "run-of-" + threadID, Config: MainConfig()})
	e.Ok(err)
	if claim.Turn == nil {
		e.Fatalf("nothing to take in %s", threadID)
	}
	return *claim.Turn
}

// Started sends a message in a session of its own and opens its turn.
func (e *Env) Started(session string) memory.Turn { return e.Take(e.Send(session, "m1").ThreadID) }

func (e *Env) Begin(t memory.Turn, step int) int {
	st := Must(e.S.BeginModel(e.Ctx, e.ModelBegin(t, step)))(e)
	if st.Stored != nil {
		e.Fatalf("step %d of %s has a stored reply", step, t.ID)
	}
	return st.Attempt
}

func (e *Env) ModelBegin(t memory.Turn, step int) memory.ModelBegin {
	return memory.ModelBegin{ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Fence: e.Fence()}
}

func Usage() agent.Usage {
	return agent.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15, Price: 0.25}
}

func Record(t memory.Turn, step, attempt int, text string, calls ...agent.Call) memory.ReplyRecord {
	r := memory.ReplyRecord{
		ThreadID: t.ThreadID, TurnID: t.ID, Step: step, Attempt: attempt, Duration: 20 * time.Millisecond,
		Reply: agent.ModelReply{Content: text, Calls: calls, FinishReason: "stop", Usage: Usage(), Model: "demo"},
	}
	for _, c := range calls {
		r.Gates = append(r.Gates, agent.GateAuto)
		r.Delegations = append(r.Delegations, c.Function.Name == "assign_task")
	}
	return r
}

func (e *Env) Reply(t memory.Turn, step int, text string, calls ...agent.Call) memory.StoredReply {
	return Must(e.S.SaveReply(e.Ctx, Record(t, step, e.Begin(t, step), text, calls...)))(e)
}

func Lookup(n int) agent.Call {
	return agent.NewCall("provider-1", "lookup", fmt.Sprintf(`{"query":"q%d"}`, n))
}

func (e *Env) Calls(t memory.Turn, step, n int) []agent.ToolCall {
	var list []agent.Call
	for i := range n {
		list = append(list, Lookup(i))
	}
	return e.Reply(t, step, "", list...).Calls
}

func (e *Env) ToolBegin(c agent.ToolCall, repeatable bool) memory.ToolBegin {
	return memory.ToolBegin{ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Fence: e.Fence(), Repeatable: repeatable}
}

func (e *Env) BeginTool(c agent.ToolCall, repeatable bool) int {
	st := Must(e.S.BeginTool(e.Ctx, e.ToolBegin(c, repeatable)))(e)
	if st.Final {
		e.Fatalf("call %s is final (%s)", c.ID, st.Call.Status)
	}
	return st.Attempt
}

func Result(c agent.ToolCall, attempt int, text string) memory.ToolOutcome {
	return memory.ToolOutcome{
		ThreadID: c.ThreadID, TurnID: c.TurnID, CallID: c.ID, Attempt: attempt,
		Result: agent.ToolOK(text), Duration: 7 * time.Millisecond,
	}
}

func (e *Env) RunTool(c agent.ToolCall, text string) {
	e.Ok(e.S.SaveResult(e.Ctx, Result(c, e.BeginTool(c, true), text)))
}

func Round(t memory.Turn, step int) memory.RoundRequest {
	return memory.RoundRequest{ThreadID: t.ThreadID, TurnID: t.ID, Step: step}
}

func (e *Env) SaveRound(t memory.Turn, step int) memory.RoundSaved {
	return Must(e.S.SaveToolRound(e.Ctx, Round(t, step)))(e)
}

func Completed(t memory.Turn, step int) memory.CloseRequest {
	return memory.CloseRequest{ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCompleted, Step: step}
}

func Failed(t memory.Turn, step int, reason agent.Reason) memory.CloseRequest {
	return memory.CloseRequest{
		ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadFailed, Step: step,
		Reason: reason, Code: string(reason), Message: "it went wrong",
	}
}

func Cancelled(t memory.Turn, step int) memory.CloseRequest {
	return memory.CloseRequest{
		ThreadID: t.ThreadID, TurnID: t.ID, Outcome: agent.ThreadCancelled, Step: step,
		Reason: agent.ReasonCancelled, Code: "cancelled", Message: "cancelled by alice",
	}
}

func (e *Env) Close(r memory.CloseRequest) memory.Closed { return Must(e.S.CloseTurn(e.Ctx, r))(e) }

// Answer stores a final reply for a step and closes the turn with it.
func (e *Env) Answer(t memory.Turn, step int, text string) memory.Closed {
	e.Reply(t, step, text)
	return e.Close(Completed(t, step))
}

func (e *Env) Thread(id string) agent.Thread { return Must(e.S.Thread(e.Ctx, User, id))(e) }

func (e *Env) Turn(id string) memory.Turn { return Must(e.S.Turn(e.Ctx, id))(e) }

func (e *Env) Call(id string) agent.ToolCall { return Must(e.S.ToolCall(e.Ctx, id))(e) }

func (e *Env) Messages(id string) []agent.Message { return Must(e.S.Messages(e.Ctx, id, 0, 10_000))(e) }

func (e *Env) Events(id string) []agent.Event { return Must(e.S.Events(e.Ctx, id, 0, 10_000))(e) }

func (e *Env) Inbox(id string) []memory.InboxEntry { return Must(e.S.Inbox(e.Ctx, id))(e) }

func (e *Env) Entry(threadID string, kind memory.EntryKind, id string) memory.InboxEntry {
	for _, x := range e.Inbox(threadID) {
		if x.Kind == kind && (x.ID == id || kind == memory.EntryChild && x.ChildTurn == id) {
			return x
		}
	}
	e.Fatalf("no %s entry %s in %s", kind, id, threadID)
	return memory.InboxEntry{}
}

func (e *Env) EventsOf(threadID, typ string) []map[string]any {
	var out []map[string]any
	for _, ev := range e.Events(threadID) {
		if ev.Type != typ {
			continue
		}
		var d map[string]any
		e.Ok(json.Unmarshal(ev.Data, &d))
		out = append(out, d)
	}
	return out
}

// StartsHaveEnds checks that each sub-agent that a log says was started has ended in it.
func (e *Env) StartsHaveEnds(threadID string) {
	e.Helper()
	ended := map[any]int{}
	for _, d := range e.EventsOf(threadID, agent.EventSubAgentCompleted) {
		ended[d["parentToolCallId"]]++
	}
	started := e.EventsOf(threadID, agent.EventSubAgentStarted)
	Equal(e, "sub-agents that ended", len(ended), len(started))
	for _, d := range started {
		Equal(e, "ends of the sub-agent of a call", ended[d["toolCallId"]], 1)
	}
}

// Types lists event types in order, without those that the contract leaves open.
func (e *Env) Types(threadID string) []string {
	var out []string
	for _, ev := range e.Events(threadID) {
		switch ev.Type {
		case agent.EventMemoryAppended, agent.EventStreamFinish:
		default:
			out = append(out, ev.Type)
		}
	}
	return out
}

func (e *Env) State(root string) string { return e.stateBut(root, func(*agent.Thread) {}) }

// stateBut is state without what of each thread does not count.
func (e *Env) stateBut(root string, leaveOut func(*agent.Thread)) string {
	var out []any
	ids := []string{root}
	for len(ids) > 0 {
		id := ids[0]
		ids = ids[1:]
		turns := Must(e.S.TurnsOf(e.Ctx, id))(e)
		th := e.Thread(id)
		leaveOut(&th)
		out = append(out, th, e.Messages(id), e.Events(id), e.Inbox(id), turns,
			Must(e.S.Tasks(e.Ctx, id))(e), Must(e.S.ToolCalls(e.Ctx, id))(e),
			Must(e.S.Stream(e.Ctx, id))(e),
			Must(e.S.Approvals(e.Ctx, memory.ApprovalFilter{ThreadID: id}))(e),
			Must(e.S.Questions(e.Ctx, memory.QuestionFilter{ThreadID: id}))(e), Must(e.S.Summaries(e.Ctx, id))(e))
		for _, t := range turns {
			out = append(out, Must(e.S.Steps(e.Ctx, t.ID))(e))
		}
		for _, c := range Must(e.S.Children(e.Ctx, id))(e) {
			ids = append(ids, c.ID)
		}
	}
	return string(Must(json.Marshal(out))(e))
}

// Unchanged checks that an operation changes nothing that can be read.
func (e *Env) Unchanged(root string, op func()) {
	before := e.State(root)
	op()
	if after := e.State(root); after != before {
		e.Fatalf("the operation changed something\nbefore: %s\nafter:  %s", before, after)
	}
}

func (e *Env) Sound(root string) {
	rep, err := verify.Check(e.Ctx, e.S, verify.Options{Threads: []string{root}})
	e.Ok(err)
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
func (e *Env) counted(threadID string) {
	e.Windows(threadID)
	th := e.Thread(threadID)
	Equal(e, "messageCount", th.MessageCount, int64(len(e.Messages(threadID))))
	Equal(e, "toolCallCount", th.ToolCallCount, int64(len(Must(e.S.ToolCalls(e.Ctx, threadID))(e))))
	var sum agent.Usage
	for _, t := range Must(e.S.TurnsOf(e.Ctx, threadID))(e) {
		sum = sum.Add(t.Usage)
	}
	Equals(e, "totalTokens", th.TotalTokens, sum.TotalTokens, "promptTokens", th.PromptTokens, sum.PromptTokens)
	Equals(e, "completionTokens", th.CompletionTokens, sum.CompletionTokens, "requestCount", th.RequestCount, sum.Requests)
}

// Equals compares several values: each has a name, what it is and what it should be.
func Equals(e *Env, all ...any) {
	for i := 0; i < len(all); i += 3 {
		Equal(e, all[i].(string), all[i+1], all[i+2])
	}
}

// Says checks what a thread remembers: of each message its role and text, and
// whether it is partial or superseded.
func (e *Env) Says(id string, want ...string) {
	got := []string{}
	for _, m := range e.Messages(id) {
		text := strings.TrimSpace(string(m.Role) + " " + m.Content.String())
		if m.Partial {
			text += " (partial)"
		}
		if m.SupersededBy != "" {
			text += " (superseded)"
		}
		got = append(got, text)
	}
	Equal(e, "messages", got, want)
}

func (e *Env) Ended(t memory.Turn, status agent.ThreadStatus, reason agent.Reason) {
	th, turn := e.Thread(t.ThreadID), e.Turn(t.ID)
	Equals(e, "thread", [3]any{th.Status, th.Reason, th.OpenTurnID}, [3]any{status, reason, ""},
		"turn", [4]any{turn.State, turn.Outcome, turn.Reason, turn.ClosedAt != nil}, [4]any{memory.TurnClosed, status, reason, true})
}

func Contains(e *Env, what, text, part string) {
	if !strings.Contains(text, part) {
		e.Fatalf("%s: %q does not contain %q", what, text, part)
	}
}
