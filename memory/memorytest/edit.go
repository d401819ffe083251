package memorytest

import (
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/port"
)

func said(role agent.Role, id, text string) agent.Message {
	return agent.Message{ID: id, Role: role, Content: agent.Text(text)}
}

// spoken is a question, a call with its result, and an answer.
func spoken(id string) []agent.Message {
	call := said(agent.RoleAssistant, id+"2", "")
	call.ToolCalls = []agent.Call{agent.NewCall("call-"+id, "lookup", `{}`)}
	result := said(agent.RoleTool, id+"3", "found")
	result.ToolCallID = "call-" + id
	return []agent.Message{said(agent.RoleUser, id+"1", "question"), call, result, said(agent.RoleAssistant, id+"4", "answer")}
}

func (e *env) edit(edits ...memory.ThreadEdit) error {
	return e.s.EditThreads(e.ctx, memory.EditRequest{UserID: user, Profile: "default", Edits: edits})
}

// edited makes an edit, twice, and looks at what came of it.
func (e *env) edited(edit memory.ThreadEdit) {
	e.Helper()
	e.ok(e.edit(edit))
	e.unchanged(edit.ThreadID, func() { e.ok(e.edit(edit)) })
	e.sound(edit.ThreadID)
}

// remembered are the ids of what a model is told of a thread.
func (e *env) remembered(threadID string) []string {
	e.Helper()
	ids := []string{}
	for _, m := range e.messages(threadID) {
		if m.SupersededBy == "" {
			ids = append(ids, memory.OriginalID(m.ID))
		}
	}
	return ids
}

var editRules = []rule{
	{"messages are put behind those of a thread at rest, as closed turns, and the next turn goes on from them", func(e *env) {
		t := e.started("s1")
		e.answer(t, 1, "hi")
		e.edited(memory.ThreadEdit{ThreadID: t.ThreadID, Messages: spoken("a")})
		e.edited(memory.ThreadEdit{ThreadID: t.ThreadID, Messages: append(spoken("a"), said(agent.RoleUser, "b1", "unanswered"))})
		equal(e, "remembered", e.remembered(t.ThreadID)[2:], []string{"a1", "a2", "a3", "a4", "b1"})
		turns := must[[]memory.Turn](e)(e.s.TurnsOf(e.ctx, t.ThreadID))
		equal(e, "turns", [3]any{len(turns), turns[1].Answer, turns[2].Outcome}, [3]any{3, "answer", agent.ThreadFailed})
		equal(e, "events", e.eventsOf(t.ThreadID, agent.EventMemoryEdited), []map[string]any{{"appended": 4.0}, {"appended": 1.0}})
		equal(e, "calls", len(must[[]agent.ToolCall](e)(e.s.ToolCalls(e.ctx, t.ThreadID))), 1)
		e.send("s1", "m2")
		e.answer(e.take(t.ThreadID), 1, "more")
		e.sound(t.ThreadID)
	}},
	{"a message makes a conversation; a sub-agent is made by nobody but an agent", func(e *env) {
		e.edited(memory.ThreadEdit{ThreadID: "s1/cli", Messages: spoken("a"), Metadata: &agent.Metadata{Topic: "mine"}})
		th := e.thread("s1/cli")
		equal(e, "thread", [4]any{th.UserID, th.Profile, th.Status, th.Topic}, [4]any{user, "default", agent.ThreadCompleted, "mine"})
		e.code(e.edit(memory.ThreadEdit{ThreadID: "agent:general:x", Messages: spoken("a")}), agent.CodeInvalid)
		e.code(e.edit(memory.ThreadEdit{ThreadID: "s1/none", Metadata: &agent.Metadata{Topic: "x"}}), agent.CodeNotFound)
		e.code(e.edit(memory.ThreadEdit{ThreadID: "none", Messages: spoken("a")}), agent.CodeInvalid)
		foreign := memory.EditRequest{UserID: otherUser, Edits: []memory.ThreadEdit{{ThreadID: "s1/cli", Messages: spoken("b")}}}
		e.unchanged("s1/cli", func() { e.code(e.s.EditThreads(e.ctx, foreign), agent.CodeNotFound) })
	}},
	{"what contradicts itself, or what is there, is refused, and so is an edit of a thread at work", func(e *env) {
		e.edited(memory.ThreadEdit{ThreadID: "s1/default", Messages: spoken("a")})
		odd := said(agent.RoleUser, "x", "x")
		odd.Role = "other"
		for name, list := range map[string][]agent.Message{
			"a call without its result": spoken("b")[:2], "a result without its call": spoken("b")[2:], "an answer in between": {spoken("b")[1], spoken("b")[3]}, "no role": {odd},
		} {
			for _, replace := range []bool{false, true} {
				err := e.edit(memory.ThreadEdit{ThreadID: "s1/default", Messages: list, Replace: replace})
				equal(e, name, agent.CodeOf(err), agent.CodeInvalid)
			}
		}
		e.code(e.edit(memory.ThreadEdit{ThreadID: "s1/default", Messages: []agent.Message{said(agent.RoleUser, "a1", "another")}}), agent.CodeConflict)
		busy := e.send("s1", "m1").ThreadID
		for range 2 { // waiting, then open
			for _, edit := range []memory.ThreadEdit{{Messages: spoken("b")}, {Replace: true, Messages: spoken("b")}, {Delete: true}} {
				edit.ThreadID = busy
				e.unchanged(busy, func() {
					err := e.edit(memory.ThreadEdit{ThreadID: "s1/other", Messages: spoken("c")}, edit)
					e.code(err, agent.CodeConflict)
					contains(e, "reason", err.Error(), "at work")
				})
			}
			if e.thread(busy).OpenTurnID == "" {
				e.take(busy)
			}
		}
		equal(e, "made with a refused edit", len(must[[]agent.Thread](e)(e.s.Threads(e.ctx, memory.ThreadFilter{}))), 1)
	}},
	{"what replaced messages said stays, superseded; models are told the new ones, and summaries of the old ones go", func(e *env) {
		t := e.started("s1")
		e.fullRound(t, 1, 2)
		e.summarise(t, 2, 1, 4, "what was said")
		e.answer(t, 2, "done")
		old := e.messages(t.ThreadID)
		keep := old[0]
		e.edited(memory.ThreadEdit{ThreadID: t.ThreadID, Replace: true, Messages: append([]agent.Message{keep}, spoken("a")...)})
		equal(e, "remembered", e.remembered(t.ThreadID), []string{keep.ID, "a1", "a2", "a3", "a4"})
		all := e.messages(t.ThreadID)
		equal(e, "all", len(all), len(old)+4)
		for i := 1; i < len(old); i++ {
			superseded := all[i]
			superseded.SupersededBy = ""
			equal(e, "what it said", superseded, old[i])
		}
		equal(e, "event", e.eventsOf(t.ThreadID, agent.EventMemoryEdited)[0], map[string]any{"appended": 4.0, "replacedFrom": 2.0, "replacedTo": float64(len(old))})
		equal(e, "summaries", len(must[[]memory.Summary](e)(e.s.Summaries(e.ctx, t.ThreadID))), 0)
		equal(e, "summarizedFrom", e.thread(t.ThreadID).SummarizedFrom, "")
		e.edited(memory.ThreadEdit{ThreadID: t.ThreadID, Replace: true, Messages: old}) // back again
		want := []string{}
		for _, m := range old {
			want = append(want, m.ID)
		}
		equal(e, "remembered again", e.remembered(t.ThreadID), want)
		f := must[memory.ForkResult](e)(e.s.Fork(e.ctx, memory.ForkRequest{UserID: user, ThreadID: t.ThreadID, RequestID: "f1"}))
		equal(e, "in a fork", len(e.remembered(f.ThreadID)), len(old))
		o := e.elsewhere()
		o.restore(e.export(t.ThreadID))
		equal(e, "in an import", o.history(t.ThreadID), e.history(t.ThreadID))
	}},
	{"of metadata people may say what the rows do not count, and use only grows", func(e *env) {
		t := e.started("s1")
		e.answer(t, 1, "hi")
		before := e.thread(t.ThreadID).Metadata
		m := before
		m.Topic, m.TotalTokens, m.RequestCount, m.MessageCount, m.ContextWindow.Total = "mine", before.TotalTokens+7, before.RequestCount+1, 99, 5
		e.edited(memory.ThreadEdit{ThreadID: t.ThreadID, Metadata: &m})
		m.MessageCount = before.MessageCount
		equal(e, "metadata", e.thread(t.ThreadID).Metadata, m)
		e.edited(memory.ThreadEdit{ThreadID: t.ThreadID, Metadata: &before})
		m.Topic, m.ContextWindow = before.Topic, before.ContextWindow
		equal(e, "use", e.thread(t.ThreadID).TotalTokens, m.TotalTokens)
	}},
	{"a deleted conversation is gone with what is below; a sub-agent that is deleted is emptied, and a resume brings it back", func(e *env) {
		root := e.settledTree("s1")
		child := e.children(root)[0].ID
		m := port.AgentStateManager{Store: e.s, UserID: user}
		e.edited(memory.ThreadEdit{ThreadID: child, Delete: true})
		e.sound(root)
		equal(e, "remembered", len(e.remembered(child)), 0)
		equal(e, "listed", slices.Contains(e.listed(m.GetAll(e.ctx)), child), false)
		e.edited(memory.ThreadEdit{ThreadID: child, Messages: spoken("a")})
		equal(e, "listed again", slices.Contains(e.listed(m.GetAll(e.ctx)), child), true)
		e.edited(memory.ThreadEdit{ThreadID: "s2/default", Messages: spoken("a")})
		edits := []memory.ThreadEdit{{ThreadID: child, Delete: true}, {ThreadID: root, Delete: true}, {ThreadID: "s2/default", Delete: true}}
		e.ok(e.edit(edits...))
		e.ok(e.edit(edits...))
		equal(e, "threads", len(must[[]agent.Thread](e)(e.s.Threads(e.ctx, memory.ThreadFilter{All: true}))), 0)
	}},
	{"an edit that relies on what has changed since is stale", func(e *env) {
		t := e.started("s1")
		e.answer(t, 1, "hi")
		r := memory.EditRequest{UserID: user, Seen: map[string]int64{t.ThreadID: int64(len(e.events(t.ThreadID))), "s2/default": -1}, Edits: []memory.ThreadEdit{{ThreadID: t.ThreadID, Messages: spoken("a")}}}
		e.ok(e.s.EditThreads(e.ctx, r))
		r.Edits[0].Messages = spoken("b")
		e.unchanged(t.ThreadID, func() { e.stale(e.s.EditThreads(e.ctx, r)) })
		r.Seen = map[string]int64{"s2/default": 1}
		e.stale(e.s.EditThreads(e.ctx, r))
	}},
}
