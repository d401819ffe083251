package printer

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/terminal"
)

// Table is a list for people. Where it is wider than the terminal, its columns give way.
type Table struct {
	Columns []Column
	rows    [][]string
	below   map[int][]string
}

// Column is a column of a table.
type Column struct {
	Name string // above it, at a terminal
	Min  int    // its texts may be cut to so many cells, 0 = never
	Drop int    // which column a narrow terminal leaves out: the highest first, 0 = never
}

// Add adds a row, and lines that belong below it.
func (t *Table) Add(cells []string, below ...string) {
	for i := range cells {
		cells[i] = terminal.OneLine(cells[i], 300)
	}
	if t.below == nil {
		t.below = map[int][]string{}
	}
	t.below[len(t.rows)] = below
	t.rows = append(t.rows, cells)
}

// Lines is the table for a terminal of a width, 0 = no terminal: then nothing is cut, left
// out or put above it. Columns in which nothing stands are left out.
func (t *Table) Lines(width int) (lines []string) {
	var shown []int
	for i := range t.Columns {
		if slices.ContainsFunc(t.rows, func(cells []string) bool { return cells[i] != "" }) {
			shown = append(shown, i)
		}
	}
	widths, fits := t.fit(shown, width)
	for !fits {
		last := slices.MaxFunc(shown, func(a, b int) int { return t.Columns[a].Drop - t.Columns[b].Drop })
		if t.Columns[last].Drop == 0 {
			break
		}
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == last })
		widths, fits = t.fit(shown, width)
	}
	line := func(cells func(i int) string) {
		var b strings.Builder
		for _, i := range shown {
			text := cells(i)
			if width > 0 {
				text = ansi.Truncate(text, widths[i], "…")
			}
			b.WriteString(text + strings.Repeat(" ", widths[i]-ansi.StringWidth(text)+2))
		}
		lines = append(lines, fitting(strings.TrimRight(b.String(), " "), width))
	}
	if width > 0 && len(t.rows) > 0 {
		line(func(i int) string { return t.Columns[i].Name })
	}
	for n, cells := range t.rows {
		line(func(i int) string { return cells[i] })
		for _, below := range t.below[n] {
			lines = append(lines, fitting("  "+below, width))
		}
	}
	return lines
}

// fit finds the widths of columns, and whether they fit in a width.
func (t *Table) fit(shown []int, width int) (widths []int, fits bool) {
	widths = make([]int, len(t.Columns))
	over := -width - 2
	for _, i := range shown {
		if width > 0 {
			widths[i] = ansi.StringWidth(t.Columns[i].Name)
		}
		for _, cells := range t.rows {
			widths[i] = max(widths[i], ansi.StringWidth(cells[i]))
		}
		over += widths[i] + 2
	}
	for _, i := range slices.Backward(shown) {
		if c := t.Columns[i]; width > 0 && c.Min > 0 && over > 0 {
			cut := min(over, max(0, widths[i]-c.Min))
			widths[i], over = widths[i]-cut, over-cut
		}
	}
	return widths, width <= 0 || over <= 0
}

// fitting cuts a line to the width of a terminal, 0 = there is none.
func fitting(line string, width int) string {
	if width <= 0 {
		return line
	}
	return ansi.Truncate(line, width, "…")
}

// Table prints a table.
func (p *Printer) Table(t *Table) {
	for _, line := range t.Lines(p.Width) {
		p.Print("%s", line)
	}
}

// ID is the id of a thread as people see it at a terminal.
func (p *Printer) ID(threadID string) string {
	if p.Width <= 0 {
		return threadID
	}
	return Short(threadID)
}

// Ids that are made begin with the time, up to its milliseconds, or end with a digest.
var (
	madeSession = regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	madeAgent   = regexp.MustCompile(`-[0-9]+-([0-9a-f]{8})[0-9a-f]{4}$`)
)

// Short is the id of a thread as people may type it: without what is made at random, and
// without the conversation that a session has by default.
func Short(threadID string) string {
	id, err := agent.ParseThreadID(threadID)
	if err != nil {
		return threadID
	}
	if made := madeAgent.FindStringSubmatch(id.AgentID); made != nil {
		return made[1]
	}
	if id.SessionID == "" {
		return threadID
	}
	session := madeSession.ReplaceAllString(id.SessionID, "$1")
	if id.ConversationID == agent.DefaultConversation {
		return session
	}
	return agent.MainThreadID(session, id.ConversationID)
}

// Threads is a list of threads, and what state says of each.
func (p *Printer) Threads(list []agent.Thread, state func(agent.Thread) string) *Table {
	table := &Table{Columns: []Column{{Name: "ID", Min: 20}, {Name: "AGENT", Min: 8, Drop: 2}, {Name: "STATUS", Min: 16}, {Name: "ACTIVE", Drop: 3}, {Name: "MESSAGES", Drop: 4}, {Name: "TOPIC", Min: 16, Drop: 1}}}
	for _, t := range list {
		who := ""
		if t.Kind == agent.KindSubAgent {
			who = t.AgentType
		}
		table.Add([]string{p.ID(t.ID), who, state(t), p.when(t.UpdatedAt), Plural(int(t.MessageCount), "message"), t.Topic})
	}
	return table
}

// ThreadList is a numbered list of threads for a terminal of a width.
func ThreadList(list []agent.Thread, width int) string {
	p := &Printer{Width: width}
	table := p.Threads(list, Status)
	table.Columns = append([]Column{{Name: "#"}}, table.Columns...)
	for i := range table.rows {
		table.rows[i] = append([]string{strconv.Itoa(i + 1)}, table.rows[i]...)
	}
	return strings.Join(table.Lines(width), "\n")
}

// when is a time of the past: short at a terminal, as ls has it.
func (p *Printer) when(at time.Time) string {
	at, now := at.Local(), time.Now()
	switch {
	case p.Width <= 0:
		return at.Format(time.DateTime)
	case at.Format(time.DateOnly) == now.Format(time.DateOnly):
		return at.Format("15:04")
	case at.Year() == now.Year():
		return at.Format("Jan _2")
	}
	return at.Format(time.DateOnly)
}
