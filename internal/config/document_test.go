package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/settings.md")

// meaning says what each setting is for.
var meaning = map[string]string{
	Home:              "Spool's folder: the default store, `dev`'s files, `agents/`, `spool.yaml`. Flag `--home`",
	Profile:           "profile of new threads; other profiles' threads are not found. Flag `--profile`",
	User:              "whose threads; other users' are not found. Default: the name of the system's user. Flag `--user`",
	Workspace:         "the folder that a worker's tools work in and cannot leave; a thread works in the sender's folder if it lies within. Default: the one the worker was started in",
	Store:             "where threads are kept. Default: `spool.db` in home. Flag `--store`",
	TaskQueue:         "Temporal task queue; senders and workers of a store must agree. Default: `spool-` and the store's id. Flag `--task-queue`",
	TemporalConfig:    "TOML file with Temporal's profiles. Default: where `temporal` looks for it",
	TemporalProfile:   "profile in that file",
	TemporalAddress:   "Temporal server. Flag `--temporal-address`",
	TemporalNamespace: "Temporal namespace. Flag `--temporal-namespace`",
	TemporalUI:        "Temporal's web UI, for links. Default: that of `dev`, or one that answers 1000 ports above a local server. Flag `--temporal-ui`",
	OpenAIBaseURL:     "an OpenAI-compatible API, ending before `/chat/completions`. Default: OpenAI's",
	OpenAIKey:         "its key. With neither key nor URL the scripted demo model answers",
	Model:             "model of agents and threads that name none",
	TavilyKey:         "key of the web_search tool",
	WebFetchPrivate:   "let web_fetch reach private and loopback addresses",
	ShellMemory:       "megabytes that each process of the tool `shell` may use; 0 = no limit",
	HTTPLog:           "log requests to the model and its answers, without secrets",
	MaxTurnsPerWorker: "model calls, tools and saves that a worker runs at once",
	IdleTimeout:       "how long a model's stream may stay silent",
	RetryFor:          "how long a failing model call is repeated",
	MaxSteps:          "model calls in a turn of a main thread; 0 = no limit",
	MaxDepth:          "levels of sub-agents; 0 = none",
	MaxFanOut:         "open sub-agents of one thread",
	MaxDescendants:    "sub-agents of a tree since a person's last message; 0 = no limit",
	BudgetTokens:      "tokens of the whole tree of agents since then; 0 = no limit",
	BudgetPrice:       "US dollars of the whole tree since then; 0 = no limit",
	BudgetTime:        "time of models and tools of the whole tree since then, waiting for people left out; 0s = no limit",
	DisabledAgents:    "agents that get no tasks",
	PriceInput:        "US dollars per million tokens of input, where the provider does not say; 0 = what is known of the model. See below",
	PriceOutput:       "the same for output",
	WebToken:          "token with which `user` enters the web server. Default: one made at each start, if nobody has a token",
	Server:            "web server to use in place of store and Temporal: the link that it printed, with its token. Flag `--server`",
	ServerToken:       "the token, if it is not in the link",
	EncryptionKeys:    "keys of what Temporal stores, for all programs of a store. Default: it is stored as it is. See [encryption.md](encryption.md)",
	CodecToken:        "token that `codec-server` asks for; needed if it listens beyond loopback",
	WebTokens:         "file of the users of the web server, a line each with the SHA-256 of their token, as `web-token` writes it. Default: `web-tokens` in home, if it is there",
	ContextWindow:     "tokens that a request and its answer may have together, whatever the model; 0 = what is known of it. See below",
	FallbackModels:    "models that take over, in this order, when one is unknown to its provider or has failed for as long as `retryFor`; the rest of the turn stays with the one that answers",
}

const documentHead = `# Settings

All settings, in the order in which ` + "`starter doctor`" + ` prints them with their value and its source. Flags come before the environment, then a
TOML profile that is named explicitly, a running ` + "`starter dev`" + ` of the same home, ` + "`spool.yaml`" + ` of the working directory, ` + "`spool.yaml`" + ` of home, the
default TOML profile, and the default. ` + "`spool.yaml`" + ` is a flat list such as ` + "`model: gpt-4o-mini`" + `. A relative path belongs to the file it stands in.

Model, tools, templates and limits are the worker's: set them where ` + "`dev`" + ` or ` + "`worker`" + ` is started. TLS, API key and metadata of the Temporal connection
are Temporal's own ` + "`TEMPORAL_*`" + ` variables and TOML keys.

| in spool.yaml | environment | default | allowed | meaning |
|---|---|---|---|---|
`

const documentTail = `
Three more belong to a supervisor of workers: ` + "`SPOOL_HEARTBEAT_TIMEOUT`" + ` (2s suits an embedded server, the default of 10s a shared one),
` + "`SPOOL_MAX_EVENTS`" + `, after how many events a run continues as new, and ` + "`SPOOL_WAIT_IN_RUN`" + ` (60s), after how long a run that waits for people or sub-agents does.
Telemetry is set by OpenTelemetry's own ` + "`OTEL_*`" + ` variables: [telemetry.md](telemetry.md).

## Models

Context windows, prices and whether a model takes the images that tools return (` + "`images: true`" + `) come from a table of models that is built in (` + "`" + `internal/models/models.yaml` + "`" + `). Rows of your own in ` + "`" + `models.yaml` + "`" + ` in home come before it and
before ` + "`" + `contextWindow` + "`" + `, ` + "`" + `priceInput` + "`" + ` and ` + "`" + `priceOutput` + "`" + `; a row need not state everything:

` + "`" + `` + "`" + `` + "`" + `yaml
models:
  - {match: "qwen3:8b", window: 16384}                                  # as num_ctx of Ollama
  - {match: "gpt-4o*", price: {input: 2.5, cached: 1.25, output: 10}}   # US dollars per million tokens
  - {match: "my-vision*", images: true}
providers:
  mistral: {baseUrl: "https://api.mistral.ai/v1", apiKeyEnv: MISTRAL_API_KEY}
` + "`" + `` + "`" + `` + "`" + `

` + "`" + `*` + "`" + ` stands for anything; ` + "`" + `match` + "`" + ` is compared with the model's name with and without what stands before its last slash. When a conversation does not fit the window any
more, the model summarises its older part and goes on with the summary; messages and log stay as they are. A model that nothing is known of is taken to read 128,000
tokens; a provider that refuses a request as too long corrects that. A server that silently drops what is too long (Ollama does) is noticed and reported: state its
window then.

A provider is used by agents that name it (` + "`provider: mistral`" + ` in their file) and by models that name it behind an @, as in ` + "`mistral-large-latest@mistral`" + `,
wherever a model is named: ` + "`SPOOL_MODEL`" + `, ` + "`fallbackModels`" + `, agents' files, ` + "`send --model`" + `. What names none is asked at the provider of the settings; an agent that another one calls
takes what its file leaves out from its caller. What stands behind the last @ of a name is part of the name if it starts like a version (` + "`claude@20240620`" + `, ` + "`@v2`" + `, ` + "`@latest`" + `,
` + "`@default`" + `), if it has a slash or colon, or if the @ comes first (` + "`@cf/meta/llama`" + `); otherwise it must be a provider of the table, and a name of which there is none is refused,
with the list of those there are: no model is asked at a provider, with a key, that was not meant. A name that ends in @ is a name as it is: ` + "`gpt@team@`" + ` asks the provider of the settings for ` + "`gpt@team`" + `.

` + "`apiKeyEnv`" + ` names the variable that holds the key; the key itself stays out of the file. A worker that starts warns of variables that are not set, and of agents and
` + "`fallbackModels`" + ` whose provider is not set up; ` + "`models`" + ` and ` + "`doctor`" + ` report that too, with file and line, and ask each model at its provider. ` + "`models.yaml`" + ` is read when a worker
starts, and what it says then holds until it ends: a change counts from the next start. With a table that cannot be read, or a ` + "`SPOOL_MODEL`" + ` whose provider is not set up, no worker
starts (exit 2), and ` + "`dev`" + `, ` + "`models`" + ` and ` + "`doctor`" + ` say why.

(Written by ` + "`go test ./internal/config -run Document -update`" + ` from the table that the program reads.)
`

func TestDocumentOfSettings(t *testing.T) {
	var b strings.Builder
	b.WriteString(documentHead)
	for _, s := range settings {
		require.NotEmpty(t, meaning[s.name], "%s: say what it means", s.name)
		fallback, allowed := "", "any text"
		if s.fallback != "" {
			fallback = "`" + s.fallback + "`"
		}
		if s.check != nil {
			_, allowed = s.check("/ \x00", place{dir: "/"})
			require.NotEmpty(t, allowed, s.name)
			allowed, _, _ = strings.Cut(allowed, whatIsWrong)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", s.name, s.env, fallback, strings.ReplaceAll(allowed, "|", `\|`), meaning[s.name])
	}
	assert.Len(t, meaning, len(settings), "a setting that is gone is not explained")
	b.WriteString(documentTail)
	path := filepath.Join("..", "..", "docs", "settings.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, b.String(), string(have), "write it with go test ./internal/config -run Document -update")
}
