package spool

import (
	"context"
	"net/http"
	"time"

	"github.com/spool-agents/spool/activities"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/encryption"
	"github.com/spool-agents/spool/internal/llm"
	"github.com/spool-agents/spool/internal/llm/openai"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/mcp"
	"github.com/spool-agents/spool/internal/models"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/internal/tool/schema"
)

// NewTool makes a tool of a function whose arguments are decoded from JSON into T.
// The spec's schema is checked before the function runs; an empty one becomes that of
// T: fields by their json tags, described by jsonschema tags, optional if they have
// omitempty. It panics if T has none. What the model should
// hear about, failures included, is a result: see agent.ToolOK, agent.ToolFailed.
// The function must stop when its context ends, and be safe for concurrent use.
func NewTool[T any](spec agent.ToolSpec, run func(ctx context.Context, r agent.ToolRun, args T) agent.ToolResult) agent.Tool {
	if len(spec.Schema) == 0 {
		spec.Schema = schema.Of[T]()
	}
	return tool.Func(spec, run)
}

// NewTools makes the tools of a worker. A name that is taken, or that no provider
// accepts, and a schema that is none are CodeInvalid.
func NewTools(tools ...agent.Tool) (activities.Tools, error) {
	r, err := tool.New(tools...)
	if err != nil {
		return nil, err // not a nil registry in an interface
	}
	return r, nil
}

// BuiltinTools are the tools that come with Spool: files, shell, web, calculator,
// in the thread's workspace. tavilyKey is for web_search; empty leaves it without.
func BuiltinTools(tavilyKey string) []agent.Tool {
	return tool.Builtin(tool.Options{TavilyKey: tavilyKey})
}

// NewAgents reads the agents' templates: of the project's folders, of
// HOME/agents, and those built in. Both folders may be empty. A file of the project only
// makes things stricter until a person has agreed to it (docs/security.md), which is
// kept in home. A file that changes counts from its next use on. The warnings say what
// could not be used, each with file and line; after a change, `starter agents` does.
func NewAgents(project, home string) (agents activities.Catalog, warnings []string) {
	reading := true
	catalog := template.NewLive(template.Folders{Project: project, Home: home}, nil, func(w template.Warning) {
		if reading {
			warnings = append(warnings, w.String())
		}
	})
	reading = false
	return catalog, warnings
}

// ModelOptions are the settings of an OpenAI-compatible model.
type ModelOptions struct {
	// BaseURL of the API; empty = OpenAI's.
	BaseURL string
	APIKey  string
	// Model is used where neither thread nor template names one.
	Model string
	// IdleTimeout ends a stream that is silent for so long; 0 = the default.
	IdleTimeout time.Duration
	// HTTPClient replaces the default client. Its Timeout should be 0.
	HTTPClient *http.Client
	// Providers are other servers by name: of agents that name a provider, and of models
	// that are named MODEL@PROVIDER. They have no providers of their own.
	Providers map[string]ModelOptions
}

// NewModel makes a model that calls an OpenAI-compatible API. A rate limit that
// one call meets holds the others of the same key back too.
func NewModel(o ModelOptions) (agent.Model, error) {
	router := llm.Router{Providers: map[string]agent.Model{}}
	var err error
	if router.Default, err = o.client(); err != nil {
		return nil, err
	}
	for name, p := range o.Providers {
		if router.Providers[name], err = p.client(); err != nil {
			return nil, agent.Wrap(err, agent.CodeInvalid, "provider %s", name)
		}
	}
	return router, nil
}

func (o ModelOptions) client() (agent.Model, error) {
	m, err := openai.New(openai.Config{BaseURL: o.BaseURL, APIKey: o.APIKey, Model: o.Model, IdleTimeout: o.IdleTimeout, HTTPClient: o.HTTPClient})
	return llm.Limited(m), err
}

// ModelRow says what is known of the models whose names match: context window, most
// output, price in US dollars per million tokens, whether they take images.
type ModelRow = models.Row

// KnownModels is a table for WorkerOptions.Models: that of HOME/models.yaml (home may be
// empty), then the rows, then what is built in. The first that states a value wins.
func KnownModels(home string, rows ...ModelRow) (activities.Models, error) {
	return models.Load(home, rows...)
}

// EncryptionKeys encrypt what Temporal is given. Apply is for the options of a client
// that sends, ApplyToWorker for those of a worker's client.
type EncryptionKeys = encryption.Keys

// LoadEncryptionKeys reads keys as SPOOL_ENCRYPTION_KEYS has them (docs/encryption.md).
func LoadEncryptionKeys(value string) (EncryptionKeys, error) { return encryption.Load(value) }

// MCPOptions say where MCP servers are configured: in files, in the program, or both.
type MCPOptions = mcp.Options

// NewToolsWithMCP is NewTools with the tools of MCP servers, as they come and go.
// start runs the servers: it is the Beside of WorkerOptions.
func NewToolsWithMCP(o MCPOptions, tools ...agent.Tool) (all activities.Tools, start func(context.Context) (stop func()), err error) {
	live, start, err := mcp.Tools(o, tools...)
	if err != nil {
		return nil, nil, err
	}
	return live, start, nil
}

// DemoModel needs no key: it follows a script in the message, for trying things
// and for tests, and says what it is otherwise. "script: call TOOL {JSON} ;; echo
// Found:" calls a tool and answers with what it returned.
func DemoModel() agent.Model { return script.Model{} }
