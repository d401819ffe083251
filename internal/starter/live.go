package starter

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

// live shows updates of a thread tree as they come: the root's text on one
// writer, tools, sub-agents and approvals as lines on another.
type live struct {
	root string
	turn string    // text of other turns is not shown; empty = of all
	text io.Writer // nil: text is not shown live
	note func(format string, args ...any)

	agents  map[string]string // sub-agent thread id -> what it is called
	depth   map[string]int
	apart   map[string]bool   // calls that delegate in the background
	shown   map[string]*shown // by message id
	cleaner cleaner
	midLine bool
	cursor  map[string]string // by thread: where to go on
	told    map[string]bool   // what two threads tell is shown once
	failure string            // why a turn of the root ended, as it was shown last
}

// shown is what was written of a message.
type shown struct {
	attempt int
	text    strings.Builder
}

func newLive(root, turn string, text io.Writer, note func(string, ...any)) *live {
	return &live{root: root, turn: turn, text: text, note: note, agents: map[string]string{}, depth: map[string]int{}, apart: map[string]bool{}, shown: map[string]*shown{}, cursor: map[string]string{}, told: map[string]bool{}}
}

// update shows one update.
func (l *live) update(u spool.Update) error {
	l.cursor[u.ThreadID] = u.Cursor
	switch {
	case u.Text != nil:
		if u.ThreadID == l.root {
			l.stream(u.Text)
		}
	case u.Event != nil:
		if u.ThreadID == l.root {
			for _, m := range u.Messages {
				if u.Event.Type == agent.EventMessageStarted {
					l.line("the turn is retried: its answer replaces the one before")
					continue
				}
				l.saved(m)
			}
		}
		l.event(u)
	}
	return nil
}

// stream writes a piece of text; a new attempt begins on a new line.
func (l *live) stream(t *spool.TextUpdate) {
	if l.text == nil || t.Text == "" || l.turn != "" && t.TurnID != l.turn {
		return
	}
	s := l.shown[t.MessageID]
	if s == nil || s.attempt != t.Attempt {
		if s != nil {
			l.line("the model call was interrupted; its text starts again")
		}
		s = &shown{attempt: t.Attempt}
		l.shown[t.MessageID] = s
		l.cleaner = cleaner{}
		l.endLine()
	}
	l.write(s, t.Text)
}

func (l *live) write(s *shown, text string) {
	s.text.WriteString(text)
	l.emit(text)
}

func (l *live) emit(text string) {
	if out := l.cleaner.clean(text); out != "" {
		_, _ = io.WriteString(l.text, out)
		l.midLine = !strings.HasSuffix(out, "\n")
	}
}

// saved completes the text of a message: its end is shown, or all of it if what
// was shown is not how it begins.
func (l *live) saved(m agent.Message) {
	text := m.Content.String()
	if l.text == nil || m.Role != agent.RoleAssistant || text == "" || l.turn != "" && m.TurnID != l.turn {
		return
	}
	s := l.shown[m.ID]
	switch {
	case s == nil:
		s = &shown{}
		l.shown[m.ID] = s
		l.cleaner = cleaner{}
		l.endLine()
		if m.Partial {
			s.text.WriteString(text)
			l.emit(brokenOff(text))
			l.endLine()
			return
		}
	case !strings.HasPrefix(text, s.text.String()):
		l.endLine()
		s.text.Reset()
		l.cleaner = cleaner{}
	case s.text.Len() == len(text):
		l.endLine()
		return
	}
	l.write(s, text[s.text.Len():])
	l.endLine()
}

// endLine ends a line of text that was begun.
func (l *live) endLine() {
	if l.midLine {
		_, _ = io.WriteString(l.text, "\n")
		l.midLine = false
	}
}

func (l *live) line(format string, args ...any) {
	l.endLine()
	l.note("%s", fmt.Sprintf(format, args...))
}

// who introduces a line about a thread.
func (l *live) who(threadID string) string {
	if threadID == l.root {
		return ""
	}
	name := l.agents[threadID]
	if name == "" {
		name = threadID
	}
	return strings.Repeat("  ", max(1, l.depth[threadID])) + name + ": "
}

// payload has the parts of events that are shown.
type payload struct {
	Intent       string          `json:"intent"`
	Arguments    json.RawMessage `json:"arguments"`
	ToolCallID   string          `json:"toolCallId"`
	SubAgent     string          `json:"sub_agent_thread_id"`
	Name         string          `json:"name"`
	Status       string          `json:"status"`
	Result       json.RawMessage `json:"result"`
	ErrorReason  string          `json:"errorReason"`
	DurationMs   int64           `json:"durationMs"`
	ApprovalID   string          `json:"approvalId"`
	QuestionID   string          `json:"questionId"`
	AnsweredBy   string          `json:"answeredBy"`
	Text         string          `json:"text"`
	State        string          `json:"state"`
	Agent        string          `json:"agent"`
	Decision     string          `json:"decision"`
	Code         string          `json:"code"`
	Message      string          `json:"message"`
	ResponseTime int64           `json:"responseTimeMs"`
	From         int64           `json:"replacesFrom"`
	To           int64           `json:"replacesTo"`

	Wait *agent.ModelWait `json:"wait"`
}

func (l *live) event(u spool.Update) {
	var p payload
	_ = json.Unmarshal(u.Event.Data, &p) // unknown payloads are shown without detail
	who := l.who(u.ThreadID)
	switch u.Event.Type {
	case agent.EventToolCall:
		if p.SubAgent != "" {
			l.meet(u.ThreadID, p.SubAgent)
			var asked agent.AssignParams
			_ = json.Unmarshal(p.Arguments, &asked) // they were good enough to start it
			l.apart[p.ToolCallID] = asked.Background
			l.line("%s→ %s %s", who, l.agents[p.SubAgent], p.SubAgent)
			return
		}
		l.line("%s→ %s", who, callText(p.Intent, p.Arguments))
	case agent.EventToolResponse:
		mark, took := "✓", ""
		if p.Status != string(agent.CallSuccess) {
			mark = "✗ " + callStatus(agent.CallStatus(p.Status), agent.ErrorReason(p.ErrorReason))
		}
		if p.DurationMs > 0 {
			took = " " + short(time.Duration(p.DurationMs)*time.Millisecond)
		}
		name := p.Name
		if p.SubAgent != "" {
			name = l.agents[p.SubAgent]
		}
		if l.apart[p.ToolCallID] && mark == "✓" {
			l.line("%s⇢ %s goes on in the background", who, oneLine(name, 60))
			return
		}
		l.line("%s%s %s%s", who, mark, oneLine(name, 60), took)
	case agent.EventApprovalRequired:
		l.line("%s? approval %s wanted", who, p.ApprovalID)
	case agent.EventApprovalResponse:
		l.line("%s! approval %s: %s", who, p.ApprovalID, oneLine(p.Decision, 20))
	case agent.EventQuestionAsked:
		if l.first(u.Event.Type + p.QuestionID) { // the root shows those of its sub-agents too
			l.line("%s? question %s of %s: %s", who, p.QuestionID, oneLine(p.Agent, 60), oneLine(p.Text, 120))
		}
	case agent.EventQuestionAnswered:
		by := "by " + oneLine(p.AnsweredBy, 60)
		if p.AnsweredBy == "" {
			by = "as " + oneLine(p.State, 20)
		}
		if l.first(u.Event.Type + p.QuestionID) {
			l.line("%s! question %s: settled %s", who, p.QuestionID, by)
		}
	case agent.EventWarning:
		if p.Wait != nil {
			l.wait(*p.Wait, u.Event.At)
			return
		}
		if p.Code == agent.WarnAnswerCut && l.turn == u.Event.TurnID {
			return // what is reported of the turn says so
		}
		l.line("%s! %s", who, oneLine(p.Message, 300))
	case agent.EventContextSummary:
		l.line("%s… %s", who, summaryText(p))
	case agent.EventError:
		text := failureLine(p.Code, p.Message)
		if u.ThreadID == l.root {
			l.failure = text
		}
		l.line("%s✗ %s", who, text)
	case agent.EventDone:
		if who != "" {
			l.line("%s✓ done", who)
		}
	}
}

// longestFailure bounds the line that says why a turn ended, in bytes: what to do
// stands at its end.
const longestFailure = 1500

// failureText is why a turn ended: its code, once, and what it means.
func failureText(code, message string) string {
	message = agent.LocalTimes(message, time.Now())
	switch {
	case code == "" || code == message:
		return clean(message)
	case message == "":
		return clean(code)
	}
	return clean(code + ": " + message)
}

// failureLine is failureText in a line.
func failureLine(code, message string) string {
	return oneLine(failureText(code, message), longestFailure)
}

// wait tells that a model call is made later, unless that is over, or short. A
// sub-agent's stands in the log of the root too.
func (l *live) wait(w agent.ModelWait, told time.Time) {
	now := time.Now()
	if w.Until.Sub(told) < agent.ShortWait || now.After(w.Until) || !l.first(fmt.Sprint(agent.WarnModelWait, w.TurnID, w.Until, w.Attempt)) {
		return
	}
	who := l.who(w.ThreadID)
	if who != "" && l.agents[w.ThreadID] == "" {
		who = "  " + oneLine(w.Agent, 60) + ": "
	}
	l.line("%s… %s", who, visible(w.Text(now)))
}

// first reports whether something is told for the first time.
func (l *live) first(what string) bool {
	told := l.told[what]
	l.told[what] = true
	return !told
}

// summaryText says that the model goes on with a summary.
func summaryText(p payload) string {
	if p.To == 0 {
		return "the conversation it was given was summarised to fit the model; nothing was deleted"
	}
	return fmt.Sprintf("messages %d to %d were summarised to fit the model; nothing was deleted", p.From, p.To)
}

// callStatus is how a call ended: one that a person answered is not one refused.
func callStatus(s agent.CallStatus, why agent.ErrorReason) string {
	if s == agent.CallDenied && why == agent.ErrEdited {
		return "edited"
	}
	return string(s)
}

// meet gives a sub-agent its name and depth.
func (l *live) meet(parent, child string) {
	name := child
	if p, err := agent.ParseThreadID(child); err == nil {
		name = p.AgentType
	}
	l.agents[child] = name
	l.depth[child] = l.depth[parent] + 1
}

// callText is the short form of a call for lines of progress: ls(path=.). What a
// person decides about is shown by wholeCall.
func callText(name string, args json.RawMessage) string {
	list, ok := arguments(args)
	if !ok {
		return cut(visible(name), 60) + "(" + cut(visible(plainText(args)), 60) + ")"
	}
	slices.SortStableFunc(list, func(a, b argument) int { return strings.Compare(a.name, b.name) })
	var parts []string
	for _, a := range list {
		parts = append(parts, cut(visible(a.name), 30)+"="+cut(visible(strings.Join(strings.Fields(a.value), " ")), 40))
	}
	return cut(cut(visible(name), 60)+"("+strings.Join(parts, ", ")+")", 120)
}

// short prints a duration for people.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// finish shows an answer of which nothing was shown (a turn that took the message
// of another, or that was closed before it could be followed).
func (l *live) finish(r spool.Reply) {
	if r.Response == "" {
		return
	}
	for _, s := range l.shown {
		if strings.HasSuffix(s.text.String(), r.Response) {
			return
		}
	}
	l.endLine()
	_, _ = io.WriteString(l.text, responseText(r)+"\n")
}

// brokenOff is the text of a call that failed, as a person reads it: a server that
// repeats itself without end leaves megabytes.
func brokenOff(text string) string {
	const most = 8 << 10
	return agent.Shorten(text, most, "; --json shows all of it")
}

// responseText is what a turn answered, or how far it came, as a person reads it.
func responseText(r spool.Reply) string {
	if r.Status == string(agent.ThreadFailed) {
		return clean(brokenOff(r.Response))
	}
	return clean(r.Response)
}
