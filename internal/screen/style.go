package screen

import (
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"
)

// look paints text. Its colours are the sixteen that terminals let people choose.
type look struct{ plain bool }

func (l look) paint(s lipgloss.Style, text string) string {
	if l.plain || text == "" {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = s.Render(line)
	}
	return strings.Join(lines, "\n")
}

func (l look) in(c color.Color, text string) string {
	return l.paint(lipgloss.NewStyle().Foreground(c), text)
}

func (l look) bold(text string) string   { return l.paint(lipgloss.NewStyle().Bold(true), text) }
func (l look) italic(text string) string { return l.paint(lipgloss.NewStyle().Italic(true), text) }
func (l look) dim(text string) string    { return l.in(lipgloss.BrightBlack, text) }
func (l look) good(text string) string   { return l.in(lipgloss.Green, text) }
func (l look) bad(text string) string    { return l.in(lipgloss.Red, text) }
func (l look) ask(text string) string    { return l.in(lipgloss.Yellow, text) }
func (l look) code(text string) string   { return l.in(lipgloss.Cyan, text) }

// event colours a line of what happens by the mark it begins with.
func (l look) event(line string) string {
	switch mark := strings.TrimLeft(line, " "); {
	case strings.HasPrefix(mark, "✗"):
		return l.bad(line)
	case strings.HasPrefix(mark, "✓"):
		return l.good(line)
	case strings.HasPrefix(mark, "?"), strings.HasPrefix(mark, "!"):
		return l.ask(line)
	}
	return l.dim(line)
}

// wrapped breaks text at the width of the terminal, behind words where it can.
func wrapped(text string, width int) string {
	return lipgloss.Wrap(text, max(8, width), "")
}

// behind puts first before the first line and rest before the others.
func behind(first, rest, text string) string {
	return first + strings.ReplaceAll(text, "\n", "\n"+rest)
}
