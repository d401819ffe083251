package printer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/terminal"
)

// Approval is an open approval with all that its calls would do.
func (p *Printer) Approval(a spool.ApprovalRequest) string {
	lines := []string{a.ApprovalID + "  " + terminal.Visible(a.Agent) + "  " + p.ID(a.ThreadID)}
	for _, call := range a.ToolCalls {
		lines = append(lines, terminal.Indent(call.ID+"  "+wholeCall(call)))
	}
	return strings.Join(lines, "\n")
}

// Wanted is an approval as it is put to a person: each call in full, with numbers if there
// are several.
func Wanted(a spool.ApprovalRequest) string {
	lines := []string{terminal.Visible(a.Agent) + " wants to run:"}
	for i, call := range a.ToolCalls {
		number := ""
		if len(a.ToolCalls) > 1 {
			number = strconv.Itoa(i+1) + ". "
		}
		lines = append(lines, terminal.Indent(number+wholeCall(call)))
	}
	return strings.Join(lines, "\n")
}

// Offered is what a person may decide about an approval, beside no and another answer: yes
// this once, yes to these tools for the session, and to calls like these, by their narrow
// rules ("" = not offered).
func Offered(a spool.ApprovalRequest) (yes, always bool, like string) {
	yes, always = true, true
	narrow := true
	var rules []string
	for _, call := range a.ToolCalls {
		yes, always = yes && call.Limit != "administrator", always && call.Limit == ""
		rule := agent.NarrowRule(call.ToolName, call.Args)
		narrow = narrow && rule != ""
		if !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	if always && narrow {
		like = terminal.Visible(strings.Join(rules, ", "))
	}
	return yes, always, like
}

func wholeCall(call spool.ApprovalCall) string {
	args, _ := json.Marshal(call.Args) // they came as JSON
	return strings.Join(terminal.WholeCall(call.ToolName, args), "\n")
}

// Question is an open question in full, with who asks and for what task.
func (p *Printer) Question(q spool.QuestionRequest) string {
	lines := []string{q.QuestionID + "  " + terminal.Visible(q.Agent) + "  " + p.ID(q.ThreadID)}
	if q.Task != "" {
		lines = append(lines, terminal.Indent("task: "+terminal.OneLine(q.Task, 100)))
	}
	return strings.Join(append(lines, questionText(q)), "\n")
}

// questionText is a question and its options with all that they hide, but for tabs.
func questionText(q spool.QuestionRequest) string {
	text := strings.ReplaceAll(strings.ReplaceAll(q.Text, "\r\n", "\n"), "\t", "    ")
	lines := terminal.VisibleLines(text)
	for i, option := range q.Options {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, terminal.Visible(option)))
	}
	return terminal.Indent(strings.Join(lines, "\n"))
}

// Asked is a question as it is put to a person.
func Asked(q spool.QuestionRequest) string {
	head := terminal.Visible(q.Agent) + " asks"
	if q.Task != "" {
		head += " (task: " + terminal.OneLine(q.Task, 100) + ")"
	}
	return head + ":\n" + questionText(q)
}

// Open writes what waits for a person to stderr.
func (p *Printer) Open(approvals []spool.ApprovalRequest, questions []spool.QuestionRequest) {
	for _, a := range approvals {
		p.Progress("%s", p.Approval(a))
	}
	for _, q := range questions {
		p.Progress("%s", p.Question(q))
	}
}
