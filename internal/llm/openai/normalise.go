package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/spool-agents/spool/agent"
)

// normaliser turns what a provider sends into the chunks go-openai expects:
// text as strings, each piece of a tool call with the index of its call, no
// error objects, and [DONE] after a complete reply only.
type normaliser struct {
	x        *exchange
	limit    int // bytes of text, reasoning and arguments together
	source   func() (event, error)
	fail     func(error) error // types an error of the connection
	finished func()            // called when the finish reason arrives

	calls    []*openCall
	byIndex  map[number]int
	size     int
	output   bool   // text or a call has arrived
	reason   string // the finish reason, once it has arrived
	complete bool   // nothing arrived after the finish reason
	ended    bool
}

// openCall is what is known of a tool call so far.
type openCall struct {
	id, name string
	args     []byte
}

// open looks at the first byte: providers answer a stream request with plain
// JSON, and proxies with HTML, whatever the content type says.
func (n *normaliser) open(r *bufio.Reader) error {
	first, err := firstByte(r)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return broken("the provider sent an empty reply")
		}
		return n.fail(err)
	}
	if first == '<' {
		return &agent.ModelError{Code: agent.ModelBadResponse, Message: "the answer is a web page, not a reply: check the base URL"}
	}
	// An event of escaped text takes up to six bytes for one.
	limit := 6*n.limit + 1<<20
	if first != '{' && first != '[' {
		stream := &sse{r: r, limit: limit}
		n.source = stream.next
		return nil
	}
	body, err := readAll(r, limit)
	if err != nil {
		return n.fail(err)
	}
	whole := [][]byte{body, []byte(done)}
	if !json.Valid(body) {
		// A server may forget "data:" in front of its events.
		lines := &sse{r: bufio.NewReader(bytes.NewReader(body)), limit: limit}
		n.source = lines.next
		return nil
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
	case errors.Is(err, io.EOF):
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
	b, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("data: "), b...), "\n\n"...), nil
}

func (n *normaliser) end() ([]byte, error) {
	n.ended = true
	return []byte("data: " + done + "\n\n"), nil
}

// done checks a reply that ends with [DONE] but gave no finish reason: some
// providers leave it out.
func (n *normaliser) done() ([]byte, error) {
	if n.reason != "" {
		return n.end()
	}
	if !n.output {
		return nil, broken("the stream ended without an answer")
	}
	for _, c := range n.calls {
		if len(c.args) > 0 && !json.Valid(c.args) {
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
		return nil, broken("the provider sent a list instead of a reply")
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, broken("the provider sent an event of an unknown form")
	}
	hidden := present(c.Error) || e.name == "error" || c.Object == "error" || c.Type == "error" ||
		len(c.Choices) == 0 && present(c.Message) && !present(c.Usage)
	for _, ch := range c.Choices {
		if present(ch.Error) {
			raw, hidden = ch.Error, true
		}
	}
	if hidden {
		n.count(&c)
		p, ok := readProblem(raw)
		if !ok {
			p.message = string(raw)
		}
		return nil, p.modelError(200)
	}
	return &c, nil
}

// count keeps the latest usage: some providers repeat a running total.
func (n *normaliser) count(c *chunk) {
	sources := []json.RawMessage{c.Usage, c.Groq.Usage}
	for _, ch := range c.Choices {
		sources = append(sources, ch.Usage)
	}
	for _, raw := range sources {
		if u, ok := readUsage(raw); ok {
			n.x.usage = u
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
			return nil, &agent.ModelError{Code: agent.ModelBadResponse, Message: fmt.Sprintf("the reply is larger than %d bytes", n.limit)}
		}
		if ch.FinishReason != "" && ch.FinishReason != "null" {
			n.reason, n.complete = string(ch.FinishReason), true
			n.finished()
			to.FinishReason = goopenai.FinishReason(finishOf(n.reason).reason)
			if f := finishOf(n.reason); f.code != "" {
				return nil, &agent.ModelError{Code: f.code, Retryable: f.retry, Message: f.text}
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

// delta copies one delta and reports whether it said anything. The tool calls of
// a whole message are never pieces of one another.
func (n *normaliser) delta(d *delta, to *goopenai.ChatCompletionStreamChoiceDelta, whole bool) bool {
	to.Content = string(d.Content + d.Refusal)
	to.ReasoningContent = string(d.ReasoningContent)
	if to.ReasoningContent == "" { // some send both, with the same text
		to.ReasoningContent = string(d.Reasoning)
	}
	pieces := d.ToolCalls
	if f := d.FunctionCall; f != nil && (f.Name != "" || f.Arguments != "") {
		pieces = append(pieces, callPiece{Index: new(number), Function: *f})
	}
	for i, p := range pieces {
		to.ToolCalls = append(to.ToolCalls, n.piece(p, i, whole))
	}
	n.size += len(to.Content) + len(to.ReasoningContent)
	if to.Content != "" || len(to.ToolCalls) > 0 {
		n.output = true
	}
	return to.Content != "" || to.ReasoningContent != "" || len(to.ToolCalls) > 0
}

// piece finds the call a piece belongs to and adds it.
func (n *normaliser) piece(p callPiece, position int, whole bool) goopenai.ToolCall {
	index := len(n.calls)
	if whole {
		n.add()
	} else {
		index = n.callOf(p, position)
	}
	c := n.calls[index]
	out := goopenai.ToolCall{Index: &index, Type: goopenai.ToolTypeFunction}
	if c.id == "" && p.ID != "" {
		c.id = string(p.ID)
		out.ID = c.id
	}
	if name := string(p.Function.Name); name != c.name { // an equal name is a repetition
		c.name += name
		out.Function.Name = name
	}
	c.args = append(c.args, p.Function.Arguments...)
	out.Function.Arguments = string(p.Function.Arguments)
	n.size += len(p.Function.Name) + len(p.Function.Arguments)
	if present(p.Extra) {
		if n.x.extra == nil {
			n.x.extra = map[int][]byte{}
		}
		n.x.extra[index] = p.Extra
		n.size += len(p.Extra)
	}
	return out
}

// callOf returns the place of the call a piece belongs to, which may be a new
// one. position is the place of the piece in its chunk.
func (n *normaliser) callOf(p callPiece, position int) int {
	id, name := string(p.ID), string(p.Function.Name)
	if p.Index != nil {
		at, known := n.byIndex[*p.Index]
		// Some send index 0 for every call; a second id and name tell.
		if known && (id == "" || n.calls[at].id == "" || id == n.calls[at].id || name == "") {
			return at
		}
		if n.byIndex == nil {
			n.byIndex = map[number]int{}
		}
		n.byIndex[*p.Index] = len(n.calls)
		return n.add()
	}
	last := len(n.calls) - 1
	if id != "" {
		for i, c := range n.calls {
			// An id may be used twice; a name after complete arguments tells.
			if c.id == id && (name == "" || !json.Valid(c.args)) {
				return i
			}
		}
	}
	if last < 0 {
		return n.add()
	}
	open := n.calls[last]
	switch {
	case name == "":
		return last // only arguments, perhaps with a fresh id for each piece
	case id != "" && open.id != "": // another call with a name
		return n.add()
	case position > 0, name != open.name, len(open.args) > 0 && json.Valid(open.args):
		return n.add()
	}
	return last // the name is repeated with each piece
}

func (n *normaliser) add() int {
	n.calls = append(n.calls, &openCall{})
	return len(n.calls) - 1
}

// asModelError returns err's ModelError, or nil.
func asModelError(err error) *agent.ModelError {
	var m *agent.ModelError
	if errors.As(err, &m) {
		return m
	}
	return nil
}
