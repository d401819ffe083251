package config

import (
	"strings"
	"unicode"
)

// Names of the settings, as used in spool.yaml and as keys of Options.Flags.
const (
	Home              = "home"
	Profile           = "profile"
	User              = "user"
	Workspace         = "workspace"
	Store             = "store"
	TaskQueue         = "taskQueue"
	TemporalAddress   = "temporalAddress"
	TemporalNamespace = "temporalNamespace"
	TemporalProfile   = "temporalProfile"
	TemporalConfig    = "temporalConfigFile"
	TemporalUI        = "temporalUi"
	OpenAIBaseURL     = "openaiBaseUrl"
	OpenAIKey         = "openaiApiKey"
	Model             = "model"
	TavilyKey         = "tavilyApiKey"
	WebFetchPrivate   = "webFetchPrivate"
	ShellMemory       = "shellMemory"
	HTTPLog           = "httpLog"
	MaxTurnsPerWorker = "maxTurnsPerWorker"
	IdleTimeout       = "idleTimeout"
	RetryFor          = "retryFor"
	MaxSteps          = "maxSteps"
	MaxDepth          = "maxDepth"
	MaxFanOut         = "maxFanOut"
	MaxDescendants    = "maxDescendants"
	BudgetTokens      = "budgetTokens"
	BudgetPrice       = "budgetPrice"
	BudgetTime        = "budgetTime"
	DisabledAgents    = "disabledAgents"
	PriceInput        = "priceInput"
	PriceOutput       = "priceOutput"
	WebToken          = "webToken"
	WebTokens         = "webTokens"
	ContextWindow     = "contextWindow"
	FallbackModels    = "fallbackModels"
	Server            = "server"
	ServerToken       = "serverToken"
	EncryptionKeys    = "encryptionKeys"
	CodecToken        = "codecToken"
)

// setting says where a value may come from and what it may be. Its order in
// the table is the order of Explain.
type setting struct {
	name     string
	env      string
	fallback string
	secret   bool
	// check returns the value in its final form, or what is allowed.
	check func(value string, at place) (out, allowed string)
}

var settings = []setting{
	{Home, "SPOOL_HOME", "~/.spool", false, asPath},
	{Profile, "SPOOL_PROFILE", "default", false, asName},
	{User, "SPOOL_USER", "", false, asUser},
	{Workspace, "SPOOL_WORKSPACE", "", false, asDirectory},
	{Store, "SPOOL_STORE", "", false, asStore},
	{TaskQueue, "SPOOL_TASK_QUEUE", "", false, asTaskQueue},
	{TemporalConfig, "TEMPORAL_CONFIG_FILE", "", false, asPath},
	{TemporalProfile, "TEMPORAL_PROFILE", "", false, nil},
	{TemporalAddress, "TEMPORAL_ADDRESS", "localhost:7233", false, asAddress},
	{TemporalNamespace, "TEMPORAL_NAMESPACE", "default", false, nil},
	{TemporalUI, "SPOOL_TEMPORAL_UI", "", false, asURL},
	{OpenAIBaseURL, "OPENAI_BASE_URL", "", false, asURL},
	{OpenAIKey, "OPENAI_API_KEY", "", true, nil},
	{Model, "SPOOL_MODEL", "gpt-4o-mini", false, nil},
	{TavilyKey, "TAVILY_API_KEY", "", true, nil},
	{WebFetchPrivate, "SPOOL_WEB_FETCH_PRIVATE", "false", false, asBool},
	{ShellMemory, "SPOOL_SHELL_MEMORY", "4096", false, asCount(0, 10_000_000)},
	{HTTPLog, "SPOOL_HTTP_LOG", "false", false, asBool},
	{MaxTurnsPerWorker, "SPOOL_MAX_TURNS_PER_WORKER", "100", false, asCount(1, 100_000)},
	{IdleTimeout, "SPOOL_IDLE_TIMEOUT", "2m0s", false, asDuration},
	{RetryFor, "SPOOL_RETRY_FOR", "15m0s", false, asDuration},
	{MaxSteps, "SPOOL_MAX_STEPS", "0", false, asCount(0, 1_000_000)},
	{MaxDepth, "SPOOL_MAX_DEPTH", "3", false, asCount(0, 20)},
	{MaxFanOut, "SPOOL_MAX_FAN_OUT", "8", false, asCount(0, 1000)},
	{MaxDescendants, "SPOOL_MAX_DESCENDANTS", "100", false, asCount(0, 1_000_000)},
	{BudgetTokens, "SPOOL_BUDGET_TOKENS", "0", false, asCount(0, 1_000_000_000_000)},
	{BudgetPrice, "SPOOL_BUDGET_PRICE", "0", false, asDollars},
	{BudgetTime, "SPOOL_BUDGET_TIME", "0s", false, asDurationOrNone},
	{DisabledAgents, "SPOOL_DISABLED_AGENTS", "", false, asAgents},
	{PriceInput, "SPOOL_PRICE_INPUT", "0", false, asDollars},
	{PriceOutput, "SPOOL_PRICE_OUTPUT", "0", false, asDollars},
	{WebToken, "SPOOL_WEB_TOKEN", "", true, asToken},
	{WebTokens, "SPOOL_WEB_TOKENS", "", false, asPath},
	{ContextWindow, "SPOOL_CONTEXT_WINDOW", "0", false, asWindow},
	{FallbackModels, "SPOOL_FALLBACK_MODELS", "", false, asModels},
	{Server, "SPOOL_SERVER", "", true, asURL},
	{ServerToken, "SPOOL_SERVER_TOKEN", "", true, asToken},
	{EncryptionKeys, "SPOOL_ENCRYPTION_KEYS", "", true, asKeys},
	{CodecToken, "SPOOL_CODEC_TOKEN", "", true, asToken},
}

func lookup(name string) (setting, bool) {
	for _, s := range settings {
		if s.name == name {
			return s, true
		}
	}
	return setting{}, false
}

// SecretVariables are the environment variables of settings that are secret.
func SecretVariables() (names []string) {
	for _, s := range settings {
		if s.secret {
			names = append(names, s.env)
		}
	}
	return names
}

// settingNames lists what spool.yaml may contain.
func settingNames() string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

// flagName turns temporalUi into --temporal-ui.
func flagName(name string) string {
	var b strings.Builder
	b.WriteString("--")
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
