package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/output"
	"github.com/spool-agents/spool/internal/tool/textfile"
)

//go:embed web_fetch.md
var webFetchDoc string

const (
	fetchBytes = 5 << 20
	userAgent  = "Spool/1 (web_fetch)"
)

type webFetchArgs struct {
	URL string `json:"url"`
}

// WebFetch reads public web pages. allowPrivate also lets it reach the worker's
// own network.
func WebFetch(allowPrivate bool) agent.Tool {
	return webFetch(network{net.DefaultResolver, isPublic, allowPrivate})
}

func webFetch(n network) agent.Tool {
	client := n.client()
	spec := readOnly("web_fetch", webFetchDoc, `{"type":"object","properties":{
		"url":{"type":"string","minLength":1,"description":"An http or https URL."}},
		"required":["url"],"additionalProperties":false}`, time.Minute)
	// Nothing is looked up before a person has said yes: the name itself would tell.
	check := func(_ context.Context, _ agent.ToolRun, a webFetchArgs) error {
		u, err := webURL(a.URL)
		if err == nil && !n.allowPrivate && privateURL(u.String()) {
			err = notFetched(a.URL)
		}
		return err
	}
	return checked(spec, check, func(ctx context.Context, _ agent.ToolRun, a webFetchArgs) agent.ToolResult {
		return fetch(ctx, client, a.URL)
	})
}

func webURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, &toolError{agent.ErrInvalidInput, fmt.Sprintf("%q is not an http or https URL", raw)}
	}
	if strings.Contains(u.Hostname(), "%") {
		return nil, &toolError{agent.ErrInvalidInput, fmt.Sprintf("%q has an address with a zone, which names a link of one machine", raw)}
	}
	return u, nil
}

func notFetched(raw string) error {
	return &toolError{agent.ErrPermissionDenied, fmt.Sprintf("%s was not fetched: %v", raw, errPrivate)}
}

func fetch(ctx context.Context, client *http.Client, raw string) agent.ToolResult {
	if _, err := webURL(raw); err != nil {
		return failure(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return agent.ToolFailed(agent.ErrInvalidInput, "Error: %v.", err)
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "text/html, text/plain, application/json;q=0.9, */*;q=0.5")
	resp, err := client.Do(req)
	if err != nil {
		return webFailure(ctx, raw, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, fetchBytes+1))
	if err != nil {
		return webFailure(ctx, raw, err)
	}
	cut := len(body) > fetchBytes
	if cut {
		body = []byte(output.WholeEnd(string(body[:fetchBytes])))
	}
	text, err := pageText(body, resp.Header.Get("Content-Type"), resp.Request.URL)
	if err != nil {
		return agent.ToolFailed(agent.ErrInvalidInput, "Error: %s cannot be shown: %v.", raw, err)
	}
	if resp.StatusCode >= 400 {
		return agent.ToolFailed(statusReason(resp.StatusCode), "Error: %s answered %s.\n%s", raw, resp.Status, Clip(text, 2000))
	}
	if cut {
		text += fmt.Sprintf("\n[only the first %d bytes were read]", fetchBytes)
	}
	if resp.Request.URL.String() != raw {
		text = "[from " + resp.Request.URL.String() + "]\n" + text
	}
	return agent.ToolOK(text)
}

// pageText turns a body into text by its content type and character set.
func pageText(body []byte, contentType string, base *url.URL) (string, error) {
	if contentType == "" {
		contentType = http.DetectContentType(body)
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(contentType, ";")
	}
	isHTML := kind == "text/html" || kind == "application/xhtml+xml"
	textual := isHTML || strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml") ||
		strings.HasSuffix(kind, "yaml") || kind == "application/javascript"
	if !textual {
		return "", fmt.Errorf("its content is %s, not text", kind)
	}
	declared := params["charset"]
	if declared == "" && (isHTML || strings.HasSuffix(kind, "xml")) {
		declared = textfile.Declared(body)
	}
	t := textfile.Decode(body, declared)
	if t.Binary() {
		return "", fmt.Errorf("its content is binary, although it calls itself %s", kind)
	}
	if isHTML {
		return htmlText(t.Value, base)
	}
	return t.Value, nil
}

// webFailure makes a result of a failed request. It leaves a cancel or timeout
// of the run to its own reason.
func webFailure(ctx context.Context, raw string, err error) agent.ToolResult {
	if ctx.Err() != nil {
		return ended(ctx.Err(), "", 0)
	}
	if errors.Is(err, errPrivate) {
		return failure(notFetched(raw))
	}
	if there := (*elsewhere)(nil); errors.As(err, &there) {
		if privateURL(there.to.String()) {
			return failure(notFetched(raw))
		}
		return agent.ToolFailed(agent.ErrPermissionDenied, "Error: %s was not fetched: %v.", raw, there)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return agent.ToolFailed(agent.ErrNetwork, "Error: %s could not be fetched: %v.", raw, err)
}

func statusReason(status int) agent.ErrorReason {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return agent.ErrNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return agent.ErrPermissionDenied
	case http.StatusTooManyRequests:
		return agent.ErrRateLimit
	}
	return agent.ErrNetwork
}

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

func titleOf(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.DataAtom == atom.Title && n.FirstChild != nil {
			return strings.Join(strings.Fields(n.FirstChild.Data), " ")
		}
	}
	return ""
}
