package tool

import (
	"net/url"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlText renders a page as Markdown: its title, then its text with headings,
// lists, tables and absolute links; without scripts, styles and pictures' data.
func htmlText(page string, from *url.URL) (string, error) {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return bareText(page), nil //nolint:nilerr // nested deeper than the parser follows
	}
	convert := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	for _, tag := range []string{"svg", "template"} {
		convert.Register.TagType(tag, converter.TagTypeRemove, converter.PriorityStandard)
	}
	title := titleOf(doc) // the converter leaves out the head
	text, err := convert.ConvertNode(doc, converter.WithDomain(from.String()))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(title + "\n\n" + string(text)), nil
}

// bareText is the text of a page without its tags.
func bareText(page string) string {
	var words []string
	z, skip := html.NewTokenizer(strings.NewReader(page)), false
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		switch t := z.Token(); {
		case t.DataAtom == atom.Script || t.DataAtom == atom.Style:
			skip = kind == html.StartTagToken
		case kind == html.TextToken && !skip:
			words = append(words, strings.Fields(t.Data)...)
		}
	}
	return strings.Join(words, " ")
}

// titleOf is the text of a page's title element.
func titleOf(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Title && n.FirstChild != nil {
			return strings.Join(strings.Fields(n.FirstChild.Data), " ")
		}
	}
	return ""
}
