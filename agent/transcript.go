package agent

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Transcript turns a thread's stored messages into what any provider accepts:
// every call is directly followed by its result and every result belongs to a
// call, text is valid UTF-8 without NUL, no block is empty, and the last message
// is not the assistant's. Partial and superseded answers are left out. The input
// is not changed.
func Transcript(stored []Message) []Message {
	kept := make([]Message, 0, len(stored))
	for _, m := range stored {
		if m.Partial || m.SupersededBy != "" {
			continue
		}
		kept = append(kept, m)
	}
	out := make([]Message, 0, len(kept))
	for i := 0; i < len(kept); i++ {
		m := clean(kept[i])
		switch {
		case m.Role == RoleTool:
			// A result that does not follow its call has nothing to answer.
		case m.Role == RoleAssistant && len(m.ToolCalls) > 0:
			results := map[string]Message{}
			for i+1 < len(kept) && kept[i+1].Role == RoleTool {
				i++
				if _, seen := results[kept[i].ToolCallID]; !seen {
					results[kept[i].ToolCallID] = clean(kept[i])
				}
			}
			if m.Content.IsEmpty() {
				m.Content = NullContent()
			}
			out = append(out, m)
			for _, c := range m.ToolCalls {
				r, ok := results[c.ID]
				if !ok {
					r = Message{Role: RoleTool, ToolCallID: c.ID, Name: c.Function.Name, Content: Text(TextNoResult), TurnID: m.TurnID}
				}
				out = append(out, r)
			}
		case m.Content.IsEmpty():
			// Providers refuse empty user and assistant blocks.
		default:
			out = append(out, m)
		}
	}
	for len(out) > 0 && out[len(out)-1].Role == RoleAssistant {
		out = out[:len(out)-1]
	}
	return out
}

func clean(m Message) Message {
	m.Content.Value, m.Reasoning = CleanText(m.Content.Value), CleanText(m.Reasoning)
	if strings.TrimSpace(m.Content.Value) == "" { // which providers refuse, too
		m.Content.Value = ""
	}
	if m.Content.Parts != nil {
		parts := make([]Part, 0, len(m.Content.Parts))
		for _, p := range m.Content.Parts {
			p.Text = CleanText(p.Text)
			if strings.TrimSpace(p.Text) != "" || p.ImageURL != nil {
				parts = append(parts, p)
			}
		}
		m.Content.Parts = parts
	}
	if m.Role == RoleTool && m.Content.IsEmpty() {
		m.Content = Text("(no output)")
	}
	if len(m.ToolCalls) > 0 {
		calls := make([]Call, len(m.ToolCalls))
		for i, c := range m.ToolCalls {
			if strings.TrimSpace(c.Function.Arguments) == "" {
				c.Function.Arguments = "{}"
			}
			c.Function.Arguments = CleanText(c.Function.Arguments)
			calls[i] = c
		}
		m.ToolCalls = calls
	}
	return m
}

// CleanText makes s valid UTF-8 without NUL characters.
func CleanText(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Shorten cuts s to at most limit bytes by leaving out its middle, at character
// boundaries, and says how much is missing.
func Shorten(s string, limit int, hint string) string {
	short, _ := shorten(s, limit, hint, 0)
	return short
}

// shorten is Shorten, and says how many bytes it left out; more were left out before.
func shorten(s string, limit int, hint string, more int) (short string, left int) {
	if len(s) <= limit {
		return s, 0
	}
	head, tail := limit*2/3, limit/3
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	from := len(s) - tail
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	left = from - head + more
	return s[:head] + "\n[… " + strconv.Itoa(left) + " bytes left out" + hint + " …]\n" + s[from:], left
}

// LoopLength is how many rounds in a row without progress count as an endless loop.
const LoopLength = 5

// Looping reports whether the last LoopLength rounds of the turn made the same
// calls and got the same results. To look after sub-agents at work, or to wait for
// them, is no loop.
func Looping(messages []Message, turnID string) bool {
	rounds := lastRounds(messages, turnID, LoopLength)
	if len(rounds) < LoopLength {
		return false
	}
	first := roundText(rounds[0])
	return first != "" && !slices.ContainsFunc(rounds[1:], func(r []Message) bool { return roundText(r) != first })
}

// OnlyRefused reports whether the last LoopLength rounds of the turn held nothing
// but delegations that were refused, whatever their arguments were.
func OnlyRefused(messages []Message, turnID string) bool {
	rounds := lastRounds(messages, turnID, LoopLength)
	return len(rounds) == LoopLength && !slices.ContainsFunc(rounds, func(r []Message) bool {
		return slices.ContainsFunc(r[1:], func(m Message) bool { return !refusedDelegation(m) })
	})
}

// refusedDelegation reports whether a result says that no sub-agent was made or
// resumed. The end of one that failed has other reasons.
func refusedDelegation(m Message) bool {
	if m.Name != ToolAssignTask || m.Status != CallFailed {
		return false
	}
	switch m.ErrorReason {
	case ErrPermissionDenied, ErrNotFound, ErrInvalidInput, ErrToolNotFound:
		return true
	}
	return false
}

// lastRounds are the last rounds of the turn, at most n: each an assistant message
// with its results. The last one comes first.
func lastRounds(messages []Message, turnID string, n int) (rounds [][]Message) {
	for i := len(messages) - 1; i >= 0 && len(rounds) < n; {
		end := i
		for i >= 0 && messages[i].Role == RoleTool && messages[i].TurnID == turnID {
			i--
		}
		if i < 0 || i == end || messages[i].Role != RoleAssistant || len(messages[i].ToolCalls) == 0 {
			break
		}
		rounds = append(rounds, messages[i:end+1])
		i--
	}
	return rounds
}

// roundText holds all that makes a round another one; "" if it did nothing but look
// after sub-agents at work.
func roundText(round []Message) string {
	looks := map[string]bool{}
	for _, r := range round[1:] {
		head, _, _ := strings.Cut(r.Content.String(), "\n\n") // after that comes what the sub-agent said
		looks[r.ToolCallID] = r.Name == ToolTaskOutput && atWork.MatchString(head)
	}
	var b strings.Builder
	for _, c := range round[0].ToolCalls {
		if !looks[c.ID] {
			b.WriteString(c.Function.Name + "\x00" + c.Function.Arguments + "\x00")
		}
	}
	for _, r := range round[1:] {
		if !looks[r.ToolCallID] {
			b.WriteString(r.Content.String() + "\x00")
		}
	}
	return b.String()
}
