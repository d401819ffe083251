package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
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

// entry is the JSON of a server. Names that other programs use for the same
// thing are understood; a person is told of those that nobody here knows.
type entry struct {
	Type        string          `json:"type"`
	Transport   string          `json:"transport"`
	Command     commandLine     `json:"command"`
	Args        []word          `json:"args"`
	Env         map[string]word `json:"env"`
	Environment map[string]word `json:"environment"`
	Dir         string          `json:"cwd"`

	URL       string          `json:"url"`
	HTTPURL   string          `json:"httpUrl"`
	ServerURL string          `json:"serverUrl"`
	Headers   map[string]word `json:"headers"`

	Disabled      bool            `json:"disabled"`
	Enabled       *bool           `json:"enabled"`
	Trusted       bool            `json:"trust"`
	Approval      json.RawMessage `json:"approval"`
	AlwaysAllow   []string        `json:"alwaysAllow"`
	AutoApprove   []string        `json:"autoApprove"`
	IncludeTools  []string        `json:"includeTools"`
	ExcludeTools  []string        `json:"excludeTools"`
	DisabledTools []string        `json:"disabledTools"`
	Timeout       json.RawMessage `json:"timeout"`
	StartTimeout  json.RawMessage `json:"startTimeout"`
	EnvFile       string          `json:"envFile"`
	unknown       []string
}

// word is a text, which a number, true or false also is.
type word string

func (w *word) UnmarshalJSON(raw []byte) error {
	if *w = word(raw); strings.IndexByte("{[n\"", raw[0]) < 0 {
		return nil
	}
	*w = ""
	return json.Unmarshal(raw, (*string)(w))
}

// commandLine is a command, alone or as a list with its arguments.
type commandLine []word

func (c *commandLine) UnmarshalJSON(raw []byte) error {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		*c = commandLine{word(name)}
		return nil
	}
	return json.Unmarshal(raw, (*[]word)(c))
}

// Fields that other programs know. limiting ones would be lost with what they forbid.
var (
	limiting    = regexp.MustCompile(`(?i)active|enable|disable|allow|den[yi]|block|exclude|approv|permission|sandbox|tools$`)
	knownFields = func() (names []string) {
		for _, f := range reflect.VisibleFields(reflect.TypeFor[entry]()) {
			names = append(names, strings.ToLower(f.Tag.Get("json")))
		}
		return names
	}()
)

// readEntry reads the JSON of a server; problem says in words what of it cannot be.
func readEntry(raw json.RawMessage) (e entry, problem string) {
	var all fields
	if err := json.Unmarshal(raw, &e); err != nil {
		return entry{}, "its entry is not valid: " + agent.PlainProblem(err.Error())
	}
	_ = json.Unmarshal(raw, &all)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(knownFields, strings.ToLower(name)) {
			continue
		}
		if e.unknown = append(e.unknown, name); limiting.MatchString(name) {
			problem = cmp.Or(problem, fmt.Sprintf("it has %q, which is not known here and may forbid something: use disabled, includeTools, excludeTools or approval, or take it out", cutLine(name)))
		}
	}
	return e, problem
}

// settle makes one of the ways in which programs say the same.
func (e *entry) settle() {
	if len(e.Command) > 0 {
		e.Args, e.Command = slices.Concat(e.Command[1:], e.Args), e.Command[:1]
	}
	all := map[string]word{}
	maps.Copy(all, e.Environment)
	maps.Copy(all, e.Env)
	e.Env, e.URL = all, cmp.Or(e.URL, e.HTTPURL, e.ServerURL)
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
	f.read(dir, apart, env)
	return f
}

func (f *File) read(dir, apart string, env func(string) string) {
	found, twice := map[string]json.RawMessage{}, map[string]bool{}
	if err := addServers(found, twice, plainJSON(f.Raw)); err != nil {
		f.Problem = err.Error()
		return
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		c, on := readServer(id, found[id], dir, env)
		if twice[id] {
			c.Problem, on = "it stands in more than one section of the file: keep one", true
		}
		if on {
			if c.Dir == "" {
				c.Dir, c.Apart = cmp.Or(apart, dir), apart != ""
			}
			c.File = f.Path()
			f.Servers = append(f.Servers, c)
			f.Allows = append(f.Allows, c.allows...)
		}
	}
}

// readServer checks an entry; on is false if it is switched off.
func readServer(id string, raw json.RawMessage, dir string, env func(string) string) (c ServerConfig, on bool) {
	c = ServerConfig{ID: id, Start: defaultStart, Call: defaultCall, Gates: map[string]agent.Gate{}}
	e, problem := readEntry(raw)
	if e.Disabled || e.Enabled != nil && !*e.Enabled {
		return c, false
	}
	if c.Problem = problem; problem != "" {
		return c, true
	}
	e.settle()
	x := &expander{env: env, places: map[string]string{
		"workspaceFolder": dir, "workspaceFolderBasename": filepath.Base(dir), "userHome": env("HOME"), "pathSeparator": "/", "/": "/",
	}}
	c.Command, c.Env, c.Headers = x.path(strings.Join(texts(e.Command), "")), x.all(e.Env), x.all(e.Headers)
	for _, a := range e.Args {
		c.Args = append(c.Args, x.text(string(a)))
	}
	c.URL = x.text(e.URL)
	if c.raw = e.URL; c.Command != "" {
		c.raw = strings.Join(texts(append(e.Command, e.Args...)), " ")
	}
	if e.Dir != "" {
		if c.Dir = x.path(e.Dir); !filepath.IsAbs(c.Dir) {
			c.Dir = filepath.Join(dir, c.Dir)
		}
	}
	c.Trusted, c.Include = e.Trusted, e.IncludeTools
	defer func() { c.allows = e.allows(c, x.used) }()
	c.Exclude = append(append([]string{}, e.ExcludeTools...), e.DisabledTools...)
	c.Start = x.duration("startTimeout", e.StartTimeout, time.Millisecond, defaultStart)
	c.Call = x.duration("timeout", e.Timeout, time.Second, defaultCall)
	if e.EnvFile != "" {
		x.refuse("envFile is not read here: set its variables for the worker, and write ${NAME} in env")
	}
	kind, problem := kindOf(cmp.Or(e.Type, e.Transport), c)
	c.Kind, c.Problem = kind, cmp.Or(x.problem, problem)
	for _, name := range append(append([]string{}, e.AlwaysAllow...), e.AutoApprove...) {
		c.Gates[name] = agent.GateAuto
	}
	if problem := c.approval(e.Approval); problem != "" {
		c.Problem = cmp.Or(c.Problem, problem)
	}
	return c, true
}

func kindOf(typ string, c ServerConfig) (kind, problem string) {
	switch strings.ToLower(typ) {
	case "":
		if kind = kindHTTP; c.Command != "" && c.URL != "" {
			return "", "it names both a command and a url: keep one"
		}
		if c.Command != "" {
			kind = kindStdio
		}
	case "stdio", "local":
		kind = kindStdio
	case "http", "streamable-http", "streamablehttp", "streamable_http", "remote":
		kind = kindHTTP
	case "sse":
		kind = kindSSE
	default:
		return "", fmt.Sprintf("type %q is not known: use stdio, http or sse", typ)
	}
	switch {
	case kind == kindStdio && c.Command == "":
		return kind, "it names no command"
	case kind != kindStdio && c.URL == "" && c.Command != "":
		return kind, fmt.Sprintf("its type is %q, and it names no url", typ)
	case kind != kindStdio && c.URL == "":
		return kind, "it names neither a command nor a url"
	case kind != kindStdio && !strings.HasPrefix(c.URL, "http://") && !strings.HasPrefix(c.URL, "https://"):
		return kind, fmt.Sprintf("url %q is not an http or https URL", c.raw)
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

// duration reads milliseconds, or a text with its unit. Some programs count seconds: a number
// below 1000 is one of small units.
func (x *expander) duration(name string, raw json.RawMessage, small, own time.Duration) time.Duration {
	text := strings.Trim(string(raw), `"`)
	d, err := time.ParseDuration(text)
	if n, notNumber := strconv.ParseFloat(text, 64); notNumber == nil {
		if err = nil; n >= 1000 {
			small = time.Millisecond
		}
		d = time.Duration(min(n, 1e9)) * small
	}
	if err != nil && text != "" && text != "null" {
		x.refuse("%s is %s: write milliseconds, or a text such as \"90s\"", name, cutLine(string(raw)))
	}
	if d <= 0 {
		return own
	}
	return min(d, longestCall)
}

func texts[W ~string](words []W) (out []string) {
	for _, w := range words {
		out = append(out, string(w))
	}
	return out
}
