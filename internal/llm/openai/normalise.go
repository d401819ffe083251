package openai

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"html"
	"io"
	"regexp"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/spool-agents/spool/agent"
)

// normaliser turns what a provider sends into the chunks go-openai expects:
// text as strings, each piece of a tool call with the index of its call, no
// error objects, and [DONE] after a complete reply only.
type normaliser struct {
	x        *exchange
	limit    int // bytes of text, reasoning and arguments together
	most     int // bytes of one event
	source   func() (event, error)
	fail     func(error) error // types an error of the connection
	finished func()            // called when the finish reason arrives

	byIndex  map[number]int
	size     int
	reread   int // bytes of arguments that were read while they arrived
	said     joiner
	thought  joiner
	output   bool   // text or a call has arrived
	spoken   bool   // text has
	reasoned bool   // reasoning has
	odd      []byte // the first event that had nothing of a reply
	reason   string // the finish reason, once it has arrived
	complete bool   // nothing arrived after the finish reason
	failed   error  // what the finish reason says; the usage may follow
	ended    bool
}

// open looks at the first byte: providers answer a stream request with plain
// JSON, and proxies with HTML, whatever the content type says.
func (n *normaliser) open(r *bufio.Reader) error {
	first, err := firstByte(r)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return unreadable("the provider sent an empty reply")
		}
		return n.fail(err)
	}
	if first == '<' {
		n.x.refused = true
		page, _ := r.Peek(maxErrorMessage) // what has arrived by then
		e := unreadable("the answer is a web page: " + cmp.Or(pageText(string(page)), "without text"))
		e.Code = agent.ModelBadResponse
		return e
	}
	if first != '{' && first != '[' {
		return n.lines(r)
	}
	// A whole reply holds escapes, and more than what counts.
	body, err := readAll(r, 2*n.limit+1<<20)
	if err != nil {
		return n.fail(err)
	}
	whole := [][]byte{body, []byte(done)}
	if !json.Valid(body) {
		// A server may forget "data:" in front of its events.
		return n.lines(bufio.NewReader(bytes.NewReader(body)))
	}
	n.source = func() (event, error) {
		if len(whole) == 0 {
			return event{}, io.EOF
		}
		e := event{data: whole[0]}
		whole = whole[1:]
		return e, nil
	}
	return nil
}

// lines reads events. What stands between them is kept only for saying what came.
func (n *normaliser) lines(r *bufio.Reader) error {
	stream := &sse{r: r, limit: n.most, stray: func(line []byte) {
		if n.odd == nil {
			n.odd = bytes.Clone(line[:min(len(line), maxErrorMessage)])
		}
	}}
	n.source = stream.next
	return nil
}

// tags are what is no text in a web page.
var tags = regexp.MustCompile(`(?is)<(script|style)\b.*?(</(script|style)>|$)|<[^>]*(>|$)`)

func pageText(page string) string {
	const most = 200
	text := strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(page, " "))), " ")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// next returns the next bytes for go-openai, possibly none.
func (n *normaliser) next() ([]byte, error) {
	if n.ended {
		return nil, io.EOF
	}
	e, err := n.source()
	switch {
	case err != nil && n.complete:
		// What broke after the finish reason took nothing away.
		return n.end()
	case errors.Is(err, io.EOF) && !n.output:
		return nil, n.nothing()
	case errors.Is(err, io.EOF), errors.Is(err, errUnreadable) && n.output:
		return nil, broken("the stream ended before the reply was complete")
	case err != nil:
		return nil, n.fail(err)
	case string(e.data) == done:
		return n.done()
	}
	c, err := n.decode(e)
	if err != nil {
		return nil, err
	}
	out, err := n.chunk(c)
	if err != nil || out == nil {
		return nil, err
	}
	return line(out)
}

func line(c *goopenai.ChatCompletionStreamResponse) ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("data: "), b...), "\n\n"...), nil
}

// end sends the tool calls, which are whole only now, and [DONE].
func (n *normaliser) end() ([]byte, error) {
	if n.failed != nil {
		return nil, n.failed
	}
	n.ended = true
	last := goopenai.ChatCompletionStreamChoice{}
	last.Delta.Content, last.Delta.ReasoningContent = n.said.end(), n.thought.end()
	for i, c := range n.x.calls {
		args, _ := c.arguments()
		last.Delta.ToolCalls = append(last.Delta.ToolCalls, goopenai.ToolCall{
			Index: &i, ID: c.id, Type: goopenai.ToolTypeFunction, Function: goopenai.FunctionCall{Name: c.name, Arguments: args},
		})
	}
	b, err := line(&goopenai.ChatCompletionStreamResponse{Choices: []goopenai.ChatCompletionStreamChoice{last}})
	return append(b, "data: "+done+"\n\n"...), err
}

// nothing is the error for a stream without an answer.
func (n *normaliser) nothing() error {
	if n.odd != nil {
		return unreadable("the provider sent " + string(n.odd) + ", which is no reply")
	}
	return unreadable("the stream ended without an answer")
}

// done checks a reply that ends with [DONE] but gave no finish reason: some
// providers leave it out.
func (n *normaliser) done() ([]byte, error) {
	if n.reason != "" {
		return n.end()
	}
	if !n.output {
		return nil, n.nothing()
	}
	for _, c := range n.x.calls {
		if _, readable := c.arguments(); !readable {
			return nil, broken("the stream ended within the arguments of a tool call")
		}
	}
	return n.end()
}

// decode reads an event and finds the errors hidden in it.
func (n *normaliser) decode(e event) (*chunk, error) {
	raw := json.RawMessage(e.data)
	var c chunk
	if e.name == "error" && !json.Valid(raw) {
		return nil, problem{message: string(raw)}.modelError(200)
	}
	if raw[0] == '[' {
		if p, ok := readProblem(raw); ok {
			return nil, p.modelError(200)
		}
		return nil, unreadable("the provider sent a list instead of a reply")
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, unreadable("the provider sent an event of an unknown form: " + string(raw[:min(len(raw), maxErrorMessage)]))
	}
	hidden := present(c.Error) || e.name == "error" || c.Object == "error" || c.Type == "error" ||
		len(c.Choices) == 0 && !present(c.Usage) && (present(c.Message) || present(c.Detail) || present(c.Errors))
	if present(c.Groq.Error) {
		raw, hidden = c.Groq.Error, true
	}
	for _, ch := range c.Choices {
		if present(ch.Error) {
			raw, hidden = ch.Error, true
		}
	}
	if len(c.Choices) == 0 && !hidden && !present(c.Usage) && c.Type != "ping" && n.odd == nil {
		n.odd = bytes.Clone(raw[:min(len(raw), maxErrorMessage)])
	}
	if hidden {
		n.count(&c)
		p, ok := readProblem(raw)
		if !ok {
			p.message = string(raw)
		}
		n.x.refused = !n.output && n.x.usage.TotalTokens == 0
		return nil, p.modelError(200)
	}
	return &c, nil
}

func (n *normaliser) count(c *chunk) {
	sources := []json.RawMessage{c.Usage, c.Groq.Usage}
	for _, ch := range c.Choices {
		sources = append(sources, ch.Usage)
	}
	for _, raw := range sources {
		if u, ok := readUsage(raw); ok {
			n.x.usage = later(n.x.usage, u)
		}
	}
}

// chunk makes go-openai's form of a chunk; nil if it says nothing.
func (n *normaliser) chunk(c *chunk) (*goopenai.ChatCompletionStreamResponse, error) {
	n.count(c)
	out := &goopenai.ChatCompletionStreamResponse{Object: "chat.completion.chunk", Model: string(c.Model)}
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			continue // one answer was asked for
		}
		d := ch.Delta
		if d == nil {
			d = ch.Message
		}
		to := goopenai.ChatCompletionStreamChoice{}
		said := false
		if d != nil {
			said = n.delta(d, &to.Delta, ch.Delta == nil)
		}
		if n.size > n.limit {
			return nil, tooLarge("reply", n.limit)
		}
		if ch.FinishReason != "" && ch.FinishReason != "null" {
			n.reason, n.complete = string(ch.FinishReason), true
			n.finished()
			to.FinishReason = goopenai.FinishReason(finishOf(n.reason).reason)
			if f := finishOf(n.reason); f.code != "" {
				n.failed = &agent.ModelError{Code: f.code, Retryable: f.retry, Class: f.class, Message: f.text}
			}
		} else if said {
			n.complete = false
		}
		out.Choices = append(out.Choices, to)
	}
	if len(out.Choices) == 0 {
		return nil, nil
	}
	return out, nil
}

// delta copies one delta, of a whole message or a piece of one, and reports whether
// it said anything. Some servers send the whole message again at the end of its pieces.
func (n *normaliser) delta(d *delta, to *goopenai.ChatCompletionStreamChoiceDelta, whole bool) bool {
	if whole && n.spoken {
		d.Content, d.Refusal = "", ""
	}
	if whole && len(n.x.calls) > 0 {
		d.ToolCalls, d.FunctionCall = nil, nil
	}
	to.Content = n.said.add(string(d.Content + d.Refusal))
	thought := d.ReasoningContent
	if thought == "" { // some send both, with the same text
		thought = d.Reasoning
	}
	if whole && n.reasoned {
		thought = ""
	}
	to.ReasoningContent = n.thought.add(string(thought))
	n.spoken, n.reasoned = n.spoken || to.Content != "", n.reasoned || to.ReasoningContent != ""
	calls := d.ToolCalls
	if f := d.FunctionCall; f != nil && (f.Name != "" || f.Arguments.text != "") {
		calls = append(calls, callPiece{Index: new(number), Function: *f})
	}
	for i, p := range calls {
		n.piece(p, i, whole)
	}
	n.size += len(to.Content) + len(to.ReasoningContent)
	if to.Content != "" || len(calls) > 0 {
		n.output = true
	}
	return to.Content != "" || to.ReasoningContent != "" || len(calls) > 0
}

// asModelError returns err's ModelError, or nil.
func asModelError(err error) *agent.ModelError {
	var m *agent.ModelError
	if errors.As(err, &m) {
		return m
	}
	return nil
}
