package memorytest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

var sendRules = []rule{
	{"a message makes its thread and inbox entry in one write, and says that the thread is idle", func(e *env) {
		r := e.send("s1", "m1")
		equal(e, "thread", r.ThreadID, "s1/default")
		equal(e, "message", r.MessageID, "m1")
		equal(e, "turn", r.TurnID, agent.TurnID("s1/default", "m1", 0))
		equal(e, "idle, repeated", [2]bool{r.Idle, r.Repeated}, [2]bool{true, false})
		equal(e, "state", r.State, memory.EntryWaiting)
		th := e.thread(r.ThreadID)
		equal(e, "status", th.Status, agent.ThreadPending)
		equal(e, "kind", th.Kind, agent.KindMain)
		equal(e, "chat and root", [2]string{th.ChatID, th.RootThreadID}, [2]string{th.ID, th.ID})
		equal(e, "workdir", th.Workdir, "/w")
		in := e.inbox(r.ThreadID)
		equal(e, "entries", len(in), 1)
		equal(e, "content", in[0].Content, agent.Text("text of m1"))
		equal(e, "no turn", th.OpenTurnID, "")
		equal(e, "no message before a turn takes it", len(e.messages(r.ThreadID)), 0)
	}},
	{"the same message id with the same content returns the first outcome", func(e *env) {
		first := e.send("s1", "m1")
		e.unchanged(first.ThreadID, func() {
			again := e.send("s1", "m1")
			equal(e, "turn", again.TurnID, first.TurnID)
			equal(e, "repeated", again.Repeated, true)
			equal(e, "state", again.State, memory.EntryWaiting)
		})
		e.take(first.ThreadID)
		e.unchanged(first.ThreadID, func() {
			again := e.send("s1", "m1")
			equal(e, "state", again.State, memory.EntryTaken)
			equal(e, "repeated", again.Repeated, true)
		})
	}},
	{"the same message id with other content is a conflict", func(e *env) {
		r := e.send("s1", "m1")
		e.unchanged(r.ThreadID, func() {
			_, err := e.s.Send(e.ctx, message("s1", "m1", "something else"))
			e.code(err, agent.CodeConflict)
		})
	}},
	{"one message id sent by many at once makes one entry", func(e *env) {
		var wg sync.WaitGroup
		results := make([]memory.SendResult, 16)
		errs := make([]error, len(results))
		for i := range results {
			wg.Go(func() { results[i], errs[i] = e.s.Send(e.ctx, message("s1", "m1", "hello")) })
		}
		wg.Wait()
		fresh := 0
		for i, r := range results {
			e.ok(errs[i])
			equal(e, "turn", r.TurnID, results[0].TurnID)
			if !r.Repeated {
				fresh++
			}
		}
		equal(e, "first sends", fresh, 1)
		equal(e, "entries", len(e.inbox("s1/default")), 1)
	}},
	{"a thousand messages sent at once get a thousand distinct turns in a dense order", func(e *env) {
		const n, senders = 1000, 8
		var wg sync.WaitGroup
		errs := make([]error, senders)
		for w := range senders {
			wg.Go(func() {
				for i := w; i < n && errs[w] == nil; i += senders {
					_, errs[w] = e.s.Send(e.ctx, message("s1", fmt.Sprintf("m%d", i), "hi"))
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			e.ok(err)
		}
		in := e.inbox("s1/default")
		equal(e, "entries", len(in), n)
		turns := map[string]bool{}
		for i, x := range in {
			turns[x.TurnID] = true
			if i > 0 && x.Seq != in[i-1].Seq+1 {
				e.Fatalf("entry %d has seq %d after %d", i, x.Seq, in[i-1].Seq)
			}
		}
		equal(e, "turns", len(turns), n)
	}},
	{"reject is refused while a turn is open and taken while none is", func(e *env) {
		r := message("s1", "m1", "one")
		r.WhenBusy = memory.Reject
		t := e.take(must[memory.SendResult](e)(e.s.Send(e.ctx, r)).ThreadID)
		e.unchanged(t.ThreadID, func() {
			r.MessageID = "m2"
			_, err := e.s.Send(e.ctx, r)
			e.code(err, agent.CodeConflict)
		})
		e.answer(t, 1, "done")
		equal(e, "idle", must[memory.SendResult](e)(e.s.Send(e.ctx, r)).Idle, true)
	}},
	{"a full inbox refuses with a limit, a repetition is still answered", func(e *env) {
		r := message("s1", "m0", "hi")
		r.MaxWaiting = 2
		for i := range 2 {
			r.MessageID = fmt.Sprintf("m%d", i)
			must[memory.SendResult](e)(e.s.Send(e.ctx, r))
		}
		e.unchanged("s1/default", func() {
			r.MessageID = "m2"
			_, err := e.s.Send(e.ctx, r)
			e.code(err, agent.CodeLimit)
			r.MessageID = "m0"
			equal(e, "repeated", must[memory.SendResult](e)(e.s.Send(e.ctx, r)).Repeated, true)
		})
		e.take("s1/default")
		r.MessageID = "m2"
		must[memory.SendResult](e)(e.s.Send(e.ctx, r))
	}},
	{"two conversations of a session do not see each other", func(e *env) {
		e.send("s1", "m1")
		r := message("s1", "m1", "other text")
		r.ConversationID = "second"
		res := must[memory.SendResult](e)(e.s.Send(e.ctx, r))
		equal(e, "thread", res.ThreadID, "s1/second")
		equal(e, "repeated", res.Repeated, false)
		e.take("s1/second")
		equal(e, "first conversation", e.thread("s1/default").Status, agent.ThreadPending)
		equal(e, "its messages", len(e.messages("s1/default")), 0)
	}},
	{"ids with strange forms are refused and make nothing", func(e *env) {
		for _, id := range []string{"a/b", "../x", " a", ".hidden", "-x", "a\x00b", "a b", "é", "a:b", strings.Repeat("x", 65), "agent:x:y"} {
			_, err := e.s.Send(e.ctx, message(id, "m1", "hi"))
			e.code(err, agent.CodeInvalid)
			r := message("s1", "m1", "hi")
			r.ConversationID = id
			_, err = e.s.Send(e.ctx, r)
			e.code(err, agent.CodeInvalid)
		}
		equal(e, "threads", len(must[[]agent.Thread](e)(e.s.Threads(e.ctx, memory.ThreadFilter{All: true, Limit: 10}))), 0)
		for _, id := range []string{"1717171717171", "A.b_c-9", strings.Repeat("x", 64), "0190b2f4-7c1e-7000-8000-000000000001"} {
			equal(e, "thread", e.send(id, "m1").ThreadID, id+"/default")
		}
	}},
	{"a thread id in a request must exist", func(e *env) {
		r := memory.SendRequest{UserID: user, Profile: "default", ThreadID: "s1/default", MessageID: "m1", Content: agent.Text("hi"), WhenBusy: memory.Queue}
		_, err := e.s.Send(e.ctx, r)
		e.code(err, agent.CodeNotFound)
		e.send("s1", "m0")
		equal(e, "thread", must[memory.SendResult](e)(e.s.Send(e.ctx, r)).ThreadID, "s1/default")
	}},
	{"a session of another user is not found", func(e *env) {
		e.send("s1", "m1")
		for _, c := range []string{"default", "new"} {
			r := message("s1", "m2", "hi")
			r.UserID, r.ConversationID = otherUser, c
			_, err := e.s.Send(e.ctx, r)
			e.code(err, agent.CodeNotFound)
		}
		equal(e, "entries", len(e.inbox("s1/default")), 1)
	}},
	{"what a message says comes back as it was sent", func(e *env) {
		for i, c := range []agent.Content{
			agent.Text("Grüße 👩‍👩‍👧 \"quoted\" \\ \n\t'; DROP TABLE threads; --"),
			agent.Text(strings.Repeat("long ", 500_000)),
			{Parts: []agent.Part{{Type: "text", Text: "see"}, {Type: "image_url", ImageURL: &agent.ImageURL{URL: "https://x/y.png", Detail: "low"}}}},
		} {
			session := fmt.Sprintf("s%d", i)
			r := message(session, "m1", "")
			r.Content = c
			res := must[memory.SendResult](e)(e.s.Send(e.ctx, r))
			equal(e, "inbox content", e.inbox(res.ThreadID)[0].Content, c)
			e.take(res.ThreadID)
			equal(e, "message content", e.messages(res.ThreadID)[0].Content, c)
		}
	}},
}

var durableRules = []rule{
	{"a store keeps its id and everything it returned when it is opened again", func(e *env) {
		id := e.s.ID()
		if id == "" {
			e.Fatalf("the store has no id")
		}
		t := e.started("s1")
		calls := e.calls(t, 1, 2)
		e.runTool(calls[0], "one")
		e.send("s1", "m2")
		before := e.state(t.ThreadID)
		e.s = e.h.Reopen(e.test, e.s)
		equal(e, "id", e.s.ID(), id)
		equal(e, "state", e.state(t.ThreadID), before)
		equal(e, "turn", e.take(t.ThreadID).ID, t.ID)
		e.runTool(calls[1], "two")
		e.saveRound(t, 1)
		e.answer(t, 2, "done")
		e.sound(t.ThreadID)
	}},
	{"streamed text and the current attempt survive", func(e *env) {
		t := e.started("s1")
		a := e.begin(t, 1)
		e.ok(e.s.AppendChunk(e.ctx, chunk(t, 1, a, 0, "half an ans")))
		e.s = e.h.Reopen(e.test, e.s)
		equal(e, "text", must[*memory.Streamed](e)(e.s.Stream(e.ctx, t.ThreadID)).Text, "half an ans")
		must[memory.StoredReply](e)(e.s.SaveReply(e.ctx, record(t, 1, a, "half an answer")))
	}},
}

var processRules = []rule{
	{"two handles share one store", func(e *env) {
		other := e.h.Another(e.test, e.s)
		equal(e, "id", other.ID(), e.s.ID())
		before := must[int64](e)(other.Changed(e.ctx))
		t := e.started("s1")
		if must[int64](e)(other.Changed(e.ctx)) == before {
			e.Errorf("Changed did not move with a write of another process")
		}
		claim, err := other.TakeNext(e.ctx, memory.TakeRequest{ThreadID: t.ThreadID, RunID: "r2"})
		e.ok(err)
		equal(e, "turn", claim.Turn.ID, t.ID)
		b := e.modelBegin(t, 1)
		first := must[memory.ModelStart](e)(e.s.BeginModel(e.ctx, b))
		b.Fence.Number++
		second := must[memory.ModelStart](e)(other.BeginModel(e.ctx, b))
		_, err = e.s.SaveReply(e.ctx, record(t, 1, first.Attempt, "late"))
		e.stale(err)
		must[memory.StoredReply](e)(other.SaveReply(e.ctx, record(t, 1, second.Attempt, "good")))
		e.close(completed(t, 1))
		equal(e, "answer", e.turn(t.ID).Answer, "good")
	}},
}
