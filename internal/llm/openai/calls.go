package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/spool-agents/spool/agent"
)

type openCall struct {
	id, name string
	index    *number // with which it came
	object   bool    // the arguments came as an object
	// grown is the last piece of the arguments while each has repeated all of the one
	// before, as some servers send them: first is how long the first was, pieces how
	// many there were. As soon as one has not, joined holds them one after another.
	grown  string
	first  int
	pieces int
	joined strings.Builder
}

func (c *openCall) text() string {
	if c.joined.Len() > 0 {
		return c.joined.String()
	}
	return c.grown
}

// arguments are what the pieces make, as agent.ReadArguments reads it. What cannot be
// read stays as it is: the model made it, and is told.
func (c *openCall) arguments() (args string, readable bool) {
	texts := []string{c.text()}
	if c.joined.Len() == 0 && c.pieces == 2 { // which may be {"a": and {"a":1}}
		texts = []string{c.grown[:c.first] + c.grown, c.grown}
	}
	for _, text := range texts {
		var j joiner
		args = j.add(text) + j.end()
		if clean, err := agent.ReadArguments(args); err == nil {
			return clean, true
		}
	}
	return args, false
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
	n.size += len(p.Function.Name) + n.argue(c, p.Function.Arguments)
	if present(p.Extra) && agent.Said.Check(p.Extra) == nil { // what is kept has to be read again
		if n.x.extra == nil {
			n.x.extra = map[int][]byte{}
		}
		n.x.extra[index] = p.Extra
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

// argue adds a piece of the arguments to a call and returns by how much they grew.
// Objects are joined by their fields, and what repeats the whole adds nothing.
func (n *normaliser) argue(c *openCall, a arguments) int {
	was, apart := len(c.grown)+c.joined.Len(), c.joined.Len() > 0
	switch {
	case a.text == "" || apart && a.text == c.joined.String() && n.isObject(a.text):
		return 0
	case apart:
		c.joined.WriteString(a.text)
	case a.object && c.object:
		if n.mayRead(len(c.grown) + len(a.text)) {
			c.grown = joinObjects(c.grown, a.text)
		}
	case strings.HasPrefix(a.text, c.grown):
		if c.grown == "" {
			c.object, c.first = a.object, len(a.text)
		}
		c.grown, c.pieces = a.text, c.pieces+1
	default:
		if c.pieces == 2 {
			c.joined.WriteString(c.grown[:c.first])
		}
		c.joined.WriteString(c.grown)
		c.joined.WriteString(a.text)
		c.grown = ""
	}
	return max(0, len(c.grown)+c.joined.Len()-was)
}

// joinObjects joins two objects by their fields.
func joinObjects(first, second string) string {
	var all, more map[string]json.RawMessage
	if json.Unmarshal([]byte(first), &all) != nil || json.Unmarshal([]byte(second), &more) != nil {
		return first
	}
	maps.Copy(all, more)
	b, err := json.Marshal(all)
	if err != nil {
		return first
	}
	return string(b)
}

// readAgain bounds how often the arguments of a reply are read while they arrive, in
// replies of the longest kind: a reply of very many small pieces ends as too large.
const readAgain = 16

// isObject reports whether arguments that may still grow are an object.
func (n *normaliser) isObject(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		return false
	}
	return n.mayRead(len(text)) && json.Valid([]byte(text))
}

// mayRead counts what is read while it may still grow.
func (n *normaliser) mayRead(bytes int) bool {
	if n.reread += bytes; n.reread <= readAgain*n.limit {
		return true
	}
	n.size = n.limit + 1
	return false
}

// sameJSON reports whether two texts differ in blanks at most.
func sameJSON(a, b string) bool {
	var first, second bytes.Buffer
	return a == b || json.Compact(&first, []byte(a)) == nil && json.Compact(&second, []byte(b)) == nil && first.String() == second.String()
}

// callOf returns the place of the call a piece belongs to, which may be a new
// one. position is the place of the piece in its chunk.
func (n *normaliser) callOf(p callPiece, position int) int {
	id, name := string(p.ID), string(p.Function.Name)
	for i, c := range n.x.calls {
		if id != "" && c.id == id && n.takes(c, p) {
			return i
		}
	}
	if p.Index != nil {
		at, known := n.byIndex[*p.Index]
		if known && !n.another(at, p) {
			return at
		}
		if n.byIndex == nil {
			n.byIndex = map[number]int{}
		}
		n.byIndex[*p.Index] = n.add()
		n.x.calls[n.byIndex[*p.Index]].index = p.Index
		return n.byIndex[*p.Index]
	}
	last := len(n.x.calls) - 1
	if last < 0 {
		return n.add()
	}
	open := n.x.calls[last]
	switch {
	case name == "":
		return last // only arguments, perhaps with a fresh id for each piece
	case id != "" && open.id != "": // another call with a name
		return n.add()
	case position > 0, name != open.name, n.isObject(open.text()):
		return n.add()
	}
	return last // the name is repeated with each piece
}

// takes reports whether a piece with the call's id belongs to it: an id may be used
// twice. Another index tells, or a name with other arguments after those that are
// complete.
func (n *normaliser) takes(c *openCall, p callPiece) bool {
	if p.Index != nil && c.index != nil && *p.Index != *c.index {
		return false
	}
	return p.Function.Name == "" || !n.isObject(c.text()) || sameJSON(p.Function.Arguments.text, c.text())
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
	return n.isObject(c.text()) && n.isObject(args.text) && !sameJSON(args.text, c.text())
}

func (n *normaliser) add() int {
	n.x.calls = append(n.x.calls, &openCall{})
	return len(n.x.calls) - 1
}
