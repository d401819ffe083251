package activities

import (
	"fmt"
	"slices"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
)

// fitting is how a request was made to fit its model's window.
type fitting struct {
	sent int // our count of the request
	// tight warns of a window that is too small for any request; each turn has it once.
	tight []agent.Warning
	// shortened warns of messages that the model sees a part of. It is stored with the
	// reply that is made with them, so each message has it once.
	shortened []agent.Warning
}

// correctWindow is what a person does about a window that is not the model's.
const correctWindow = "correct the window if it is wrong (SPOOL_CONTEXT_WINDOW, models.yaml)"

// tight is the warning that prompt and tools, which each request has, leave no room in
// the window, or none. The request is sent all the same: our count is a guess.
func tight(r agent.ModelRequest, fixed int, room room) []agent.Warning {
	if fixed < room.ours(room.request) {
		return nil
	}
	return []agent.Warning{{Code: agent.WarnWindow, Message: fmt.Sprintf(
		"the system prompt and %d tools alone take about %d tokens, more than the window of %d of %s has room for beside an answer: %s, take a model with a larger one, or give the agent fewer tools",
		len(r.Tools), int(float64(fixed)*room.ratio), room.window, r.Model, correctWindow)}}
}

// shortened is the warning that the model sees a part only of messages that it has not
// answered yet, or none. Of those of before it was given at the time.
// left are the bytes that each message lost.
func shortened(own, messages []agent.Message, left []int, model string, window int64) []agent.Warning {
	fresh := agent.Unanswered(own)
	what, cut, all := "", 0, 0
	for i, m := range messages {
		if left[i] == 0 || m.Role == agent.RoleAssistant || !slices.ContainsFunc(fresh, func(f agent.Message) bool { return f.ID == m.ID }) {
			continue
		}
		switch {
		case what != "":
			what = "of the latest messages"
		case m.Role == agent.RoleTool:
			what = "of the result of " + m.Name
		default:
			what = "of the message"
		}
		cut, all = cut+left[i], all+len(m.Content.String())
	}
	if cut == 0 {
		return nil
	}
	return []agent.Warning{{Code: agent.WarnShortened, Message: fmt.Sprintf(
		"%d of the %d bytes %s were not seen by %s, whose window is %d tokens: take a model with a larger one, %s, or put the text into a file that the agent reads in parts",
		cut, all, what, model, window, correctWindow)}}
}

// truncated is the warning that a server read far less than it was sent, or none. What
// images cost is not known, so they prove nothing and teach nothing.
func (a *Activities) truncated(ref contract.Ref, r agent.ModelRequest, sent int, u agent.Usage) []agent.Warning {
	model, pictures := r.Model, agent.ImageTokens(r)
	sent -= pictures
	read := u.PromptTokens + u.CachedTokens // some count cached ones apart
	const far = 0.55
	if sent < 2*enough || read <= 0 || float64(read) > far*float64(sent)*min(a.calibration.ratio(model), 1) {
		if pictures == 0 {
			a.calibration.learn(model, sent, u.PromptTokens)
		}
		return nil
	}
	return a.once(ref, []agent.Warning{{Code: agent.WarnTruncated, Message: fmt.Sprintf(
		"the model server read only %d of about %d tokens that were sent: it drops a part of the conversation without saying so. Raise its context length (for Ollama num_ctx), or set contextWindow to what it reads.", u.PromptTokens, sent)}})
}

// once are the warnings that a turn does not have yet.
func (a *Activities) once(ref contract.Ref, warnings []agent.Warning) (left []agent.Warning) {
	t := &a.transcripts
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.get(ref.Thread)
	if !ok || c.turn != ref.Turn {
		return nil
	}
	c.warned = slices.Clone(c.warned)
	for _, w := range warnings {
		if !slices.Contains(c.warned, w.Code) {
			c.warned, left = append(c.warned, w.Code), append(left, w)
		}
	}
	t.m.Add(ref.Thread, c)
	return left
}
