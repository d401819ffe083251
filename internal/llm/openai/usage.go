package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/spool-agents/spool/agent"
)

// Figures of one call above these are mistakes, and count as not reported.
const (
	maxTokens = 20_000_000 // twice the largest window, and twice what DefaultMaxReplyBytes may be
	maxCost   = 100_000    // US dollars
)

// count reads a number of tokens: an integer, a float or a string with one. null is
// 0, what cannot be a number of tokens is absurd.
type count int64

const absurd count = -1

func (c *count) UnmarshalJSON(b []byte) error {
	f, ok := figure(b)
	*c = count(f)
	if !ok || f > maxTokens {
		*c = absurd
	}
	return nil
}

// cost reads a price in US dollars, as leniently.
type cost float64

func (c *cost) UnmarshalJSON(b []byte) error {
	*c = 0
	if f, ok := figure(b); ok && f <= maxCost {
		*c = cost(f)
	}
	return nil
}

// figure is a number that is not negative. null is 0.
func figure(b []byte) (f float64, ok bool) {
	if string(b) == "null" {
		return 0, true
	}
	f, err := strconv.ParseFloat(string(bytes.Trim(b, "\" ")), 64)
	if err != nil || math.IsNaN(f) || f < 0 {
		return 0, false
	}
	return f, true
}

// details reads an object; anything else is an empty one.
type details struct {
	Cached    count `json:"cached_tokens"`
	Reasoning count `json:"reasoning_tokens"`
}

func (d *details) UnmarshalJSON(b []byte) error {
	type plain details
	var p plain
	if json.Unmarshal(b, &p) != nil {
		p = plain{}
	}
	*d = details(p)
	return nil
}

// reported is usage in the forms that providers use.
type reported struct {
	Prompt         count   `json:"prompt_tokens"`
	Completion     count   `json:"completion_tokens"`
	Total          count   `json:"total_tokens"`
	Input          count   `json:"input_tokens"`
	Output         count   `json:"output_tokens"`
	CacheHit       count   `json:"prompt_cache_hit_tokens"`     // DeepSeek
	Cached         count   `json:"cached_tokens"`               // Moonshot
	CacheRead      count   `json:"cache_read_input_tokens"`     // Anthropic, apart from input_tokens
	CacheWritten   count   `json:"cache_creation_input_tokens"` // the same
	Reasoning      count   `json:"reasoning_tokens"`            // Perplexity, MiniMax
	Cost           cost    `json:"cost"`                        // OpenRouter
	PromptMore     details `json:"prompt_tokens_details"`
	CompletionMore details `json:"completion_tokens_details"`
	InputMore      details `json:"input_tokens_details"`
	OutputMore     details `json:"output_tokens_details"`
}

// readUsage reads usage and makes it consistent: the total is that of prompt and
// completion, of which cached and reasoning tokens are parts. ok is false if there
// is none that can be believed: whoever reports an absurd prompt or completion is not
// believed in the rest either, as what is missing would then count as nothing.
func readUsage(raw json.RawMessage) (usage agent.Usage, ok bool) {
	var u reported
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &u) != nil {
		return agent.Usage{}, false
	}
	if min(u.Prompt, u.Input, u.Completion, u.Output) == absurd {
		return agent.Usage{}, false
	}
	prompt, completion := max(u.Prompt, u.Input), max(u.Completion, u.Output)
	u.CacheRead, u.CacheWritten = max(u.CacheRead, 0), max(u.CacheWritten, 0)
	cached := max(0, u.CacheHit, u.Cached, u.PromptMore.Cached, u.InputMore.Cached)
	reasoning := max(0, u.Reasoning, u.CompletionMore.Reasoning, u.OutputMore.Reasoning)
	if u.Prompt == 0 && u.CacheRead+u.CacheWritten > 0 {
		prompt, cached = prompt+u.CacheRead+u.CacheWritten, max(cached, u.CacheRead)
	}
	if cached > prompt { // counted apart
		prompt += cached
	}
	if reasoning > completion {
		completion += reasoning
	}
	switch rest := u.Total - prompt - completion; {
	case rest <= 0:
	case prompt == 0: // it tells what is not said otherwise
		prompt = rest
	default: // reasoning that is in neither of them: xAI, Gemini
		completion += rest
	}
	usage = agent.Usage{
		PromptTokens: int64(prompt), CompletionTokens: int64(completion), TotalTokens: int64(prompt + completion),
		CachedTokens: int64(cached), ReasoningTokens: int64(reasoning), Price: float64(u.Cost),
	}
	return usage, usage.TotalTokens > 0
}

// later joins usage with what the same stream reports later: a running total, or
// the rest of it.
func later(u, more agent.Usage) agent.Usage {
	u.PromptTokens = max(u.PromptTokens, more.PromptTokens)
	u.CompletionTokens = max(u.CompletionTokens, more.CompletionTokens)
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	u.CachedTokens = max(u.CachedTokens, more.CachedTokens)
	u.ReasoningTokens = max(u.ReasoningTokens, more.ReasoningTokens)
	u.Price = max(u.Price, more.Price)
	return u
}
