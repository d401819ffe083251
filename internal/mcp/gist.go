package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spool-agents/spool/internal/tool"
)

// longestLine bounds, in characters, a line of what a server said where that is told
// to people and models.
const longestLine = 150

// gist shortens what a server said to two lines: the first one that tells of an error,
// as most programs print more around it, or else the first one, and the last one. The
// worker's detailed log has all of it.
func gist(text string) string {
	lines := slices.DeleteFunc(strings.Split(tool.CleanTerminal(text), "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
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
