package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/spool-agents/spool/agent"
)

// openCall is what is known of a tool call so far.
type openCall struct {
	id, name string
	args     []byte
	object   bool // the arguments came as an object
}

// whole is the call as go-openai reads it.
func (c *openCall) whole(index int) goopenai.ToolCall {
	var j joiner
	args := j.add(string(c.args)) + j.end()
	return goopenai.ToolCall{
		Index: &index, ID: c.id, Type: goopenai.ToolTypeFunction, Function: goopenai.FunctionCall{Name: c.name, Arguments: args},
	}
}

// piece finds the call a piece belongs to and adds it. The tool calls of a whole
// message are never pieces of one another.
func (n *normaliser) piece(p callPiece, position int, whole bool) {
	index := len(n.x.calls)
	if whole {
		n.add()
	} else {
		index = n.callOf(p, position)
	}
	c := n.x.calls[index]
	if c.id == "" {
		c.id = string(p.ID)
	}
	c.named(string(p.Function.Name))
	n.argue(c, p.Function.Arguments)
	n.size += len(p.Function.Name) + len(p.Function.Arguments.text)
	if present(p.Extra) && agent.Said.Check(p.Extra) == nil { // what is kept has to be read again
		if n.x.extra == nil {
			n.x.extra = map[int][]byte{}
		}
		n.x.extra[index] = bytes.ToValidUTF8(p.Extra, []byte(replacement))
		n.size += len(p.Extra)
	}
}

// named adds a piece of the name, which may be a repetition of what is known.
func (c *openCall) named(name string) {
	switch {
	case name == c.name:
	case c.name != "" && strings.HasPrefix(name, c.name): // all of it so far
		c.name = name
	default:
		c.name += name
	}
}

// argue adds a piece of the arguments to a call. Objects are joined by their fields, and
// what repeats the whole adds nothing.
func (n *normaliser) argue(c *openCall, a arguments) {
	switch {
	case a.text == "" || len(c.args) > 0 && a.text == string(c.args) && n.isObject(c.args):
	case a.object && c.object && n.isObject(c.args):
		var all, more map[string]json.RawMessage
		if json.Unmarshal(c.args, &all) != nil || json.Unmarshal([]byte(a.text), &more) != nil {
			return
		}
		maps.Copy(all, more)
		if b, err := json.Marshal(all); err == nil {
			c.args = b
		}
	default:
		c.object = a.object && len(c.args) == 0
		c.args = append(c.args, a.text...)
	}
}

// readAgain bounds how often the arguments of a reply are read while they arrive, in
// replies of the longest kind: a reply of very many small pieces ends as too large.
const readAgain = 16

// valid is json.Valid for arguments that may still grow.
func (n *normaliser) valid(b []byte) bool {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] == '{' && b[len(b)-1] != '}' {
		return false
	}
	if n.reread += len(b); n.reread > readAgain*n.limit {
		n.size = n.limit + 1
		return false
	}
	return json.Valid(b)
}

func (n *normaliser) isObject(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 1 && b[0] == '{' && n.valid(b)
}

// callOf returns the place of the call a piece belongs to, which may be a new
// one. position is the place of the piece in its chunk.
func (n *normaliser) callOf(p callPiece, position int) int {
	id, name := string(p.ID), string(p.Function.Name)
	if p.Index != nil {
		at, known := n.byIndex[*p.Index]
		if known && !n.another(at, p) {
			return at
		}
		if n.byIndex == nil {
			n.byIndex = map[number]int{}
		}
		n.byIndex[*p.Index] = len(n.x.calls)
		return n.add()
	}
	last := len(n.x.calls) - 1
	if id != "" {
		for i, c := range n.x.calls {
			// An id may be used twice; a name after complete arguments tells.
			if c.id == id && (name == "" || !n.valid(c.args)) {
				return i
			}
		}
	}
	if last < 0 {
		return n.add()
	}
	open := n.x.calls[last]
	switch {
	case name == "":
		return last // only arguments, perhaps with a fresh id for each piece
	case id != "" && open.id != "": // another call with a name
		return n.add()
	case position > 0, name != open.name, len(open.args) > 0 && n.valid(open.args):
		return n.add()
	}
	return last // the name is repeated with each piece
}

// another reports whether a piece with the index of a call begins another one:
// some send index 0 for every call. A second id and name tell, or a name and
// arguments after those that are complete.
func (n *normaliser) another(at int, p callPiece) bool {
	c, id, args := n.x.calls[at], string(p.ID), p.Function.Arguments
	switch {
	case p.Function.Name == "":
		return false
	case id != "" && c.id != "":
		return id != c.id
	case args.object && c.object:
		return false
	}
	return n.isObject(c.args) && n.isObject([]byte(args.text)) && args.text != string(c.args)
}

func (n *normaliser) add() int {
	n.x.calls = append(n.x.calls, &openCall{})
	return len(n.x.calls) - 1
}
