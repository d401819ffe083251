package agent

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CutPoint says how many leading messages a summary may replace so that the rest
// costs about keep tokens. It never separates a call from its result, and what no
// reply has answered yet always stays. 0 means that nothing can be replaced.
func CutPoint(messages []Message, keep int) int {
	cut := unanswered(messages)
	left := keep
	for i := cut; i < len(messages); i++ {
		left -= MessageTokens(messages[i])
	}
	for cut > 0 {
		start := cut - 1
		for start > 0 && messages[start].Role == RoleTool {
			start--
		}
		for i := start; i < cut; i++ {
			left -= MessageTokens(messages[i])
		}
		if left < 0 {
			break
		}
		cut = start
	}
	return cut
}

// unanswered is the first message that the model has not replied to: the last
// round of calls with its results, or what was said after the last answer.
func unanswered(messages []Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		switch m := messages[i]; {
		case m.Role != RoleAssistant || m.Partial || m.SupersededBy != "":
		case len(m.ToolCalls) > 0:
			return i
		default:
			return i + 1
		}
	}
	return 0
}

const shortHint = "; the message is longer than the model's context window allows"

// Unanswered are the messages that no reply was made with yet: what was said, and
// the results of the calls, since the last one.
func Unanswered(messages []Message) []Message { return messages[unanswered(messages):] }

// FitMessages shortens the longest messages, for the model only, until all
// together cost at most room tokens; left are the bytes left out of each message, nil
// if all fit. It cuts in the middle of a text, at character boundaries, and says so
// there. Nothing gets shorter than a few words: what cannot fit is returned as short
// as it gets.
func FitMessages(messages []Message, room int) (fitted []Message, left []int) {
	const least = 32
	sizes := make([]int, len(messages))
	total := 0
	for i, m := range messages {
		sizes[i] = MessageTokens(m)
		total += sizes[i]
	}
	if total <= room {
		return messages, nil
	}
	left = make([]int, len(messages))
	most := longestThatFits(sizes, room, least)
	fitted = slices.Clone(messages)
	for i, size := range sizes {
		if size > most {
			fitted[i], left[i] = shortenMessage(messages[i], size, most)
		}
	}
	return fitted, left
}

// longestThatFits is the largest cap for which the sizes, each cut to it, add up
// to at most room; least at the least.
func longestThatFits(sizes []int, room, least int) int {
	sorted := slices.Sorted(slices.Values(sizes))
	for i, size := range sorted {
		left := len(sorted) - i
		if size*left > room {
			return max(least, room/left)
		}
		room -= size
	}
	return max(least, room)
}

// shortenMessage cuts the texts of a message of size tokens to about most; left are
// the bytes left out.
func shortenMessage(m Message, size, most int) (_ Message, left int) {
	cut := func(s string) string {
		short, n := shorten(s, max(64, len(s)*(most-24)/size), shortHint, 0) // a marker costs something, too
		left += n
		return short
	}
	m.Content.Value = cut(m.Content.Value)
	if m.Content.Parts != nil {
		m.Content.Parts = slices.Clone(m.Content.Parts)
		for i := range m.Content.Parts {
			m.Content.Parts[i].Text = cut(m.Content.Parts[i].Text)
		}
	}
	if len(m.ToolCalls) > 0 {
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls {
			f := &m.ToolCalls[i].Function
			f.Arguments = shortenArguments(f.Arguments, cut)
		}
	}
	return m, left
}

// shortenArguments cuts the texts in a call's arguments, which stay a JSON object.
func shortenArguments(args string, cut func(string) string) string {
	const small = 256
	if len(args) <= small {
		return args
	}
	var values map[string]any
	if json.Unmarshal([]byte(args), &values) != nil {
		values = map[string]any{"shortened": args}
	}
	for key, v := range values {
		text, ok := v.(string)
		if !ok {
			if b, err := json.Marshal(v); err == nil && len(b) > small {
				text, ok = string(b), true
			}
		}
		if ok {
			values[key] = cut(text)
		}
	}
	b, err := json.Marshal(values)
	if err != nil || len(b) >= len(args) {
		return args
	}
	return string(b)
}

// summaryInstruction is the system message of a request for a summary.
//
//go:embed summary.md
var summaryInstruction string

// How the request for a summary and the summary itself are introduced.
const (
	// SummaryPrefix begins the message that asks for a summary.
	SummaryPrefix = "Summarise this conversation:"
	// SummaryHead begins the message that stands for what was summarised.
	SummaryHead = "[Summary of the conversation so far; the messages themselves are not shown any more]"
)

// SummaryRequest are the messages of a request for a summary of messages, which
// may begin with an earlier summary. Long messages are shortened so that all
// together cost at most room tokens.
func SummaryRequest(messages []Message, room int) []Message {
	instruction := Message{Role: RoleSystem, Content: Text(summaryInstruction)}
	fitted, _ := FitMessages(messages, max(room-MessageTokens(instruction), 0))
	var b strings.Builder
	b.WriteString(SummaryPrefix + "\n\n<conversation>\n")
	for _, m := range fitted {
		name := ""
		if m.Name != "" {
			name = " tool=" + strconv.Quote(m.Name)
		}
		fmt.Fprintf(&b, "<message role=%q%s>\n%s\n", m.Role, name, CleanText(m.Content.String()))
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "calls %s %s\n", c.Function.Name, CleanText(c.Function.Arguments))
		}
		b.WriteString("</message>\n")
	}
	b.WriteString("</conversation>")
	return []Message{instruction, {Role: RoleUser, Content: Text(b.String())}}
}

// RepairHead begins the message that asks for an answer anew.
const RepairHead = "Your answer to this is not valid: "

// RepairAnswer tells a model that its answer does not fit the schema.
func RepairAnswer(problem string) string {
	return RepairHead + problem + "\n\nAnswer again, with one JSON value that fits the schema and nothing else."
}

// DigestMessages is the summary that needs no model, for when none can be had: who
// said what, shortened to about room tokens.
func DigestMessages(messages []Message, room int) string {
	const per = 100 // tokens of one message at most
	var lines []string
	left := room
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		what := Shorten(strings.Join(strings.Fields(CleanText(m.Content.String())), " "), per*3, "")
		for _, c := range m.ToolCalls {
			what += " [calls " + c.Function.Name + " " + Shorten(CleanText(c.Function.Arguments), per, "") + "]"
		}
		line := string(m.Role) + ": " + strings.TrimSpace(what)
		if left -= EstimateTokens(line) + 1; left < 0 {
			lines = append(lines, fmt.Sprintf("(%d earlier messages are left out)", i+1))
			break
		}
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}
