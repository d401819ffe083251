package screen

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/spinner"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/spool-agents/spool/internal/terminal"
)

// View draws what still changes: the answer as it comes, sub-agents, what waits, and the
// line to type into.
func (m *model) View() tea.View {
	if m.leaving || m.width == 0 {
		return tea.NewView("")
	}
	var below []string
	var cursor *tea.Cursor
	below = append(below, m.tree()...)
	below = append(below, m.queue()...)
	if m.form != nil {
		lines, at := m.form.view(m.look, m.width)
		if at != nil && m.form.focused {
			at.X += 2
			at.Y += len(below)
			cursor = at
		}
		below = append(below, lines...)
	}
	if line := m.doing(); line != "" {
		below = append(below, line)
	}
	below = append(below, m.look.dim(strings.Repeat("─", m.width)))
	if cursor == nil {
		if cursor = m.input.Cursor(); cursor != nil {
			cursor.X += 2
			cursor.Y += len(below)
		}
	}
	below = append(below, strings.Split(behind(m.look.bold("> "), "  ", m.input.View()), "\n")...)
	below = append(below, m.status()...)
	answer := m.answer(m.height - len(below) - 1)
	if cursor != nil {
		cursor.Y += len(answer)
	}
	lines := append(answer, below...)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	if cut := len(lines) - m.height; cut > 0 && cursor != nil {
		lines = lines[cut:]
		cursor.Y -= cut
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.Cursor = cursor
	return v
}

// answer is the end of the text that is being written, as far as it fits.
func (m *model) answer(room int) []string {
	if m.turn.text == "" || room < 1 {
		return nil
	}
	const enough = 16 << 10
	text := m.turn.text
	if len(text) > enough {
		text = text[len(text)-enough:]
	}
	lines := strings.Split(m.look.markdown(text, m.width), "\n")
	return lines[max(0, len(lines)-room):]
}

func (m *model) tree() (lines []string) {
	const most = 12
	for i, h := range m.turn.agents {
		if i == most {
			return append(lines, m.look.dim(fmt.Sprintf("  … and %d more", len(m.turn.agents)-most)))
		}
		mark, took := m.spin(), since(h.began)
		if !h.ended.IsZero() {
			mark, took = m.look.good("✓"), h.ended.Sub(h.began).Round(time.Second).String()
			if h.failed {
				mark = m.look.bad("✗")
			}
		}
		line := fmt.Sprintf("  %s%s %s  %s · %s", strings.Repeat("  ", h.depth), mark, m.look.bold(terminal.OneLine(h.name, 30)), terminal.OneLine(h.doing, 80), took)
		if h.tokens > 0 {
			line += fmt.Sprintf(" · %d tokens", h.tokens)
		}
		lines = append(lines, line)
	}
	return lines
}

func (m *model) queue() (lines []string) {
	for i, s := range m.sent {
		if i == 5 {
			return append(lines, m.look.dim(fmt.Sprintf("  … and %d more", len(m.sent)-5)))
		}
		lines = append(lines, "> "+terminal.OneLine(s.text, 200), m.look.dim("  "+s.state))
	}
	return lines
}

// doing says what is waited for, and since when.
func (m *model) doing() string {
	t := m.turn
	if t.id == "" {
		return ""
	}
	parts := []string{m.waits(), since(t.began)}
	if t.usage.TotalTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", t.usage.TotalTokens))
	}
	if t.usage.Price > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f", t.usage.Price))
	}
	parts = append(parts, "Ctrl-C cancels")
	return m.spin() + " " + m.look.dim(strings.Join(parts, " · "))
}

func (m *model) waits() string {
	t := m.turn
	switch {
	case t.note != "":
		return terminal.OneLine(t.note, 120)
	case m.form != nil || len(m.asks) > 0:
		return "waits for you"
	case t.wait != nil && time.Now().Before(t.wait.Until):
		return terminal.OneLine(t.wait.Text(time.Now()), 120)
	case len(t.tools) == 1:
		return "runs " + t.tools[0].text
	case len(t.tools) > 1:
		return fmt.Sprintf("runs %s and %d more", t.tools[0].text, len(t.tools)-1)
	case t.text != "":
		return "writes"
	case t.model != "":
		return "waits for the model " + terminal.OneLine(t.model, 40)
	}
	return "waits for the model"
}

// status is the last line: where one is, with whom, and what it cost.
func (m *model) status() []string {
	if len(m.input.names) > 0 {
		return []string{m.look.dim("  " + strings.Join(m.input.names, "  "))}
	}
	if m.hint != "" {
		return []string{"  " + m.look.ask(m.hint)}
	}
	help := "/help"
	if m.open() {
		help = "Enter queues · Ctrl-S steers · /help"
	}
	parts := []string{help}
	if name := m.known.Config.Name; name != "" {
		parts = append(parts, name)
	}
	for _, chosen := range []string{m.req.Agent, m.req.Model} {
		if chosen != "" {
			parts = append(parts, "→ "+chosen)
		}
	}
	if m.cost.TotalTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", m.cost.TotalTokens))
	}
	if m.cost.Price > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f", m.cost.Price))
	}
	parts = append(parts, m.thread) // long, and the first to be cut
	return []string{m.look.dim("  " + terminal.OneLine(strings.Join(parts, " · "), 200))}
}

func (m *model) spin() string {
	frames := spinner.MiniDot.Frames
	return frames[int(time.Now().UnixMilli()/120)%len(frames)]
}

// since is how long something takes, in whole seconds.
func since(t time.Time) string { return max(0, time.Since(t)).Truncate(time.Second).String() }
