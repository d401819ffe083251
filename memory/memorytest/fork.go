package memorytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func forkRequest(threadID, at, request string) memory.ForkRequest {
	return memory.ForkRequest{UserID: user, ThreadID: threadID, RequestID: request, At: at}
}

// fork forks a conversation and checks what holds of every fork: the original is
// as it was, the copy keeps every rule, names nothing of the original and says
// what the original said up to there.
func (e *env) fork(threadID, at, request string) memory.ForkResult {
	e.Helper()
	var res memory.ForkResult
	e.unchanged(threadID, func() {
		res = must[memory.ForkResult](e)(e.s.Fork(e.ctx, forkRequest(threadID, at, request)))
	})
	if res.Repeated {
		e.Fatalf("the first fork of %s is called a repetition", threadID)
	}
	e.forked(threadID, res)
	return res
}

func (e *env) forked(threadID string, res memory.ForkResult) {
	e.Helper()
	e.sound(res.ThreadID)
	ids := e.idsOf(threadID)
	for _, pair := range append([]memory.ForkedThread{{ThreadID: res.ThreadID, FromThread: threadID}}, res.SubAgents...) {
		e.sameTalk(pair, ids)
		th := e.thread(pair.ThreadID)
		if th.OpenTurnID != "" || !th.Status.Final() {
			e.Fatalf("the copy %s is %s, open turn %q", th.ID, th.Status, th.OpenTurnID)
		}
		for _, x := range e.inbox(th.ID) {
			if x.State == memory.EntryWaiting && !x.Quiet {
				e.Fatalf("entry %s (%s) waits in the copy %s", x.ID, x.Kind, th.ID)
			}
		}
	}
	copied := e.state(res.ThreadID)
	for _, old := range ids {
		if strings.Contains(copied, old) {
			e.Fatalf("the copy names %s of the original: %s", old, copied)
		}
	}
}

// sameTalk checks that a copy's messages are the first ones of its original, but
// for the ids in them.
func (e *env) sameTalk(pair memory.ForkedThread, ids []string) {
	e.Helper()
	old, copied := e.messages(pair.FromThread), e.messages(pair.ThreadID)
	if len(copied) > len(old) {
		e.Fatalf("%s has %d messages, its original %d", pair.ThreadID, len(copied), len(old))
	}
	for i, m := range copied {
		o := old[i]
		equal(e, "message", [5]any{m.Seq, m.Role, m.Timestamp, m.Partial, len(m.ToolCalls)}, [5]any{o.Seq, o.Role, o.Timestamp, o.Partial, len(o.ToolCalls)})
		if m.ID == o.ID {
			e.Fatalf("message %s has the id of the original", m.ID)
		}
		if !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(o.Content.String(), id) }) {
			equal(e, "content", m.Content, o.Content)
		}
	}
}

// idsOf are the ids that a tree has made, as they would stand in a text.
func (e *env) idsOf(root string) []string {
	e.Helper()
	ids := []string{`"` + root + `"`}
	for todo := []string{root}; len(todo) > 0; todo = todo[1:] {
		for _, t := range must[[]memory.Turn](e)(e.s.TurnsOf(e.ctx, todo[0])) {
			ids = append(ids, strings.TrimPrefix(t.ID, "t"))
		}
		for _, c := range e.children(todo[0]) {
			ids = append(ids, c.AgentID)
			todo = append(todo, c.ID)
		}
	}
	return ids
}

// goesOn checks that a conversation takes a message and answers it.
func (e *env) goesOn(threadID, id string) {
	e.Helper()
	r := memory.SendRequest{UserID: user, ThreadID: threadID, MessageID: id, Content: agent.Text("go on"), WhenBusy: memory.Queue}
	equal(e, "idle", must[memory.SendResult](e)(e.s.Send(e.ctx, r)).Idle, true)
	e.answer(e.take(threadID), 1, "it goes on")
	e.sound(threadID)
}

var forkRules = []rule{
	{"a fork copies a conversation with its sub-agents, and the original is untouched", func(e *env) {
		root := e.settledTree("s1")
		e.h.Clock.Advance(time.Hour)
		f := e.fork(root, "", "f1")
		equal(e, "messages", f.Messages, int64(len(e.messages(root))))
		equal(e, "sub-agents", len(f.SubAgents), 2)
		equal(e, "cut", len(f.Cut), 0)
		old, th := e.thread(root), e.thread(f.ThreadID)
		equal(e, "place", [4]any{th.SessionID, th.RootThreadID, th.UserID, th.Status}, [4]any{"s1", f.ThreadID, user, agent.ThreadCompleted})
		equal(e, "metadata", th.Metadata, old.Metadata)
		equal(e, "created", th.CreatedAt, e.h.Clock.Now())
		equal(e, "events", len(e.events(f.ThreadID)), len(e.events(root)))
		equal(e, "spent", must[memory.Spent](e)(e.s.Spent(e.ctx, f.ThreadID)), memory.Spent{})
		child, oldChild := e.children(f.ThreadID)[0], e.children(root)[0]
		equal(e, "pair", f.SubAgents[0], memory.ForkedThread{ThreadID: child.ID, FromThread: oldChild.ID})
		equal(e, "child", [3]any{child.Metadata, child.CreatedAt, child.Summary}, [3]any{oldChild.Metadata, oldChild.CreatedAt, oldChild.Summary})
		if th.ID == old.ID || child.ID == oldChild.ID {
			e.Fatalf("the copy has the ids of the original")
		}
		made := e.call(child.ParentToolCallID)
		equal(e, "child's id follows from its call", child.AgentID, agent.NewAgentID("researcher", made.CreatedAt, f.ThreadID, made.TurnID, made.ID))
		// What the model was told names the copy.
		contains(e, "result", made.Result, child.AgentID)
		second := e.fork(f.ThreadID, e.messages(f.ThreadID)[2].ID, "f1")
		e.goesOn(second.ThreadID, "m2")
		e.goesOn(f.ThreadID, "m2")
		e.sound(root)
	}},
	{"a fork at any message ends with the save point that wrote it, and goes on from there", func(e *env) {
		root := e.settledTree("s1")
		e.send("s1", "m2")
		second := e.take(root)
		e.answer(second, 1, "again")
		for i, m := range e.messages(root) {
			f := e.fork(root, m.ID, "f"+m.ID)
			copied := e.messages(f.ThreadID)
			last := copied[len(copied)-1]
			if f.Messages < m.Seq || m.Role == agent.RoleUser && f.Messages != m.Seq {
				e.Fatalf("a fork at message %d (%s) has %d messages", m.Seq, m.Role, f.Messages)
			}
			th := e.thread(f.ThreadID)
			whole := last.Role == agent.RoleAssistant && len(last.ToolCalls) == 0
			equal(e, "cut", len(f.Cut) == 0, whole)
			equal(e, "status", th.Status == agent.ThreadCompleted, whole)
			again := must[memory.ForkResult](e)(e.s.Fork(e.ctx, forkRequest(root, m.ID, "f"+m.ID)))
			f.Repeated = true
			equal(e, "repeated", again, f)
			o := e.elsewhere()
			e.archived(f.ThreadID, o)
			if i%2 == 0 {
				e.goesOn(f.ThreadID, "more")
				continue
			}
			// A retry answers the message that was cut off, without asking twice.
			r := e.retry(f.ThreadID, "r1")
			t := e.take(f.ThreadID)
			equal(e, "turn", t.ID, r.TurnID)
			e.answer(t, 1, "another answer")
			equal(e, "users", count(e.messages(f.ThreadID), agent.RoleUser), count(copied, agent.RoleUser))
			e.sound(f.ThreadID)
		}
		e.sound(root)
	}},
	{"a request is repeated without a second copy, and is refused with other content", func(e *env) {
		root := e.settledTree("s1")
		f := e.fork(root, "", "f1")
		e.send("s1", "m2")
		e.answer(e.take(root), 1, "later")
		e.goesOn(f.ThreadID, "x1")
		before := len(e.threads(memory.ThreadFilter{All: true}))
		again := must[memory.ForkResult](e)(e.s.Fork(e.ctx, forkRequest(root, "", "f1")))
		f.Repeated = true
		equal(e, "again", again, f)
		_, err := e.s.Fork(e.ctx, forkRequest(root, e.messages(root)[0].ID, "f1"))
		e.code(err, agent.CodeConflict)
		equal(e, "threads", len(e.threads(memory.ThreadFilter{All: true})), before)
		named := forkRequest(root, "", "f2")
		named.ConversationID = "what-if"
		equal(e, "named", must[memory.ForkResult](e)(e.s.Fork(e.ctx, named)).ThreadID, "s1/what-if")
		named.ConversationID = agent.DefaultConversation
		_, err = e.s.Fork(e.ctx, named)
		e.code(err, agent.CodeConflict)
		if other := e.fork(root, "", "f3"); other.ThreadID == f.ThreadID {
			e.Fatalf("two requests made one fork")
		}
	}},
	{"the sender's id of a message names it too; what is not there, not the user's or no conversation is refused", func(e *env) {
		root := e.settledTree("s1")
		equal(e, "messages", e.fork(root, "m1", "f1").Messages, int64(1))
		e.send("s1", "m2") // waits
		child := e.children(root)[0].ID
		empty := must[memory.SendResult](e)(e.s.Send(e.ctx, message("s2", "m1", "waits"))).ThreadID
		other, slash := forkRequest(root, "", "f2"), forkRequest(root, "", "f2")
		other.UserID, slash.ConversationID = otherUser, "no/name"
		for _, c := range []struct {
			r    memory.ForkRequest
			code agent.Code
		}{
			{forkRequest(root, "m2", "f2"), agent.CodeNotFound},
			{forkRequest(root, "nothing", "f2"), agent.CodeNotFound},
			{forkRequest(root, e.messages(child)[0].ID, "f2"), agent.CodeNotFound},
			{forkRequest(empty, "", "f2"), agent.CodeConflict},
			{forkRequest(child, "", "f2"), agent.CodeInvalid},
			{forkRequest(root, "", ""), agent.CodeInvalid},
			{other, agent.CodeNotFound},
			{slash, agent.CodeInvalid},
		} {
			_, err := e.s.Fork(e.ctx, c.r)
			e.code(err, c.code)
		}
		equal(e, "threads", len(e.threads(memory.ThreadFilter{})), 3)
	}},
	{"a thread that works is forked up to what is saved", func(e *env) {
		t := e.started("s1")
		for _, c := range e.calls(t, 1, 2) {
			e.runTool(c, "found")
		}
		e.saveRound(t, 1)
		running := e.calls(t, 2, 2)
		e.runTool(running[0], "found too")
		child := e.take(e.delegate(e.started("s2"), 1, "researcher").ChildThread)
		e.begin(child, 1)
		e.send("s1", "m2")
		f := e.fork(t.ThreadID, "", "f1")
		equal(e, "copied", [3]any{f.Messages, f.Cut, len(f.SubAgents)}, [3]any{int64(4), []string{f.ThreadID}, 0})
		equal(e, "calls", len(must[[]agent.ToolCall](e)(e.s.ToolCalls(e.ctx, f.ThreadID))), 2)
		th := e.thread(f.ThreadID)
		equal(e, "counted", [4]any{th.Status, th.RequestCount, th.TotalTokens, th.ToolCallCount}, [4]any{agent.ThreadCancelled, int64(1), int64(15), int64(2)})
		e.goesOn(f.ThreadID, "m2")
		f = e.fork(e.thread(child.ThreadID).RootThreadID, "", "f1")
		equal(e, "without the child", [2]any{f.Messages, len(f.SubAgents)}, [2]any{int64(1), 0})
		// The original works on as if nothing had been.
		e.runTool(running[1], "found last")
		e.saveRound(t, 2)
		e.answer(t, 3, "done")
		e.sound(t.ThreadID)
	}},
	{"a sub-agent that works in the background ends in the copy with what it has saved, and can be resumed there", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		e.saveRound(t, 1)
		e.answer(t, 2, "it is on its way")
		child := e.take(d.ChildThread)
		e.runTool(e.calls(child, 1, 1)[0], "found")
		e.saveRound(child, 1)
		e.gated(child, 2, agent.GateAsk)
		e.ask(child, 2)
		f := e.fork(t.ThreadID, "", "f1")
		equal(e, "cut", len(f.Cut), 1)
		copied := e.children(f.ThreadID)[0]
		equal(e, "copy", [4]any{copied.ID, copied.Status, copied.MessageCount, copied.ToolCallCount}, [4]any{f.SubAgents[0].ThreadID, agent.ThreadCancelled, int64(3), int64(1)})
		equal(e, "task", e.task(f.ThreadID, copied.TaskID).Status, agent.TaskCancelled)
		equal(e, "approvals", len(e.approvals(memory.ApprovalFilter{RootThread: f.ThreadID, OpenOnly: true})), 0)
		equal(e, "asked and settled", len(e.eventsOf(f.ThreadID, agent.EventApprovalRequired)), len(e.eventsOf(f.ThreadID, agent.EventApprovalResponse)))
		equal(e, "told", len(e.eventsOf(f.ThreadID, agent.EventSubAgentCompleted)), 1)
		// The copy is resumed by the copy of its parent, the original by its own.
		r := memory.SendRequest{UserID: user, ThreadID: f.ThreadID, MessageID: "m2", Content: agent.Text("go on"), WhenBusy: memory.Queue}
		_ = must[memory.SendResult](e)(e.s.Send(e.ctx, r))
		second := e.take(f.ThreadID)
		ms := e.messages(f.ThreadID)
		contains(e, "told with the message, once", ms[len(ms)-2].Content.String(), copied.ID)
		calls := e.assigns(second, 1, 2)
		e.refused(resume(calls[0], d.ChildThread))
		equal(e, "refused", e.open(resume(calls[1], copied.AgentID)).Refused, false)
		e.answer(e.take(copied.ID), 1, "the finding")
		e.takeResult(calls[1])
		e.saveRound(second, 1)
		e.answer(second, 2, "all done")
		e.sound(f.ThreadID)
		e.decide(decision(e.approvals(memory.ApprovalFilter{RootThread: t.ThreadID, OpenOnly: true})[0].ID, memory.Approve))
		e.runTool(e.firstCall(child, 2), "written")
		e.saveRound(child, 2)
		e.answer(child, 3, "the original's finding")
		e.answer(e.take(t.ThreadID), 1, "reported")
		e.sound(t.ThreadID)
	}},
	{"questions are copied with their answers; one that is open is settled in the copy and stays open in the original", func(e *env) {
		t := e.started("s1")
		e.answerTo(e.questioned(t, 1, "which?")[0].ID, "the red one")
		e.saveRound(t, 1)
		d := e.background(t, 2, "researcher")
		e.saveRound(t, 2)
		child := e.take(d.ChildThread)
		e.runTool(e.calls(child, 1, 1)[0], "found")
		e.saveRound(child, 1)
		open := e.questioned(child, 2, "how many?")[0]
		e.answer(t, 3, "it is on its way")
		f := e.fork(t.ThreadID, "", "f1")
		asked := e.questions(memory.QuestionFilter{RootThread: f.ThreadID})
		equal(e, "questions", [3]any{len(asked), asked[0].State, asked[0].Answer}, [3]any{1, memory.QuestionAnswered, "the red one"})
		equal(e, "asked and settled", len(e.eventsOf(f.ThreadID, agent.EventQuestionAsked)), len(e.eventsOf(f.ThreadID, agent.EventQuestionAnswered)))
		e.archived(f.ThreadID, e.elsewhere())
		e.goesOn(f.ThreadID, "m2")
		e.answerTo(open.ID, "three")
		e.sound(t.ThreadID)
	}},
	{"summaries are copied with the steps that they were made for", func(e *env) {
		t := e.started("s1")
		e.fullRound(t, 1, 2)
		e.summarise(t, 2, 1, 4, "what was said")
		e.fullRound(t, 2, 1)
		at := e.messages(t.ThreadID)
		cut := e.fork(t.ThreadID, at[len(at)-1].ID, "f1")
		equal(e, "cut", [2]any{e.thread(cut.ThreadID).Compactions, e.thread(cut.ThreadID).TotalTokens}, [2]any{int64(1), e.thread(t.ThreadID).TotalTokens})
		e.answer(t, 3, "done")
		f := e.fork(t.ThreadID, "", "f2")
		th := e.thread(f.ThreadID)
		equal(e, "summarizedFrom", th.SummarizedFrom, agent.MessageRange(f.ThreadID, 1, 4))
		equal(e, "tokens", th.TotalTokens, e.thread(t.ThreadID).TotalTokens)
		equal(e, "before it", e.thread(e.fork(t.ThreadID, at[3].ID, "f3").ThreadID).Compactions, int64(0))
		e.archived(f.ThreadID, e.elsewhere())
		e.goesOn(f.ThreadID, "m2")
	}},
	{"work in the background that had not begun is cancelled in the copy", func(e *env) {
		t := e.started("s1")
		d := e.background(t, 1, "researcher")
		e.saveRound(t, 1)
		at := e.messages(t.ThreadID)[2].ID
		e.h.Clock.Advance(time.Second)
		for range 2 { // as it waits, and after it has ended
			f := e.fork(t.ThreadID, at, "f"+string(e.thread(d.ChildThread).Status))
			copied := e.children(f.ThreadID)[0]
			equal(e, "copy", [3]any{copied.Status, copied.MessageCount, len(f.Cut)}, [3]any{agent.ThreadCancelled, int64(0), 2})
			e.goesOn(f.ThreadID, "m2")
			if e.thread(d.ChildThread).Status == agent.ThreadPending {
				e.answer(e.take(d.ChildThread), 1, "the finding")
			}
		}
		// At the end of the conversation its end is there, though not told yet.
		f := e.fork(t.ThreadID, e.messages(t.ThreadID)[0].ID, "f1")
		equal(e, "before it was made", len(f.SubAgents), 0)
	}},
	{"the copy of a sub-agent has the task that was ordered last, whether or not that began", func(e *env) {
		for i, begun := range []bool{false, true} {
			t := e.started(fmt.Sprintf("s%d", i))
			calls := e.assigns(t, 1, 2)
			first := delegation(calls[0], "researcher")
			first.Background = true
			d := e.open(first)
			e.open(resume(calls[1], d.ChildThread)) // in the same step, in the foreground
			if begun {
				e.answer(e.take(d.ChildThread), 1, "the finding")
			}
			e.close(failed(t, 1, agent.ReasonError)) // which drops what waits in the foreground
			equal(e, "ordered last", e.thread(d.ChildThread).TaskID, agent.TaskID(calls[1].ID))
			f := e.fork(t.ThreadID, "", "f1")
			last := must[[]agent.ToolCall](e)(e.s.ToolCalls(e.ctx, f.ThreadID))[1]
			equal(e, "copied", e.children(f.ThreadID)[0].TaskID, agent.TaskID(last.ID))
			e.archived(f.ThreadID, e.elsewhere())
			e.goesOn(f.ThreadID, "m2")
		}
	}},
	{"what a sub-agent did after that message is not in the copy", func(e *env) {
		t := e.started("s1")
		first := e.childDone(t, 1)
		e.h.Clock.Advance(time.Second)
		c := e.assigns(t, 2, 1)[0]
		e.open(resume(c, first.ChildThread))
		e.answer(e.take(first.ChildThread), 1, "more")
		e.takeResult(c)
		e.saveRound(t, 2)
		e.answer(t, 3, "done")
		f := e.fork(t.ThreadID, e.messages(t.ThreadID)[1].ID, "f1")
		equal(e, "messages", [2]int{len(e.messages(f.SubAgents[0].ThreadID)), len(e.messages(first.ChildThread))}, [2]int{2, 4})
		equal(e, "resumed too", len(e.messages(e.fork(t.ThreadID, "", "f2").SubAgents[0].ThreadID)), 4)
	}},
	{"an end that was told to an ancestor, and a message taken into a running turn, are copied with who took them", func(e *env) {
		t := e.started("s1")
		child := e.take(e.delegate(t, 1, "researcher").ChildThread)
		below := e.background(child, 1, "writer")
		e.saveRound(child, 1)
		e.answer(child, 2, "delegated")
		e.takeResult(e.firstCall(t, 1))
		e.saveRound(t, 1)
		e.answer(e.take(below.ChildThread), 1, "a page")
		e.steer("s1", "steered")
		e.calls(t, 2, 1)
		at := e.messages(t.ThreadID)
		f := e.fork(t.ThreadID, at[len(at)-1].ID, "f1")
		equal(e, "copied", [2]any{f.Messages, len(f.SubAgents)}, [2]any{int64(len(at)), 2})
		equal(e, "taken", e.entry(f.ThreadID, memory.EntryMessage, "steered").State, memory.EntryTaken)
		equal(e, "cut", f.Cut, []string{f.ThreadID})
		f = e.fork(t.ThreadID, at[1].ID, "f2")
		equal(e, "writer", e.children(f.SubAgents[0].ThreadID)[0].MessageCount, int64(2))
	}},
	{"conversations of programs that keep nothing but messages are forked too", func(e *env) {
		records := plainTree(e.h.Clock.Now().Add(-time.Hour))
		root := records[0].Thread.ID
		e.restore(records)
		before := e.state(root)
		for _, m := range e.messages(root) {
			f := must[memory.ForkResult](e)(e.s.Fork(e.ctx, forkRequest(root, m.ID, "f"+m.ID)))
			e.sound(f.ThreadID)
			e.goesOn(f.ThreadID, "next")
		}
		f := must[memory.ForkResult](e)(e.s.Fork(e.ctx, forkRequest(root, "", "f")))
		equal(e, "sub-agents", len(f.SubAgents), 3)
		if e.state(root) != before {
			e.Fatalf("the original was changed")
		}
	}},
}

func count(messages []agent.Message, role agent.Role) (n int) {
	for _, m := range messages {
		if m.Role == role {
			n++
		}
	}
	return n
}

// forksOf forks a drawn conversation at its end and at a drawn message.
func (w *world) forksOf(copies memory.ConversationMemoryStore) {
	w.Helper()
	messages := w.messages(w.root)
	if len(messages) == 0 {
		return
	}
	at := messages[w.rng.IntN(len(messages))].ID
	for request, at := range map[string]string{"end": "", "at": at} {
		f := w.fork(w.root, at, request)
		to := *w.env
		to.s = copies
		w.archived(f.ThreadID, &to)
		w.goesOn(f.ThreadID, "after-"+request)
	}
	w.sound(w.root)
}
