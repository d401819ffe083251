package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/trust"
)

// Kinds of transports.
const (
	kindStdio = "stdio"
	kindHTTP  = "http" // streamable HTTP
	kindSSE   = "sse"  // its predecessor
)

// Limits of servers that state none.
const (
	defaultStart = 30 * time.Second
	defaultCall  = 2 * time.Minute
	longestCall  = 24 * time.Hour
)

// ServerConfig is one entry of mcpServers, checked and with its variables
// replaced.
type ServerConfig struct {
	// ID is the server's name as the file has it.
	ID string
	// File is where it stands.
	File string
	Kind string

	Command string
	Args    []string
	Env     map[string]string
	// Dir is where it is started; Apart means that this is a folder of ours, which is
	// made.
	Dir   string
	Apart bool

	URL     string
	Headers map[string]string

	// Trusted servers are believed when they call a tool read-only.
	Trusted bool
	// Gates are the approvals of its tools, by the tool's own name or * (all);
	// deny takes a tool off the list.
	Gates map[string]agent.Gate
	// Include and Exclude name the tools that are offered; empty = all.
	Include, Exclude []string
	// Start bounds connecting and listing, Call one call.
	Start, Call time.Duration

	// Problem says why the entry cannot be used.
	Problem string

	// raw is what it runs as the file has it: without the values of variables,
	// which may be secrets.
	raw string
	// allows says all that it may do, for a person.
	allows []string
}

// key tells whether two entries are the same server.
func (c ServerConfig) key() string {
	b, err := json.Marshal(c)
	if err != nil {
		return c.ID
	}
	return string(b)
}

// entry is the JSON of a server. Names that other programs use for the same
// thing are understood; fields that nobody here knows are left to them.
type entry struct {
	Type      string            `json:"type"`
	Transport string            `json:"transport"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	Dir       string            `json:"cwd"`

	URL       string            `json:"url"`
	HTTPURL   string            `json:"httpUrl"`
	ServerURL string            `json:"serverUrl"`
	Headers   map[string]string `json:"headers"`

	Disabled      bool            `json:"disabled"`
	Trusted       bool            `json:"trust"`
	Approval      json.RawMessage `json:"approval"`
	AlwaysAllow   []string        `json:"alwaysAllow"`
	AutoApprove   []string        `json:"autoApprove"`
	IncludeTools  []string        `json:"includeTools"`
	ExcludeTools  []string        `json:"excludeTools"`
	DisabledTools []string        `json:"disabledTools"`
	TimeoutMs     float64         `json:"timeout"`
	StartMs       float64         `json:"startTimeout"`
}

// File is a file of servers as read: nothing of it starts before a person has agreed to
// its content.
type File struct {
	trust.Offer
	Servers []ServerConfig
}

// readFile reads mcpServers JSON. A file that does not exist is empty. env looks up the
// variables of ${NAME}; servers are started in the workspace dir, or apart from it.
func readFile(book trust.Book, folder, name, dir, apart string, env func(string) string) (f File) {
	var err error
	f.File, err = trust.Read(folder, name)
	if errors.Is(err, fs.ErrNotExist) {
		return f
	}
	if err != nil {
		f.Problem = "cannot be read: " + err.Error()
		return f
	}
	f.Agreed = book.Agreed(f.File)
	var doc struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	if err := json.Unmarshal(f.Raw, &doc); err != nil {
		f.Problem = "is not the JSON expected, {\"mcpServers\": {NAME: {\"command\": …} or {\"url\": …}}}: " + err.Error()
		return f
	}
	for _, id := range slices.Sorted(maps.Keys(doc.Servers)) {
		if c, on := readServer(id, doc.Servers[id], dir, env); on {
			if c.Dir == "" {
				c.Dir, c.Apart = firstOf(apart, dir), apart != ""
			}
			c.File = f.Path()
			f.Servers = append(f.Servers, c)
			f.Allows = append(f.Allows, c.allows...)
		}
	}
	return f
}

// readServer checks an entry; on is false if it is switched off.
func readServer(id string, raw json.RawMessage, dir string, env func(string) string) (c ServerConfig, on bool) {
	c = ServerConfig{ID: id, Start: defaultStart, Call: defaultCall, Gates: map[string]agent.Gate{}}
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		c.Problem = "its entry is not valid: " + err.Error()
		return c, true
	}
	if e.Disabled {
		return c, false
	}
	x := &expander{env: env}
	c.Command, c.Env, c.Headers = x.text(e.Command), x.all(e.Env), x.all(e.Headers)
	for _, a := range e.Args {
		c.Args = append(c.Args, x.text(a))
	}
	c.URL = x.text(firstOf(e.URL, e.HTTPURL, e.ServerURL))
	if c.raw = firstOf(e.URL, e.HTTPURL, e.ServerURL); e.Command != "" {
		c.raw = strings.Join(append([]string{e.Command}, e.Args...), " ")
	}
	if e.Dir != "" {
		if c.Dir = x.text(e.Dir); !filepath.IsAbs(c.Dir) {
			c.Dir = filepath.Join(dir, c.Dir)
		}
	}
	c.Trusted, c.Include = e.Trusted, e.IncludeTools
	defer func() { c.allows = e.allows(c) }()
	c.Exclude = append(append([]string{}, e.ExcludeTools...), e.DisabledTools...)
	c.Start, c.Call = duration(e.StartMs, defaultStart), duration(e.TimeoutMs, defaultCall)
	if len(x.missing) > 0 {
		c.Problem = fmt.Sprintf("the environment has no %s, which it refers to as ${%s}: set it for the worker, or write ${%s:-DEFAULT}",
			strings.Join(x.missing, ", "), x.missing[0], x.missing[0])
	}
	kind, problem := kindOf(firstOf(e.Type, e.Transport), c)
	c.Kind, c.Problem = kind, firstOf(c.Problem, problem)
	for _, name := range append(append([]string{}, e.AlwaysAllow...), e.AutoApprove...) {
		c.Gates[name] = agent.GateAuto
	}
	if problem := c.approval(e.Approval); problem != "" {
		c.Problem = firstOf(c.Problem, problem)
	}
	return c, true
}

func kindOf(typ string, c ServerConfig) (kind, problem string) {
	switch strings.ToLower(typ) {
	case "":
		kind = kindHTTP
		if c.Command != "" {
			kind = kindStdio
		}
	case "stdio":
		kind = kindStdio
	case "http", "streamable-http", "streamablehttp", "streamable_http":
		kind = kindHTTP
	case "sse":
		kind = kindSSE
	default:
		return "", fmt.Sprintf("type %q is not known: use stdio, http or sse", typ)
	}
	switch {
	case kind == kindStdio && c.Command == "":
		return kind, "it names no command"
	case kind != kindStdio && c.URL == "":
		return kind, "it names neither a command nor a url"
	case kind != kindStdio && !strings.HasPrefix(c.URL, "http://") && !strings.HasPrefix(c.URL, "https://"):
		return kind, fmt.Sprintf("url %q is not an http or https URL", c.URL)
	}
	return kind, ""
}

// approval reads one word for all tools, or a word for each.
func (c *ServerConfig) approval(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var word string
	rules := map[string]string{}
	if json.Unmarshal(raw, &word) == nil {
		rules["*"] = word
	} else if err := json.Unmarshal(raw, &rules); err != nil {
		return "approval must be auto, ask or deny, or an object of tools with these"
	}
	for name, gate := range rules {
		switch g := agent.Gate(gate); g {
		case agent.GateAuto, agent.GateAsk, agent.GateDeny:
			c.Gates[name] = g
		default:
			return fmt.Sprintf("approval of %s is %q, allowed are auto, ask and deny", name, gate)
		}
	}
	return ""
}

// offers reports whether a tool of this server is offered at all.
func (c ServerConfig) offers(tool string) bool {
	if len(c.Include) > 0 && !slices.Contains(c.Include, tool) || slices.Contains(c.Exclude, tool) {
		return false
	}
	return c.gate(tool) != agent.GateDeny
}

// gate is the approval that the file states for a tool, "" if it states none.
func (c ServerConfig) gate(tool string) agent.Gate {
	if g, ok := c.Gates[tool]; ok {
		return g
	}
	return c.Gates["*"]
}

func duration(ms float64, fallback time.Duration) time.Duration {
	if ms <= 0 {
		return fallback
	}
	return min(time.Duration(min(ms, 1e9))*time.Millisecond, longestCall)
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// variable is ${NAME} or ${NAME:-DEFAULT}.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

type expander struct {
	env     func(string) string
	missing []string
}

func (x *expander) text(s string) string {
	return variable.ReplaceAllStringFunc(s, func(ref string) string {
		m := variable.FindStringSubmatch(ref)
		if v := x.env(m[1]); v != "" {
			return v
		}
		if m[2] == "" && !slices.Contains(x.missing, m[1]) {
			x.missing = append(x.missing, m[1])
		}
		return m[3]
	})
}

func (x *expander) all(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		out[k] = x.text(in[k])
	}
	return out
}
