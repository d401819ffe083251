package memorytest

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Picture is a PNG, another one for each n.
func Picture(n int) []byte {
	img := image.NewGray(image.Rect(0, 0, 2, 2))
	img.SetGray(0, 0, color.Gray{Y: uint8(n)})
	img.SetGray(1, 1, color.Gray{Y: uint8(n >> 8)})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // not of this image
	}
	return b.Bytes()
}

// Showing is a message that shows kept images.
func Showing(r memory.SendRequest, names ...string) memory.SendRequest {
	r.Content = agent.Content{Parts: []agent.Part{{Type: "text", Text: r.Content.String()}}}
	for _, name := range names {
		r.Content.Parts = append(r.Content.Parts, agent.Part{Type: "image_url", ImageURL: &agent.ImageURL{URL: agent.ImageScheme + name}})
	}
	return r
}

func (e *env) keep(n int) string {
	e.Helper()
	return must[string](e)(e.s.KeepImage(e.ctx, Picture(n)))
}

// show sends a message with images in a session of its own and answers it.
func (e *env) show(session string, names ...string) string {
	e.Helper()
	sent := must[memory.SendResult](e)(e.s.Send(e.ctx, Showing(message(session, "m1", "look"), names...)))
	e.answer(e.take(sent.ThreadID), 1, "seen")
	return sent.ThreadID
}

func (e *env) remove(threadID string) {
	e.Helper()
	must[memory.DeleteResult](e)(e.s.DeleteTree(e.ctx, memory.DeleteRequest{UserID: user, ThreadID: threadID}))
}

// kept checks that the n-th picture is there, or is not.
func (e *env) kept(n int, want bool) {
	e.Helper()
	name := must[string](e)(agent.ImageName(Picture(n)))
	data, err := e.s.Image(e.ctx, name)
	if !want {
		e.code(err, agent.CodeNotFound)
		return
	}
	e.ok(err)
	if !bytes.Equal(data, Picture(n)) {
		e.Fatalf("image %d has other bytes", n)
	}
}

var imageRules = []rule{
	{"an image is kept by its content, once, and is read as it was given", func(e *env) {
		name := e.keep(1)
		equal(e, "again", e.keep(1), name)
		if e.keep(2) == name || !agent.CheckImageName(name) {
			e.Fatalf("name %s", name)
		}
		e.kept(1, true)
		e.kept(2, true)
		e.kept(3, false)
		for _, data := range [][]byte{nil, []byte("<svg/>"), Picture(1)[:20], append(Picture(1), make([]byte, agent.MaxImage)...)} {
			_, err := e.s.KeepImage(e.ctx, data)
			e.code(err, agent.CodeInvalid)
		}
		_, err := e.s.Image(e.ctx, "../x\x00")
		e.code(err, agent.CodeNotFound)
	}},
	{"a message that shows an image which is not kept is refused, and repeating one that was sent is not", func(e *env) {
		name := e.keep(1)
		r := Showing(message("s1", "m1", "look"), name)
		sent := must[memory.SendResult](e)(e.s.Send(e.ctx, r))
		missing := must[string](e)(agent.ImageName(Picture(2)))
		e.unchanged(sent.ThreadID, func() {
			_, err := e.s.Send(e.ctx, Showing(message("s1", "m2", "look"), name, missing))
			e.code(err, agent.CodeInvalid)
			contains(e, "error", err.Error(), missing)
			equal(e, "repeated", must[memory.SendResult](e)(e.s.Send(e.ctx, r)).Repeated, true)
		})
	}},
	{"an image stays as long as a thread refers to it, or for a day for a message to come", func(e *env) {
		name := e.keep(1)
		first, second := e.show("s1", name), e.show("s2", name)
		e.h.Clock.Advance(48 * time.Hour)
		e.sound(first)
		e.remove(first)
		e.kept(1, true)
		e.remove(second)
		e.kept(1, false)
		e.keep(1)
		old := e.show("s1", e.keep(2))
		e.h.Clock.Advance(20 * time.Hour)
		name = e.keep(2) // for a message to come
		e.keep(3)
		e.remove(old)
		for n := range 3 {
			e.kept(n+1, true)
		}
		e.h.Clock.Advance(5 * time.Hour)
		e.keep(4)
		e.kept(1, false)
		e.sound(e.show("s2", name))
		e.h.Clock.Advance(48 * time.Hour)
		e.remove(e.show("s3", e.keep(4)))
		e.kept(2, true)
		e.kept(3, false)
		e.kept(4, false)
	}},
	{"an image that a result names, or a fork shows, stays with that thread", func(e *env) {
		t := e.started("s1")
		e.runTool(e.calls(t, 1, 1)[0], "a chart: "+agent.ImageScheme+e.keep(1))
		e.h.Clock.Advance(48 * time.Hour)
		e.keep(2)
		e.kept(1, true)
		e.saveRound(t, 1)
		e.answer(t, 2, "done")
		fork := must[memory.ForkResult](e)(e.s.Fork(e.ctx, forkRequest(t.ThreadID, "", "f")))
		e.remove(t.ThreadID)
		e.kept(1, true)
		e.sound(fork.ThreadID)
		e.remove(fork.ThreadID)
		e.kept(1, false)
	}},
	{"an import refers to its images, whichever comes first", func(e *env) {
		t := e.show("s1", e.keep(1))
		records := e.export(t)
		for _, before := range []bool{true, false} {
			other := e.elsewhere()
			if before {
				other.keep(1)
			}
			other.restore(records)
			if !before {
				found := must[[]memory.Finding](other)(other.s.Audit(other.ctx, t))
				if len(found) != 1 || found[0].Kind != memory.FoundLost || found[0].Mendable {
					other.Fatalf("findings %+v", found)
				}
				contains(other, "finding", found[0].Detail, records[0].Messages[0].Content.Images()[0])
				other.keep(1)
			}
			other.h.Clock.Advance(48 * time.Hour)
			other.keep(2)
			other.kept(1, true)
			other.sound(t)
		}
		plain := e.elsewhere()
		plain.keep(1)
		plain.restore([]memory.ThreadRecord{{Thread: records[0].Thread, Messages: records[0].Messages}})
		plain.h.Clock.Advance(48 * time.Hour)
		plain.keep(2)
		plain.kept(1, true)
	}},
	{"a message with an image answers no question: the image would be lost", func(e *env) {
		t := e.started("s1")
		e.questioned(t, 1, "which one?")
		r := Showing(message("s1", "m2", "this one"), e.keep(1))
		r.WhenBusy = ""
		_, err := e.s.Send(e.ctx, r)
		e.code(err, agent.CodeConflict)
		r.WhenBusy = memory.Queue
		must[memory.SendResult](e)(e.s.Send(e.ctx, r))
	}},
	{"images kept, sent and removed by several at once are there for every message that was taken", func(e *env) {
		const rounds = 12
		var wg sync.WaitGroup
		errs := make(chan error, 3*rounds)
		for w := range 3 {
			wg.Go(func() {
				for i := range rounds {
					errs <- e.showAndRemove(fmt.Sprintf("s%d-%d", w, i), i%3 == 2)
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			e.ok(err)
		}
		list := must[[]agent.Thread](e)(e.s.Threads(e.ctx, memory.ThreadFilter{UserID: user}))
		if !slices.ContainsFunc(list, func(t agent.Thread) bool { return t.SessionID == "s2-2" }) {
			e.Fatalf("%d threads are left", len(list))
		}
		for _, t := range list {
			found := must[[]memory.Finding](e)(e.s.Audit(e.ctx, t.ID))
			equal(e, "findings of "+t.ID, len(found), 0)
			e.remove(t.ID)
		}
		e.kept(1, false)
	}},
}

// showAndRemove sends a message with an image that others show too, and removes its
// thread unless it is to stay. An image that somebody else removed between the two
// is refused, and kept again.
func (e *env) showAndRemove(session string, stay bool) error {
	var sent memory.SendResult
	for {
		name, err := e.s.KeepImage(e.ctx, Picture(1))
		if err != nil {
			return err
		}
		sent, err = e.s.Send(e.ctx, Showing(message(session, "m1", "look"), name))
		if agent.CodeOf(err) == agent.CodeInvalid {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	turn, err := e.s.TakeNext(e.ctx, memory.TakeRequest{ThreadID: sent.ThreadID, RunID: "run", Config: mainConfig()})
	if err != nil {
		return err
	}
	if _, err := e.s.CloseTurn(e.ctx, failed(*turn.Turn, 1, agent.ReasonError)); err != nil || stay {
		return err
	}
	_, err = e.s.DeleteTree(e.ctx, memory.DeleteRequest{UserID: user, ThreadID: sent.ThreadID})
	return err
}
