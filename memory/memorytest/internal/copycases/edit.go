package copycases

import (
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
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

var editRules = []suite.Rule{
	{Name: "messages are put behind those of a thread at rest, as closed turns, and the next turn goes on from them", Turn: func(e *suite.Env, t memory.Turn) {
		e.Answer(t, 1, "hi")
		e.Edited(memory.ThreadEdit{ThreadID: t.ThreadID, Messages: spoken("a")})
		e.Edited(memory.ThreadEdit{ThreadID: t.ThreadID, Messages: append(spoken("a"), said(agent.RoleUser, "b1", "unanswered"))})
		suite.Equal(e, "remembered", e.Remembered(t.ThreadID)[2:], []string{"a1", "a2", "a3", "a4", "b1"})
		turns := suite.Must(e.S.TurnsOf(e.Ctx, t.ThreadID))(e)
		suite.Equal(e, "turns", [3]any{len(turns), turns[1].Answer, turns[2].Outcome}, [3]any{3, "answer", agent.ThreadFailed})
		suite.Equal(e, "events", e.EventsOf(t.ThreadID, agent.EventMemoryEdited), []map[string]any{{"appended": 4.0}, {"appended": 1.0}})
		suite.Equal(e, "calls", len(suite.Must(e.S.ToolCalls(e.Ctx, t.ThreadID))(e)), 1)
		e.Send("s1", "m2")
		e.Answer(e.Take(t.ThreadID), 1, "more")
	}},
	{Name: "a message makes a conversation; a sub-agent is made by nobody but an agent", Run: func(e *suite.Env) {
		e.Edited(memory.ThreadEdit{ThreadID: "s1/cli", Messages: spoken("a"), Metadata: &agent.Metadata{Topic: "mine"}})
		th := e.Thread("s1/cli")
		suite.Equal(e, "thread", [4]any{th.UserID, th.Profile, th.Status, th.Topic}, [4]any{suite.User, "default", agent.ThreadCompleted, "mine"})
		e.Code(e.Edit(memory.ThreadEdit{ThreadID: "agent:general:x", Messages: spoken("a")}), agent.CodeInvalid)
		e.Code(e.Edit(memory.ThreadEdit{ThreadID: "s1/none", Metadata: &agent.Metadata{Topic: "x"}}), agent.CodeNotFound)
		e.Code(e.Edit(memory.ThreadEdit{ThreadID: "none", Messages: spoken("a")}), agent.CodeInvalid)
		foreign := memory.EditRequest{UserID: suite.OtherUser, Edits: []memory.ThreadEdit{{ThreadID: "s1/cli", Messages: spoken("b")}}}
		e.Unchanged("s1/cli", func() { e.Code(e.S.EditThreads(e.Ctx, foreign), agent.CodeConflict) })
	}},
	{Name: "what contradicts itself, or what is there, is refused, and so is an edit of a thread at work", Run: func(e *suite.Env) {
		e.Edited(memory.ThreadEdit{ThreadID: "s1/default", Messages: spoken("a")})
		odd := said(agent.RoleUser, "x", "x")
		odd.Role = "other"
		for name, list := range map[string][]agent.Message{
			"a call without its result": spoken("b")[:2], "a result without its call": spoken("b")[2:], "an answer in between": {spoken("b")[1], spoken("b")[3]}, "no role": {odd},
		} {
			for _, replace := range []bool{false, true} {
				err := e.Edit(memory.ThreadEdit{ThreadID: "s1/default", Messages: list, Replace: replace})
				suite.Equal(e, name, agent.CodeOf(err), agent.CodeInvalid)
			}
		}
		e.Code(e.Edit(memory.ThreadEdit{ThreadID: "s1/default", Messages: []agent.Message{said(agent.RoleUser, "a1", "another")}}), agent.CodeConflict)
		busy := e.Send("s1", "m1").ThreadID
		for range 2 { // waiting, then open
			for _, edit := range []memory.ThreadEdit{{Messages: spoken("b")}, {Replace: true, Messages: spoken("b")}, {Delete: true}} {
				edit.ThreadID = busy
				e.Unchanged(busy, func() {
					err := e.Edit(memory.ThreadEdit{ThreadID: "s1/other", Messages: spoken("c")}, edit)
					e.Code(err, agent.CodeConflict)
					suite.Contains(e, "reason", err.Error(), "at work")
				})
			}
			if e.Thread(busy).OpenTurnID == "" {
				e.Take(busy)
			}
		}
		suite.Equal(e, "made with a refused edit", len(suite.Must(e.S.Threads(e.Ctx, memory.ThreadFilter{}))(e)), 1)
	}},
	{Name: "what replaced messages said stays, superseded; models are told the new ones, and summaries of the old ones go", Turn: func(e *suite.Env, t memory.Turn) {
		e.FullRound(t, 1, 2)
		e.Summarise(t, 2, 1, 4, "what was said")
		e.Answer(t, 2, "done")
		old := e.Messages(t.ThreadID)
		keep := old[0]
		e.Edited(memory.ThreadEdit{ThreadID: t.ThreadID, Replace: true, Messages: append([]agent.Message{keep}, spoken("a")...)})
		suite.Equal(e, "remembered", e.Remembered(t.ThreadID), []string{keep.ID, "a1", "a2", "a3", "a4"})
		all := e.Messages(t.ThreadID)
		suite.Equal(e, "all", len(all), len(old)+4)
		for i := 1; i < len(old); i++ {
			superseded := all[i]
			superseded.SupersededBy = ""
			suite.Equal(e, "what it said", superseded, old[i])
		}
		suite.Equal(e, "event", e.EventsOf(t.ThreadID, agent.EventMemoryEdited)[0], map[string]any{"appended": 4.0, "replacedFrom": 2.0, "replacedTo": float64(len(old))})
		suite.Equal(e, "summaries", len(suite.Must(e.S.Summaries(e.Ctx, t.ThreadID))(e)), 0)
		suite.Equal(e, "summarizedFrom", e.Thread(t.ThreadID).SummarizedFrom, "")
		e.Edited(memory.ThreadEdit{ThreadID: t.ThreadID, Replace: true, Messages: old}) // back again
		want := []string{}
		for _, m := range old {
			want = append(want, m.ID)
		}
		suite.Equal(e, "remembered again", e.Remembered(t.ThreadID), want)
		f := suite.Must(e.S.Fork(e.Ctx, memory.ForkRequest{UserID: suite.User, ThreadID: t.ThreadID, RequestID: "f1"}))(e)
		suite.Equal(e, "in a fork", len(e.Remembered(f.ThreadID)), len(old))
		o := e.Elsewhere()
		o.Restore(e.Export(t.ThreadID))
		suite.Equal(e, "in an import", o.History(t.ThreadID), e.History(t.ThreadID))
	}},
	{Name: "of metadata people may say what the rows do not count, and use only grows", Turn: func(e *suite.Env, t memory.Turn) {
		e.Answer(t, 1, "hi")
		before := e.Thread(t.ThreadID).Metadata
		m := before
		m.Topic, m.TotalTokens, m.RequestCount, m.MessageCount, m.ContextWindow.Total = "mine", before.TotalTokens+7, before.RequestCount+1, 99, 5
		e.Edited(memory.ThreadEdit{ThreadID: t.ThreadID, Metadata: &m})
		m.MessageCount = before.MessageCount
		suite.Equal(e, "metadata", e.Thread(t.ThreadID).Metadata, m)
		e.Edited(memory.ThreadEdit{ThreadID: t.ThreadID, Metadata: &before})
		m.Topic, m.ContextWindow = before.Topic, before.ContextWindow
		suite.Equal(e, "use", e.Thread(t.ThreadID).TotalTokens, m.TotalTokens)
	}},
	{Name: "a deleted conversation is gone with what is below; a sub-agent that is deleted is emptied, and a resume brings it back", Run: func(e *suite.Env) {
		root := e.SettledTree("s1")
		child := e.Children(root)[0].ID
		m := port.AgentStateManager{Store: e.S, UserID: suite.User}
		e.Edited(memory.ThreadEdit{ThreadID: child, Delete: true})
		e.Sound(root)
		suite.Equals(e, "remembered", len(e.Remembered(child)), 0, "listed", slices.Contains(e.Listed(m.GetAll(e.Ctx)), child), false)
		e.Edited(memory.ThreadEdit{ThreadID: child, Messages: spoken("a")})
		suite.Equal(e, "listed again", slices.Contains(e.Listed(m.GetAll(e.Ctx)), child), true)
		e.Edited(memory.ThreadEdit{ThreadID: "s2/default", Messages: spoken("a")})
		edits := []memory.ThreadEdit{{ThreadID: child, Delete: true}, {ThreadID: root, Delete: true}, {ThreadID: "s2/default", Delete: true}}
		e.Ok(e.Edit(edits...))
		e.Ok(e.Edit(edits...))
		suite.Equal(e, "threads", len(suite.Must(e.S.Threads(e.Ctx, memory.ThreadFilter{All: true}))(e)), 0)
	}},
	{Name: "an edit that relies on what has changed since is stale", Turn: func(e *suite.Env, t memory.Turn) {
		e.Answer(t, 1, "hi")
		r := memory.EditRequest{UserID: suite.User, Seen: map[string]int64{t.ThreadID: int64(len(e.Events(t.ThreadID))), "s2/default": -1}, Edits: []memory.ThreadEdit{{ThreadID: t.ThreadID, Messages: spoken("a")}}}
		e.Ok(e.S.EditThreads(e.Ctx, r))
		r.Edits[0].Messages = spoken("b")
		e.Unchanged(t.ThreadID, func() { e.Stale(e.S.EditThreads(e.Ctx, r)) })
		r.Seen = map[string]int64{"s2/default": 1}
		e.Stale(e.S.EditThreads(e.Ctx, r))
	}},
}
