package httpapi

import (
	_ "embed" // the document
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/spool-agents/spool/agent"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI is the description of the API as JSON.
var OpenAPI = sync.OnceValues(func() ([]byte, error) {
	raw, err := yaml.YAMLToJSON(openAPI)
	return raw, agent.Wrap(err, agent.CodeInternal, "openapi.yaml")
})

func (s *Server) document(c *call) error {
	raw, err := OpenAPI()
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Cache-Control", "no-cache")
	_, _ = c.w.Write(raw) // a client that is gone needs no answer
	return nil
}
