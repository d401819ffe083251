// Package copycases has the rules of what is copied or changed: archives, edits, pictures, forks.
package copycases

import (
	"bytes"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

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

var archiveRules = []suite.Rule{
	{Name: "an export of what is at rest, imported into an empty store, gives an equal history", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		o := e.Elsewhere()
		res := o.Restore(e.Export(root))
		suite.Equal(e, "there", len(res.Present), 0)
		suite.Equal(e, "dropped", res.Dropped, []memory.Dropped{{ThreadID: root, What: "1 tools that were allowed for the session: the next call of each asks again"}})
		suite.Equal(e, "history", o.History(root), e.History(root))
		suite.Equal(e, "spent", suite.Must(o.S.Spent(e.Ctx, root))(o), suite.Must(e.S.Spent(e.Ctx, root))(e))
		o.Sound(root)
		third := e.Elsewhere()
		suite.Equal(e, "dropped", third.Restore(o.Export(root)).Dropped, nil)
		suite.Equal(e, "exports", third.Export(root), o.Export(root))
	}},
	{Name: "an imported thread goes on where it was", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		o := e.Elsewhere()
		o.Restore(e.Export(root))
		again := suite.Must(o.S.Send(e.Ctx, suite.Message("s1", "m1", "text of m1")))(o)
		suite.Equal(e, "the message is known", again.Repeated, true)
		o.Send("s1", "m2")
		t := o.Take(root)
		// What a person allowed for the session elsewhere is asked here.
		o.Gated(t, 1, agent.GateAsk)
		suite.Equal(e, "gate", o.FirstCall(t, 1).Gate, agent.GateAsk)
		o.Decide(suite.Decision(o.Ask(t, 1).ID, memory.Approve))
		o.RunTool(o.FirstCall(t, 1), "again")
		o.SaveRound(t, 1)
		o.Answer(t, 2, "more")
		o.Sound(root)
	}},
	{Name: "an import is closed history: what is open in it ends, and nothing makes a worker act", Run: func(e *suite.Env) {
		root := e.UnderWay("s1")
		records := e.Export(root)
		o := e.Elsewhere()
		res := o.Restore(records)
		said := ""
		for _, d := range res.Dropped {
			said += d.What + "\n"
		}
		for _, want := range []string{"1 tools that were allowed", "the choice of model strong", "the turn that was open", "an approval", "a question", "work that it had not begun", "waited (message m2)"} {
			suite.Contains(e, "dropped", said, want)
		}
		o.AtRest(root)
		o.Sound(root)
		suite.Equal(e, "again", len(o.Restore(records).Present), len(records))
		for _, th := range append(o.Children(root), o.Thread(root)) {
			suite.Equal(e, "policies", [3]int{len(th.Config.Approval), len(th.Config.Bounds), len(th.Config.Tools)}, [3]int{})
		}
		suite.Equal(e, "what the worker would take for a template", [2]string{o.Thread(root).Config.SystemPrompt, o.Thread(root).Config.Source}, [2]string{})
		third := e.Elsewhere()
		third.Restore(o.Export(root))
		suite.Equal(e, "an export of the import", third.History(root), o.History(root))
		o.Send("s1", "m3")
		t := o.Take(root)
		suite.Equal(e, "configuration", o.Thread(root).Config, *suite.MainConfig())
		o.Gated(t, 1, agent.GateAsk)
		suite.Equal(e, "gate", o.FirstCall(t, 1).Gate, agent.GateAsk)
	}},
	{Name: "rows that somebody wrote into an export open nothing: they end as closed, or the import is refused", Run: func(e *suite.Env) {
		settled, open := e.Export(e.SettledTree("s1")), e.Export(e.UnderWay("s2"))
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
			o := e.Elsewhere()
			root := c.records[0].Thread.ID
			var planted []memory.ThreadRecord
			for _, r := range c.records {
				r.Rows = bytes.Replace(e.Plant(r.Rows, c.table, c.columns), []byte(`"tables":{`), []byte(`"tables":{`+c.insert), 1)
				planted = append(planted, r)
			}
			_, err := o.S.ImportThreads(e.Ctx, memory.ImportRequest{UserID: suite.User, Threads: planted})
			if err != nil {
				suite.Equal(e, c.name+": "+err.Error(), agent.CodeOf(err), agent.CodeInvalid)
				suite.Equal(e, c.name, len(o.Threads(memory.ThreadFilter{All: true})), 0)
				continue
			}
			o.AtRest(root)
			o.Send(c.records[0].Thread.SessionID, "later")
			t := o.Take(root)
			suite.Equal(e, c.name, o.Thread(root).Config, *suite.MainConfig())
			o.Gated(t, 1, agent.GateAsk)
			suite.Equal(e, c.name, o.FirstCall(t, 1).Gate, agent.GateAsk)
		}
	}},
	{Name: "an import from the future is not the newest for good", Run: func(e *suite.Env) {
		records := e.Export(e.SettledTree("s1"))
		o := e.Elsewhere()
		for i, r := range records {
			records[i].Rows = e.Plant(r.Rows, "threads", map[string]any{"updated_at": 4102444800000})
			records[i].Thread.UpdatedAt = time.UnixMilli(4102444800000).UTC()
		}
		plain := records[0]
		plain.Rows, plain.Thread.ID, plain.Thread.SessionID, plain.Thread.RootThreadID, plain.Messages = nil, "s3/default", "s3", "s3/default", nil
		o.Restore(records)
		o.Restore([]memory.ThreadRecord{plain})
		o.H.Clock.Advance(time.Second)
		o.Send("s2", "m1")
		suite.Equal(e, "newest", o.Threads(memory.ThreadFilter{})[0], "s2/default")
	}},
	{Name: "a configuration of an import never stands where another store has its own", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		o := e.Elsewhere()
		records := e.Export(root)
		records[0].Rows = e.Plant(records[0].Rows, "configs", map[string]any{"body": `{"name":"orchestrator","systemPrompt":"x","approval":{"gated":"auto"}}`})
		o.Restore(records)
		o.Send("s2", "m1")
		o.Take("s2/default")
		suite.Equal(e, "configuration", o.Thread("s2/default").Config, *suite.MainConfig())
	}},
	{Name: "an import that is there already changes nothing, one with other content is refused", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		records := e.Export(root)
		e.Unchanged(root, func() { suite.Equal(e, "present", len(e.Restore(records).Present), 3) })
		records[1].Messages[0].Content = agent.Text("something else")
		e.Unchanged(root, func() {
			suite.Fails(e.S.ImportThreads(e.Ctx, memory.ImportRequest{Threads: records}))(e, agent.CodeConflict)
		})
		records = e.Export(root)
		e.Send("s1", "m2")
		e.Answer(e.Take(root), 1, "it went on")
		e.Unchanged(root, func() { suite.Equal(e, "has gone on", len(e.Restore(records).Present), 3) })
	}},
	{Name: "an import is refused as a whole or not at all", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		child := e.Children(root)[0].ID
		for name, c := range map[string]struct {
			old, planted string // in the rows of the last thread
			spoil        func(r []memory.ThreadRecord) []memory.ThreadRecord
		}{
			"other thread's rows": {old: e.Children(child)[0].ID, planted: child},
			"other user's rows":   {old: `"` + suite.User + `"`, planted: `"` + suite.OtherUser + `"`},
			"newer":               {old: `{"version":1`, planted: `{"version":2`},
			"unknown table":       {old: `"tables":{`, planted: `"tables":{"meta":{"columns":["key","value"],"rows":[["a","b"]]},`},
			"unknown column":      {old: `"agent_id"`, planted: `"agent_id_of_tomorrow"`},
			"no JSON":             {old: `"tables":{`, planted: `"tables":{{`},
			"no parent":           {spoil: func(r []memory.ThreadRecord) []memory.ThreadRecord { return r[1:] }},
			"a gap in seq":        {spoil: func(r []memory.ThreadRecord) []memory.ThreadRecord { r[2].Messages = r[2].Messages[1:]; return r }},
			"ids that contradict": {spoil: func(r []memory.ThreadRecord) []memory.ThreadRecord { r[0].Thread.ID = "s2/default"; return r }},
			"a path for an id":    {spoil: func(r []memory.ThreadRecord) []memory.ThreadRecord { r[0].Thread.ID = "../default"; return r }},
		} {
			records := e.Export(root)
			if c.spoil != nil {
				records = c.spoil(records)
			} else {
				records[2].Rows = bytes.ReplaceAll(records[2].Rows, []byte(c.old), []byte(c.planted))
			}
			o := e.Elsewhere()
			_, err := o.S.ImportThreads(e.Ctx, memory.ImportRequest{UserID: suite.User, Threads: records})
			if agent.CodeOf(err) != agent.CodeInvalid {
				e.Errorf("%s: %v", name, err)
			}
			if left := o.Threads(memory.ThreadFilter{All: true}); len(left) != 0 {
				e.Errorf("%s left %v", name, left)
			}
		}
	}},
	{Name: "other users export, import and delete nothing", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		suite.Fails(e.S.ExportThreads(e.Ctx, memory.ExportRequest{UserID: suite.OtherUser, ThreadID: root}))(e, agent.CodeNotFound)
		e.Unchanged(root, func() {
			suite.Fails(e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: suite.OtherUser, ThreadID: root}))(e, agent.CodeNotFound)
		})
		o := e.Elsewhere()
		suite.Fails(o.S.ImportThreads(e.Ctx, memory.ImportRequest{UserID: suite.OtherUser, Threads: e.Export(root)}))(e, agent.CodeInvalid)
		taken := suite.Message("s1", "x", "mine")
		taken.UserID, taken.ConversationID = suite.OtherUser, "other"
		_ = suite.Must(o.S.Send(e.Ctx, taken))(o)
		suite.Fails(o.S.ImportThreads(e.Ctx, memory.ImportRequest{Threads: e.Export(root)}))(e, agent.CodeConflict)
	}},
	{Name: "messages alone become turns that keep every rule, linked to their parents", Run: func(e *suite.Env) {
		at := e.H.Clock.Now().Add(-time.Hour)
		records := plainTree(at)
		root := records[0].Thread.ID
		suite.Equal(e, "added", len(e.Restore(records).Added), 4)
		e.Sound(root)
		ms := e.Messages(root)
		suite.Equals(e, "messages", len(ms), 8, "time", ms[1].Timestamp, at.Add(time.Second))
		th := e.Thread(root)
		suite.Equal(e, "metadata", [3]any{th.Topic, th.TotalTokens, th.Workdir}, [3]any{"old", int64(30), "/old"})
		suite.Equals(e, "activity", th.UpdatedAt, at.Add(time.Minute), "children", len(e.Children(root)), 2)
		suite.Equals(e, "grandchildren", len(e.Children(records[1].Thread.ID)), 1, "status", th.Status, agent.ThreadFailed)
		turns := suite.Must(e.S.TurnsOf(e.Ctx, root))(e)
		suite.Equal(e, "turns", len(turns), 2)
		suite.Equal(e, "outcomes", [2]agent.ThreadStatus{turns[0].Outcome, turns[1].Outcome}, [2]agent.ThreadStatus{agent.ThreadCompleted, agent.ThreadFailed})
		e.Unchanged(root, func() { suite.Equal(e, "present", len(e.Restore(records).Present), 4) })
		e.Send("1740000000000", "next")
		e.Answer(e.Take(root), 1, "goes on")
	}},
	{Name: "a tree is deleted with everything below it, and the session with its last", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		other := suite.Message("s1", "x", "stays")
		other.ConversationID = "other"
		kept := suite.Must(e.S.Send(e.Ctx, other))(e).ThreadID
		suite.Fails(e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: suite.User, ThreadID: e.Children(root)[0].ID}))(e, agent.CodeInvalid)
		res := suite.Must(e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: suite.User, ThreadID: root}))(e)
		suite.Equal(e, "deleted", [2]any{len(res.Threads), res.Session}, [2]any{3, false})
		suite.Equal(e, "left", e.Threads(memory.ThreadFilter{All: true}), []string{kept})
		suite.Fails(e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: suite.User, ThreadID: root}))(e, agent.CodeNotFound)
		e.Answer(e.Take(kept), 1, "x")
		res = suite.Must(e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: suite.User, ThreadID: kept}))(e)
		suite.Equal(e, "session", res.Session, true)
		// The id is free again, also for somebody else.
		again := suite.Message("s1", "m1", "new")
		again.UserID = suite.OtherUser
		suite.Equal(e, "repeated", suite.Must(e.S.Send(e.Ctx, again))(e).Repeated, false)
	}},
	{Name: "what is at work is not deleted, nor is its tree", Run: func(e *suite.Env) {
		waits := e.Send("s1", "m1").ThreadID
		open := e.Started("s2")
		child := e.Child(open, 1)
		for _, root := range []string{waits, open.ThreadID} {
			e.Unchanged(root, func() {
				suite.Fails(e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: suite.User, ThreadID: root}))(e, agent.CodeConflict)
			})
		}
		t := e.Started("s3")
		e.Take(e.Away(t).ChildThread)
		background := t.ThreadID
		e.Unchanged(background, func() {
			suite.Fails(e.S.DeleteTree(e.Ctx, memory.DeleteRequest{ThreadID: background}))(e, agent.CodeConflict)
		})
		e.Answer(child, 1, "x")
	}},
	{Name: "what was active or restored since is not deleted", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		records := e.Export(root)
		e.H.Clock.Advance(time.Hour)
		since := e.H.Clock.Now()
		old := memory.DeleteRequest{UserID: suite.User, ThreadID: root, IdleSince: since.Add(-2 * time.Hour)}
		suite.Fails(e.S.DeleteTree(e.Ctx, old))(e, agent.CodeConflict)
		old.IdleSince = since
		_ = suite.Must(e.S.DeleteTree(e.Ctx, old))(e)
		e.Restore(records)
		suite.Fails(e.S.DeleteTree(e.Ctx, old))(e, agent.CodeConflict)
		old.IdleSince = since.Add(time.Second)
		_ = suite.Must(e.S.DeleteTree(e.Ctx, old))(e)
	}},
}

// Groups are the cases by subject.
var Groups = []suite.Group{
	{Name: "archive", Rules: archiveRules},
	{Name: "edit", Rules: editRules},
	{Name: "image", Rules: imageRules},
	{Name: "fork", Rules: forkRules},
}
