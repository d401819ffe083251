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
)

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

// Task is a task with the question, or the model call, that it waits for.
func Task(t agent.Task, asked []spool.QuestionRequest, waits []agent.ModelWait) string {
	line := fmt.Sprintf("%-10s %-20s %s  %s", t.Status, terminal.OneLine(t.Name, 60), t.ID, terminal.OneLine(cmp.Or(t.Description, t.Instruction), 70))
	if t.SubAgentID != "" {
		line += "  " + t.SubAgentID
	}
	for _, q := range asked {
		if q.TaskID == t.ID || agent.TaskID(q.ToolCallID) == t.ID {
			line += "\n  ? " + q.QuestionID + ": " + terminal.OneLine(q.Text, 120)
		}
	}
	for _, w := range waits {
		if w.ThreadID == t.SubAgentID {
			line += "\n  … " + waitText(w, w.ThreadID)
		}
	}
	return line
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
