package turncases

import (
	"fmt"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var sendRules = []suite.Rule{
	{Name: "a message makes its thread and inbox entry in one write, and says that the thread is idle", Run: func(e *suite.Env) {
		r := e.Send("s1", "m1")
		suite.Equals(e, "thread", r.ThreadID, "s1/default", "message", r.MessageID, "m1", "turn", r.TurnID[0], byte('t'))
		suite.Equals(e, "idle, repeated", [2]bool{r.Idle, r.Repeated}, [2]bool{true, false}, "state", r.State, memory.EntryWaiting)
		th := e.Thread(r.ThreadID)
		suite.Equals(e, "status", th.Status, agent.ThreadPending, "kind", th.Kind, agent.KindMain)
		suite.Equals(e, "chat and root", [2]string{th.ChatID, th.RootThreadID}, [2]string{th.ID, th.ID}, "workdir", th.Workdir, "/w")
		in := e.Inbox(r.ThreadID)
		suite.Equals(e, "entries", len(in), 1, "content", in[0].Content, agent.Text("text of m1"), "no turn", th.OpenTurnID, "")
		suite.Equal(e, "no message before a turn takes it", len(e.Messages(r.ThreadID)), 0)
	}},
	{Name: "the same message id with the same content returns the first outcome", Run: func(e *suite.Env) {
		first := e.Send("s1", "m1")
		e.Unchanged(first.ThreadID, func() {
			again := e.Send("s1", "m1")
			suite.Equals(e, "turn", again.TurnID, first.TurnID, "repeated", again.Repeated, true, "state", again.State, memory.EntryWaiting)
		})
		e.Take(first.ThreadID)
		e.Unchanged(first.ThreadID, func() {
			again := e.Send("s1", "m1")
			suite.Equals(e, "state", again.State, memory.EntryTaken, "repeated", again.Repeated, true)
		})
	}},
	{Name: "the same message id with other content is a conflict", Run: func(e *suite.Env) {
		r := e.Send("s1", "m1")
		e.Unchanged(r.ThreadID, func() {
			suite.Fails(e.S.Send(e.Ctx, suite.Message("s1", "m1", "something else")))(e, agent.CodeConflict)
		})
	}},
	{Name: "one message id sent by many at once makes one entry", Run: func(e *suite.Env) {
		results := make([]memory.SendResult, 16)
		e.AtOnce(len(results), func(i int) (err error) {
			results[i], err = e.S.Send(e.Ctx, suite.Message("s1", "m1", "hello"))
			return err
		})
		fresh := 0
		for _, r := range results {
			suite.Equal(e, "turn", r.TurnID, results[0].TurnID)
			if !r.Repeated {
				fresh++
			}
		}
		suite.Equals(e, "first sends", fresh, 1, "entries", len(e.Inbox("s1/default")), 1)
	}},
	{Name: "a thousand messages sent at once get a thousand distinct turns in a dense order", Run: func(e *suite.Env) {
		const n, senders = 1000, 8
		e.AtOnce(senders, func(w int) (err error) {
			for i := w; i < n && err == nil; i += senders {
				_, err = e.S.Send(e.Ctx, suite.Message("s1", fmt.Sprintf("m%d", i), "hi"))
			}
			return err
		})
		in := e.Inbox("s1/default")
		suite.Equal(e, "entries", len(in), n)
		turns := map[string]bool{}
		for i, x := range in {
			turns[x.TurnID] = true
			if i > 0 && x.Seq != in[i-1].Seq+1 {
				e.Fatalf("entry %d has seq %d after %d", i, x.Seq, in[i-1].Seq)
			}
		}
		suite.Equal(e, "turns", len(turns), n)
	}},
	{Name: "reject is refused while a turn is open and taken while none is", Run: func(e *suite.Env) {
		r := suite.Message("s1", "m1", "one")
		r.WhenBusy = memory.Reject
		t := e.Take(suite.Must(e.S.Send(e.Ctx, r))(e).ThreadID)
		e.Unchanged(t.ThreadID, func() {
			r.MessageID = "m2"
			suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeConflict)
		})
		e.Answer(t, 1, "done")
		suite.Equal(e, "idle", suite.Must(e.S.Send(e.Ctx, r))(e).Idle, true)
	}},
	{Name: "a full inbox refuses with a limit, a repetition is still answered", Run: func(e *suite.Env) {
		r := suite.Message("s1", "m0", "hi")
		r.MaxWaiting = 2
		for i := range 2 {
			r.MessageID = fmt.Sprintf("m%d", i)
			suite.Must(e.S.Send(e.Ctx, r))(e)
		}
		e.Unchanged("s1/default", func() {
			r.MessageID = "m2"
			suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeLimit)
			r.MessageID = "m0"
			suite.Equal(e, "repeated", suite.Must(e.S.Send(e.Ctx, r))(e).Repeated, true)
		})
		e.Take("s1/default")
		r.MessageID = "m2"
		suite.Must(e.S.Send(e.Ctx, r))(e)
	}},
	{Name: "two conversations of a session do not see each other", Run: func(e *suite.Env) {
		e.Send("s1", "m1")
		r := suite.Message("s1", "m1", "other text")
		r.ConversationID = "second"
		res := suite.Must(e.S.Send(e.Ctx, r))(e)
		suite.Equals(e, "thread", res.ThreadID, "s1/second", "repeated", res.Repeated, false)
		e.Take("s1/second")
		suite.Equals(e, "first conversation", e.Thread("s1/default").Status, agent.ThreadPending, "its messages", len(e.Messages("s1/default")), 0)
	}},
	{Name: "ids with strange forms are refused and make nothing", Run: func(e *suite.Env) {
		for _, id := range []string{"a/b", "../x", " a", ".hidden", "-x", "a\x00b", "a b", "é", "a:b", strings.Repeat("x", 65), "agent:x:y"} {
			suite.Fails(e.S.Send(e.Ctx, suite.Message(id, "m1", "hi")))(e, agent.CodeInvalid)
			r := suite.Message("s1", "m1", "hi")
			r.ConversationID = id
			suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeInvalid)
		}
		suite.Equal(e, "threads", len(suite.Must(e.S.Threads(e.Ctx, memory.ThreadFilter{All: true, Limit: 10}))(e)), 0)
		for _, id := range []string{"1717171717171", "A.b_c-9", strings.Repeat("x", 64), "0190b2f4-7c1e-7000-8000-000000000001"} {
			suite.Equal(e, "thread", e.Send(id, "m1").ThreadID, id+"/default")
		}
	}},
	{Name: "a thread id in a request must exist", Run: func(e *suite.Env) {
		r := memory.SendRequest{UserID: suite.User, Profile: "default", ThreadID: "s1/default", MessageID: "m1", Content: agent.Text("hi"), WhenBusy: memory.Queue}
		suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeNotFound)
		e.Send("s1", "m0")
		suite.Equal(e, "thread", suite.Must(e.S.Send(e.Ctx, r))(e).ThreadID, "s1/default")
	}},
	{Name: "the name of another user's session cannot be used", Run: func(e *suite.Env) {
		e.Send("s1", "m1")
		for _, c := range []string{"default", "new"} {
			r := suite.Message("s1", "m2", "hi")
			r.UserID, r.ConversationID = suite.OtherUser, c
			suite.Equal(e, "what to do", suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeConflict), "the session name s1 cannot be used: choose another")
		}
		suite.Equal(e, "entries", len(e.Inbox("s1/default")), 1)
	}},
	{Name: "what a message says comes back as it was sent", Run: func(e *suite.Env) {
		for i, c := range []agent.Content{
			agent.Text("Grüße 👩‍👩‍👧 \"quoted\" \\ \n\t'; DROP TABLE threads; --"),
			agent.Text(strings.Repeat("long ", 500_000)),
			{Parts: []agent.Part{{Type: "text", Text: "see"}, {Type: "image_url", ImageURL: &agent.ImageURL{URL: "https://x/y.png", Detail: "low"}}}},
		} {
			session := fmt.Sprintf("s%d", i)
			r := suite.Message(session, "m1", "")
			r.Content = c
			res := suite.Must(e.S.Send(e.Ctx, r))(e)
			suite.Equal(e, "inbox content", e.Inbox(res.ThreadID)[0].Content, c)
			e.Take(res.ThreadID)
			suite.Equal(e, "message content", e.Messages(res.ThreadID)[0].Content, c)
		}
	}},
}

// DurableRules are for stores that keep their data when they are closed.
var DurableRules = []suite.Rule{
	{Name: "a store keeps its id and everything it returned when it is opened again", Run: func(e *suite.Env) {
		id := e.S.ID()
		if id == "" {
			e.Fatalf("the store has no id")
		}
		t := e.Started("s1")
		calls := e.Calls(t, 1, 2)
		e.RunTool(calls[0], "one")
		e.Send("s1", "m2")
		before := e.State(t.ThreadID)
		e.S = e.H.Reopen(e.T, e.S)
		suite.Equals(e, "id", e.S.ID(), id, "state", e.State(t.ThreadID), before, "turn", e.Take(t.ThreadID).ID, t.ID)
		e.RunTool(calls[1], "two")
		e.SaveRound(t, 1)
		e.Answer(t, 2, "done")
	}},
	{Name: "streamed text and the current attempt survive", Turn: func(e *suite.Env, t memory.Turn) {
		a := e.Begin(t, 1)
		e.Ok(e.S.AppendChunk(e.Ctx, suite.Chunk(t, 1, a, 0, "half an ans")))
		e.S = e.H.Reopen(e.T, e.S)
		suite.Equal(e, "text", suite.Must(e.S.Stream(e.Ctx, t.ThreadID))(e).Text, "half an ans")
		suite.Must(e.S.SaveReply(e.Ctx, suite.Record(t, 1, a, "half an answer")))(e)
	}},
}

// ProcessRules are for stores that several processes may have open.
var ProcessRules = []suite.Rule{
	{Name: "two handles share one store", Run: func(e *suite.Env) {
		other := e.H.Another(e.T, e.S)
		suite.Equal(e, "id", other.ID(), e.S.ID())
		before := suite.Must(other.Changed(e.Ctx))(e)
		t := e.Started("s1")
		if suite.Must(other.Changed(e.Ctx))(e) == before {
			e.Errorf("Changed did not move with a write of another process")
		}
		claim, err := other.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: t.ThreadID, RunID: "r2"})
		e.Ok(err)
		suite.Equal(e, "turn", claim.Turn.ID, t.ID)
		b := e.ModelBegin(t, 1)
		first := suite.Must(e.S.BeginModel(e.Ctx, b))(e)
		b.Fence.Number++
		second := suite.Must(other.BeginModel(e.Ctx, b))(e)
		suite.Fails(e.S.SaveReply(e.Ctx, suite.Record(t, 1, first.Attempt, "late")))(e, agent.CodeStale)
		suite.Must(other.SaveReply(e.Ctx, suite.Record(t, 1, second.Attempt, "good")))(e)
		e.Close(suite.Completed(t, 1))
		suite.Equal(e, "answer", e.Turn(t.ID).Answer, "good")
	}},
}
