package activities

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// counted is what a call used, whether or not it failed: by our count, and marked
// so, where its provider does not say. A call that the provider refused used
// nothing; one that broke off used its request and what had arrived.
func (a *Activities) counted(r agent.ModelRequest, reply agent.ModelReply, err error) agent.Usage {
	u := reply.Usage
	if u.TotalTokens > 0 || u.PromptTokens+u.CompletionTokens > 0 || err != nil && !reply.Charged {
		return u
	}
	u.PromptTokens = int64(float64(agent.RequestTokens(r)) * a.calibration.ratio(r.Model))
	if reply.Content != "" || reply.Reasoning != "" || len(reply.Calls) > 0 {
		u.CompletionTokens = int64(agent.MessageTokens(agent.Message{Content: agent.Text(reply.Content + reply.Reasoning), ToolCalls: reply.Calls}))
		if most := a.mostOutput(r); most > 0 {
			u.CompletionTokens = min(u.CompletionTokens, most)
		}
	}
	u.TotalTokens, u.Estimated = u.PromptTokens+u.CompletionTokens, true
	return u
}

// mostOutput is how many tokens a model may make of a request, as far as that is
// known, else 0. No estimate is above it: a server that never ends, or repeats itself
// without end, sends text that no model was asked for, and no provider charges.
func (a *Activities) mostOutput(r agent.ModelRequest) int64 {
	info := a.modelInfo(r.Model)
	most := info.MaxOutput
	if r.MaxTokens != nil {
		most = int64(*r.MaxTokens)
	}
	if info.Window > 0 && (most == 0 || info.Window < most) {
		most = info.Window
	}
	return most
}

// stake is what the store needs for counting an attempt whose worker is lost; sent is our
// count of its request.
func (a *Activities) stake(r agent.ModelRequest, sent int) *memory.Stake {
	return &memory.Stake{PromptTokens: int64(float64(sent) * a.calibration.ratio(r.Model)), MostOutput: a.mostOutput(r), Price: a.modelInfo(r.Model).Price}
}
