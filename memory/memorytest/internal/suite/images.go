package suite

import (
	"bytes"
	"image"
	"image/color"
	"image/png"

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

// Keep stores a picture and returns its name.
func (e *Env) Keep(n int) string { return Must(e.S.KeepImage(e.Ctx, Picture(n)))(e) }

// Show sends a message with images in a session of its own and answers it.
func (e *Env) Show(session string, names ...string) string {
	sent := Must(e.S.Send(e.Ctx, Showing(Message(session, "m1", "look"), names...)))(e)
	e.Answer(e.Take(sent.ThreadID), 1, "seen")
	return sent.ThreadID
}

// Remove deletes a thread.
func (e *Env) Remove(id string) {
	Must(e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: User, ThreadID: id}))(e)
}

// Kept checks that the n-th picture is there, or is not.
func (e *Env) Kept(n int, want bool) {
	name := Must(agent.ImageName(Picture(n)))(e)
	data, err := e.S.Image(e.Ctx, name)
	if !want {
		e.Code(err, agent.CodeNotFound)
		return
	}
	e.Ok(err)
	if !bytes.Equal(data, Picture(n)) {
		e.Fatalf("image %d has other bytes", n)
	}
}

// ShowAndRemove sends a message with an image that others show too, and removes its
// thread unless it is to stay. An image that somebody else removed between the two
// is refused, and kept again.
func (e *Env) ShowAndRemove(session string, stay bool) error {
	var sent memory.SendResult
	for {
		name, err := e.S.KeepImage(e.Ctx, Picture(1))
		if err != nil {
			return err
		}
		sent, err = e.S.Send(e.Ctx, Showing(Message(session, "m1", "look"), name))
		if agent.CodeOf(err) == agent.CodeInvalid {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	turn, err := e.S.TakeNext(e.Ctx, memory.TakeRequest{ThreadID: sent.ThreadID, RunID: "run", Config: MainConfig()})
	if err != nil {
		return err
	}
	if _, err := e.S.CloseTurn(e.Ctx, Failed(*turn.Turn, 1, agent.ReasonError)); err != nil || stay {
		return err
	}
	_, err = e.S.DeleteTree(e.Ctx, memory.DeleteRequest{UserID: User, ThreadID: sent.ThreadID})
	return err
}
