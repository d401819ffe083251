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
	RetryFor:          "how long a failing model call is repeated, from its first failure on. See below",
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
	FallbackModels:    "models that take over, in this order, when one fails in a way that another may not share ([below](#when-a-model-call-fails)); the rest of the turn stays with the one that answers",
}

// part is what stands before or after the table.
func part(t *testing.T, name string) []byte {
	raw, err := os.ReadFile("testdata/settings_" + name + ".md")
	require.NoError(t, err)
	return raw
}

func TestDocumentOfSettings(t *testing.T) {
	var b strings.Builder
	b.Write(part(t, "head"))
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
	b.Write(part(t, "tail"))
	path := filepath.Join("..", "..", "docs", "settings.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, b.String(), string(have), "write it with go test ./internal/config -run Document -update")
}
