package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spool-agents/spool/internal/tool"
)

// exactMeta is the field of _meta under which exactly keeps JSON as the server wrote it:
// the SDK reads schemas and structured results with numbers as float64.
const exactMeta = "spool/exact"

type fields = map[string]json.RawMessage

// exactly prepares a message of a server for the SDK. It keeps what would lose digits, and
// names content that the SDK would refuse together with the rest of the result.
func exactly(message []byte) []byte {
	var look struct {
		Result struct {
			Content []struct {
				Type any `json:"type"`
			} `json:"content"`
			Tools      []json.RawMessage `json:"tools"`
			Structured json.RawMessage   `json:"structuredContent"`
		} `json:"result"`
	}
	var typed struct {
		Result sdk.CallToolResult `json:"result"`
	}
	var m, result fields
	foreign := json.Unmarshal(message, &look) != nil
	for _, block := range look.Result.Content {
		foreign = foreign || !slices.Contains(shown, block.Type)
	}
	plain := !foreign && look.Result.Tools == nil && look.Result.Structured == nil && json.Unmarshal(message, &typed) == nil
	if plain || json.Unmarshal(message, &m) != nil || json.Unmarshal(m["result"], &result) != nil {
		return message
	}
	for i, t := range look.Result.Tools {
		look.Result.Tools[i] = usableTool(t)
	}
	if look.Result.Tools != nil {
		result["tools"] = encoded(look.Result.Tools)
	}
	var list []json.RawMessage
	switch block := bytes.TrimSpace(result["content"]); {
	case bytes.HasPrefix(block, []byte{'"'}): // a text without block and list
		list = []json.RawMessage{encoded(map[string]json.RawMessage{"type": encoded("text"), "text": block})}
	case bytes.HasPrefix(block, []byte{'{'}): // a block without the list
		list = []json.RawMessage{block}
	default:
		_ = json.Unmarshal(block, &list)
	}
	if failed, ok := result["isError"]; ok && json.Unmarshal(failed, new(bool)) != nil {
		result["isError"] = encoded(true) // a word in its place is no success
	}
	if list != nil {
		for i := range list {
			list[i] = shownBlock(list[i])
		}
		result["content"] = encoded(list)
	}
	if look.Result.Structured != nil {
		keep(result, look.Result.Structured)
	}
	m["result"] = encoded(result)
	return encoded(m)
}

// usableTool is a tool of a list with its schema as it was written. Of one that the SDK would
// refuse together with the rest of the list, name and description are left.
func usableTool(raw json.RawMessage) json.RawMessage {
	var t fields
	var plain struct {
		Name        text `json:"name"`
		Description text `json:"description"`
	}
	if json.Unmarshal(raw, &t) != nil || t == nil {
		return json.RawMessage("{}")
	}
	schema := t["inputSchema"]
	if json.Unmarshal(raw, new(sdk.Tool)) != nil {
		_ = json.Unmarshal(raw, &plain)
		t = fields{"name": encoded(plain.Name), "description": encoded(plain.Description), "inputSchema": schema}
	}
	if schema != nil {
		keep(t, schema)
	}
	return encoded(t)
}

// text is a text, and empty for all else.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	_ = json.Unmarshal(raw, (*string)(t))
	return nil
}

// encoded is the JSON of what was JSON before.
func encoded(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}

// keep puts JSON into the _meta of an object, as text.
func keep(object fields, raw []byte) {
	meta := fields{}
	if _ = json.Unmarshal(object["_meta"], &meta); meta == nil {
		meta = fields{}
	}
	meta[exactMeta] = encoded(string(raw))
	object["_meta"] = encoded(meta)
}

// number decodes JSON with its numbers as they are written.
func number(raw string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func schemaIn(t *sdk.Tool) any {
	text, _ := t.Meta[exactMeta].(string)
	if v, err := number(text); err == nil {
		return v
	}
	return t.InputSchema
}

// shown are the blocks that contentText knows.
var shown = []any{"text", "image", "audio", "resource", "resource_link"}

// shownBlock is a block of a result, or a text in its place that names it.
func shownBlock(raw json.RawMessage) json.RawMessage {
	var block struct {
		Type any `json:"type"`
	}
	var result sdk.CallToolResult
	_ = json.Unmarshal(raw, &block)
	if slices.Contains(shown, block.Type) && json.Unmarshal(encoded(map[string]any{"content": []any{raw}}), &result) == nil {
		return raw
	}
	typ, ok := block.Type.(string)
	if !ok {
		typ = "unknown"
	}
	return encoded(map[string]string{"type": "text", "text": "[block of type " + cutLine(tool.CleanText(typ)) + " not shown]"})
}
