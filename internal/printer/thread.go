package printer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// Thread prints a thread with all that belongs to it.
func (p *Printer) Thread(v spool.View) {
	t := v.Thread
	p.Print("thread   %s", t.ID)
	p.Print("status   %s", State(t, v.Approvals, v.Questions, v.Waits))
	for _, w := range v.Waits {
		p.Print("waits    %s", waitText(w, t.ID))
	}
	if t.ParentThreadID != "" {
		p.Print("parent   %s", t.ParentThreadID)
	}
	if t.AgentType != "" {
		p.Print("agent    %s", t.AgentType)
	}
	p.Print("workdir  %s", terminal.Visible(t.Workdir))
	p.Print("usage    %d messages and %d tool calls of its own; %d model requests and %d tokens with its sub-agents", t.MessageCount, t.ToolCallCount, t.RequestCount, t.TotalTokens)
	if v.UI != "" {
		p.Print("temporal %s", v.UI)
	}
	if v.Trouble != "" {
		p.Print("trouble  %s", terminal.Visible(v.Trouble))
	}
	if v.Error != nil {
		p.Print("error    %s", strings.ReplaceAll(failureText(v.Error.Code, v.Error.Message), "\n", "\n         "))
	}
	for _, m := range v.Messages {
		p.Print("\n%s", Message(m))
	}
	if v.Pending != nil {
		head, rest, _ := strings.Cut(Message(*v.Pending), "\n")
		p.Print("\n%s (being worked on)\n%s", head, rest)
	}
	section(p, "in no turn", v.Inbox, func(e memory.InboxEntry) string {
		if e.Quiet && e.State == memory.EntryWaiting {
			return "the end of a sub-agent's work, which the next message takes along: " + e.ID
		}
		return fmt.Sprintf("%s %s %s %s", e.Kind, e.ID, e.State, terminal.OneLine(e.Content.String(), 80))
	})
	section(p, "approvals", v.Approvals, p.Approval)
	section(p, "questions", v.Questions, p.Question)
	section(p, "tool calls", v.ToolCalls, func(c agent.ToolCall) string {
		return fmt.Sprintf("%-17s %s", callStatus(c.Status, c.ErrorReason), terminal.CallText(c.ToolName, c.Args))
	})
	section(p, "tasks", p.Tasks(v.Tasks, v.Questions, v.Waits).Lines(max(0, p.Width-2)), func(line string) string { return line })
	section(p, "events", v.Events, Event)
}

// section prints a title and a list, unless the list is empty.
func section[T any](p *Printer, title string, list []T, text func(T) string) {
	if len(list) > 0 {
		p.Print("\n%s", title)
	}
	for _, one := range list {
		p.Print("%s", terminal.Indent(text(one)))
	}
}

// Message is a message as a person reads it.
func Message(m agent.Message) string {
	head := string(m.Role)
	if m.Seq > 0 {
		head = fmt.Sprintf("#%d %s", m.Seq, m.Role)
	}
	if m.Name != "" {
		head += " " + terminal.OneLine(m.Name, 60)
	}
	if m.Source != "" && m.Source != "user" {
		head += " from " + terminal.OneLine(m.Source, 120)
	}
	if m.Status != "" && m.Status != agent.CallSuccess {
		head += " " + callStatus(m.Status, m.ErrorReason)
	}
	lines := []string{head}
	text := m.Content.String()
	for _, part := range m.Content.Parts {
		if part.ImageURL != nil {
			text += "\n[image " + part.ImageURL.URL + "]"
		}
	}
	if m.Partial {
		lines[0] += " (broken off)"
		text = brokenOff(text)
	}
	if m.SupersededBy != "" {
		lines[0] += " (superseded)"
	}
	if text != "" {
		lines = append(lines, terminal.Indent(terminal.Clean(text)))
	}
	for _, call := range m.ToolCalls {
		lines = append(lines, "  → "+terminal.CallText(call.Function.Name, []byte(call.Function.Arguments))+"  "+call.ID)
	}
	return strings.Join(lines, "\n")
}

// Event is an entry of a log in one line.
func Event(e agent.Event) string {
	return fmt.Sprintf("%5d %s %-22s %s", e.Seq, e.At.Local().Format("15:04:05.000"), e.Type, terminal.OneLine(string(e.Data), 140))
}

// Trace prints the way up from a thread, and the tree below it.
func (p *Printer) Trace(n *spool.Node) {
	for i, up := range n.Up {
		p.node(i, up.ThreadID, string(up.Status), Cost(up.DurationMs, up.Tokens, up.Price))
		p.link(i, up.UI)
	}
	p.tree(n, len(n.Up))
}

func (p *Printer) node(depth int, threadID, status, cost string) {
	name := p.ID(threadID)
	if id, err := agent.ParseThreadID(threadID); err == nil && id.AgentType != "" && name != threadID {
		name = id.AgentType + " " + name
	}
	p.fit(depth, "%s  %s  %s", name, status, cost)
}

// link prints the link of a thread in a tree, unless the terminal would break it.
func (p *Printer) link(depth int, url string) {
	if url != "" && (p.Width <= 0 || 2*depth+2+len(url) <= p.Width) {
		p.fit(depth+1, "%s", url)
	}
}

// fit prints a line of a tree, as far as it fits.
func (p *Printer) fit(depth int, format string, args ...any) {
	p.Print("%s", fitting(strings.Repeat("  ", depth)+fmt.Sprintf(format, args...), p.Width))
}

func (p *Printer) tree(n *spool.Node, depth int) {
	p.node(depth, n.Thread.ID, Status(n.Thread), Cost(n.DurationMs, n.Tokens, n.Price))
	if l := n.Link; l != nil {
		calls := l.Calls
		if len(calls) == 0 {
			calls = []spool.LinkCall{{ToolCallID: l.ToolCallID, CallStatus: l.CallStatus, TaskID: l.TaskID, TaskStatus: l.TaskStatus, Instruction: l.Instruction, Background: l.Background}}
		}
		for _, c := range calls {
			how := ""
			if c.Background {
				how = " in the background"
			}
			call := fmt.Sprintf("call %s (%s), task %s (%s)", c.ToolCallID, c.CallStatus, c.TaskID, c.TaskStatus)
			if p.Width > 0 {
				call = fmt.Sprintf("%s (%s)", c.TaskID, c.TaskStatus) // that of the call has the same digits
			}
			p.fit(depth+1, "↑ %s%s: %s", call, how, terminal.OneLine(c.Instruction, 200))
		}
	}
	if n.Error != nil {
		p.Print("%s", strings.Repeat("  ", depth+1)+"✗ "+FailureLine(n.Error.Code, n.Error.Message))
	}
	p.link(depth, n.UI)
	if n.Wait != nil {
		p.fit(depth+1, "… %s", waitText(*n.Wait, n.Thread.ID))
	}
	for _, q := range n.Questions {
		p.fit(depth+1, "? %s: %s", q.QuestionID, terminal.OneLine(q.Text, 200))
	}
	for _, child := range n.Children {
		p.tree(child, depth+1)
	}
}

// Cost is what a thread has used, with all below it.
func Cost(ms, tokens int64, price float64) string {
	text := fmt.Sprintf("%s, %d tokens", short(time.Duration(ms)*time.Millisecond), tokens)
	if price > 0 {
		text += fmt.Sprintf(", $%.4f", price)
	}
	return text
}

func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Status is a thread's state with the reason of a failure.
func Status(t agent.Thread) string {
	if t.Status == agent.ThreadFailed && t.Reason != "" {
		return string(t.Status) + "(" + string(t.Reason) + ")"
	}
	return string(t.Status)
}

// State is Status with what a running thread, or its sub-agents, wait for.
func State(t agent.Thread, open []spool.ApprovalRequest, asked []spool.QuestionRequest, waits []agent.ModelWait) string {
	agents := map[string][]string{} // by what they wait for
	note := func(what, root, thread, name string) {
		if t.Status == agent.ThreadRunning && root == t.RootThreadID && thread != t.ID && !slices.Contains(agents[what], name) {
			agents[what] = append(agents[what], name)
		}
	}
	for _, p := range open {
		note("approval", p.RootThread, p.ThreadID, p.Agent)
	}
	for _, q := range asked {
		note("an answer", q.RootThread, q.ThreadID, q.Agent)
	}
	var parts []string
	for _, w := range waits {
		if w.ThreadID == t.ID {
			parts = []string{"waits for the model"}
		}
		note("the model", w.RootThread, w.ThreadID, w.Agent)
	}
	for _, what := range []string{"approval", "an answer", "the model"} {
		switch who := agents[what]; len(who) {
		case 0:
		case 1:
			parts = append(parts, terminal.OneLine(who[0], 40)+" waits for "+what)
		default:
			parts = append(parts, terminal.OneLine(strings.Join(who, ", "), 80)+" wait for "+what)
		}
	}
	if parts == nil {
		return Status(t)
	}
	return Status(t) + " (" + strings.Join(parts, "; ") + ")"
}

// Tasks are tasks with their agents' threads, and the questions, or model calls, they wait for.
func (p *Printer) Tasks(tasks []agent.Task, asked []spool.QuestionRequest, waits []agent.ModelWait) *Table {
	table := &Table{Columns: []Column{{Name: "STATUS"}, {Name: "WHO", Min: 12}, {Name: "ID"}, {Name: "TASK", Min: 20, Drop: 1}}}
	for _, t := range tasks {
		var below []string
		for _, q := range asked {
			if q.TaskID == t.ID || agent.TaskID(q.ToolCallID) == t.ID {
				below = append(below, "? "+q.QuestionID+": "+terminal.OneLine(q.Text, 120))
			}
		}
		for _, w := range waits {
			if w.ThreadID == t.SubAgentID {
				below = append(below, "… "+waitText(w, w.ThreadID))
			}
		}
		id := ""
		if t.SubAgentID != "" {
			id = p.ID(t.SubAgentID)
		}
		table.Add([]string{string(t.Status), t.Name, id, cmp.Or(t.Description, t.Instruction)}, below...)
	}
	return table
}

// waitText says what the model call of a thread waits for, and names the agent if the
// line is about another thread.
func waitText(w agent.ModelWait, about string) string {
	text := terminal.Visible(w.Text(time.Now()))
	if w.ThreadID != about {
		text = terminal.OneLine(w.Agent, 60) + ": " + text
	}
	return text
}
