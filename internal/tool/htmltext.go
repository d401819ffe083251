package tool

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlText renders a page as plain text: blocks on lines of their own, headings
// marked with #, list items with -, links as text (URL).
func htmlText(page string, base *url.URL) string {
	w := &textWriter{base: base}
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(w.b.String())
		case html.StartTagToken, html.SelfClosingTagToken:
			w.open(z.Token())
		case html.EndTagToken:
			w.close(z.Token().DataAtom)
		case html.TextToken:
			w.text(string(z.Text()))
		}
	}
}

type textWriter struct {
	b      strings.Builder
	base   *url.URL
	skip   atom.Atom // the element whose content is left out
	pre    int
	href   string
	breaks int // newlines at the end of b
	blank  bool
}

func (w *textWriter) open(t html.Token) {
	if w.skip != 0 {
		return
	}
	switch t.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe:
		if t.Type == html.StartTagToken {
			w.skip = t.DataAtom
		}
	case atom.Br:
		w.newline(1)
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.newline(2)
		w.put(strings.Repeat("#", int(t.Data[1]-'0')) + " ")
	case atom.Li:
		w.newline(1)
		w.put("- ")
	case atom.Pre:
		w.newline(2)
		w.pre++
	case atom.P, atom.Table, atom.Ul, atom.Ol, atom.Blockquote, atom.Section, atom.Article:
		w.newline(2)
	case atom.Div, atom.Tr, atom.Header, atom.Footer, atom.Nav, atom.Dt, atom.Dd, atom.Title:
		w.newline(1)
	case atom.Td, atom.Th:
		w.put(" ")
	case atom.A:
		w.href = w.resolve(attr(t, "href"))
	case atom.Img:
		if alt := attr(t, "alt"); alt != "" {
			w.put("[image: " + alt + "]")
		}
	}
}

func (w *textWriter) close(a atom.Atom) {
	if w.skip != 0 {
		if a == w.skip {
			w.skip = 0
		}
		return
	}
	switch a {
	case atom.A:
		if w.href != "" {
			w.put(" (" + w.href + ")")
			w.href = ""
		}
	case atom.Pre:
		w.pre = max(0, w.pre-1)
		w.newline(2)
	case atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Ul, atom.Ol, atom.Table, atom.Title:
		w.newline(2)
	case atom.Div, atom.Tr, atom.Li:
		w.newline(1)
	}
}

func (w *textWriter) text(raw string) {
	if w.skip != 0 {
		return
	}
	s := html.UnescapeString(raw)
	if w.pre > 0 {
		w.put(s)
		return
	}
	fields := strings.Join(strings.Fields(s), " ")
	lead := s != "" && strings.TrimLeft(s, " \t\r\n") != s
	trail := s != "" && strings.TrimRight(s, " \t\r\n") != s
	if (lead || w.blank) && w.breaks == 0 && w.b.Len() > 0 && fields != "" {
		w.b.WriteByte(' ')
	}
	if fields != "" {
		w.put(fields)
		w.blank = trail
	} else if lead {
		w.blank = true
	}
}

func (w *textWriter) put(s string) {
	if s == "" {
		return
	}
	w.b.WriteString(s)
	w.breaks, w.blank = len(s)-len(strings.TrimRight(s, "\n")), false
}

// newline makes sure that the text ends in n line breaks.
func (w *textWriter) newline(n int) {
	if w.b.Len() == 0 {
		return
	}
	for ; w.breaks < n; w.breaks++ {
		w.b.WriteByte('\n')
	}
	w.blank = false
}

// resolve makes a link absolute; fragments and scripts are not worth showing.
func (w *textWriter) resolve(href string) string {
	u, err := url.Parse(strings.TrimSpace(href))
	if err != nil || href == "" || strings.HasPrefix(href, "#") {
		return ""
	}
	if w.base != nil {
		u = w.base.ResolveReference(u)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.String()
}

func attr(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
