package copycases

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
)

var imageRules = []suite.Rule{
	{Name: "an image is kept by its content, once, and is read as it was given", Run: func(e *suite.Env) {
		name := e.Keep(1)
		suite.Equal(e, "again", e.Keep(1), name)
		if e.Keep(2) == name || !agent.CheckImageName(name) {
			e.Fatalf("name %s", name)
		}
		e.Kept(1, true)
		e.Kept(2, true)
		e.Kept(3, false)
		for _, data := range [][]byte{nil, []byte("<svg/>"), suite.Picture(1)[:20], append(suite.Picture(1), make([]byte, agent.MaxImage)...)} {
			suite.Fails(e.S.KeepImage(e.Ctx, data))(e, agent.CodeInvalid)
		}
		suite.Fails(e.S.Image(e.Ctx, "../x\x00"))(e, agent.CodeNotFound)
	}},
	{Name: "a message that shows an image which is not kept is refused, and repeating one that was sent is not", Run: func(e *suite.Env) {
		name := e.Keep(1)
		r := suite.Showing(suite.Message("s1", "m1", "look"), name)
		sent := suite.Must(e.S.Send(e.Ctx, r))(e)
		missing := suite.Must(agent.ImageName(suite.Picture(2)))(e)
		e.Unchanged(sent.ThreadID, func() {
			said := suite.Fails(e.S.Send(e.Ctx, suite.Showing(suite.Message("s1", "m2", "look"), name, missing)))(e, agent.CodeInvalid)
			suite.Contains(e, "error", said, missing)
			suite.Equal(e, "repeated", suite.Must(e.S.Send(e.Ctx, r))(e).Repeated, true)
		})
	}},
	{Name: "an image stays as long as a thread refers to it, or for a day for a message to come", Run: func(e *suite.Env) {
		name := e.Keep(1)
		first, second := e.Show("s1", name), e.Show("s2", name)
		e.H.Clock.Advance(48 * time.Hour)
		e.Sound(first)
		e.Remove(first)
		e.Kept(1, true)
		e.Remove(second)
		e.Kept(1, false)
		e.Keep(1)
		old := e.Show("s1", e.Keep(2))
		e.H.Clock.Advance(20 * time.Hour)
		name = e.Keep(2) // for a message to come
		e.Keep(3)
		e.Remove(old)
		for n := range 3 {
			e.Kept(n+1, true)
		}
		e.H.Clock.Advance(5 * time.Hour)
		e.Keep(4)
		e.Kept(1, false)
		e.Sound(e.Show("s2", name))
		e.H.Clock.Advance(48 * time.Hour)
		e.Remove(e.Show("s3", e.Keep(4)))
		e.Kept(2, true)
		e.Kept(3, false)
		e.Kept(4, false)
	}},
	{Name: "an image that a result names, or a fork shows, stays with that thread", Turn: func(e *suite.Env, t memory.Turn) {
		e.RunTool(e.Calls(t, 1, 1)[0], "a chart: "+agent.ImageScheme+e.Keep(1))
		e.H.Clock.Advance(48 * time.Hour)
		e.Keep(2)
		e.Kept(1, true)
		e.SaveRound(t, 1)
		e.Answer(t, 2, "done")
		fork := suite.Must(e.S.Fork(e.Ctx, suite.ForkRequest(t.ThreadID, "", "f")))(e)
		e.Remove(t.ThreadID)
		e.Kept(1, true)
		e.Sound(fork.ThreadID)
		e.Remove(fork.ThreadID)
		e.Kept(1, false)
	}},
	{Name: "an import refers to its images, whichever comes first", Run: func(e *suite.Env) {
		t := e.Show("s1", e.Keep(1))
		records := e.Export(t)
		for _, before := range []bool{true, false} {
			other := e.Elsewhere()
			if before {
				other.Keep(1)
			}
			other.Restore(records)
			if !before {
				found := suite.Must(other.S.Audit(other.Ctx, t))(other)
				if len(found) != 1 || found[0].Kind != memory.FoundLost || found[0].Mendable {
					other.Fatalf("findings %+v", found)
				}
				suite.Contains(other, "finding", found[0].Detail, records[0].Messages[0].Content.Images()[0])
				other.Keep(1)
			}
			other.H.Clock.Advance(48 * time.Hour)
			other.Keep(2)
			other.Kept(1, true)
			other.Sound(t)
		}
		plain := e.Elsewhere()
		plain.Keep(1)
		plain.Restore([]memory.ThreadRecord{{Thread: records[0].Thread, Messages: records[0].Messages}})
		plain.H.Clock.Advance(48 * time.Hour)
		plain.Keep(2)
		plain.Kept(1, true)
	}},
	{Name: "a message with an image answers no question: the image would be lost", Turn: func(e *suite.Env, t memory.Turn) {
		e.Questioned(t, 1, "which one?")
		r := suite.Showing(suite.Message("s1", "m2", "this one"), e.Keep(1))
		r.WhenBusy = ""
		suite.Fails(e.S.Send(e.Ctx, r))(e, agent.CodeConflict)
		r.WhenBusy = memory.Queue
		suite.Must(e.S.Send(e.Ctx, r))(e)
	}},
	{Name: "images kept, sent and removed by several at once are there for every message that was taken", Run: func(e *suite.Env) {
		const rounds = 12
		e.AtOnce(3, func(w int) (err error) {
			for i := range rounds {
				err = errors.Join(err, e.ShowAndRemove(fmt.Sprintf("s%d-%d", w, i), i%3 == 2))
			}
			return err
		})
		list := suite.Must(e.S.Threads(e.Ctx, memory.ThreadFilter{UserID: suite.User}))(e)
		if !slices.ContainsFunc(list, func(t agent.Thread) bool { return t.SessionID == "s2-2" }) {
			e.Fatalf("%d threads are left", len(list))
		}
		for _, t := range list {
			found := suite.Must(e.S.Audit(e.Ctx, t.ID))(e)
			suite.Equal(e, "findings of "+t.ID, len(found), 0)
			e.Remove(t.ID)
		}
		e.Kept(1, false)
	}},
}
