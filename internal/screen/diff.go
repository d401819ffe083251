package screen

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spool-agents/spool/internal/terminal"
)

// mostDiff bounds the lines of a change that are shown as it is made; what a person
// decides about is shown whole.
const mostDiff = 40

type edit struct {
	Path    string  `json:"path"`
	Old     *string `json:"old"`
	New     *string `json:"new"`
	Content *string `json:"content"`
}

// diff shows what a call changes in a file, nil if it changes none: what goes with -,
// what comes with +, all that hides made visible.
func (l look) diff(tool string, args json.RawMessage, most int) []string {
	var e edit
	var text string
	if json.Unmarshal(args, &text) == nil { // arguments as JSON text
		args = json.RawMessage(text)
	}
	if json.Unmarshal(args, &e) != nil {
		return nil
	}
	var lines []string
	switch {
	case tool == "file_edit" && e.Old != nil && e.New != nil:
		before, after := seen(*e.Old), seen(*e.New)
		head, tail := shared(before, after)
		lines = append(lines, marked("  ", before[:head], strings.Clone)...)
		lines = append(lines, marked("- ", before[head:len(before)-tail], l.bad)...)
		lines = append(lines, marked("+ ", after[head:len(after)-tail], l.good)...)
		lines = append(lines, marked("  ", before[len(before)-tail:], strings.Clone)...)
	case tool == "file_write" && e.Content != nil:
		lines = marked("+ ", seen(*e.Content), l.good)
	default:
		return nil
	}
	if most > 0 && len(lines) > most {
		lines = append(lines[:most], l.dim(fmt.Sprintf("… %d more lines", len(lines)-most)))
	}
	for i := range lines {
		lines[i] = "    " + lines[i]
	}
	return append([]string{l.bold("  " + terminal.Visible(e.Path))}, lines...)
}

// shared counts the lines that two texts begin and end with alike.
func shared(a, b []string) (head, tail int) {
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

// seen are the lines of a text with all that they hide, but for tabs.
func seen(text string) []string {
	return terminal.VisibleLines(strings.ReplaceAll(text, "\t", "    "))
}

func marked(mark string, lines []string, paint func(string) string) (out []string) {
	for _, line := range lines {
		out = append(out, paint(mark+line))
	}
	return out
}
