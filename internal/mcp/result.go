package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spool-agents/spool/agent"
)

// resultOf makes text of what a server returned: models read text. What is not
// text is kept, and named in its place.
func resultOf(run agent.ToolRun, r *sdk.CallToolResult) agent.ToolResult {
	var blocks []string
	for _, c := range r.Content {
		if text := contentText(run, c); text != "" {
			blocks = append(blocks, text)
		}
	}
	if r.StructuredContent != nil && !repeats(r.Content, r.StructuredContent) {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			blocks = append(blocks, string(b))
		}
	}
	text := strings.Join(blocks, "\n")
	if r.NeedsInput() {
		return agent.ToolFailed(agent.ErrUnknown, "The server wants input from a person, which cannot be given here. %s", text)
	}
	if r.IsError {
		if text == "" {
			text = "The tool failed and said nothing more."
		}
		return agent.ToolFailed(agent.ErrUnknown, "%s", text)
	}
	if text == "" {
		text = "(no output)"
	}
	return agent.ToolOK(text)
}

func contentText(run agent.ToolRun, c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return run.Attach("image", c.MIMEType, c.Data)
	case *sdk.AudioContent:
		return run.Attach("audio", c.MIMEType, c.Data)
	case *sdk.ResourceLink:
		return "[resource " + strings.Join(strings.Fields(strings.Join([]string{c.URI, c.Name, c.MIMEType, c.Description}, " ")), " ") + "]"
	case *sdk.EmbeddedResource:
		return resourceText(run, c.Resource)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return string(b)
}

func resourceText(run agent.ToolRun, r *sdk.ResourceContents) string {
	switch {
	case r == nil:
		return ""
	case len(r.Blob) > 0:
		return run.Attach("resource "+r.URI, r.MIMEType, r.Blob)
	}
	return fmt.Sprintf("[resource %s]\n%s", r.URI, r.Text)
}

// repeats reports whether a text block is the structured content again, as
// servers send it for clients that do not know the latter.
func repeats(content []sdk.Content, structured any) bool {
	for _, c := range content {
		t, ok := c.(*sdk.TextContent)
		if !ok {
			continue
		}
		var v any
		if json.Unmarshal([]byte(t.Text), &v) == nil && reflect.DeepEqual(v, structured) {
			return true
		}
	}
	return false
}
