package starter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

// stateText is statusText with the sub-agents that a running thread's tree waits
// for because they wait for a person, and with whose model calls are made later.
func stateText(t agent.Thread, open []spool.ApprovalRequest, asked []spool.QuestionRequest, waits []agent.ModelWait) string {
	var deciding, answering, calling []string
	note := func(who []string, root, thread, name string) []string {
		if t.Status == agent.ThreadRunning && root == t.RootThreadID && thread != t.ID && !slices.Contains(who, name) {
			return append(who, name)
		}
		return who
	}
	for _, p := range open {
		deciding = note(deciding, p.RootThread, p.ThreadID, p.Agent)
	}
	for _, q := range asked {
		answering = note(answering, q.RootThread, q.ThreadID, q.Agent)
	}
	own := false
	for _, w := range waits {
		own = own || w.ThreadID == t.ID
		calling = note(calling, w.RootThread, w.ThreadID, w.Agent)
	}
	var parts []string
	if own {
		parts = append(parts, "waits for the model")
	}
	for _, p := range []struct {
		who  []string
		what string
	}{{deciding, "approval"}, {answering, "an answer"}, {calling, "the model"}} {
		switch len(p.who) {
		case 0:
		case 1:
			parts = append(parts, oneLine(p.who[0], 40)+" waits for "+p.what)
		default:
			parts = append(parts, oneLine(strings.Join(p.who, ", "), 80)+" wait for "+p.what)
		}
	}
	if parts == nil {
		return statusText(t)
	}
	return statusText(t) + " (" + strings.Join(parts, "; ") + ")"
}

// taskText is a task with the question, or the model call, that it waits for.
func taskText(t agent.Task, asked []spool.QuestionRequest, waits []agent.ModelWait) string {
	line := fmt.Sprintf("%-10s %-20s %s  %s", t.Status, oneLine(t.Name, 60), t.ID, oneLine(cmp.Or(t.Description, t.Instruction), 70))
	if t.SubAgentID != "" {
		line += "  " + t.SubAgentID
	}
	for _, q := range asked {
		if q.TaskID == t.ID || agent.TaskID(q.ToolCallID) == t.ID {
			line += "\n  ? " + q.QuestionID + ": " + oneLine(q.Text, 120)
		}
	}
	for _, w := range waits {
		if w.ThreadID == t.SubAgentID {
			line += "\n  … " + waitText(w, w.ThreadID)
		}
	}
	return line
}

// waitText says what the model call of a thread waits for; who, if it is another
// thread than the one that a line is about.
func waitText(w agent.ModelWait, about string) string {
	text := visible(w.Text(time.Now()))
	if w.ThreadID != about {
		text = oneLine(w.Agent, 60) + ": " + text
	}
	return text
}
