package script

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Prefix begins a message that holds a script.
const Prefix = "script:"

// Script joins steps to the text of a scripted message.
func Script(steps ...string) string { return Prefix + " " + strings.Join(steps, " ;; ") }

// Call is the step that calls a tool. args is marshalled to JSON; it panics if
// that is impossible.
func Call(tool string, args any) string {
	b, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("script: arguments of %s: %v", tool, err))
	}
	return "call " + tool + " " + string(b)
}

// Task is the step that delegates a task to an agent in the foreground. The
// task may itself be a Script.
func Task(agentType, task string) string {
	return Call("assign_task", map[string]string{"agent": agentType, "task": task})
}

// Calls puts several calls, each made by Call or Task, in one reply.
func Calls(calls ...string) string { return strings.Join(calls, " && ") }

type step struct {
	text     string // say, echo
	echo     bool
	think    string
	calls    []agent.CallFunction
	rounds   int
	first    time.Duration
	slow     time.Duration
	fail     Fault
	breaks   int
	mistake  string
	finished bool
}

// parse reads the steps of a script, the text after Prefix.
func parse(text string) []step {
	var steps []step
	for text != "" {
		text = strings.TrimLeft(text, " \t\r\n")
		if rest, ok := strings.CutPrefix(text, ";;"); ok {
			text = rest
			continue
		}
		if text == "" {
			break
		}
		p := parser{rest: text}
		steps = append(steps, p.step())
		text = p.rest
	}
	return steps
}

type parser struct{ rest string }

func (p *parser) step() step {
	s := step{rounds: 1}
	for s.mistake == "" && !s.finished {
		p.modifierOrAction(&s)
	}
	if s.mistake != "" {
		p.line()
		s.rounds = 1
	}
	return s
}

func (p *parser) modifierOrAction(s *step) {
	switch word := p.word(); word {
	case "say":
		s.text, s.finished = unescape(p.line()), true
	case "echo":
		s.text, s.echo, s.finished = unescape(p.line()), true, true
	case "ask":
		args, err := json.Marshal(map[string]string{"question": unescape(p.line())})
		if err != nil {
			s.mistake = err.Error() // no text is like that
			return
		}
		s.calls, s.finished = []agent.CallFunction{{Name: agent.ToolAskUser, Arguments: string(args)}}, true
	case "call":
		s.calls, s.finished = p.calls(), true
		if left := p.line(); left != "" {
			s.mistake = fmt.Sprintf("unexpected %q after a call", left)
		}
	case "repeat":
		s.rounds = p.number(s, word)
	case "first":
		s.first = p.duration(s, word)
	case "slow":
		s.slow = p.duration(s, word)
	case "fail":
		s.fail = Fault{Status: p.number(s, word), Times: p.times()}
		if p.peek() == "after" {
			p.word()
			s.fail.RetryAfter = p.duration(s, "after")
		}
	case "break":
		s.breaks = p.times()
	case "think":
		end := strings.Index(p.rest, " => ")
		if end < 0 || end > len(p.untilEnd()) {
			s.mistake = `think needs " => " and a step after it`
			return
		}
		s.think, p.rest = unescape(strings.TrimSpace(p.rest[:end])), p.rest[end+len(" => "):]
	case "":
		s.mistake = "a step is missing"
	default:
		s.mistake = fmt.Sprintf("unknown word %q, want say, echo, call, ask, repeat, think, first, slow, fail or break", word)
	}
}

// calls reads TOOL {JSON} && TOOL {JSON} ...
func (p *parser) calls() []agent.CallFunction {
	var calls []agent.CallFunction
	for {
		call := agent.CallFunction{Name: p.word(), Arguments: "{}"}
		if call.Name == "call" { // "call a {} && call b {}" reads naturally too
			call.Name = p.word()
		}
		if p.skipBlanks(); strings.HasPrefix(p.rest, "{") {
			call.Arguments = p.json()
		}
		calls = append(calls, call)
		p.skipBlanks()
		rest, more := strings.CutPrefix(p.rest, "&&")
		if !more {
			return calls
		}
		p.rest = rest
	}
}

// json reads one JSON value, or what stands there instead of one.
func (p *parser) json() string {
	d := json.NewDecoder(strings.NewReader(p.rest))
	var raw json.RawMessage
	if err := d.Decode(&raw); err == nil {
		p.rest = p.rest[d.InputOffset():]
		return string(raw)
	}
	text := p.untilEnd()
	if i := strings.Index(text, " && "); i >= 0 {
		text = text[:i]
	}
	p.rest = p.rest[len(text):]
	return strings.TrimSpace(text)
}

func (p *parser) skipBlanks() { p.rest = strings.TrimLeft(p.rest, " \t\r") }

func (p *parser) untilEnd() string {
	end := len(p.rest)
	if i := strings.IndexByte(p.rest, '\n'); i >= 0 {
		end = i
	}
	if strings.HasPrefix(p.rest, ";;") {
		end = 0
	} else if i := strings.Index(p.rest[:end], " ;;"); i >= 0 {
		end = i
	}
	return p.rest[:end]
}

func (p *parser) line() string {
	text := p.untilEnd()
	p.rest = p.rest[len(text):]
	return strings.TrimSpace(text)
}

func (p *parser) peek() string {
	p.skipBlanks()
	if strings.HasPrefix(p.rest, ";;") {
		return ""
	}
	if end := strings.IndexAny(p.rest, " \t\r\n"); end >= 0 {
		return p.rest[:end]
	}
	return p.rest
}

func (p *parser) word() string {
	w := p.peek()
	p.rest = p.rest[len(w):]
	return w
}

// times reads an optional xN.
func (p *parser) times() int {
	if digits, ok := strings.CutPrefix(p.peek(), "x"); ok {
		if n, err := strconv.Atoi(digits); err == nil {
			p.word()
			return n
		}
	}
	return 1
}

func (p *parser) number(s *step, of string) int {
	w := p.word()
	n, err := strconv.Atoi(w)
	if err != nil || n < 1 {
		s.mistake = fmt.Sprintf("%s needs a number, got %q", of, w)
	}
	return n
}

func (p *parser) duration(s *step, of string) time.Duration {
	w := p.word()
	d, err := time.ParseDuration(w)
	if err != nil || d < 0 {
		s.mistake = fmt.Sprintf("%s needs a duration such as 50ms, got %q", of, w)
	}
	return d
}

func unescape(s string) string { return strings.ReplaceAll(s, `\n`, "\n") }
