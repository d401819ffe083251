package turncases

import (
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var livesRules = []suite.Rule{
	{Name: "a session that is deleted and made again gives its turns other ids, and nothing of the old one counts", Run: func(e *suite.Env) {
		old := e.Started("s1")
		attempt := e.Begin(old, 1)
		e.Close(suite.Cancelled(old, 1)) // a worker that is paused does not hear of it
		e.Remove(old.ThreadID)
		e.H.Clock.Advance(time.Second)
		made := e.Started("s1")
		if made.ID == old.ID {
			e.Fatalf("both turns have the id %s", old.ID)
		}
		e.Begin(made, 1)
		e.Unchanged(made.ThreadID, func() {
			_, err := e.S.SaveReply(e.Ctx, suite.Record(old, 1, attempt, "of the deleted session"))
			e.Stale(err)
		})
		e.Answer2(made, 1, 1, "of the new one")
		e.Sound(made.ThreadID)
	}},
	{Name: "a turn whose run is gone is completed if its final reply is stored, and no next turn is opened", Run: func(e *suite.Env) {
		t := e.Started("s1")
		next := e.Send("s1", "m2")
		attempt := e.Begin(t, 1)
		suite.Must(e.S.SaveReply(e.Ctx, suite.Record(t, 1, attempt, "the answer")))(e)
		closed := e.Terminated(t, 1)
		suite.Equal(e, "outcome", [2]any{closed.Outcome, closed.Next}, [2]any{agent.ThreadCompleted, ""})
		suite.Equal(e, "answer", suite.Must(e.S.Turn(e.Ctx, t.ID))(e).Answer, "the answer")
		suite.Equal(e, "next", e.Take(t.ThreadID).ID, next.TurnID)
		e.Sound(t.ThreadID)
	}},
	{Name: "how long a thread is overdue is told by the store's clock", Run: func(e *suite.Env) {
		t := e.Started("s1")
		e.RequestCancel(suite.CancelOf(t))
		e.H.Clock.Advance(time.Hour)
		suite.Equal(e, "age", e.Overdue(time.Second)[t.ThreadID].Age, time.Hour)
	}},
}
