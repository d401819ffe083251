package memorytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func (e *env) threads(f memory.ThreadFilter) []string {
	e.Helper()
	if f.Limit == 0 {
		f.Limit = 100
	}
	var out []string
	for _, th := range must[[]agent.Thread](e)(e.s.Threads(e.ctx, f)) {
		out = append(out, th.ID)
	}
	return out
}

var readRules = []rule{
	{"a list is read page by page without a gap or a repetition, also where threads were active at once", func(e *env) {
		var want []string
		for i := range 9 {
			if i%3 == 0 {
				e.h.Clock.Advance(time.Second)
			}
			want = append(want, e.send(fmt.Sprintf("s%d", i), "m").ThreadID)
		}
		var got []string
		for f := (memory.ThreadFilter{UserID: user, Limit: 2}); ; {
			page := must[[]agent.Thread](e)(e.s.Threads(e.ctx, f))
			for _, th := range page {
				got = append(got, th.ID)
				f.Before, f.AfterID = th.UpdatedAt, th.ID
			}
			if len(page) < f.Limit {
				break
			}
		}
		equal(e, "all of them", got, e.threads(memory.ThreadFilter{UserID: user}))
		slices.Sort(got)
		equal(e, "each once", got, want)
	}},
	{"another profile's session is not found", func(e *env) {
		id := e.send("s1", "m1").ThreadID
		for _, r := range []memory.SendRequest{message("s1", "x", "x"), {UserID: user, Profile: "other", ThreadID: id, MessageID: "x", Content: agent.Text("x")}} {
			r.Profile = "other"
			_, err := e.s.Send(e.ctx, r)
			e.code(err, agent.CodeNotFound)
			if r.ThreadID == "" {
				r.ConversationID = "new"
				_, err := e.s.Send(e.ctx, r)
				e.code(err, agent.CodeNotFound)
			}
		}
		equal(e, "listed", len(e.threads(memory.ThreadFilter{UserID: user, Profile: "other"})), 0)
	}},
	{"other users find nothing", func(e *env) {
		t := e.started("s1")
		e.take(e.delegate(t, 1, "researcher").ChildThread)
		_, err := e.s.Thread(e.ctx, otherUser, t.ThreadID)
		e.code(err, agent.CodeNotFound)
		equal(e, "threads", len(e.threads(memory.ThreadFilter{UserID: otherUser, All: true})), 0)
		equal(e, "without a user", must[agent.Thread](e)(e.s.Thread(e.ctx, "", t.ThreadID)).ID, t.ThreadID)
	}},
	{"what is missing is not found", func(e *env) {
		const none = "none/default"
		var errs []error
		add := func(err error) { errs = append(errs, err) }
		_, err := e.s.Thread(e.ctx, user, none)
		add(err)
		_, err = e.s.Messages(e.ctx, none, 0, 10)
		add(err)
		_, err = e.s.Events(e.ctx, none, 0, 10)
		add(err)
		_, err = e.s.Tasks(e.ctx, none)
		add(err)
		_, err = e.s.Inbox(e.ctx, none)
		add(err)
		_, err = e.s.TurnsOf(e.ctx, none)
		add(err)
		_, err = e.s.Turn(e.ctx, "tnone")
		add(err)
		_, err = e.s.CloseTurn(e.ctx, memory.CloseRequest{ThreadID: none, TurnID: "tnone", Outcome: agent.ThreadCompleted, Step: 1})
		add(err)
		for _, err := range errs {
			e.code(err, agent.CodeNotFound)
		}
	}},
	{"no list shows a sub-agent unless asked", func(e *env) {
		t := e.started("s1")
		d := e.delegate(t, 1, "researcher")
		equal(e, "list", e.threads(memory.ThreadFilter{UserID: user}), []string{t.ThreadID})
		equal(e, "session", e.threads(memory.ThreadFilter{UserID: user, SessionID: "s1"}), []string{t.ThreadID})
		all := e.threads(memory.ThreadFilter{UserID: user, All: true})
		slices.Sort(all)
		equal(e, "all", all, []string{d.ChildThread, t.ThreadID})
	}},
	{"threads are listed newest activity first, filtered and paged", func(e *env) {
		for i := range 4 {
			e.h.Clock.Advance(time.Second)
			r := message(fmt.Sprintf("s%d", i), "m1", "hi")
			r.Workdir = fmt.Sprintf("/w%d", i%2)
			r.Profile = []string{"default", "work"}[i/2]
			must[memory.SendResult](e)(e.s.Send(e.ctx, r))
		}
		e.h.Clock.Advance(time.Second)
		e.send("s0", "m2")
		equal(e, "order", e.threads(memory.ThreadFilter{UserID: user}), []string{"s0/default", "s3/default", "s2/default", "s1/default"})
		equal(e, "limit", e.threads(memory.ThreadFilter{UserID: user, Limit: 2}), []string{"s0/default", "s3/default"})
		equal(e, "workdir", e.threads(memory.ThreadFilter{UserID: user, Workdir: "/w1"}), []string{"s3/default", "s1/default"})
		equal(e, "profile", e.threads(memory.ThreadFilter{UserID: user, Profile: "work"}), []string{"s3/default", "s2/default"})
		third := e.thread("s3/default")
		equal(e, "page", e.threads(memory.ThreadFilter{UserID: user, Before: third.UpdatedAt}), []string{"s2/default", "s1/default"})
	}},
	{"messages and events are read in pages by sequence number", func(e *env) {
		t := e.started("s1")
		for n := 1; n <= 5; n++ {
			e.runTool(e.calls(t, n, 1)[0], "r")
			e.saveRound(t, n)
		}
		all := e.messages(t.ThreadID)
		var paged []agent.Message
		for after := int64(0); ; after = paged[len(paged)-1].Seq {
			batch := must[[]agent.Message](e)(e.s.Messages(e.ctx, t.ThreadID, after, 3))
			paged = append(paged, batch...)
			if len(batch) < 3 {
				break
			}
		}
		equal(e, "messages", paged, all)
		events := e.events(t.ThreadID)
		var pagedEvents []agent.Event
		for after := int64(0); ; after = pagedEvents[len(pagedEvents)-1].Seq {
			batch := must[[]agent.Event](e)(e.s.Events(e.ctx, t.ThreadID, after, 4))
			pagedEvents = append(pagedEvents, batch...)
			if len(batch) < 4 {
				break
			}
		}
		equal(e, "events", pagedEvents, events)
		equal(e, "beyond the end", len(must[[]agent.Message](e)(e.s.Messages(e.ctx, t.ThreadID, 1000, 3))), 0)
	}},
	{"a cheap number differs after each write", func(e *env) {
		seen := must[int64](e)(e.s.Changed(e.ctx))
		t := e.started("s1")
		for _, write := range []func(){
			func() { e.begin(t, 1) },
			func() { e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, e.begin(t, 1), 0, "x"))) },
			func() { e.send("s1", "m2") },
			func() { e.answer(t, 1, "done") },
		} {
			write()
			now := must[int64](e)(e.s.Changed(e.ctx))
			if now == seen {
				e.Errorf("Changed did not move with a write")
			}
			seen = now
		}
	}},
	{"values read are copies", func(e *env) {
		t := e.started("s1")
		e.runTool(e.calls(t, 1, 1)[0], "r")
		e.saveRound(t, 1)
		e.unchanged(t.ThreadID, func() {
			ms := e.messages(t.ThreadID)
			ms[1].ToolCalls[0].ID = "changed"
			th := e.thread(t.ThreadID)
			th.Config.Tools[0] = "changed"
			evs := e.events(t.ThreadID)
			evs[0].Data[0] = 'X'
		})
	}},
}

var eventRules = []rule{
	{"events of a turn come in their order", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 2)
		e.runTool(calls[0], "a")
		e.runTool(calls[1], "b")
		e.saveRound(t, 1)
		e.answer(t, 2, "done")
		equal(e, "types", e.types(t.ThreadID), []string{
			agent.EventMessageStarted, agent.EventToolCalls, agent.EventToolCall, agent.EventToolCall,
			agent.EventToolResponse, agent.EventToolResponse, agent.EventAssistantMessage, agent.EventDone,
		})
		for i, ev := range e.events(t.ThreadID) {
			equal(e, "thread, seq and turn", [3]any{ev.ThreadID, ev.Seq, ev.TurnID}, [3]any{t.ThreadID, int64(i + 1), t.ID})
			equal(e, "time", ev.At.Equal(e.h.Clock.Now()), true)
		}
	}},
	{"payloads have the fields that are promised", func(e *env) {
		t := e.started("s1")
		calls := e.gated(t, 1, agent.GateAuto, agent.GateAsk, agent.GateAsk)
		e.runTool(calls[0], "a")
		d := decision(e.ask(t, 1).ID, memory.Approve)
		d.Calls = []string{calls[1].ID}
		e.decide(d)
		e.runTool(calls[1], "b")
		e.saveRound(t, 1)
		e.answerTo(e.questioned(t, 2, "a?")[0].ID, "x")
		e.answer(t, 3, "done")
		fails := e.started("s2")
		e.close(failed(fails, 1, agent.ReasonError))
		for typ, keys := range map[string][]string{
			agent.EventMessageStarted:   {"content", "toolNames"},
			agent.EventToolCalls:        {"toolCalls"},
			agent.EventToolCall:         {"intent", "arguments", "toolCallId"},
			agent.EventApprovalRequired: {"approvalId", "toolCalls", "agent"},
			agent.EventApprovalResponse: {"approvalId", "decision", "approvedCalls"},
			agent.EventQuestionAsked:    {"questionId", "agent", "text"},
			agent.EventQuestionAnswered: {"questionId", "answeredBy"},
			agent.EventToolResponse:     {"toolCallId", "name", "status", "durationMs"},
			agent.EventMemoryAppended:   {"fromSeq", "toSeq"},
			agent.EventAssistantMessage: {"messageId", "content"},
			agent.EventDone:             {"responseTimeMs", "usage"},
		} {
			e.payload(t.ThreadID, typ, keys)
		}
		e.payload(fails.ThreadID, agent.EventError, []string{"code", "message", "retryable"})
		call := e.eventsOf(t.ThreadID, agent.EventToolCall)[0]
		equal(e, "intent", call["intent"], any("lookup"))
		response := e.eventsOf(t.ThreadID, agent.EventToolResponse)[0]
		equal(e, "response", [4]any{response["toolCallId"], response["name"], response["status"], response["result"]}, [4]any{calls[0].ID, "lookup", "success", "a"})
	}},
	{"memory_appended names what was appended", func(e *env) {
		t := e.started("s1")
		e.runTool(e.calls(t, 1, 1)[0], "a")
		saved := e.saveRound(t, 1)
		evs := e.eventsOf(t.ThreadID, agent.EventMemoryAppended)
		last := evs[len(evs)-1]
		equal(e, "range", [2]any{last["fromSeq"], last["toSeq"]}, [2]any{float64(saved.FromSeq), float64(saved.ToSeq)})
	}},
	{"each turn is closed by exactly one done or error", func(e *env) {
		for i, end := range []func(t memory.Turn){
			func(t memory.Turn) { e.answer(t, 1, "x") },
			func(t memory.Turn) { e.close(failed(t, 1, agent.ReasonTimeout)) },
			func(t memory.Turn) { e.close(cancelled(t, 1)) },
			func(t memory.Turn) { e.terminated(t, 1) },
		} {
			t := e.started(fmt.Sprintf("s%d", i))
			end(t)
			types := e.types(t.ThreadID)
			equal(e, "ends", len(e.eventsOf(t.ThreadID, agent.EventDone))+len(e.eventsOf(t.ThreadID, agent.EventError)), 1)
			last := types[len(types)-1]
			equal(e, "the last is an end", last == agent.EventDone || last == agent.EventError, true)
			e.sound(t.ThreadID)
		}
	}},
	{"a child's steps are told on its delegator with the ids that tell children apart", func(e *env) {
		t := e.started("s1")
		d := e.delegate(t, 1, "researcher")
		child := e.take(d.ChildThread)
		parsed, err := agent.ParseThreadID(d.ChildThread)
		e.ok(err)
		e.runTool(e.calls(child, 1, 1)[0], "a")
		e.saveRound(child, 1)
		e.answer(child, 2, "the finding")
		e.takeResult(e.firstCall(t, 1))
		for typ, keys := range map[string][]string{
			agent.EventSubAgentStarted:    {"agentId", "agentName", "toolCallId"},
			agent.EventSubAgentToolCall:   {"agentId", "toolCallId", "toolName", "arguments"},
			agent.EventSubAgentToolResult: {"agentId", "toolCallId", "toolName", "durationMs", "status"},
			agent.EventSubAgentCompleted:  {"agentId", "agentName", "status", "result", "durationMs"},
			agent.EventSubAgentMetrics:    {"agentId", "metrics"},
		} {
			e.payload(t.ThreadID, typ, keys)
			evs := e.eventsOf(t.ThreadID, typ)
			equal(e, typ, len(evs), 1)
			equal(e, "agent", evs[0]["agentId"], any(parsed.AgentID))
		}
		e.saveRound(t, 1)
		e.sound(t.ThreadID)
	}},
}

func (e *env) payload(threadID, typ string, keys []string) {
	e.Helper()
	evs := e.eventsOf(threadID, typ)
	if len(evs) == 0 {
		e.Fatalf("no %s event", typ)
	}
	for _, k := range keys {
		if _, ok := evs[0][k]; !ok {
			e.Errorf("%s has no %s: %v", typ, k, evs[0])
		}
	}
}
