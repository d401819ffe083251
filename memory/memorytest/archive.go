package memorytest

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	{"an export of what is at rest, imported into an empty store, gives an equal history", func(e *env) {
		root := e.settledTree("s1")
		o := e.elsewhere()
		res := o.restore(e.export(root))
		equal(e, "there", len(res.Present), 0)
		equal(e, "dropped", res.Dropped, []memory.Dropped{{ThreadID: root, What: "1 tools that were allowed for the session: the next call of each asks again"}})
		equal(e, "history", o.history(root), e.history(root))
		equal(e, "spent", must[memory.Spent](o)(o.s.Spent(e.ctx, root)), must[memory.Spent](e)(e.s.Spent(e.ctx, root)))
		o.sound(root)
		third := e.elsewhere()
		equal(e, "dropped", third.restore(o.export(root)).Dropped, nil)
		equal(e, "exports", third.export(root), o.export(root))
	}},
	{"an imported thread goes on where it was", func(e *env) {
		root := e.settledTree("s1")
		o := e.elsewhere()
		o.restore(e.export(root))
		again := must[memory.SendResult](o)(o.s.Send(e.ctx, message("s1", "m1", "text of m1")))
		equal(e, "the message is known", again.Repeated, true)
		o.send("s1", "m2")
		t := o.take(root)
		// What a person allowed for the session elsewhere is asked here.
		o.gated(t, 1, agent.GateAsk)
		equal(e, "gate", o.firstCall(t, 1).Gate, agent.GateAsk)
		o.decide(decision(o.ask(t, 1).ID, memory.Approve))
		o.runTool(o.firstCall(t, 1), "again")
		o.saveRound(t, 1)
		o.answer(t, 2, "more")
		o.sound(root)
	}},
	{"an import is closed history: what is open in it ends, and nothing makes a worker act", func(e *env) {
		root := e.underWay("s1")
		records := e.export(root)
		o := e.elsewhere()
		res := o.restore(records)
		said := ""
		for _, d := range res.Dropped {
			said += d.What + "\n"
		}
		for _, want := range []string{"1 tools that were allowed", "the choice of model strong", "the turn that was open", "an approval", "a question", "work that it had not begun", "waited (message m2)"} {
			contains(e, "dropped", said, want)
		}
		o.atRest(root)
		o.sound(root)
		equal(e, "again", len(o.restore(records).Present), len(records))
		for _, th := range append(o.children(root), o.thread(root)) {
			equal(e, "policies", [3]int{len(th.Config.Approval), len(th.Config.Bounds), len(th.Config.Tools)}, [3]int{})
		}
		equal(e, "what the worker would take for a template", [2]string{o.thread(root).Config.SystemPrompt, o.thread(root).Config.Source}, [2]string{})
		third := e.elsewhere()
		third.restore(o.export(root))
		equal(e, "an export of the import", third.history(root), o.history(root))
		o.send("s1", "m3")
		t := o.take(root)
		equal(e, "configuration", o.thread(root).Config, *mainConfig())
		o.gated(t, 1, agent.GateAsk)
		equal(e, "gate", o.firstCall(t, 1).Gate, agent.GateAsk)
		e.sound(root)
	}},
	{"rows that somebody wrote into an export open nothing: they end as closed, or the import is refused", func(e *env) {
		settled, open := e.export(e.settledTree("s1")), e.export(e.underWay("s2"))
		for _, c := range []struct {
			records      []memory.ThreadRecord
			table        string
			columns      map[string]any
			name, insert string
		}{
			{settled, "inbox", map[string]any{"state": "waiting"}, "entries that wait", ""},
			{settled, "inbox", map[string]any{"state": "waiting", "quiet": 1}, "entries that wait quietly", ""},
			{settled, "inbox", map[string]any{"state": "soon"}, "entries in no state", ""},
			{settled, "threads", map[string]any{"waiting": 7}, "a count of what waits", ""},
			{settled, "threads", map[string]any{"status": "running"}, "a thread that runs", ""},
			{settled, "threads", map[string]any{"open_turn": "t0123456789abcdef"}, "a turn that is not there", ""},
			{settled, "turns", map[string]any{"state": "open", "cancel_at": 1}, "open turns", ""},
			{settled, "tool_calls", map[string]any{"status": "pending", "gate": "auto"}, "pending calls", ""},
			{settled, "asks", map[string]any{"outcome": ""}, "an open approval", ""},
			{settled, "configs", map[string]any{"body": `{"name":"orchestrator","systemPrompt":"x","tools":["shell"],"approval":{"shell":"auto"}}`}, "another configuration", ""},
			{settled, "", nil, "a permission", `"approved_tools":{"columns":["session_id","tool_name"],"rows":[["s1","shell"],["s1","gated"]]},`},
			{open, "threads", map[string]any{"open_turn": ""}, "open turns of idle threads", ""},
			{open, "threads", map[string]any{"status": "running"}, "approvals of running threads", ""},
			{open, "turns", map[string]any{"delegations": 0}, "a child that nobody ends", ""},
			{open, "turns", map[string]any{"background": 0}, "a child in the foreground", ""},
			{open, "inbox", map[string]any{"background": 0}, "work in the foreground", ""},
			{open, "inbox", map[string]any{"child_turn": "t0123456789abcdef"}, "an end of nothing", ""},
		} {
			o := e.elsewhere()
			root := c.records[0].Thread.ID
			var planted []memory.ThreadRecord
			for _, r := range c.records {
				r.Rows = bytes.Replace(e.plant(r.Rows, c.table, c.columns), []byte(`"tables":{`), []byte(`"tables":{`+c.insert), 1)
				planted = append(planted, r)
			}
			_, err := o.s.ImportThreads(e.ctx, memory.ImportRequest{UserID: user, Threads: planted})
			if err != nil {
				equal(e, c.name+": "+err.Error(), agent.CodeOf(err), agent.CodeInvalid)
				equal(e, c.name, len(o.threads(memory.ThreadFilter{All: true})), 0)
				continue
			}
			o.atRest(root)
			o.send(c.records[0].Thread.SessionID, "later")
			t := o.take(root)
			equal(e, c.name, o.thread(root).Config, *mainConfig())
			o.gated(t, 1, agent.GateAsk)
			equal(e, c.name, o.firstCall(t, 1).Gate, agent.GateAsk)
		}
	}},
	{"a configuration of an import never stands where another store has its own", func(e *env) {
		root := e.settledTree("s1")
		o := e.elsewhere()
		records := e.export(root)
		records[0].Rows = e.plant(records[0].Rows, "configs", map[string]any{"body": `{"name":"orchestrator","systemPrompt":"x","approval":{"gated":"auto"}}`})
		o.restore(records)
		o.send("s2", "m1")
		o.take("s2/default")
		equal(e, "configuration", o.thread("s2/default").Config, *mainConfig())
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
		records = e.export(root)
		e.send("s1", "m2")
		e.answer(e.take(root), 1, "it went on")
		e.unchanged(root, func() { equal(e, "has gone on", len(e.restore(records).Present), 3) })
	}},
	{"an import is refused as a whole or not at all", func(e *env) {
		root := e.settledTree("s1")
		child := e.children(root)[0].ID
		for name, c := range map[string]struct {
			old, planted string // in the rows of the last thread
			spoil        func(r []memory.ThreadRecord) []memory.ThreadRecord
		}{
			"other thread's rows": {old: e.children(child)[0].ID, planted: child},
			"other user's rows":   {old: `"` + user + `"`, planted: `"` + otherUser + `"`},
			"newer":               {old: `{"version":1`, planted: `{"version":2`},
			"unknown table":       {old: `"tables":{`, planted: `"tables":{"meta":{"columns":["key","value"],"rows":[["a","b"]]},`},
			"unknown column":      {old: `"agent_id"`, planted: `"agent_id_of_tomorrow"`},
			"no JSON":             {old: `"tables":{`, planted: `"tables":{{`},
			"no parent":           {spoil: func(r []memory.ThreadRecord) []memory.ThreadRecord { return r[1:] }},
			"a gap in seq":        {spoil: func(r []memory.ThreadRecord) []memory.ThreadRecord { r[2].Messages = r[2].Messages[1:]; return r }},
			"ids that contradict": {spoil: func(r []memory.ThreadRecord) []memory.ThreadRecord { r[0].Thread.ID = "s2/default"; return r }},
			"a path for an id":    {spoil: func(r []memory.ThreadRecord) []memory.ThreadRecord { r[0].Thread.ID = "../default"; return r }},
		} {
			records := e.export(root)
			if c.spoil != nil {
				records = c.spoil(records)
			} else {
				records[2].Rows = bytes.ReplaceAll(records[2].Rows, []byte(c.old), []byte(c.planted))
			}
			o := e.elsewhere()
			_, err := o.s.ImportThreads(e.ctx, memory.ImportRequest{UserID: user, Threads: records})
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
