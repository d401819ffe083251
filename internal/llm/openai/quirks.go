package openai

import (
	"regexp"

	goopenai "github.com/sashabaranov/go-openai"
)

// Reasoning says whether the reasoning of earlier replies is sent back.
type Reasoning string

// The reasoning policies.
const (
	// ReasoningWithCalls sends it with the assistant messages that call tools,
	// when there is some.
	ReasoningWithCalls Reasoning = ""
	// ReasoningNever leaves it out: the provider refuses unknown fields.
	ReasoningNever Reasoning = "never"
	// ReasoningRequired sends it with every assistant message that has some, and
	// as an empty string with tool calls that have none: the provider refuses
	// tool calls without the field, also those another provider made.
	ReasoningRequired Reasoning = "required"
)

// How a provider is held to the schema of an answer. All are told of it in words, and
// what comes back is checked.
const (
	FormatSchema = goopenai.ChatCompletionResponseFormatTypeJSONSchema
	FormatObject = goopenai.ChatCompletionResponseFormatTypeJSONObject
)

// Quirks are the ways in which a provider differs. The zero value suits an
// unknown provider.
type Quirks struct {
	Reasoning Reasoning
	// DropExtra leaves out extra_content of tool calls.
	DropExtra bool
	// ThoughtSignature adds Gemini's placeholder to tool calls that another
	// provider made and that have no signature.
	ThoughtSignature bool
	// NoStreamOptions leaves out stream_options; usage comes without being asked.
	NoStreamOptions bool
	// MaxCompletionTokens names the limit max_completion_tokens, not max_tokens.
	MaxCompletionTokens bool
	// NoSampling leaves out temperature and top_p.
	NoSampling bool
	// ShortCallIDs makes tool call ids of nine letters and digits.
	ShortCallIDs bool
	// AssistantAfterTool puts an assistant message between a tool result and a
	// user message.
	AssistantAfterTool bool
	// Format holds the model to the schema of an answer; "" asks in words only: the
	// parameter is unknown or does harm.
	Format goopenai.ChatCompletionResponseFormatType
	// FormatWithoutTools: not while tools are offered.
	FormatWithoutTools bool
	// ReasoningField is the name under which reasoning is sent back; "" =
	// reasoning_content.
	ReasoningField string
	// NoEffortWithTools sends reasoning_effort none while tools are offered.
	NoEffortWithTools bool
	// MaxTemperature caps the temperature; 0 = no cap.
	MaxTemperature float64
}

// quirkTable is read from the top; every matching row adds its quirks. An empty
// pattern matches all. Rows without a quirk say that a provider was looked at: what
// it does differently is in what is read (fault_test.go), where all are met alike.
// The sources are the providers' own pages, as of November 2026; a name in quotes is
// the title of one.
var quirkTable = []struct {
	name, host, model string
	apply             func(*Quirks)
}{
	{
		// Unknown fields in messages are refused. "Structured outputs", "Chat Completions".
		name: "OpenAI", host: `(^|\.)openai\.com$`,
		apply: func(q *Quirks) { q.Reasoning, q.DropExtra, q.Format = ReasoningNever, true, FormatSchema },
	},
	{
		// "Azure OpenAI in Azure AI Foundry Models REST API reference":
		// api-version stands in the base URL's query, the key in a header of its own (wire.go).
		name: "Azure OpenAI", host: `\.azure\.com$|\.azure-api\.net$`,
		apply: func(q *Quirks) { q.Reasoning, q.DropExtra, q.Format = ReasoningNever, true, FormatSchema },
	},
	{
		// "Reasoning models": no max_tokens; no temperature and top_p unless the effort is
		// none, which is the default of few.
		name: "OpenAI reasoning models", model: `^(openai/)?(o[1-9]|gpt-[5-9]|gpt-[1-9][0-9])`,
		apply: func(q *Quirks) { q.MaxCompletionTokens, q.NoSampling = true, true },
	},
	{
		// "GPT-5 Chat", "GPT-5.3 Chat". Those of 5.1 and 5.2 reason.
		name: "OpenAI chat models of the gpt-5 family", model: `^(openai/)?gpt-5(\.3)?-chat`,
		apply: func(q *Quirks) { q.NoSampling = false },
	},
	{
		// From gpt-5.6 on, function tools are refused in chat completions at any other
		// effort, that by default too; gpt-6-astra and the newer Sols have no effort none,
		// so they take no tools here ("Using GPT-6", and the text of the refusal).
		name: "OpenAI models that reason or call", host: `(^|\.)openai\.com$|\.azure\.com$|\.azure-api\.net$`,
		model: `^gpt-(5\.[6-9]|6-(sol|luna)|6\.[1-9]-(terra|luna))`,
		apply: func(q *Quirks) { q.NoEffortWithTools = true },
	},
	{
		// "Chat Completion API": unknown fields are refused with 422, also
		// max_completion_tokens and reasoning_content; usage is in each last chunk.
		name: "Mistral", host: `(^|\.)mistral\.ai$`,
		apply: func(q *Quirks) {
			q.Reasoning, q.DropExtra, q.NoStreamOptions = ReasoningNever, true, true
			q.ShortCallIDs, q.AssistantAfterTool = true, true
			q.Format, q.FormatWithoutTools = FormatSchema, true
		},
	},
	{
		// Their templates insist on call ids of nine characters, wherever they run.
		name: "Mistral models elsewhere", model: `(?i)(^|/)(open-)?(mistral|mixtral|ministral|codestral|devstral|magistral)`,
		apply: func(q *Quirks) { q.ShortCallIDs = true },
	},
	{
		// "Groq API Reference", Cerebras "Reasoning": it comes as reasoning and need not go back.
		name: "Groq, Cerebras", host: `(^|\.)(groq\.com|cerebras\.ai)$`,
		apply: func(q *Quirks) { q.Reasoning, q.DropExtra = ReasoningNever, true },
	},
	{
		// DeepSeek "Thinking Mode", Kimi "Use the Thinking Model": tool calls without
		// their reasoning_content are answered with 400.
		name: "DeepSeek, Kimi", host: `(^|\.)(deepseek\.com|moonshot\.(ai|cn)|kimi\.(ai|com))$`,
		apply: func(q *Quirks) { q.Reasoning = ReasoningRequired },
	},
	{
		// "JSON Output".
		name: "DeepSeek", host: `(^|\.)deepseek\.com$`,
		apply: func(q *Quirks) { q.Format, q.FormatWithoutTools = FormatObject, true },
	},
	{
		name: "DeepSeek and Kimi thinking models elsewhere", model: `(?i)deepseek.*(reason|r1|v[4-9])|kimi.*(think|k[2-9]\.[5-9])`,
		apply: func(q *Quirks) {
			if q.Reasoning == ReasoningWithCalls {
				q.Reasoning = ReasoningRequired
			}
		},
	},
	{
		// Kimi "Model parameters": other values than the fixed ones are refused.
		name: "Kimi models with fixed sampling", host: `(^|\.)moonshot\.(ai|cn)$|(^|\.)kimi\.(ai|com)$`, model: `kimi-k(2\.[5-9]|[3-9])`,
		apply: func(q *Quirks) { q.NoSampling = true },
	},
	{
		// "OpenAI compatibility", "Thought signatures".
		name: "Gemini", host: `(^|\.)googleapis\.com$`,
		apply: func(q *Quirks) {
			q.Reasoning, q.ThoughtSignature = ReasoningNever, true
			q.Format, q.FormatWithoutTools = FormatSchema, true
		},
	},
	{
		// "Gemini 4 developer guide": sampling parameters are refused.
		name: "Gemini models without sampling", host: `(^|\.)googleapis\.com$`, model: `gemini-[4-9]`,
		apply: func(q *Quirks) { q.NoSampling = true },
	},
	{
		// "OpenAI SDK compatibility": temperatures above 1 are capped, so the cap is ours to
		// see; response_format is ignored, reasoning neither comes nor goes back.
		name: "Anthropic", host: `(^|\.)anthropic\.com$`,
		apply: func(q *Quirks) { q.Reasoning, q.DropExtra, q.MaxTemperature = ReasoningNever, true, 1 },
	},
	{
		// "Migrating to Claude Opus 4.7" and the overviews of the models since: sampling
		// parameters are refused with 400.
		name: "Claude models without sampling", model: `(?i)claude-(opus-(4[-.][7-9]|[5-9])|(sonnet|haiku)-[5-9]|fable|mythos)`,
		apply: func(q *Quirks) { q.NoSampling = true },
	},
	{
		// "Structured outputs", "Reasoning": reasoning tokens are counted apart from the
		// completion's (usage.go).
		name: "xAI", host: `(^|\.)x\.ai$`,
		apply: func(q *Quirks) { q.Format, q.FormatWithoutTools = FormatSchema, true },
	},
	{
		// "Reasoning Tokens": reasoning goes back under the name under which it came.
		name: "OpenRouter", host: `(^|\.)openrouter\.ai$`,
		apply: func(q *Quirks) { q.ReasoningField = "reasoning" },
	},
	// Ollama "OpenAI compatibility", vLLM "OpenAI-Compatible Server", llama.cpp server README:
	// stream_options is known, unknown fields are ignored.
	{name: "Ollama, vLLM, llama.cpp, LM Studio", host: `^(localhost|127\.0\.0\.1|\[?::1\]?|host\.docker\.internal)$`, apply: func(*Quirks) {}},
}

type quirkPattern struct{ host, model *regexp.Regexp }

var quirkPatterns = func() []quirkPattern {
	ps := make([]quirkPattern, len(quirkTable))
	for i, row := range quirkTable {
		ps[i] = quirkPattern{regexp.MustCompile(row.host), regexp.MustCompile(row.model)}
	}
	return ps
}()

// QuirksOf returns the known quirks of a model at a host.
func QuirksOf(host, model string) Quirks {
	var q Quirks
	for i, p := range quirkPatterns {
		if p.host.MatchString(host) && p.model.MatchString(model) {
			quirkTable[i].apply(&q)
		}
	}
	return q
}
