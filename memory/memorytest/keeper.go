package memorytest

import (
	"fmt"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func (e *env) retry(threadID, requestID string) memory.SendResult {
	e.Helper()
	return must[memory.SendResult](e)(e.s.Retry(e.ctx, memory.RetryRequest{UserID: user, ThreadID: threadID, RequestID: requestID}))
}

var retryRules = []rule{
	{"a retry is a new turn without a second user message, and its answer replaces the old one", func(e *env) {
		t := e.started("s1")
		e.answer(t, 1, "first answer")
		r := e.retry(t.ThreadID, "r1")
		equal(e, "idle", r.Idle, true)
		if r.TurnID == t.ID {
			e.Fatalf("the retry has the turn of the message")
		}
		again := e.take(t.ThreadID)
		equal(e, "turn", [3]string{again.ID, string(again.EntryKind), again.RetryOf}, [3]string{r.TurnID, "retry", t.ID})
		e.answer(again, 1, "second answer")
		ms := e.messages(t.ThreadID)
		equal(e, "messages", len(ms), 3)
		equal(e, "superseded", [2]string{ms[1].Content.String(), ms[1].SupersededBy}, [2]string{"first answer", again.ID})
		equal(e, "answer", [2]string{ms[2].Content.String(), ms[2].SupersededBy}, [2]string{"second answer", ""})
		e.sound(t.ThreadID)
	}},
	{"the same request id is one retry", func(e *env) {
		t := e.started("s1")
		e.close(failed(t, 1, agent.ReasonError))
		first := e.retry(t.ThreadID, "r1")
		e.unchanged(t.ThreadID, func() {
			again := e.retry(t.ThreadID, "r1")
			equal(e, "turn", [2]any{again.TurnID, again.Repeated}, [2]any{first.TurnID, true})
		})
		e.answer(e.take(t.ThreadID), 1, "fine")
		e.unchanged(t.ThreadID, func() { equal(e, "turn", e.retry(t.ThreadID, "r1").TurnID, first.TurnID) })
	}},
	{"three retries leave one user message and one answer that counts", func(e *env) {
		t := e.started("s1")
		e.answer(t, 1, "answer 0")
		turns := map[string]bool{t.ID: true}
		for i := 1; i <= 3; i++ {
			e.retry(t.ThreadID, fmt.Sprintf("r%d", i))
			again := e.take(t.ThreadID)
			turns[again.ID] = true
			e.answer(again, 1, fmt.Sprintf("answer %d", i))
		}
		equal(e, "turns", len(turns), 4)
		users, current := 0, 0
		for _, m := range e.messages(t.ThreadID) {
			if m.Role == agent.RoleUser {
				users++
			} else if m.SupersededBy == "" {
				current++
			}
		}
		equal(e, "user messages, current answers", [2]int{users, current}, [2]int{1, 1})
		e.sound(t.ThreadID)
	}},
	{"a retry keeps finished rounds and replaces partial text", func(e *env) {
		t := e.started("s1")
		e.runTool(e.calls(t, 1, 1)[0], "kept")
		e.saveRound(t, 1)
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 2, e.begin(t, 2), 0, "half")))
		e.close(failed(t, 2, agent.ReasonError))
		e.retry(t.ThreadID, "r1")
		again := e.take(t.ThreadID)
		e.answer(again, 1, "whole")
		ms := e.messages(t.ThreadID)
		equal(e, "messages", len(ms), 5)
		equal(e, "round", [2]string{ms[2].Content.String(), ms[2].SupersededBy}, [2]string{"kept", ""})
		equal(e, "partial", [3]any{ms[3].Content.String(), ms[3].Partial, ms[3].SupersededBy}, [3]any{"half", true, again.ID})
		e.sound(t.ThreadID)
	}},
	{"there is nothing to retry before the first turn, in no thread, or for another user", func(e *env) {
		r := e.send("s1", "m1")
		e.unchanged(r.ThreadID, func() {
			_, err := e.s.Retry(e.ctx, memory.RetryRequest{UserID: user, ThreadID: r.ThreadID, RequestID: "r1"})
			e.code(err, agent.CodeConflict, agent.CodeInvalid, agent.CodeNotFound)
			_, err = e.s.Retry(e.ctx, memory.RetryRequest{UserID: otherUser, ThreadID: r.ThreadID, RequestID: "r1"})
			e.code(err, agent.CodeNotFound)
			_, err = e.s.Retry(e.ctx, memory.RetryRequest{UserID: user, ThreadID: "none/default", RequestID: "r1"})
			e.code(err, agent.CodeNotFound)
		})
	}},
}

func (e *env) overdue(age time.Duration) map[string]memory.Overdue {
	e.Helper()
	out := map[string]memory.Overdue{}
	for _, o := range must[[]memory.Overdue](e)(e.s.Overdue(e.ctx, age, 100)) {
		out[o.ThreadID] = o
	}
	return out
}

func (e *env) terminated(t memory.Turn, step int) memory.Closed {
	e.Helper()
	return e.close(failed(t, step, agent.ReasonTerminated))
}

var keeperRules = []rule{
	{"what is left undone is overdue when it is older than the age, not before, until somebody does it", func(e *env) {
		for name, left := range map[string]func(t memory.Turn) (want memory.Overdue, done func()){
			"an entry of an idle thread": func(t memory.Turn) (memory.Overdue, func()) {
				e.answer(t, 1, "done")
				e.send(strings.TrimSuffix(t.ThreadID, "/default"), "m2")
				return memory.Overdue{ThreadID: t.ThreadID, Kind: agent.KindMain, Idle: true}, func() { e.take(t.ThreadID) }
			},
			"a cancel": func(t memory.Turn) (memory.Overdue, func()) {
				e.requestCancel(cancelOf(t))
				return memory.Overdue{ThreadID: t.ThreadID, Kind: agent.KindMain, CancelTurn: t.ID}, func() { e.close(cancelled(t, 1)) }
			},
			"the end of a background child": func(t memory.Turn) (memory.Overdue, func()) {
				d := e.background(t, 1, "researcher")
				e.saveRound(t, 1)
				e.answer(t, 2, "done")
				e.answer(e.take(d.ChildThread), 1, "the finding")
				return memory.Overdue{ThreadID: t.ThreadID, Kind: agent.KindMain, Idle: true}, func() { e.take(t.ThreadID) }
			},
			"the end of a foreground child": func(t memory.Turn) (memory.Overdue, func()) {
				e.answer(e.take(e.delegate(t, 1, "researcher").ChildThread), 1, "the finding")
				return memory.Overdue{ThreadID: t.ThreadID, Kind: agent.KindMain}, func() { e.takeResult(e.firstCall(t, 1)) }
			},
			"work for a sub-agent, which its delegator starts": func(t memory.Turn) (memory.Overdue, func()) {
				d := e.delegate(t, 1, "researcher")
				return memory.Overdue{ThreadID: d.ChildThread, Kind: agent.KindSubAgent, Idle: true, Delegator: t.ThreadID}, func() { e.take(d.ChildThread) }
			},
			"background work, which the keeper starts": func(t memory.Turn) (memory.Overdue, func()) {
				d := e.background(t, 1, "researcher")
				return memory.Overdue{ThreadID: d.ChildThread, Kind: agent.KindSubAgent, Idle: true}, func() { e.take(d.ChildThread) }
			},
		} {
			want, done := left(e.started("s-" + strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")))
			e.h.Clock.Advance(time.Second)
			_, early := e.overdue(2 * time.Second)[want.ThreadID]
			equal(e, name+" after a second", early, false)
			e.h.Clock.Advance(2 * time.Second)
			got, late := e.overdue(2 * time.Second)[want.ThreadID]
			equal(e, name+" after three", late, true)
			equal(e, name, [4]any{got.Kind, got.Idle, got.Delegator, got.CancelTurn}, [4]any{want.Kind, want.Idle, want.Delegator, want.CancelTurn})
			done()
			_, still := e.overdue(2 * time.Second)[want.ThreadID]
			equal(e, name+" done", still, false)
		}
	}},
	{"a thread whose turn is open is not overdue however much waits", func(e *env) {
		t := e.started("s1")
		e.send("s1", "m2")
		e.h.Clock.Advance(time.Hour)
		equal(e, "overdue", len(e.overdue(2*time.Second)), 0)
		e.answer(t, 1, "done")
		equal(e, "overdue", len(e.overdue(2*time.Second)), 0)
	}},
	{"a terminated turn keeps the ends of children that nobody has taken yet", func(e *env) {
		t := e.started("s1")
		d := e.delegate(t, 1, "researcher")
		e.answer(e.take(d.ChildThread), 1, "the finding")
		e.terminated(t, 1)
		call := e.firstCall(t, 1)
		equal(e, "call", e.call(call.ID).Status, agent.CallSuccess)
		if text := e.messages(t.ThreadID)[2].Content.String(); !strings.Contains(text, "the finding") {
			e.Fatalf("the result is %q", text)
		}
		e.sound(t.ThreadID)
	}},
	{"a decided approval is overdue until its calls run or its round is saved", func(e *env) {
		t := e.started("s1")
		call := e.gated(t, 1, agent.GateAsk)[0]
		a := e.ask(t, 1)
		e.h.Clock.Advance(time.Hour)
		equal(e, "undecided", len(e.overdue(2*time.Second)), 0)
		e.decide(decision(a.ID, memory.Approve))
		equal(e, "at once", len(e.overdue(2*time.Second)), 0)
		e.h.Clock.Advance(3 * time.Second)
		_, ok := e.overdue(2 * time.Second)[t.ThreadID]
		equal(e, "overdue", ok, true)
		e.runTool(call, "ran")
		e.saveRound(t, 1)
		equal(e, "saved", len(e.overdue(2*time.Second)), 0)
	}},
	{"an answered question is overdue until the next step begins", func(e *env) {
		t := e.started("s1")
		qs := e.questioned(t, 1, "a?", "b?")
		e.h.Clock.Advance(time.Hour)
		equal(e, "unanswered", len(e.overdue(2*time.Second)), 0)
		e.answerTo(qs[0].ID, "x")
		e.h.Clock.Advance(3 * time.Second)
		equal(e, "one waits still", len(e.overdue(2*time.Second)), 0)
		e.answerTo(qs[1].ID, "y")
		equal(e, "at once", len(e.overdue(2*time.Second)), 0)
		e.h.Clock.Advance(3 * time.Second)
		_, ok := e.overdue(2 * time.Second)[t.ThreadID]
		equal(e, "overdue", ok, true)
		e.saveRound(t, 1)
		e.begin(t, 2)
		equal(e, "begun", len(e.overdue(2*time.Second)), 0)
	}},
	{"limits of the keeper's lists are kept", func(e *env) {
		for i := range 5 {
			e.started(fmt.Sprintf("open%d", i))
			e.send(fmt.Sprintf("idle%d", i), "m1")
		}
		e.h.Clock.Advance(time.Minute)
		equal(e, "overdue", len(must[[]memory.Overdue](e)(e.s.Overdue(e.ctx, time.Second, 3))), 3)
		equal(e, "open", len(must[[]memory.OpenTurn](e)(e.s.OpenTurns(e.ctx, memory.OpenTurnFilter{Limit: 3}))), 3)
	}},
	{"open turns are listed in pages, those alone that are old enough", func(e *env) {
		for i := range 5 {
			e.started(fmt.Sprintf("old%d", i))
		}
		e.h.Clock.Advance(time.Minute)
		young := e.started("young")
		page := memory.OpenTurnFilter{Age: time.Minute, Limit: 2}
		seen := map[string]bool{}
		for {
			turns := must[[]memory.OpenTurn](e)(e.s.OpenTurns(e.ctx, page))
			for _, t := range turns {
				equal(e, "seen before", seen[t.TurnID], false)
				seen[t.TurnID] = true
			}
			if len(turns) < page.Limit {
				break
			}
			page.After = turns[len(turns)-1]
		}
		equal(e, "seen", [2]any{len(seen), seen[young.ID]}, [2]any{5, false})
	}},
	{"the load counts open turns, waiting entries, and what waits for people", func(e *env) {
		equal(e, "empty", must[memory.Load](e)(e.s.Load(e.ctx)), memory.Load{})
		t := e.started("s1")
		e.gated(t, 1, agent.GateAsk)
		a := e.ask(t, 1)
		e.send("s2", "m1")
		q := e.started("s3")
		asked := e.questioned(q, 1, "a?", "b?")
		e.answerTo(asked[0].ID, "x")
		equal(e, "under way", must[memory.Load](e)(e.s.Load(e.ctx)), memory.Load{OpenTurns: 2, Waiting: 1, Approvals: 1, Questions: 1})
		e.decide(decision(a.ID, memory.Deny))
		e.close(cancelled(q, 1))
		equal(e, "settled", must[memory.Load](e)(e.s.Load(e.ctx)), memory.Load{OpenTurns: 1, Waiting: 1})
	}},
	{"an entry is found by its kind and id", func(e *env) {
		t := e.started("s1")
		entry := must[memory.InboxEntry](e)(e.s.Entry(e.ctx, t.ThreadID, t.EntryKind, t.MessageID))
		equal(e, "entry", [2]string{entry.TurnID, string(entry.State)}, [2]string{t.ID, string(memory.EntryTaken)})
		_, err := e.s.Entry(e.ctx, t.ThreadID, memory.EntryRetry, t.MessageID)
		e.code(err, agent.CodeNotFound)
	}},
	{"open turns are listed with their run until they close", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		list := must[[]memory.OpenTurn](e)(e.s.OpenTurns(e.ctx, memory.OpenTurnFilter{}))
		equal(e, "open", len(list), 2)
		for _, o := range list {
			want := t
			if o.Kind == agent.KindSubAgent {
				want = child
			}
			equal(e, "turn", [3]string{o.ThreadID, o.TurnID, o.RunID}, [3]string{want.ThreadID, want.ID, "run-of-" + want.ThreadID})
		}
		e.close(cancelled(t, 1))
		equal(e, "open", len(must[[]memory.OpenTurn](e)(e.s.OpenTurns(e.ctx, memory.OpenTurnFilter{}))), 0)
	}},
	{"reconcile closes as terminated: in flight and at most once is unknown, the rest aborted", func(e *env) {
		t := e.started("s1")
		calls := e.calls(t, 1, 4)
		e.runTool(calls[0], "kept")
		e.beginTool(calls[1], false)
		e.beginTool(calls[2], true)
		e.terminated(t, 1)
		for i, want := range []agent.CallStatus{agent.CallSuccess, agent.CallUnknown, agent.CallAborted, agent.CallAborted} {
			equal(e, fmt.Sprintf("call %d", i), e.call(calls[i].ID).Status, want)
		}
		th := e.thread(t.ThreadID)
		equal(e, "thread", [2]string{string(th.Status), string(th.Reason)}, [2]string{"failed", "terminated"})
		equal(e, "error events", len(e.eventsOf(t.ThreadID, agent.EventError)), 1)
		equal(e, "unknown text", e.messages(t.ThreadID)[3].Content.String(), agent.TextUnknown)
		for _, m := range e.messages(t.ThreadID)[4:] {
			equal(e, "nobody aborted it", m.Content.String(), "Tool execution aborted: the turn's workflow run was terminated from outside, or lost")
			equal(e, "reason", m.ErrorReason, agent.ErrAborted)
		}
		e.sound(t.ThreadID)
	}},
	{"reconcile keeps partial text, and the next message follows at once or by the sweep", func(e *env) {
		t := e.started("s1")
		m2 := e.send("s1", "m2")
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, e.begin(t, 1), 0, "half")))
		next := e.terminated(t, 1).Next
		equal(e, "partial", e.messages(t.ThreadID)[1].Partial, true)
		e.sound(t.ThreadID)
		if next == "" {
			e.h.Clock.Advance(3 * time.Second)
			_, ok := e.overdue(2 * time.Second)[t.ThreadID]
			equal(e, "overdue", ok, true)
			next = e.take(t.ThreadID).ID
		}
		equal(e, "next", next, m2.TurnID)
	}},
}
