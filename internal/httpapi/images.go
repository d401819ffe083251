package httpapi

import (
	"net/http"
	"os"
	"path/filepath"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/images"
)

// maxImage is the body of an image: base64 takes four bytes for three.
const maxImage = images.Most/3*4 + 1024

// keepImage keeps an image, for messages to refer to.
func (s *Server) keepImage(c *call) error {
	var b struct {
		Data []byte `json:"data"`
	}
	if err := c.body(&b); err != nil {
		return err
	}
	if s.o.Images == "" {
		return agent.Errorf(agent.CodeInvalid, "this server keeps no images: refer to one by an https URL or by file:PATH of a file in the workspace")
	}
	name, err := images.Keep(s.o.Images, b.Data)
	if err != nil {
		return err
	}
	return c.answer(map[string]string{"url": agent.ImageScheme + name})
}

// image shows a kept image. Its name is the digest of its content: who knows it has
// the image, or a message with it.
func (s *Server) image(c *call) error {
	name := c.path("name")
	missing := agent.Errorf(agent.CodeNotFound, "image %q is not kept here", name)
	if s.o.Images == "" || !agent.CheckImageName(name) {
		return missing
	}
	data, err := os.ReadFile(filepath.Join(s.o.Images, name))
	if err != nil {
		return missing
	}
	bound(c.w)
	c.w.Header().Set("Content-Type", images.Kind(name))
	c.w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(data) // a client that is gone needs no answer
	return nil
}
