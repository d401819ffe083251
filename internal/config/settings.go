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
	Model             = "model"
	FallbackModels    = "fallbackModels"
	DemoModel         = "demoModel"
	Server            = "server"
	EncryptionKeys    = "encryptionKeys"
)

// webApprovals are the tools that read, and those that write into the user's own folder.
const webApprovals = "assign_task,calculator,file_edit,file_read,file_write,glob,grep,ls,task_output,tool_output,web_fetch,web_search"

// setting says where a value comes from, how it is read and what it is for.
type setting struct {
	name, env, fallback string
	kind
	doc string
}

// settings are all settings, in the order of Explain and of docs/settings.md. What
// is read goes into c.
func settings(c *Config) []setting {
	p := &c.Delegation
	return []setting{
		{Home, "SPOOL_HOME", "~/.spool", path(&c.Home), "Spool's folder: the default store, the files of `dev`, `agents/`, `spool.yaml`. Flag `--home`"},
		{Profile, "SPOOL_PROFILE", "default", harmless(name(&c.Profile)), "profile of new threads. Threads of other profiles are not found. Flag `--profile`"},
		{User, "SPOOL_USER", "", userID(&c.User), "whose threads. Threads of other users are not found. Default: your name on this system. Flag `--user`"},
		{Workspace, "SPOOL_WORKSPACE", "", directory(&c.Workspace), "the folder in which tools work, and which they cannot leave. Default: where the worker was started"},
		{Store, "SPOOL_STORE", "", store(&c.Store), "where threads are kept. Default: `spool.db` in home. Flag `--store`"},
		{TaskQueue, "SPOOL_TASK_QUEUE", "", queue(&c.TaskQueue), "Temporal task queue; senders and workers of a store need the same. Default: `spool-` and the store's id. Flag `--task-queue`"},
		{TemporalConfig, "TEMPORAL_CONFIG_FILE", "", path(new(string)), "TOML file with Temporal's profiles. Default: where `temporal` looks for it"},
		{TemporalProfile, "TEMPORAL_PROFILE", "", text(new(string)), "profile in that file"},
		{TemporalAddress, "TEMPORAL_ADDRESS", "localhost:7233", address(&c.Temporal.HostPort), "Temporal server. Flag `--temporal-address`"},
		{TemporalNamespace, "TEMPORAL_NAMESPACE", "default", text(&c.Temporal.Namespace), "Temporal namespace. Flag `--temporal-namespace`"},
		{TemporalUI, "SPOOL_TEMPORAL_UI", "", webURL(&c.TemporalUI), "Temporal's web UI, for links. Default: that of `dev`, or one that answers 1000 ports above a local server. Flag `--temporal-ui`"},
		{OpenAIBaseURL, "OPENAI_BASE_URL", "", webURL(&c.OpenAIBaseURL), "an OpenAI-compatible API; it ends before `/chat/completions`. Default: OpenAI's"},
		{"openaiApiKey", "OPENAI_API_KEY", "", secret(&c.OpenAIKey), "its key. With neither key nor URL no worker starts, unless `demoModel` is set"},
		{DemoModel, "SPOOL_DEMO_MODEL", "false", boolean(&c.DemoModel), "let the scripted demo model answer where there is neither key nor URL; `dev` does. Flag `--demo-model`"},
		{Model, "SPOOL_MODEL", "gpt-4o-mini", harmless(text(&c.Model)), "model of agents and threads that name none"},
		{"tavilyApiKey", "TAVILY_API_KEY", "", secret(&c.TavilyKey), "key of the tool `web_search`"},
		{"webFetchPrivate", "SPOOL_WEB_FETCH_PRIVATE", "false", boolean(&c.WebFetchPrivate), "let `web_fetch` reach private and loopback addresses"},
		{"shellMemory", "SPOOL_SHELL_MEMORY", "4096", limit(whole(&c.ShellMemory, 0, 10_000_000, 1<<20)), "megabytes that each process of the tool `shell` may use; 0 = no limit"},
		{"httpLog", "SPOOL_HTTP_LOG", "false", boolean(&c.HTTPLog), "log requests to the model and its answers, without secrets"},
		{"maxTurnsPerWorker", "SPOOL_MAX_TURNS_PER_WORKER", "100", lower(whole(&c.MaxTurnsPerWorker, 1, 100_000, 1)), "model calls, tools and saves that a worker runs at once"},
		{"drainTime", "SPOOL_DRAIN_TIME", "10s", durationOrNone(&c.DrainTime), "how long a worker that is stopped lets tools and model calls go on. What has not ended then is handed over; a second signal does it at once"},
		{"healthAddress", "SPOOL_HEALTH_ADDRESS", "", listenAddress(&c.HealthAddress), "where a worker answers `/livez`, `/readyz` and `/metrics`: a port on loopback, or HOST:PORT. Default: nowhere. See [operations.md](operations.md)"},
		{"idleTimeout", "SPOOL_IDLE_TIMEOUT", "2m0s", lower(duration(&c.IdleTimeout)), "how long the stream of a model may stay silent"},
		{"retryFor", "SPOOL_RETRY_FOR", "15m0s", lower(duration(&c.RetryFor)), "how long a failing model call is repeated"},
		{"maxSteps", "SPOOL_MAX_STEPS", "0", limit(whole(&c.MaxSteps, 0, 1_000_000, 1)), "model calls in a turn of a main thread; 0 = no limit"},
		{"maxDepth", "SPOOL_MAX_DEPTH", "3", lower(whole(&p.MaxDepth, 0, 20, 1)), "levels of sub-agents; 0 = none"},
		{"maxFanOut", "SPOOL_MAX_FAN_OUT", "8", limit(whole(&p.MaxFanOut, 0, 1000, 1)), "open sub-agents of one thread; 0 = no limit"},
		{"maxDescendants", "SPOOL_MAX_DESCENDANTS", "100", limit(whole(&p.MaxDescendants, 0, 1_000_000, 1)), "sub-agents of a tree since a person's last message; 0 = no limit"},
		{"budgetTokens", "SPOOL_BUDGET_TOKENS", "0", limit(whole(&p.MaxTokens, 0, 1_000_000_000_000, 1)), "tokens of the whole tree since then; 0 = no limit"},
		{"budgetPrice", "SPOOL_BUDGET_PRICE", "0", limit(dollars(&p.MaxPrice)), "US dollars of the whole tree since then; 0 = no limit"},
		{"budgetTime", "SPOOL_BUDGET_TIME", "0s", limit(durationOrNone(&p.MaxTime)), "time of models and tools of the whole tree since then, without waiting for people; 0s = no limit"},
		{"disabledAgents", "SPOOL_DISABLED_AGENTS", "", more(disabled(&p.EnabledAgents)), "agents that get no tasks"},
		{"priceInput", "SPOOL_PRICE_INPUT", "0", dollars(&c.Price.Input), "US dollars per million tokens of input, where the provider does not say; 0 = as the table of models says"},
		{"priceOutput", "SPOOL_PRICE_OUTPUT", "0", dollars(&c.Price.Output), "the same for output"},
		{"webToken", "SPOOL_WEB_TOKEN", "", token(&c.WebToken), "token with which `user` enters the web server. Default: a new one at each start, if nobody has a token"},
		{"webTokens", "SPOOL_WEB_TOKENS", "", path(&c.WebTokens), "file of the users of the web server, as `web-token` writes it. Default: `web-tokens` in home, if it is there"},
		{"webApprovals", "SPOOL_WEB_APPROVALS", webApprovals, rules(&c.WebApprovals), "calls that users of the web server may approve in their own folders, as rules of [agent files](agents.md#what-asks-and-what-is-refused); `*` = all, everywhere, `none` = none. `user` may approve all"},
		{"contextWindow", "SPOOL_CONTEXT_WINDOW", "0", window(&c.ContextWindow), "tokens that a request and its answer may have together; 0 = as the table of models says"},
		{FallbackModels, "SPOOL_FALLBACK_MODELS", "", harmless(models(&c.FallbackModels)), "models that take over, in this order, when one [fails](#when-a-model-call-fails) in a way that another may not share"},
		{Server, "SPOOL_SERVER", "", serverURL(&c.Server), "web server to use in place of store and Temporal: the link that it printed, with its token. Flag `--server`"},
		{"serverToken", "SPOOL_SERVER_TOKEN", "", token(&c.ServerToken), "the token, if it is not in the link"},
		{EncryptionKeys, "SPOOL_ENCRYPTION_KEYS", "", keys(&c.Encryption), "keys for what Temporal stores, the same for all programs of a store. Default: it is not encrypted. See [encryption.md](encryption.md)"},
		{"codecToken", "SPOOL_CODEC_TOKEN", "", token(&c.CodecToken), "token that `codec-server` wants; needed if other machines can reach it"},
	}
}

// known are the settings by name, without a place for their values.
var known = func() map[string]setting {
	m := map[string]setting{}
	for _, s := range settings(new(Config)) {
		m[s.name] = s
	}
	return m
}()

func settingNames() string {
	var names []string
	for _, s := range settings(new(Config)) {
		names = append(names, s.name)
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
