package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// settle is how long a question stands, and nothing is typed, before a key answers it:
// what was on its way to something else is no answer.
const settle = 400 * time.Millisecond

// form puts one approval or question to a person. Only what is typed, after it stood
// there, decides: no paste, no single key.
type form struct {
	approval *spool.ApprovalRequest
	question *spool.QuestionRequest

	choices []choice
	at      int    // the choice that Enter takes, -1 = none yet
	safe    int    // where a wrong key leads
	out     []bool // by call: left out of a yes
	text    *textarea.Model
	quiet   time.Time // when the last key before it came
	focused bool
	note    string
}

type choice struct {
	key     string
	text    string
	verdict string
	narrow  bool
	answer  string // to a question
}

func (f *form) id() string {
	if f.question != nil {
		return f.question.QuestionID
	}
	return f.approval.ApprovalID
}

// newApproval offers what its user may decide.
func newApproval(a spool.ApprovalRequest) *form {
	f := &form{approval: &a, at: -1, safe: -1, out: make([]bool, len(a.ToolCalls)), quiet: time.Now()}
	yes, always, like := printer.Offered(a)
	if yes {
		f.choices = append(f.choices, choice{key: "y", text: "yes, this time", verdict: memory.Approve})
	}
	if like != "" {
		f.choices = append(f.choices, choice{key: "l", text: "like: " + like + " asks no more in this session", verdict: memory.ApproveAll, narrow: true})
	}
	if always {
		f.choices = append(f.choices, choice{key: "a", text: "always: " + tools(a) + " asks no more in this session; what must ask each time still does", verdict: memory.ApproveAll})
	}
	f.choices = append(f.choices, choice{key: "n", text: "no", verdict: memory.Deny},
		choice{key: "e", text: "edit: tell the agent something instead", verdict: memory.Edit})
	return f
}

func tools(a spool.ApprovalRequest) string {
	var names []string
	seen := map[string]bool{}
	for _, call := range a.ToolCalls {
		if !seen[call.ToolName] {
			names = append(names, terminal.Cut(terminal.Visible(call.ToolName), 40))
		}
		seen[call.ToolName] = true
	}
	return strings.Join(names, ", ")
}

func newQuestion(q spool.QuestionRequest) *form {
	f := &form{question: &q, at: -1, safe: -1, quiet: time.Now()}
	for i, option := range q.Options {
		f.choices = append(f.choices, choice{key: strconv.Itoa(i + 1), text: terminal.Visible(option), answer: option})
	}
	if len(f.choices) == 0 {
		f.text = newText()
	}
	return f
}

// asked is the whole text of what is asked, which is printed once.
func (f *form) asked(l look) string {
	if f.question != nil {
		q := *f.question
		q.Options = nil // they stand below
		head, rest, _ := strings.Cut(printer.Asked(q), "\n")
		return l.ask("? "+head) + "\n" + rest
	}
	lines := []string{l.ask("? " + terminal.Visible(f.approval.Agent) + " wants to run:")}
	for i, call := range f.approval.ToolCalls {
		number := "  "
		if len(f.approval.ToolCalls) > 1 {
			number = fmt.Sprintf("  %d. ", i+1)
		}
		if d := l.diff(call.ToolName, call.Args, 0); d != nil {
			lines = append(lines, append([]string{number + l.bold(terminal.Visible(call.ToolName))}, d...)...)
			continue
		}
		whole := terminal.WholeCall(call.ToolName, call.Args)
		lines = append(lines, number+l.bold(whole[0]))
		for _, line := range whole[1:] {
			lines = append(lines, "  "+line)
		}
	}
	return strings.Join(lines, "\n")
}

// taken is what a key led to.
type taken struct {
	decision *memory.Decision
	answer   string
	done     bool // the form is answered, or left open
}

// key takes a key. One that comes too early is not for the form: ok is false.
func (f *form) key(msg tea.KeyPressMsg) (t taken, ok bool) {
	if !f.focused {
		return t, false
	}
	f.note = ""
	if f.text != nil {
		return f.typed(msg), true
	}
	switch k := msg.String(); k {
	case "up", "shift+tab":
		f.at = (max(f.at, 0) + len(f.choices) - 1) % len(f.choices)
	case "down", "tab":
		f.at = (f.at + 1) % len(f.choices)
	case "esc":
		return taken{done: true}, true
	case "enter":
		if f.at < 0 {
			f.note = "choose first; Esc leaves it open"
			return t, true
		}
		return f.decide(), true
	default:
		offered := slices.ContainsFunc(f.choices, func(c choice) bool { return c.key == k })
		if msg.Text != "" && f.question != nil && !offered { // an answer of their own
			f.text = newText()
			return f.typed(msg), true
		}
		f.choose(k)
	}
	return t, true
}

// choose moves to the choice of a key, or marks a call by its number.
func (f *form) choose(k string) {
	for i, c := range f.choices {
		if c.key == strings.ToLower(k) {
			f.at = i
			return
		}
	}
	if len(k) == 1 && len(f.out) > 1 {
		if n := int(k[0] - '1'); n >= 0 && n < len(f.out) {
			f.out[n] = !f.out[n]
			return
		}
	}
	f.at = f.safe
	f.note = fmt.Sprintf("%q is no answer", terminal.Cut(terminal.Visible(k), 20))
}

// marked are the ids of the calls that a yes or an edit is about.
func (f *form) marked() (ids []string) {
	for i, call := range f.approval.ToolCalls {
		if !f.out[i] {
			ids = append(ids, call.ID)
		}
	}
	return ids
}

func (f *form) decide() taken {
	c := f.choices[f.at]
	if f.approval == nil {
		return taken{answer: cmp.Or(c.answer, c.key), done: true}
	}
	d := memory.Decision{Target: f.approval.ApprovalID, Verdict: c.verdict, Narrow: c.narrow}
	ids := f.marked()
	switch {
	case c.verdict == memory.Deny:
	case c.verdict == memory.Edit && len(ids) != 1:
		f.note = "an edit answers one call: leave the others out by their numbers; they are denied"
		return taken{}
	case c.verdict == memory.Edit:
		f.text = newText()
		return taken{}
	case len(ids) == 0:
		f.note = "all calls are left out: choose no, or put one back by its number"
		return taken{}
	case len(ids) < len(f.out):
		d.Calls = ids
	}
	return taken{decision: &d, done: true}
}

// typed takes a key of a text: the answer to a question, or what an edit says.
func (f *form) typed(msg tea.KeyPressMsg) taken {
	switch msg.String() {
	case "esc":
		if len(f.choices) == 0 {
			return taken{done: true}
		}
		f.text = nil
		return taken{}
	case "enter":
		text := strings.TrimSpace(f.text.Value())
		switch {
		case text == "":
			f.note = "an answer has a text; Esc leaves it open"
			return taken{}
		case f.question != nil:
			return taken{answer: text, done: true}
		}
		return taken{decision: &memory.Decision{Target: f.marked()[0], Verdict: memory.Edit, Instruction: text}, done: true}
	}
	*f.text, _ = f.text.Update(msg)
	return taken{}
}

// paste is an answer to a question, and none to an approval.
func (f *form) paste(text string) {
	if f.text == nil && f.question != nil {
		f.text = newText()
	}
	if f.text == nil {
		f.note = "a paste is no answer: type it"
		return
	}
	f.text.InsertString(text)
}

// view shows the choices, or the line to type into.
func (f *form) view(l look, width int) (lines []string, cursor *tea.Cursor) {
	hint := "↑ ↓ or a letter, then Enter · Esc leaves it open"
	switch {
	case f.question != nil && f.text == nil:
		hint = "a number or ↑ ↓, then Enter; or type another answer · Esc leaves it open"
	case f.question != nil:
		hint = "your answer, then Enter · Esc leaves it open"
	case f.text != nil:
		hint = "what to tell the agent instead, then Enter · Esc goes back"
	case len(f.out) > 1:
		hint += " · a number leaves a call out"
	}
	if !f.focused {
		hint = "a moment: what was typed before is no answer · Tab: to the question above"
	}
	if f.text != nil {
		f.text.SetWidth(width - 4)
		cursor = f.text.Cursor()
		for _, line := range strings.Split(f.text.View(), "\n") {
			lines = append(lines, "  "+line)
		}
	} else {
		for i, c := range f.choices {
			text := behind("["+c.key+"] ", "    ", wrapped(c.text, width-7))
			if i == f.at {
				text = behind(l.bold("❯ "), "  ", l.bold(text))
			} else {
				text = behind("  ", "  ", text)
			}
			lines = append(lines, strings.Split(text, "\n")...)
		}
		if len(f.out) > 1 {
			var marks []string
			for i, out := range f.out {
				mark := "yes"
				if out {
					mark = "left out"
				}
				marks = append(marks, fmt.Sprintf("%d %s", i+1, mark))
			}
			lines = append(lines, "  calls: "+strings.Join(marks, " · "))
		}
	}
	if f.note != "" {
		lines = append(lines, "  "+l.ask(f.note))
	}
	return append(lines, "  "+l.dim(hint)), cursor
}
