package httpapi

import (
	"net/http"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/images"
)

// maxImage is the body of an image: base64 takes four bytes for three.
const maxImage = agent.MaxImage/3*4 + 1024

// keepImage keeps an image, for messages to refer to.
func (s *Server) keepImage(c *call) error {
	var b struct {
		Data []byte `json:"data"`
	}
	if err := c.body(&b); err != nil {
		return err
	}
	name, err := s.store.KeepImage(c.r.Context(), b.Data)
	if err != nil {
		return err
	}
	return c.answer(map[string]string{"url": agent.ImageScheme + name})
}

// image shows a kept image. Its name is the digest of its content: who knows it has
// the image, or a message with it. The kinds that are kept hold nothing that runs.
func (s *Server) image(c *call) error {
	name := c.path("name")
	data, err := images.Finder{Store: s.store, Dir: s.o.Images}.Image(c.r.Context(), name)
	if err != nil {
		return err
	}
	bound(c.w)
	c.w.Header().Set("Content-Type", agent.ImageType(name))
	c.w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(data) // a client that is gone needs no answer
	return nil
}
