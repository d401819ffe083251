package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/output"
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
	if structured := structuredText(r); structured != "" && !repeats(r.Content, structured) {
		blocks = append(blocks, structured)
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
		return "[resource " + strings.Join(strings.Fields(strings.Join([]string{c.URI, c.Name, c.Title, c.MIMEType, c.Description}, " ")), " ") + "]"
	case *sdk.EmbeddedResource:
		switch r := c.Resource; {
		case r == nil:
			return "[resource without content]"
		case len(r.Blob) > 0:
			return run.Attach("resource "+r.URI, r.MIMEType, r.Blob)
		default:
			return fmt.Sprintf("[resource %s]\n%s", r.URI, r.Text)
		}
	}
	return "" // exactly names all others
}

// structuredText is the structured content as the server wrote it, "" if there is none.
func structuredText(r *sdk.CallToolResult) string {
	raw, _ := r.Meta[exactMeta].(string)
	var b bytes.Buffer
	if r.StructuredContent == nil || json.Compact(&b, []byte(raw)) != nil {
		return ""
	}
	return b.String()
}

// repeats reports whether a text block is the structured content again, as
// servers send it for clients that do not know the latter.
func repeats(content []sdk.Content, structured string) bool {
	want, err := number(structured)
	return err == nil && slices.ContainsFunc(content, func(c sdk.Content) bool {
		t, ok := c.(*sdk.TextContent)
		if !ok {
			return false
		}
		v, err := number(t.Text)
		return err == nil && reflect.DeepEqual(v, want)
	})
}

// longestLine bounds, in characters, a line of what a server said where that is told
// to people and models.
const longestLine = 150

// gist shortens what a server said to two lines: the first one that tells of an error,
// as most programs print more around it, or else the first one, and the last one. The
// worker's detailed log has all of it.
func gist(text string) string {
	lines := slices.DeleteFunc(strings.Split(output.Clean(text), "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
	if len(lines) == 0 {
		return ""
	}
	first := max(0, slices.IndexFunc(lines, func(line string) bool { return strings.Contains(strings.ToLower(line), "error") }))
	last := len(lines) - 1
	out, left := cutLine(lines[first]), last
	if first != last {
		out, left = out+"\n"+cutLine(lines[last]), last-1
	}
	if left > 0 {
		out += fmt.Sprintf(" [lines left out: %d]", left)
	}
	return out
}

func cutLine(line string) string {
	runes := []rune(strings.TrimSpace(line))
	if len(runes) > longestLine {
		return string(runes[:longestLine-1]) + "…"
	}
	return string(runes)
}
