package layout

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rule says what the packages in a folder may import.
type rule struct {
	dir  string // with all below it, unless a longer row fits
	own  string // folders of this module, each with all below it
	ext  string // other modules; "*" = any
	not  string // standard packages that are refused
	why  string
	open bool // tests and programs: anything goes
}

// rules are the layers of docs/architecture.md, lowest first. A new package
// needs a row here or a parent that has one.
var rules = []rule{
	{dir: "agent", not: "os net net/http math/rand math/rand/v2 crypto/rand database/sql log log/slog",
		why: "the vocabulary has no I/O, no clock, no random: no layer can own it"},
	{dir: "agent/steps", own: "agent", why: "how work ends at its first error belongs to no layer"},
	{dir: "memory", own: "agent memory", ext: "modernc.org/sqlite pgregory.net/rapid github.com/jackc/pgx/v5 github.com/gofrs/flock golang.org/x/sys",
		why: "the store works without Temporal and without a model"},
	{dir: "internal/trust", own: "agent", why: "what a folder may do is decided below all that reads folders"},
	{dir: "internal/llm/llmtest", open: true},
	{dir: "internal/llm", own: "agent internal/llm", ext: "github.com/sashabaranov/go-openai golang.org/x/time",
		why: "a model adaptor knows the port agent.Model only"},
	{dir: "internal/tool", own: "agent internal/tool", ext: "golang.org/x/net golang.org/x/sys golang.org/x/text github.com/santhosh-tekuri/jsonschema/v6 github.com/bmatcuk/doublestar/v4 github.com/google/jsonschema-go github.com/JohannesKaufmann",
		why: "tools know the port agent.Tool only"},
	{dir: "internal/mcp/mcptest", open: true},
	{dir: "internal/mcp", own: "agent internal/tool internal/trust", ext: "github.com/modelcontextprotocol/go-sdk", why: "tools of MCP servers are tools"},
	{dir: "internal/template", own: "agent internal/tool internal/trust", ext: "github.com/goccy/go-yaml", why: "templates become agent.SpecialistAgentConfig"},
	{dir: "internal/models", own: "agent", ext: "github.com/goccy/go-yaml", why: "a table of models is data"},
	{dir: "internal/hosts", why: "a rule of servers that belongs to no layer"},
	{dir: "internal/webuser", why: "where users of the web server work: a rule of names that worker and server share"},
	{dir: "internal/encryption", own: "internal/hosts", ext: "go.temporal.io/sdk go.temporal.io/api google.golang.org/protobuf", why: "a codec knows keys and payloads only, its endpoint the rule about hosts"},
	{dir: "internal/config", own: "agent internal/encryption internal/trust", ext: "github.com/goccy/go-yaml go.temporal.io/sdk github.com/BurntSushi/toml", why: "settings know no part that uses them"},
	{dir: "internal/contract", own: "agent", why: "the wire holds data and names only"},
	{dir: "internal/telemetry/export", own: "agent internal/telemetry", ext: "go.opentelemetry.io go.temporal.io/sdk github.com/prometheus/client_golang", why: "exporters are for programs: who uses package spool brings providers"},
	{dir: "internal/telemetry", own: "agent memory internal/contract", ext: "go.opentelemetry.io/otel go.temporal.io/sdk", not: "os net net/http",
		why: "it is told what happens, and asks the store"},
	{dir: "internal/follow", own: "agent memory", why: "followers read the store only"},
	{dir: "internal/prompt", own: "agent memory", why: "what a model is told follows from the store"},
	{dir: "internal/view", own: "agent memory internal/follow internal/prompt internal/telemetry", why: "views read the store only, and name traces"},
	{dir: "internal/nudge", own: "agent internal/contract", ext: "go.temporal.io", why: "hints need Temporal and the contract"},
	{dir: "internal/keeper", own: "agent memory internal/contract internal/nudge", ext: "go.temporal.io", why: "the keeper compares store and Temporal"},
	{dir: "internal/runs", own: "agent", ext: "go.temporal.io", why: "it asks Temporal only"},
	{dir: "internal/health", own: "agent memory", ext: "go.temporal.io/sdk", why: "it asks the parts of a program, and knows no program"},
	{dir: "internal/serve", own: "internal/contract", ext: "go.temporal.io", why: "it runs a worker and knows nothing of what that does"},
	{dir: "internal/httplog/httplogtest", open: true},
	{dir: "internal/httplog", own: "agent memory", why: "the log sits between a model client and its transport"},
	{dir: "internal/boot", own: ". agent memory internal", ext: "*", why: "it makes a worker of settings, for programs"},
	{dir: "workflows", own: "agent internal/contract", ext: "go.temporal.io/sdk go.temporal.io/api/enums",
		not: "os net net/http math/rand math/rand/v2 crypto/rand os/exec database/sql sync log log/slog", why: "replayed code is deterministic"},
	{dir: "activities", own: "agent memory internal", ext: "*", why: "activities meet workflows in internal/contract"},
	{dir: ".", own: "agent memory internal activities workflows", ext: "*", why: "the façade stands on everything but the programs"},
	{dir: "web", why: "files of the page, for any server"},
	{dir: "internal/remote", own: ". agent memory", why: "the Go client over HTTP, for machines without store and Temporal"},
	{dir: "internal/images", own: "agent", why: "files that tools return belong to no layer"},
	{dir: "internal/httpapi", own: ". agent memory internal/hosts internal/health internal/terminal internal/tool internal/webuser", ext: "github.com/go-json-experiment github.com/goccy/go-yaml golang.org/x/time", why: "the API is the Go client behind HTTP"},
	{dir: "internal/terminal", ext: "github.com/charmbracelet github.com/mattn/go-isatty golang.org/x/sys", why: "what a person sees and types knows nothing of threads"},
	{dir: "internal/exit", own: "agent memory", why: "exit codes are those of errors"},
	{dir: "internal/printer", own: ". agent memory internal/terminal", ext: "github.com/charmbracelet", why: "what commands print is made of what the façade returns"},
	{dir: "internal/chat", own: ". agent memory internal/terminal internal/printer internal/exit", why: "a talk works the same on a store and behind a web server"},
	{dir: "internal/screen", own: ". agent memory internal/terminal internal/printer internal/exit internal/chat",
		ext: "charm.land github.com/charmbracelet github.com/yuin/goldmark", why: "chat at a terminal works the same on a store and behind a web server"},
	{dir: "internal/doctor", own: ". agent memory internal/boot internal/config internal/mcp internal/printer internal/telemetry internal/template internal/terminal internal/tool internal/trust", ext: "go.temporal.io",
		why: "doctor looks at parts, and no command is one"},
	{dir: "internal/mcpserver", own: ". agent memory internal/chat internal/terminal", ext: "github.com/modelcontextprotocol/go-sdk", why: "other agents do with conversations what people do"},
	{dir: "internal/usage", own: "internal/exit internal/printer", ext: "github.com/alecthomas/kong", why: "how a program is used follows from its grammar"},
	{dir: "internal/devstack", own: "agent internal/config internal/contract internal/exit internal/hosts internal/terminal internal/tool", ext: "go.temporal.io google.golang.org/protobuf", why: "a stack runs programs: it knows neither store nor threads"},
	{dir: "internal/starter", own: ". agent memory internal web", ext: "*", why: "the starter reaches turns through store and signals, not through workflows or activities"},
	{dir: "starter", own: "internal/starter internal/work", why: "a program of ten lines"},
	{dir: "replay", own: ". agent internal/encryption workflows", ext: "go.temporal.io/sdk", why: "it replays workflows for tests of people's own"},
	{dir: "worker", own: "internal/work", why: "a program of ten lines"},
	{dir: "internal/work", own: ". agent memory internal activities workflows replay", ext: "*", why: "the worker serves everything"},
	{dir: "internal/temporaltest", open: true},
	{dir: "internal/pgtest", open: true},
	{dir: "internal/npmtest"},           // the standard library alone
	{dir: "internal/bench", open: true}, // prints the figures
	{dir: "internal/e2e", open: true},
	{dir: "examples", open: true}, // modules of their own
	{dir: "internal/layout", open: true},
	{dir: "internal/compose", open: true},
	{dir: "internal/browser", open: true},
}

func ruleFor(dir string) (rule, bool) {
	var best rule
	found := false
	for _, r := range rules {
		if (r.dir == dir || r.dir != "." && within(dir, r.dir)) && (!found || len(r.dir) > len(best.dir)) {
			best, found = r, true
		}
	}
	return best, found
}

func TestImportRules(t *testing.T) {
	for _, s := range sources(t, ".") {
		if s.test {
			continue
		}
		r, ok := ruleFor(s.dir)
		if !ok {
			t.Errorf("%s: folder %s has no row in the import rules: decide what it may import", s.name, s.dir)
			continue
		}
		if r.open {
			continue
		}
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !r.allows(imported) {
				t.Errorf("%s imports %s: %s", s.name, imported, r.why)
			}
		}
	}
}

func (r rule) allows(imported string) bool {
	if imported == module || strings.HasPrefix(imported, module+"/") {
		dir := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
		if dir == "" {
			return slices.Contains(strings.Fields(r.own), ".")
		}
		return slices.ContainsFunc(strings.Fields(r.own), func(own string) bool { return within(dir, own) })
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return !slices.Contains(strings.Fields(r.not), imported)
	}
	return slices.ContainsFunc(strings.Fields(r.ext), func(ext string) bool { return ext == "*" || within(imported, ext) })
}

// Only the two programs and what serves tests may be left out of the product.
func TestProgramsDoNotCarryTestCode(t *testing.T) {
	for _, s := range sources(t, ".") {
		if s.test || within(s.dir, "internal/temporaltest") || within(s.dir, "internal/pgtest") || within(s.dir, "internal/npmtest") || within(s.dir, "memory/memorytest") || within(s.dir, "internal/llm/llmtest") || within(s.dir, "internal/mcp/mcptest") || within(s.dir, "internal/bench") {
			continue
		}
		for _, spec := range s.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if imported == "testing" || strings.HasSuffix(path.Base(imported), "test") && strings.HasPrefix(imported, module) {
				t.Errorf("%s imports %s: test code does not belong into a program", s.name, imported)
			}
		}
	}
}
