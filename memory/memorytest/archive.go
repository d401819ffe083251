package memorytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// elsewhere is the same case on another, empty store.
func (e *env) elsewhere() *env {
	e.Helper()
	other := *e
	other.s = e.h.Open(e.test)
	return &other
}

func (e *env) export(root string) []memory.ThreadRecord {
	e.Helper()
	return must[[]memory.ThreadRecord](e)(e.s.ExportThreads(e.ctx, memory.ExportRequest{UserID: user, ThreadID: root, Below: true}))
}

func (e *env) restore(records []memory.ThreadRecord) memory.ImportResult {
	e.Helper()
	return must[memory.ImportResult](e)(e.s.ImportThreads(e.ctx, memory.ImportRequest{UserID: user, Profile: "default", Threads: records}))
}

// settledTree is a main thread with a turn that ran tools, asked and delegated.
func (e *env) settledTree(session string) string {
	e.Helper()
	t := e.started(session)
	for _, c := range e.calls(t, 1, 2) {
		e.runTool(c, "found")
		e.h.Clock.Advance(time.Second)
	}
	e.saveRound(t, 1)
	e.gated(t, 2, agent.GateAsk)
	e.decide(decision(e.ask(t, 2).ID, memory.ApproveAll))
	e.runTool(e.firstCall(t, 2), "written")
	e.saveRound(t, 2)
	d := e.delegate(t, 3, "researcher")
	child := e.take(d.ChildThread)
	grandchild := e.take(e.delegate(child, 1, "writer").ChildThread)
	e.answer(grandchild, 1, "a page")
	e.takeResult(e.firstCall(child, 1))
	e.saveRound(child, 1)
	e.answer(child, 2, "the finding")
	e.takeResult(e.firstCall(t, 3))
	e.saveRound(t, 3)
	e.answerTo(e.questioned(t, 4, "a?")[0].ID, "x")
	e.saveRound(t, 4)
	e.answer(t, 5, "all done")
	return t.ThreadID
}

// message values of conversations of programs that keep nothing else.
func plainMessages(at time.Time) []agent.Message {
	call := agent.NewCall("call_1", "assign_task", `{"agent":"researcher"}`)
	ms := []agent.Message{
		{Role: agent.RoleSystem, Content: agent.Text("You answer.")},
		{ID: "u1", Role: agent.RoleUser, Content: agent.Text("first question")},
		{ID: "a1", Role: agent.RoleAssistant, Content: agent.NullContent(), ToolCalls: []agent.Call{call, agent.NewCall("call_2", "lookup", `{}`)}},
		{ID: "r1", Role: agent.RoleTool, ToolCallID: "call_1", Content: agent.Text("the finding")},
		{ID: "a2", Role: agent.RoleAssistant, Content: agent.Text("first answer")},
		{ID: "r9", Role: agent.RoleTool, ToolCallID: "call_9", Content: agent.Text("nobody asked")},
		{ID: "u1", Role: agent.RoleUser, Content: agent.Text("unanswered")},
	}
	for i := range ms {
		ms[i].Timestamp = at.Add(time.Duration(i) * time.Second)
	}
	return ms
}

func plainTree(at time.Time) []memory.ThreadRecord {
	root := agent.Thread{
		ID: "1740000000000/default", SessionID: "1740000000000", ConversationID: "default", Kind: agent.KindMain,
		RootThreadID: "1740000000000/default", CreatedAt: at, UpdatedAt: at.Add(time.Minute), Workdir: "/old",
		Metadata: agent.Metadata{Topic: "old", TotalTokens: 30, PromptTokens: 20, CompletionTokens: 10},
	}
	linked := root
	linked.Kind, linked.AgentType, linked.AgentID, linked.ParentThreadID, linked.Depth = agent.KindSubAgent, "researcher", "r-1", root.ID, 1
	linked.ID, linked.ParentToolCallID = agent.SubThreadID("researcher", "r-1"), "call_1"
	loose := linked
	loose.ID, loose.AgentID, loose.ParentToolCallID = agent.SubThreadID("researcher", "r-2"), "r-2", ""
	below := loose
	below.ID, below.AgentID, below.ParentThreadID, below.Depth = agent.SubThreadID("researcher", "r-3"), "r-3", linked.ID, 2
	var records []memory.ThreadRecord
	for _, th := range []agent.Thread{root, linked, loose, below} {
		records = append(records, memory.ThreadRecord{Thread: th, Messages: plainMessages(at)})
	}
	return records
}

var archiveRules = []rule{
	{"an export imported into an empty store gives an equal store", func(e *env) {
		settled := e.settledTree("s1")
		running := e.started("s2")
		e.s2(running)
		for _, root := range []string{settled, running.ThreadID} {
			o := e.elsewhere()
			added := o.restore(e.export(root))
			equal(e, "present", len(added.Present), 0)
			if got, want := o.state(root), e.state(root); got != want {
				e.Fatalf("the import differs\ngot:  %s\nwant: %s", got, want)
			}
			equal(e, "spent", must[memory.Spent](o)(o.s.Spent(e.ctx, root)), must[memory.Spent](e)(e.s.Spent(e.ctx, root)))
			o.sound(root)
			if !reflect.DeepEqual(o.export(root), e.export(root)) {
				e.Fatalf("an export of the import differs")
			}
		}
	}},
	{"an imported thread goes on where it was", func(e *env) {
		root := e.settledTree("s1")
		o := e.elsewhere()
		o.restore(e.export(root))
		again := must[memory.SendResult](o)(o.s.Send(e.ctx, message("s1", "m1", "text of m1")))
		equal(e, "the message is known", again.Repeated, true)
		o.send("s1", "m2")
		t := o.take(root)
		// What was approved for the session stays so.
		o.gated(t, 1, agent.GateAsk)
		equal(e, "gate", o.firstCall(t, 1).Gate, agent.GateAuto)
		o.runTool(o.firstCall(t, 1), "again")
		o.saveRound(t, 1)
		o.answer(t, 2, "more")
		o.sound(root)
	}},
	{"an import that is there already changes nothing, one with other content is refused", func(e *env) {
		root := e.settledTree("s1")
		records := e.export(root)
		e.unchanged(root, func() { equal(e, "present", len(e.restore(records).Present), 3) })
		records[1].Messages[0].Content = agent.Text("something else")
		e.unchanged(root, func() {
			_, err := e.s.ImportThreads(e.ctx, memory.ImportRequest{Threads: records})
			e.code(err, agent.CodeConflict)
		})
	}},
	{"an import is refused as a whole or not at all", func(e *env) {
		root := e.settledTree("s1")
		child := e.children(root)[0].ID
		for name, spoil := range map[string]func(r []memory.ThreadRecord) []memory.ThreadRecord{
			"no parent": func(r []memory.ThreadRecord) []memory.ThreadRecord { return r[1:] },
			"a gap in seq": func(r []memory.ThreadRecord) []memory.ThreadRecord {
				r[2].Messages = r[2].Messages[1:]
				return r
			},
			"other thread's rows": func(r []memory.ThreadRecord) []memory.ThreadRecord {
				r[2].Rows = bytes.ReplaceAll(r[2].Rows, []byte(r[2].Thread.ID), []byte(child))
				return r
			},
			"other user's rows": func(r []memory.ThreadRecord) []memory.ThreadRecord {
				r[2].Rows = bytes.ReplaceAll(r[2].Rows, []byte(`"`+user+`"`), []byte(`"`+otherUser+`"`))
				return r
			},
			"newer": func(r []memory.ThreadRecord) []memory.ThreadRecord {
				r[2].Rows = bytes.Replace(r[2].Rows, []byte(`{"version":1`), []byte(`{"version":2`), 1)
				return r
			},
			"unknown table": func(r []memory.ThreadRecord) []memory.ThreadRecord {
				r[2].Rows = bytes.Replace(r[2].Rows, []byte(`"tables":{`), []byte(`"tables":{"meta":{"columns":["key","value"],"rows":[["a","b"]]},`), 1)
				return r
			},
			"unknown column": func(r []memory.ThreadRecord) []memory.ThreadRecord {
				r[2].Rows = bytes.ReplaceAll(r[2].Rows, []byte(`"agent_id"`), []byte(`"agent_id_of_tomorrow"`))
				return r
			},
			"no JSON": func(r []memory.ThreadRecord) []memory.ThreadRecord {
				r[2].Rows = r[2].Rows[:len(r[2].Rows)/2]
				return r
			},
			"ids that contradict": func(r []memory.ThreadRecord) []memory.ThreadRecord {
				r[0].Thread.ID = "s2/default"
				return r
			},
			"a path for an id": func(r []memory.ThreadRecord) []memory.ThreadRecord {
				r[0].Thread.ID = "../default"
				return r
			},
		} {
			o := e.elsewhere()
			_, err := o.s.ImportThreads(e.ctx, memory.ImportRequest{UserID: user, Threads: spoil(e.export(root))})
			if agent.CodeOf(err) != agent.CodeInvalid {
				e.Errorf("%s: %v", name, err)
			}
			if left := o.threads(memory.ThreadFilter{All: true}); len(left) != 0 {
				e.Errorf("%s left %v", name, left)
			}
		}
	}},
	{"other users export, import and delete nothing", func(e *env) {
		root := e.settledTree("s1")
		_, err := e.s.ExportThreads(e.ctx, memory.ExportRequest{UserID: otherUser, ThreadID: root})
		e.code(err, agent.CodeNotFound)
		e.unchanged(root, func() {
			_, err := e.s.DeleteTree(e.ctx, memory.DeleteRequest{UserID: otherUser, ThreadID: root})
			e.code(err, agent.CodeNotFound)
		})
		o := e.elsewhere()
		_, err = o.s.ImportThreads(e.ctx, memory.ImportRequest{UserID: otherUser, Threads: e.export(root)})
		e.code(err, agent.CodeInvalid)
		taken := message("s1", "x", "mine")
		taken.UserID, taken.ConversationID = otherUser, "other"
		_ = must[memory.SendResult](o)(o.s.Send(e.ctx, taken))
		_, err = o.s.ImportThreads(e.ctx, memory.ImportRequest{Threads: e.export(root)})
		e.code(err, agent.CodeConflict)
	}},
	{"messages alone become turns that keep every rule, linked to their parents", func(e *env) {
		at := e.h.Clock.Now().Add(-time.Hour)
		records := plainTree(at)
		root := records[0].Thread.ID
		equal(e, "added", len(e.restore(records).Added), 4)
		e.sound(root)
		ms := e.messages(root)
		equal(e, "messages", len(ms), 8)
		equal(e, "time", ms[1].Timestamp, at.Add(time.Second))
		th := e.thread(root)
		equal(e, "metadata", [3]any{th.Topic, th.TotalTokens, th.Workdir}, [3]any{"old", int64(30), "/old"})
		equal(e, "activity", th.UpdatedAt, at.Add(time.Minute))
		equal(e, "children", len(e.children(root)), 2)
		equal(e, "grandchildren", len(e.children(records[1].Thread.ID)), 1)
		equal(e, "status", th.Status, agent.ThreadFailed)
		turns := must[[]memory.Turn](e)(e.s.TurnsOf(e.ctx, root))
		equal(e, "turns", len(turns), 2)
		equal(e, "outcomes", [2]agent.ThreadStatus{turns[0].Outcome, turns[1].Outcome}, [2]agent.ThreadStatus{agent.ThreadCompleted, agent.ThreadFailed})
		e.unchanged(root, func() { equal(e, "present", len(e.restore(records).Present), 4) })
		e.send("1740000000000", "next")
		e.answer(e.take(root), 1, "goes on")
		e.sound(root)
	}},
	{"a tree is deleted with everything below it, and the session with its last", func(e *env) {
		root := e.settledTree("s1")
		other := message("s1", "x", "stays")
		other.ConversationID = "other"
		kept := must[memory.SendResult](e)(e.s.Send(e.ctx, other)).ThreadID
		_, err := e.s.DeleteTree(e.ctx, memory.DeleteRequest{UserID: user, ThreadID: e.children(root)[0].ID})
		e.code(err, agent.CodeInvalid)
		res := must[memory.DeleteResult](e)(e.s.DeleteTree(e.ctx, memory.DeleteRequest{UserID: user, ThreadID: root}))
		equal(e, "deleted", [2]any{len(res.Threads), res.Session}, [2]any{3, false})
		equal(e, "left", e.threads(memory.ThreadFilter{All: true}), []string{kept})
		_, err = e.s.DeleteTree(e.ctx, memory.DeleteRequest{UserID: user, ThreadID: root})
		e.code(err, agent.CodeNotFound)
		e.answer(e.take(kept), 1, "x")
		res = must[memory.DeleteResult](e)(e.s.DeleteTree(e.ctx, memory.DeleteRequest{UserID: user, ThreadID: kept}))
		equal(e, "session", res.Session, true)
		// The id is free again, also for somebody else.
		again := message("s1", "m1", "new")
		again.UserID = otherUser
		equal(e, "repeated", must[memory.SendResult](e)(e.s.Send(e.ctx, again)).Repeated, false)
	}},
	{"what is at work is not deleted, nor is its tree", func(e *env) {
		waits := e.send("s1", "m1").ThreadID
		open := e.started("s2")
		child := e.take(e.delegate(open, 1, "researcher").ChildThread)
		for _, root := range []string{waits, open.ThreadID} {
			e.unchanged(root, func() {
				_, err := e.s.DeleteTree(e.ctx, memory.DeleteRequest{UserID: user, ThreadID: root})
				e.code(err, agent.CodeConflict)
			})
		}
		background := e.inBackground("s3")
		e.unchanged(background, func() {
			_, err := e.s.DeleteTree(e.ctx, memory.DeleteRequest{ThreadID: background})
			e.code(err, agent.CodeConflict)
		})
		e.answer(child, 1, "x")
	}},
	{"what was active or restored since is not deleted", func(e *env) {
		root := e.settledTree("s1")
		records := e.export(root)
		e.h.Clock.Advance(time.Hour)
		since := e.h.Clock.Now()
		old := memory.DeleteRequest{UserID: user, ThreadID: root, IdleSince: since.Add(-2 * time.Hour)}
		_, err := e.s.DeleteTree(e.ctx, old)
		e.code(err, agent.CodeConflict)
		old.IdleSince = since
		_ = must[memory.DeleteResult](e)(e.s.DeleteTree(e.ctx, old))
		e.restore(records)
		_, err = e.s.DeleteTree(e.ctx, old)
		e.code(err, agent.CodeConflict)
		old.IdleSince = since.Add(time.Second)
		_ = must[memory.DeleteResult](e)(e.s.DeleteTree(e.ctx, old))
	}},
}

// s2 leaves a turn open in every way: a stored round with a running call, and
// behind it a queued message and a child that streams.
func (e *env) s2(t memory.Turn) {
	e.Helper()
	d := e.delegate(t, 1, "researcher")
	child := e.take(d.ChildThread)
	attempt := e.begin(child, 1)
	e.ok(e.s.AppendChunk(e.ctx, memory.Chunk{ThreadID: child.ThreadID, TurnID: child.ID, Step: 1, Attempt: attempt, Text: "half an answ\xc3"}))
	e.send("s2", "m2")
}

// inBackground is a settled thread with a child that still works.
func (e *env) inBackground(session string) string {
	e.Helper()
	t := e.started(session)
	r := delegation(e.assigns(t, 1, 1)[0], "researcher")
	r.Background = true
	d := e.open(r)
	e.saveRound(t, 1)
	e.answer(t, 2, "begun")
	e.take(d.ChildThread)
	return t.ThreadID
}

// archived checks that the tree of a root can be moved to another store.
func (e *env) archived(root string, to *env) {
	e.Helper()
	to.restore(e.export(root))
	if got, want := to.state(root), e.state(root); got != want {
		e.Fatalf("the import differs\ngot:  %s\nwant: %s", got, want)
	}
}

// rightAlready checks that there is nothing to repair.
func (e *env) rightAlready(threadID string) {
	e.Helper()
	done := must[[]string](e)(e.s.Repair(e.ctx, threadID))
	if len(done) > 0 {
		text, err := json.Marshal(done)
		e.ok(err)
		e.Fatalf("a repair of %s, which keeps every rule, did something: %s", threadID, fmt.Sprint(string(text)))
	}
	for _, c := range e.children(threadID) {
		e.rightAlready(c.ID)
	}
}
