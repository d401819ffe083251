package printer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/terminal"
)

// Live shows updates of a thread tree as they come: the root's text on one
// writer, tools, sub-agents and approvals as lines on another.
type Live struct {
	root string
	turn string    // text of other turns is not shown; empty = of all
	text io.Writer // nil: text is not shown live
	note func(format string, args ...any)

	agents  map[string]string // sub-agent thread id -> what it is called
	depth   map[string]int
	apart   map[string]bool    // calls that delegate in the background
	calls   map[string]payload // without a result
	shown   map[string]*shown  // by message id
	cleaner terminal.Cleaner
	midLine bool
	said    map[string]bool // what stands in the logs of two threads is shown once

	// Cursor says by thread where to go on, Failure why a turn of the root ended, as
	// it was shown last.
	Cursor  map[string]string
	Failure string
}

type shown struct {
	attempt int
	text    strings.Builder
}

// NewLive shows a turn of a thread, "" = all of them.
func NewLive(root, turn string, text io.Writer, note func(string, ...any)) *Live {
	return &Live{root: root, turn: turn, text: text, note: note, agents: map[string]string{}, depth: map[string]int{}, apart: map[string]bool{}, calls: map[string]payload{}, shown: map[string]*shown{},
		said: map[string]bool{}, Cursor: map[string]string{}}
}

// Update shows one update.
func (l *Live) Update(u spool.Update) {
	l.Cursor[u.ThreadID] = u.Cursor
	switch own := u.ThreadID == l.root; {
	case u.Text != nil && own:
		l.stream(u.Text)
	case u.Event != nil:
		if own {
			for _, m := range u.Messages {
				if u.Event.Type == agent.EventMessageStarted {
					l.Line("the turn is retried: its answer replaces the one before")
					continue
				}
				l.saved(m)
			}
		}
		l.event(u)
	}
}

// stream writes a piece of text; a new attempt begins on a new line.
func (l *Live) stream(t *spool.TextUpdate) {
	if l.text == nil || t.Text == "" || l.turn != "" && t.TurnID != l.turn {
		return
	}
	s := l.shown[t.MessageID]
	if s == nil || s.attempt != t.Attempt {
		if s != nil {
			l.Line("the model call was interrupted; its text starts again")
		}
		s = l.begin(t.MessageID)
		s.attempt = t.Attempt
	}
	l.write(s, t.Text)
}

// begin starts the text of a message on a new line.
func (l *Live) begin(messageID string) *shown {
	l.EndLine()
	l.cleaner = terminal.Cleaner{}
	s := &shown{}
	l.shown[messageID] = s
	return s
}

func (l *Live) write(s *shown, text string) {
	s.text.WriteString(text)
	l.emit(text)
}

func (l *Live) emit(text string) {
	if out := l.cleaner.Clean(text); out != "" {
		_, _ = io.WriteString(l.text, out)
		l.midLine = !strings.HasSuffix(out, "\n")
	}
}

// saved completes the text of a message: its end is shown, or all of it if what
// was shown is not how it begins.
func (l *Live) saved(m agent.Message) {
	text := m.Content.String()
	if l.text == nil || m.Role != agent.RoleAssistant || text == "" || l.turn != "" && m.TurnID != l.turn {
		return
	}
	s := l.shown[m.ID]
	switch {
	case s == nil && m.Partial:
		l.begin(m.ID).text.WriteString(text)
		l.emit(brokenOff(text))
	case s == nil || !strings.HasPrefix(text, s.text.String()):
		l.write(l.begin(m.ID), text)
	default:
		l.write(s, text[s.text.Len():])
	}
	l.EndLine()
}

// EndLine ends a line of text that was begun.
func (l *Live) EndLine() {
	if l.midLine {
		_, _ = io.WriteString(l.text, "\n")
		l.midLine = false
	}
}

// Line writes a line of what happens.
func (l *Live) Line(format string, args ...any) {
	l.EndLine()
	l.note("%s", fmt.Sprintf(format, args...))
}

// who introduces a line about a thread.
func (l *Live) who(threadID string) string {
	if threadID == l.root {
		return ""
	}
	name := l.agents[threadID]
	if name == "" {
		name = threadID
	}
	return strings.Repeat("  ", max(1, l.depth[threadID])) + name + ": "
}

type payload struct {
	Intent      string           `json:"intent"`
	Arguments   json.RawMessage  `json:"arguments"`
	ToolCallID  string           `json:"toolCallId"`
	SubAgent    string           `json:"sub_agent_thread_id"`
	Name        string           `json:"name"`
	Status      string           `json:"status"`
	ErrorReason string           `json:"errorReason"`
	DurationMs  int64            `json:"durationMs"`
	ApprovalID  string           `json:"approvalId"`
	QuestionID  string           `json:"questionId"`
	AnsweredBy  string           `json:"answeredBy"`
	Text        string           `json:"text"`
	State       string           `json:"state"`
	Agent       string           `json:"agent"`
	Decision    string           `json:"decision"`
	Code        string           `json:"code"`
	Message     string           `json:"message"`
	From        int64            `json:"replacesFrom"`
	To          int64            `json:"replacesTo"`
	Wait        *agent.ModelWait `json:"wait"`
}

func (l *Live) event(u spool.Update) {
	var p payload
	_ = json.Unmarshal(u.Event.Data, &p) // unknown payloads are shown without detail
	who := l.who(u.ThreadID)
	switch u.Event.Type {
	case agent.EventToolCall:
		l.call(u.ThreadID, who, p)
	case agent.EventToolResponse:
		l.response(who, p)
	case agent.EventApprovalRequired:
		l.Line("%s? approval %s wanted", who, p.ApprovalID)
	case agent.EventApprovalResponse:
		l.Line("%s! approval %s: %s", who, p.ApprovalID, terminal.OneLine(p.Decision, 20))
	case agent.EventQuestionAsked:
		if l.first(u.Event.Type + p.QuestionID) { // the root shows those of its sub-agents too
			l.Line("%s? question %s of %s: %s", who, p.QuestionID, terminal.OneLine(p.Agent, 60), terminal.OneLine(p.Text, 120))
		}
	case agent.EventQuestionAnswered:
		by := "by " + terminal.OneLine(p.AnsweredBy, 60)
		if p.AnsweredBy == "" {
			by = "as " + terminal.OneLine(p.State, 20)
		}
		if l.first(u.Event.Type + p.QuestionID) {
			l.Line("%s! question %s: settled %s", who, p.QuestionID, by)
		}
	case agent.EventWarning:
		switch {
		case p.Wait != nil:
			l.wait(*p.Wait, u.Event.At)
		case p.Code != agent.WarnAnswerCut || l.turn != u.Event.TurnID: // else the report of the turn says so
			l.Line("%s! %s", who, terminal.OneLine(p.Message, 300))
		}
	case agent.EventContextSummary:
		what := "the conversation it was given was"
		if p.To > 0 {
			what = fmt.Sprintf("messages %d to %d were", p.From, p.To)
		}
		l.Line("%s… %s summarised to fit the model; nothing was deleted", who, what)
	case agent.EventError:
		text := FailureLine(p.Code, p.Message)
		if u.ThreadID == l.root {
			l.Failure = text
		}
		l.Line("%s✗ %s", who, text)
	case agent.EventDone:
		if who != "" {
			l.Line("%s✓ done", who)
		}
	}
}

// call shows a call; that of a sub-agent gives it its name and depth.
func (l *Live) call(threadID, who string, p payload) {
	l.calls[p.ToolCallID] = p
	if p.SubAgent == "" {
		l.Line("%s→ %s", who, terminal.CallText(p.Intent, p.Arguments))
		return
	}
	name := p.SubAgent
	if id, err := agent.ParseThreadID(p.SubAgent); err == nil {
		name = id.AgentType
	}
	l.agents[p.SubAgent], l.depth[p.SubAgent] = name, l.depth[threadID]+1
	var asked agent.AssignParams
	_ = json.Unmarshal(p.Arguments, &asked) // they were good enough to start it
	l.apart[p.ToolCallID] = asked.Background
	l.Line("%s→ %s %s", who, name, Short(p.SubAgent))
}

// runs reports whether a tool has a call without a result.
func (l *Live) runs(tool string) bool {
	for _, c := range l.calls {
		if c.Intent == tool {
			return true
		}
	}
	return false
}

func (l *Live) response(who string, p payload) {
	name := terminal.OneLine(cmp.Or(p.Name, terminal.NoName), 60)
	call := l.calls[p.ToolCallID]
	delete(l.calls, p.ToolCallID)
	if p.SubAgent != "" {
		name = terminal.OneLine(l.agents[p.SubAgent], 60)
	} else if call.ToolCallID != "" && l.runs(p.Name) { // which of them has ended?
		name = terminal.CallText(p.Name, call.Arguments)
	}
	ok := p.Status == string(agent.CallSuccess)
	if l.apart[p.ToolCallID] && ok {
		l.Line("%s⇢ %s goes on in the background", who, name)
		return
	}
	mark, took := "✓", ""
	if !ok {
		mark = "✗ " + callStatus(agent.CallStatus(p.Status), agent.ErrorReason(p.ErrorReason))
	}
	if p.DurationMs > 0 {
		took = " " + short(time.Duration(p.DurationMs)*time.Millisecond)
	}
	l.Line("%s%s %s%s", who, mark, name, took)
}

// wait says that a model call is made later, unless that is over, or short. A
// sub-agent's stands in the log of the root too.
func (l *Live) wait(w agent.ModelWait, at time.Time) {
	now := time.Now()
	if w.Until.Sub(at) < agent.ShortWait || now.After(w.Until) || !l.first(fmt.Sprint(agent.WarnModelWait, w.TurnID, w.Until, w.Attempt)) {
		return
	}
	who := l.who(w.ThreadID)
	if who != "" && l.agents[w.ThreadID] == "" {
		who = "  " + terminal.OneLine(w.Agent, 60) + ": "
	}
	l.Line("%s… %s", who, terminal.Visible(w.Text(now)))
}

// first reports whether something is said for the first time.
func (l *Live) first(what string) bool {
	before := l.said[what]
	l.said[what] = true
	return !before
}

// Finish shows an answer of which nothing was shown (a turn that took the message
// of another, or that was closed before it could be followed).
func (l *Live) Finish(r spool.Reply) {
	if r.Response == "" {
		return
	}
	for _, s := range l.shown {
		if strings.HasSuffix(s.text.String(), r.Response) {
			return
		}
	}
	l.EndLine()
	_, _ = io.WriteString(l.text, Response(r)+"\n")
}

// callStatus is how a call ended: one that a person answered is not one refused.
func callStatus(s agent.CallStatus, why agent.ErrorReason) string {
	if s == agent.CallDenied && why == agent.ErrEdited {
		return "edited"
	}
	return string(s)
}

// failureText is why a turn ended: its code, once, and what it means.
func failureText(code, message string) string {
	message = agent.LocalTimes(message, time.Now())
	switch {
	case code == "" || code == message:
		return terminal.Clean(message)
	case message == "":
		return terminal.Clean(code)
	}
	return terminal.Clean(code + ": " + message)
}

// FailureLine is why a turn ended, in a line. What to do stands at its end.
func FailureLine(code, message string) string {
	const longest = 1500
	return terminal.OneLine(failureText(code, message), longest)
}

// brokenOff is the text of a call that failed, as a person reads it: a server that
// repeats itself without end leaves megabytes.
func brokenOff(text string) string {
	const most = 8 << 10
	return agent.Shorten(text, most, "; --json shows all of it")
}

// Response is what a turn answered, or how far it came, as a person reads it.
func Response(r spool.Reply) string {
	if r.Status == string(agent.ThreadFailed) {
		return terminal.Clean(brokenOff(r.Response))
	}
	return terminal.Clean(r.Response)
}
