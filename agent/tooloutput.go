package agent

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// ToolOutput is the tool that reads outputs which were shortened.
const ToolOutput = "tool_output"

// Bytes that one call of tool_output returns: less than what is shown of a
// result, so that its own is never shortened.
const (
	outputPart = 16 << 10
	outputMost = 48 << 10
)

var (
	//go:embed tool_output.md
	toolOutputDoc string

	toolOutputSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"toolCallId":{"type":"string","description":"id of the tool call"},` +
		`"offset":{"type":"integer","minimum":0,"description":"first byte to return"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":49152,"description":"how many bytes to return"}},` +
		`"required":["toolCallId"],"additionalProperties":false}`)
)

// ToolOutputSpec describes tool_output to a model.
func ToolOutputSpec() ToolSpec {
	return ToolSpec{
		Name: ToolOutput, Description: strings.TrimSpace(toolOutputDoc), Schema: toolOutputSchema,
		ReadOnly: true, Repeatable: true, Quick: true,
	}
}

// ToolOutputParams are the arguments of tool_output.
type ToolOutputParams struct {
	ToolCallID string  `json:"toolCallId"`
	Offset     float64 `json:"offset,omitempty"`
	Limit      float64 `json:"limit,omitempty"`
}

// ParseToolOutputParams reads and checks the arguments of a call.
func ParseToolOutputParams(args json.RawMessage) (ToolOutputParams, error) {
	var p ToolOutputParams
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage(`{}`)
	}
	if err := strict(args, &p); err != nil {
		return p, Errorf(CodeInvalid, "tool_output: %v; it takes toolCallId and optionally offset and limit", err)
	}
	switch {
	case p.ToolCallID == "":
		return p, Errorf(CodeInvalid, "tool_output needs the toolCallId of an earlier call")
	case p.Offset < 0 || p.Limit < 0 || p.Limit > outputMost:
		return p, Errorf(CodeInvalid, "tool_output: offset must not be negative, and limit is at most %d", outputMost)
	}
	return p, nil
}

// shortenedMark stands where a result was shortened; ShortenOutput writes it.
const shortenedMark = "; the whole output is kept with call "

// ShortenOutput is the part of a call's output that its model is shown.
func ShortenOutput(output *io.SectionReader, limit int, callID string) (string, error) {
	size := int(output.Size())
	both := min(2*limit, size)
	ends := make([]byte, both)
	_, err := output.ReadAt(ends[:both/2], 0)
	if err == nil || errors.Is(err, io.EOF) {
		_, err = output.ReadAt(ends[both/2:], int64(size-both+both/2))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", Wrap(err, CodeInternal, "the output of call %s cannot be read", callID)
	}
	short, _ := shorten(string(ends), limit, shortenedMark+callID+", tool_output reads it", size-both)
	return short, nil
}

// HasShortenedOutput reports whether a model has been shown a part of an output.
func HasShortenedOutput(messages []Message) bool {
	for _, m := range messages {
		if m.Role == RoleTool && len(m.Content.Value) > outputPart && strings.Contains(m.Content.Value, shortenedMark) {
			return true
		}
	}
	return false
}

// FormatToolOutput is the part of an output that was asked for, at character
// boundaries, with where it goes on.
func FormatToolOutput(output string, p ToolOutputParams) (string, error) {
	from, most := int(min(p.Offset, 1<<40)), cmp.Or(int(p.Limit), outputPart)
	if from >= len(output) {
		if from == 0 {
			return "(the output is empty)", nil
		}
		return "", Errorf(CodeInvalid, "the output has %d bytes, so there is nothing at offset %d", len(output), from)
	}
	for from > 0 && !utf8.RuneStart(output[from]) {
		from--
	}
	to := min(len(output), from+most)
	for to < len(output) && !utf8.RuneStart(output[to]) {
		to++ // at least one character
	}
	if to == len(output) {
		return fmt.Sprintf("%s\n[bytes %d to %d of %d; this is the end]", output[from:to], from, to, len(output)), nil
	}
	return fmt.Sprintf("%s\n[bytes %d to %d of %d; continue with offset %d]", output[from:to], from, to, len(output), to), nil
}
