package script

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Reply is what the script says about one request.
type Reply struct {
	Text      string
	Reasoning string
	Calls     []agent.Call
	First     time.Duration // delay before the first token
	Slow      time.Duration // delay between two streamed words
	// Fail and Breaks are faults for an HTTP server to act out.
	Fail   Fault
	Breaks int
	// Script is the text of the script without its prefix and Step the index of
	// the step, from 0. Script is empty for a message without one.
	Script string
	Step   int
}

// Fault is a failure that the first requests of a step meet.
type Fault struct {
	Status     int // HTTP status, 0 for no fault
	Times      int
	RetryAfter time.Duration
}

const (
	summaryHead = "[script step "
	summaryEnd  = "[end of script]"
)

var (
	ownCallID   = regexp.MustCompile(`^call_[0-9a-f]{16}_([0-9]+)_[0-9]+$`)
	summarised  = regexp.MustCompile(`(?s)<message role="([a-z]+)"[^>]*>\n(.*?)\n</message>`)
	summaryMark = regexp.MustCompile(`(?s)\[script step ([0-9]+)\] ` + Prefix + `(.*?)` + regexp.QuoteMeta(summaryEnd))
)

// Answer computes the reply to a request. It is pure and safe for concurrent
// use.
func Answer(r agent.ModelRequest) Reply {
	messages := r.Messages
	summary := false
	if len(messages) > 0 && len(r.Tools) == 0 {
		messages, summary = toSummarise(messages)
	}
	at, text, base := find(messages)
	if at < 0 {
		return Reply{Text: Friendly}
	}
	index := base + stepsDone(messages[at+1:], messages[at].TurnID, base)
	reply := Reply{Script: text, Step: index}
	if summary {
		reply.Text = fmt.Sprintf("%s%d] %s%s%s", summaryHead, index, Prefix, text, summaryEnd)
		return reply
	}
	s, round := stepAt(parse(text), index)
	if s.mistake != "" {
		reply.Text = "This script has a mistake: " + s.mistake + "."
		return reply
	}
	reply.Text, reply.Reasoning = s.text, s.think
	reply.First, reply.Slow, reply.Fail, reply.Breaks = s.first, s.slow, s.fail, s.breaks
	if s.echo {
		reply.Text = strings.TrimSpace(s.text + "\n\n" + latest(messages))
	}
	for i, c := range s.calls {
		// Ids repeat in every turn, as those of real providers do.
		args := strings.ReplaceAll(c.Arguments, "%d", strconv.Itoa(round))
		reply.Calls = append(reply.Calls, agent.NewCall(fmt.Sprintf("call_%d_%d", index, i), c.Name, args))
	}
	return reply
}

// toSummarise reads the conversation in a request for a summary, as
// agent.SummaryRequest writes it.
func toSummarise(messages []agent.Message) ([]agent.Message, bool) {
	last := messages[len(messages)-1]
	if last.Role != agent.RoleUser || !strings.HasPrefix(last.Content.String(), agent.SummaryPrefix) {
		return messages, false
	}
	var out []agent.Message
	for _, m := range summarised.FindAllStringSubmatch(last.Content.String(), -1) {
		out = append(out, agent.Message{Role: agent.Role(m[1]), Content: agent.Text(m[2])})
	}
	return out, true
}

func stepAt(steps []step, index int) (step, int) {
	for _, s := range steps {
		if index < s.rounds {
			return s, index + 1
		}
		index -= s.rounds
	}
	return step{text: "done"}, 1
}

// find returns the index of the message whose script counts, the script, and
// the step it starts at; -1 if there is none.
func find(messages []agent.Message) (at int, text string, base int) {
	for i := len(messages) - 1; i >= 0; i-- {
		m := &messages[i]
		if m.Role != agent.RoleUser && m.Role != agent.RoleSystem {
			continue
		}
		content := strings.TrimSpace(m.Content.String())
		if mark := summaryMark.FindStringSubmatch(content); mark != nil {
			step, err := strconv.Atoi(mark[1])
			if err == nil {
				return i, mark[2], step
			}
		}
		if m.Role == agent.RoleSystem {
			continue
		}
		if text, ok := scriptOf(content); ok {
			return i, text, 0
		}
		if opensTurn(messages, i) {
			return -1, "", 0
		}
	}
	return -1, "", 0
}

// scriptOf returns the script of a message, given as such or by a canned text.
func scriptOf(content string) (string, bool) {
	if text, ok := strings.CutPrefix(content, Prefix); ok {
		return text, true
	}
	for _, c := range canned {
		if strings.HasSuffix(content, c.text) {
			return c.script, true
		}
	}
	return "", false
}

// opensTurn reports whether the user message at i is a new task rather than a
// word put into a running turn. Over HTTP only the roles and texts are known.
func opensTurn(messages []agent.Message, i int) bool {
	m := messages[i]
	if m.Source == "steer" || isRepair(&m) {
		return false
	}
	for i--; i >= 0; i-- {
		before := &messages[i]
		if before.Partial || before.Role == agent.RoleSystem || isReport(before) || isRepair(before) {
			continue
		}
		if m.TurnID != "" && before.TurnID != "" {
			return m.TurnID != before.TurnID
		}
		return before.Role != agent.RoleTool || strings.HasPrefix(before.Content.String(), agent.TextStopped)
	}
	return true
}

// isReport reports whether a message tells of the end of a background sub-agent;
// several may stand in a row.
func isReport(m *agent.Message) bool {
	return m.Role == agent.RoleUser && strings.HasPrefix(m.Content.String(), "[Background agent ")
}

// isRepair reports whether a message asks for an answer anew: the next step is it.
func isRepair(m *agent.Message) bool {
	return m.Role == agent.RoleUser && strings.HasPrefix(m.Content.String(), agent.RepairHead)
}

// stepsDone counts the replies after the script. Where compaction removed some,
// the step in our own call ids tells more than the count.
func stepsDone(messages []agent.Message, turnID string, base int) int {
	count, known, repairs := 0, 0, 0
	for i := len(messages) - 1; i >= 0; i-- {
		m := &messages[i]
		if isRepair(m) {
			repairs++
		}
		if m.Role != agent.RoleAssistant || m.Partial {
			continue
		}
		sameTurn := turnID == "" || m.TurnID == "" || turnID == m.TurnID
		if known == 0 && sameTurn && len(m.ToolCalls) > 0 {
			if step := ownStep(m.ToolCalls[0].ID); step > base {
				known = step - base + count
			}
		}
		count++
	}
	return max(count, known) + repairs
}

// ownStep is the step in a call id of ours, 0 for other ids.
func ownStep(id string) int {
	const shortest = len("call_0123456789abcdef_1_0")
	if len(id) < shortest {
		return 0
	}
	if found := ownCallID.FindStringSubmatch(id); found != nil {
		if step, err := strconv.Atoi(found[1]); err == nil {
			return step
		}
	}
	return 0
}

// latest is the text of the last run of tool results, or of the last user
// message if no tool result followed it.
func latest(messages []agent.Message) string {
	var results []string
	for i := len(messages) - 1; i >= 0; i-- {
		switch m := &messages[i]; m.Role {
		case agent.RoleTool:
			results = append([]string{m.Content.String()}, results...)
		case agent.RoleUser:
			if len(results) == 0 {
				return m.Content.String()
			}
			return strings.Join(results, "\n\n")
		case agent.RoleAssistant:
			if len(results) > 0 {
				return strings.Join(results, "\n\n")
			}
		case agent.RoleSystem:
		}
	}
	return strings.Join(results, "\n\n")
}
