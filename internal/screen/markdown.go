package screen

import (
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/spool-agents/spool/internal/terminal"
)

// markdown is a text of a model as a terminal shows it. No character of it gives orders
// to the terminal, also none that is spelled as an entity.
func (l look) markdown(source string, width int) string {
	source = strings.ReplaceAll(terminal.Clean(source), "\t", "    ")
	src := []byte(source)
	m := &page{look: l, src: src}
	reader := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList))
	return m.blocks(reader.Parser().Parse(text.NewReader(src)), width)
}

// page is a text that is being rendered.
type page struct {
	look
	src []byte
}

// blocks renders what is in a block, with an empty line between paragraphs.
func (p *page) blocks(n ast.Node, width int) string {
	var parts []string
	tight := false
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if s := p.block(c, width); s != "" {
			parts = append(parts, s)
		}
		tight = tight || c.Kind() == ast.KindTextBlock
	}
	if tight {
		return strings.Join(parts, "\n")
	}
	return strings.Join(parts, "\n\n")
}

func (p *page) block(n ast.Node, width int) string {
	switch n := n.(type) {
	case *ast.Heading:
		return wrapped(p.paint(lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Blue), strings.Repeat("#", n.Level)+" "+p.inline(n)), width)
	case *ast.List:
		return p.list(n, width)
	case *ast.Blockquote:
		bar := p.dim("│ ")
		return behind(bar, bar, p.blocks(n, width-2))
	case *ast.FencedCodeBlock, *ast.CodeBlock, *ast.HTMLBlock:
		return behind("    ", "    ", wrapped(p.code(p.lines(n)), width-4))
	case *ast.ThematicBreak:
		return p.dim(strings.Repeat("─", min(width, 40)))
	case *extast.Table:
		return p.table(n, width)
	}
	return wrapped(p.inline(n), width)
}

func (p *page) lines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		b.Write(at.Value(p.src))
	}
	if html, ok := n.(*ast.HTMLBlock); ok && html.HasClosure() {
		b.Write(html.ClosureLine.Value(p.src))
	}
	return strings.TrimRight(b.String(), "\n")
}

func (p *page) list(n *ast.List, width int) string {
	var items []string
	number := n.Start
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		mark := "• "
		if n.IsOrdered() {
			mark = strconv.Itoa(number) + ". "
			number++
		}
		pad := strings.Repeat(" ", lipgloss.Width(mark))
		items = append(items, behind(mark, pad, p.blocks(c, width-len(pad))))
	}
	between := "\n"
	if !n.IsTight {
		between = "\n\n"
	}
	return strings.Join(items, between)
}

func (p *page) table(n *extast.Table, width int) string {
	t := table.New().Border(lipgloss.NormalBorder()).Wrap(true)
	widest := 1
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, p.inline(cell))
		}
		if all := lipgloss.Width(strings.Join(cells, "   ")) + 4; all > widest {
			widest = all
		}
		if row.Kind() == extast.KindTableHeader {
			t.Headers(cells...)
		} else {
			t.Row(cells...)
		}
	}
	if s := t.Render(); lipgloss.Width(s) <= width {
		return s
	}
	return t.Width(width).Render()
}

func (p *page) inline(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		b.WriteString(p.span(c))
	}
	return b.String()
}

func (p *page) span(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Text:
		s := p.said(n.Value(p.src))
		if n.HardLineBreak() || n.SoftLineBreak() {
			s += "\n"
		}
		return s
	case *ast.String:
		return p.said(n.Value)
	case *ast.CodeSpan:
		var b strings.Builder
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			if t, ok := c.(*ast.Text); ok {
				b.Write(t.Value(p.src))
			}
		}
		return p.code(strings.ReplaceAll(b.String(), "\n", " "))
	case *ast.Emphasis:
		if n.Level > 1 {
			return p.bold(p.inline(n))
		}
		return p.italic(p.inline(n))
	case *extast.Strikethrough:
		return p.paint(lipgloss.NewStyle().Strikethrough(true), p.inline(n))
	case *extast.TaskCheckBox:
		if n.IsChecked {
			return "[x] "
		}
		return "[ ] "
	case *ast.Link:
		return p.link(p.inline(n), string(n.Destination))
	case *ast.Image:
		return p.link("image "+p.inline(n), string(n.Destination))
	case *ast.AutoLink:
		return p.said(n.URL(p.src))
	case *ast.RawHTML:
		var b strings.Builder
		for i := range n.Segments.Len() {
			at := n.Segments.At(i)
			b.Write(at.Value(p.src))
		}
		return b.String()
	}
	return p.inline(n)
}

// link shows where a link leads: its text may say something else.
func (p *page) link(label, to string) string {
	to = p.said([]byte(to))
	if label == to {
		return to
	}
	return label + p.dim(" ("+to+")")
}

// said is text with its entities and escapes resolved, made safe again.
func (p *page) said(raw []byte) string {
	raw = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(raw)))
	return strings.ReplaceAll(terminal.Clean(string(raw)), "\n", " ")
}
