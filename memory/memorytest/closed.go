package memorytest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// history is the state of a tree but for the agents' configurations, which an
// import does not take over.
func (e *env) history(root string) string {
	e.Helper()
	return e.stateBut(root, func(t *agent.Thread) { t.Config = agent.SpecialistAgentConfig{} })
}

// underWay leaves a conversation open in every way: a tool that was allowed for the
// session, a chosen model, a child that streams, two in the background that wait
// for a decision and an answer, one that has not begun, and a queued message.
func (e *env) underWay(session string) string {
	e.Helper()
	first := message(session, "m1", "text of m1")
	first.Model = "strong"
	t := e.take(must[memory.SendResult](e)(e.s.Send(e.ctx, first)).ThreadID)
	for i, call := range e.assigns(t, 1, 3) {
		r := delegation(call, "researcher")
		r.Background = true
		d := e.open(r)
		switch i {
		case 0:
			child := e.take(d.ChildThread)
			e.gated(child, 1, agent.GateAsk)
			e.ask(child, 1)
		case 1:
			e.questioned(e.take(d.ChildThread), 1, "which?")
		}
	}
	e.saveRound(t, 1)
	e.gated(t, 2, agent.GateAsk)
	e.decide(decision(e.ask(t, 2).ID, memory.ApproveAll))
	e.runTool(e.firstCall(t, 2), "written")
	e.saveRound(t, 2)
	child := e.take(e.delegate(t, 3, "writer").ChildThread)
	attempt := e.begin(child, 1)
	e.ok(e.s.AppendChunk(e.ctx, memory.Chunk{ThreadID: child.ThreadID, TurnID: child.ID, Step: 1, Attempt: attempt, Text: "half an answ\xc3"}))
	e.send(session, "m2")
	return t.ThreadID
}

// atRest checks that nothing in the store makes a worker act.
func (e *env) atRest(root string) {
	e.Helper()
	e.h.Clock.Advance(time.Hour)
	equal(e, "overdue", len(must[[]memory.Overdue](e)(e.s.Overdue(e.ctx, 0, 0))), 0)
	equal(e, "open turns", len(must[[]memory.OpenTurn](e)(e.s.OpenTurns(e.ctx, memory.OpenTurnFilter{}))), 0)
	equal(e, "load", must[memory.Load](e)(e.s.Load(e.ctx)), memory.Load{})
	equal(e, "calls to try again", len(must[[]agent.ModelWait](e)(e.s.ModelWaits(e.ctx, memory.WaitFilter{}))), 0)
	claim := must[memory.Claim](e)(e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: root, RunID: "run", Config: mainConfig()}))
	if claim.Turn != nil {
		e.Fatalf("there is a turn to run: %+v", claim.Turn)
	}
}

// plant sets columns of all rows of a table in an export.
func (e *env) plant(rows json.RawMessage, table string, columns map[string]any) json.RawMessage {
	e.Helper()
	var doc struct {
		Version int `json:"version"`
		Tables  map[string]struct {
			Columns []string            `json:"columns"`
			Rows    [][]json.RawMessage `json:"rows"`
		} `json:"tables"`
	}
	e.ok(json.Unmarshal(rows, &doc))
	for column, v := range columns {
		i := slices.Index(doc.Tables[table].Columns, column)
		for _, row := range doc.Tables[table].Rows {
			row[i] = must[[]byte](e)(json.Marshal(v))
		}
	}
	return must[[]byte](e)(json.Marshal(doc))
}

// archived checks that the tree of a root can be moved to another store.
func (e *env) archived(root string, to *env) {
	e.Helper()
	atRest := must[memory.Load](e)(e.s.Load(e.ctx)) == memory.Load{}
	to.restore(e.export(root))
	to.sound(root)
	if atRest {
		equal(e, "history", to.history(root), e.history(root))
	}
	equal(e, "what is open in the copies", must[memory.Load](to)(to.s.Load(e.ctx)), memory.Load{})
}
