package suite

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

func (e *Env) Elsewhere() *Env {
	other := *e
	other.S = e.H.Open(e.T)
	return &other
}

func (e *Env) Export(root string) []memory.ThreadRecord {
	return Must(e.S.ExportThreads(e.Ctx, memory.ExportRequest{UserID: User, ThreadID: root, Below: true}))(e)
}

func (e *Env) Restore(records []memory.ThreadRecord) memory.ImportResult {
	return Must(e.S.ImportThreads(e.Ctx, memory.ImportRequest{UserID: User, Profile: "default", Threads: records}))(e)
}

// SettledTree is a main thread with a turn that ran tools, asked and delegated.
func (e *Env) SettledTree(session string) string {
	t := e.Started(session)
	for _, c := range e.Calls(t, 1, 2) {
		e.RunTool(c, "found")
		e.H.Clock.Advance(time.Second)
	}
	e.SaveRound(t, 1)
	e.Gated(t, 2, agent.GateAsk)
	e.Decide(Decision(e.Ask(t, 2).ID, memory.ApproveAll))
	e.RunTool(e.FirstCall(t, 2), "written")
	e.SaveRound(t, 2)
	d := e.Delegate(t, 3, "researcher")
	child := e.Take(d.ChildThread)
	grandchild := e.Take(e.Delegate(child, 1, "writer").ChildThread)
	e.Answer(grandchild, 1, "a page")
	e.TakeResult(e.FirstCall(child, 1))
	e.SaveRound(child, 1)
	e.Answer(child, 2, "the finding")
	e.TakeResult(e.FirstCall(t, 3))
	e.SaveRound(t, 3)
	e.AnswerTo(e.Questioned(t, 4, "a?")[0].ID, "x")
	e.SaveRound(t, 4)
	e.Answer(t, 5, "all done")
	return t.ThreadID
}

// rightAlready checks that there is nothing to repair.
func (e *Env) rightAlready(threadID string) {
	if done := Must(e.S.Repair(e.Ctx, threadID))(e); len(done) > 0 {
		e.Fatalf("a repair of %s, which keeps every rule, did %q", threadID, done)
	}
	for _, c := range e.Children(threadID) {
		e.rightAlready(c.ID)
	}
}

// History is the state of a tree but for the agents' configurations, which an
// import does not take over.
func (e *Env) History(root string) string {
	return e.stateBut(root, func(t *agent.Thread) { t.Config = agent.SpecialistAgentConfig{} })
}

// UnderWay leaves a conversation open in every way: a tool that was allowed for the
// session, a chosen model, a child that streams, two in the background that wait
// for a decision and an answer, one that has not begun, and a queued message.
func (e *Env) UnderWay(session string) string {
	first := Message(session, "m1", "text of m1")
	first.Model = "strong"
	t := e.Take(Must(e.S.Send(e.Ctx, first))(e).ThreadID)
	for i, call := range e.Assigns(t, 1, 3) {
		r := Delegation(call, "researcher")
		r.Background = true
		d := e.Open(r)
		switch i {
		case 0:
			child := e.Take(d.ChildThread)
			e.Gated(child, 1, agent.GateAsk)
			e.Ask(child, 1)
		case 1:
			e.Questioned(e.Take(d.ChildThread), 1, "which?")
		}
	}
	e.SaveRound(t, 1)
	e.Gated(t, 2, agent.GateAsk)
	e.Decide(Decision(e.Ask(t, 2).ID, memory.ApproveAll))
	e.RunTool(e.FirstCall(t, 2), "written")
	e.SaveRound(t, 2)
	child := e.Take(e.Delegate(t, 3, "writer").ChildThread)
	attempt := e.Begin(child, 1)
	e.Ok(e.S.AppendChunk(e.Ctx, memory.Chunk{ThreadID: child.ThreadID, TurnID: child.ID, Step: 1, Attempt: attempt, Text: "half an answ\xc3"}))
	e.Send(session, "m2")
	return t.ThreadID
}

func (e *Env) AtRest(root string) {
	e.H.Clock.Advance(time.Hour)
	Equal(e, "overdue", len(Must(e.S.Overdue(e.Ctx, 0, 0))(e)), 0)
	Equal(e, "open turns", len(Must(e.S.OpenTurns(e.Ctx, memory.OpenTurnFilter{}))(e)), 0)
	Equal(e, "load", Must(e.S.Load(e.Ctx))(e), memory.Load{})
	Equal(e, "calls to try again", len(Must(e.S.ModelWaits(e.Ctx, memory.WaitFilter{}))(e)), 0)
	claim := Must(e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: root, RunID: "run", Config: MainConfig()}))(e)
	if claim.Turn != nil {
		e.Fatalf("there is a turn to run: %+v", claim.Turn)
	}
}

func (e *Env) Plant(rows json.RawMessage, table string, columns map[string]any) json.RawMessage {
	var doc struct {
		Version int `json:"version"`
		Tables  map[string]struct {
			Columns []string            `json:"columns"`
			Rows    [][]json.RawMessage `json:"rows"`
		} `json:"tables"`
	}
	e.Ok(json.Unmarshal(rows, &doc))
	for column, v := range columns {
		i := slices.Index(doc.Tables[table].Columns, column)
		for _, row := range doc.Tables[table].Rows {
			row[i] = Must(json.Marshal(v))(e)
		}
	}
	return Must(json.Marshal(doc))(e)
}

// Archived checks that the tree of a root can be moved to another store.
func (e *Env) Archived(root string, to *Env) {
	atRest := Must(e.S.Load(e.Ctx))(e) == memory.Load{}
	to.Restore(e.Export(root))
	to.Sound(root)
	if atRest {
		Equal(e, "history", to.History(root), e.History(root))
	}
	Equal(e, "what is open in the copies", Must(to.S.Load(e.Ctx))(to), memory.Load{})
}

func (e *Env) Edit(edits ...memory.ThreadEdit) error {
	return e.S.EditThreads(e.Ctx, memory.EditRequest{UserID: User, Profile: "default", Edits: edits})
}

func (e *Env) Edited(edit memory.ThreadEdit) {
	e.Ok(e.Edit(edit))
	e.Unchanged(edit.ThreadID, func() { e.Ok(e.Edit(edit)) })
	e.Sound(edit.ThreadID)
}

func (e *Env) Remembered(threadID string) []string {
	ids := []string{}
	for _, m := range e.Messages(threadID) {
		if m.SupersededBy == "" {
			ids = append(ids, memory.OriginalID(m.ID))
		}
	}
	return ids
}

func ForkRequest(threadID, at, request string) memory.ForkRequest {
	return memory.ForkRequest{UserID: User, ThreadID: threadID, RequestID: request, At: at}
}

// Fork forks a conversation and checks what holds of every fork: the original is
// as it was, the copy keeps every rule, names nothing of the original and says
// what the original said up to there.
func (e *Env) Fork(threadID, at, request string) memory.ForkResult {
	var res memory.ForkResult
	e.Unchanged(threadID, func() {
		res = Must(e.S.Fork(e.Ctx, ForkRequest(threadID, at, request)))(e)
	})
	if res.Repeated {
		e.Fatalf("the first fork of %s is called a repetition", threadID)
	}
	e.forked(threadID, res)
	return res
}

func (e *Env) forked(threadID string, res memory.ForkResult) {
	e.Sound(res.ThreadID)
	ids := e.idsOf(threadID)
	for _, pair := range append([]memory.ForkedThread{{ThreadID: res.ThreadID, FromThread: threadID}}, res.SubAgents...) {
		e.sameTalk(pair, ids)
		th := e.Thread(pair.ThreadID)
		if th.OpenTurnID != "" || !th.Status.Final() {
			e.Fatalf("the copy %s is %s, open turn %q", th.ID, th.Status, th.OpenTurnID)
		}
		for _, x := range e.Inbox(th.ID) {
			if x.State == memory.EntryWaiting && !x.Quiet {
				e.Fatalf("entry %s (%s) waits in the copy %s", x.ID, x.Kind, th.ID)
			}
		}
	}
	copied := e.State(res.ThreadID)
	for _, old := range ids {
		if strings.Contains(copied, old) {
			e.Fatalf("the copy names %s of the original: %s", old, copied)
		}
	}
}

// sameTalk checks that a copy's messages are the first ones of its original, but
// for the ids in them.
func (e *Env) sameTalk(pair memory.ForkedThread, ids []string) {
	old, copied := e.Messages(pair.FromThread), e.Messages(pair.ThreadID)
	if len(copied) > len(old) {
		e.Fatalf("%s has %d messages, its original %d", pair.ThreadID, len(copied), len(old))
	}
	for i, m := range copied {
		o := old[i]
		Equal(e, "message", [5]any{m.Seq, m.Role, m.Timestamp, m.Partial, len(m.ToolCalls)}, [5]any{o.Seq, o.Role, o.Timestamp, o.Partial, len(o.ToolCalls)})
		if m.ID == o.ID {
			e.Fatalf("message %s has the id of the original", m.ID)
		}
		if !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(o.Content.String(), id) }) {
			Equal(e, "content", m.Content, o.Content)
		}
	}
}

// idsOf are the ids that a tree has made, as they would stand in a text.
func (e *Env) idsOf(root string) []string {
	ids := []string{`"` + root + `"`}
	for todo := []string{root}; len(todo) > 0; todo = todo[1:] {
		for _, t := range Must(e.S.TurnsOf(e.Ctx, todo[0]))(e) {
			ids = append(ids, strings.TrimPrefix(t.ID, "t"))
		}
		for _, c := range e.Children(todo[0]) {
			ids = append(ids, c.AgentID)
			todo = append(todo, c.ID)
		}
	}
	return ids
}

// GoesOn checks that a conversation takes a message and answers it.
func (e *Env) GoesOn(threadID, id string) {
	r := memory.SendRequest{UserID: User, ThreadID: threadID, MessageID: id, Content: agent.Text("go on"), WhenBusy: memory.Queue}
	Equal(e, "idle", Must(e.S.Send(e.Ctx, r))(e).Idle, true)
	e.Answer(e.Take(threadID), 1, "it goes on")
	e.Sound(threadID)
}
