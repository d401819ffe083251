// Package config reads every setting of Spool and remembers where each value
// came from.
//
// Precedence, highest first: flag, environment, TOML profile that was named
// explicitly (TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE), live HOME/dev.json,
// spool.yaml in the directory, spool.yaml in HOME, the default TOML profile,
// the built-in default. An empty flag or variable counts as not set.
package config

import (
	"net/http"
	"net/url"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/encryption"
	"github.com/spool-agents/spool/internal/trust"
)

// Options are the inputs of Load.
type Options struct {
	// Flags are values given on the command line, by setting name.
	Flags map[string]string
	// Env looks up an environment variable; nil means the process environment.
	Env func(string) string
	// Environ lists KEY=VALUE pairs, needed for TEMPORAL_GRPC_META_* only. Nil
	// means the process environment, or nothing if Env is given.
	Environ func() []string
	// Dir is the directory relative paths and spool.yaml belong to; empty means
	// the working directory.
	Dir string
}

// Config is the checked configuration of one process.
type Config struct {
	// Temporal is ready to be dialled: host, namespace, TLS, credentials, keys.
	Temporal client.Options
	// TemporalUI is the base URL of Temporal's web UI, "" if unknown.
	TemporalUI string

	OpenAIBaseURL string
	OpenAIKey     Secret
	Model         string
	TavilyKey     Secret

	// Store is sqlite:PATH, postgres://…, file:DIR or memory:, paths absolute.
	Store   string
	Home    string
	Profile string
	User    string
	// Workspace is the root a worker lets threads work under.
	Workspace string
	// TaskQueue overrides the queue derived from the store's id.
	TaskQueue string

	HTTPLog bool
	// WebFetchPrivate lets web_fetch reach private and loopback addresses.
	WebFetchPrivate bool
	// ShellMemory bounds each process of the shell tool, in bytes; 0 = no limit.
	// DemoModel lets the scripted demo model answer where Demo holds.
	DemoModel         bool
	ShellMemory       int64
	MaxTurnsPerWorker int
	// DrainTime is how long what runs may go on when a worker is stopped.
	DrainTime time.Duration
	// HealthAddress is where a worker tells how it is, "" = nowhere.
	HealthAddress string
	// IdleTimeout is how long a model stream may stay silent.
	IdleTimeout time.Duration
	// RetryFor is how long a failing model call is repeated.
	RetryFor time.Duration
	// MaxSteps bounds a main turn; 0 means no limit.
	MaxSteps int
	// Delegation holds the limits and budgets of delegation.
	Delegation agent.DelegationPolicy
	// Price is what the model costs where its provider does not say; zero leaves it
	// to the table of models.
	Price agent.Price
	// ContextWindow is how many tokens models read; 0 leaves it to the table.
	ContextWindow int64
	// FallbackModels are called when a model is out of order, in this order.
	FallbackModels []string

	// WebToken lets User into the web server; WebTokens is the file of the tokens of
	// all users, "" = web-tokens in Home, if it is there.
	WebToken  Secret
	WebTokens string
	// WebApprovals are rules for what users of the web server other than User may
	// approve.
	WebApprovals []string

	// Server is a web server to use in place of store and Temporal, "" = none;
	// ServerToken says who uses it.
	Server      string
	ServerToken Secret

	// Encryption are the keys of what Temporal stores; Temporal uses them already.
	Encryption encryption.Keys
	// CodecToken lets clients in at the codec server, "" = everybody who reaches it.
	CodecToken Secret

	// Dev is the running dev stack of this home, nil if there is none; died is where the
	// Temporal of one was that did not end in order.
	Dev  *DevInfo
	died string

	// Folder is spool.yaml of the working directory and what it asks for, if that is
	// not home. Ignored says what of it does not count, and what to do.
	Folder  trust.Offer
	Ignored []string

	// Private are the files and folders that settings name and that nobody but Spool may
	// read or write: of the store, tokens and keys. What lies in home is not listed.
	Private []string

	explained []Setting
}

// Setting is a value with its origin, masked where it is secret.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Explain lists every setting in a stable order.
func (c Config) Explain() []Setting { return append([]Setting(nil), c.explained...) }

// UseServer replaces the connection to Temporal by one to a server that a program
// runs itself: without namespace, TLS and credentials that are meant for another one.
func (c *Config) UseServer(address, namespace string) {
	c.Temporal = client.Options{HostPort: address, Namespace: namespace}
	c.Encryption.Apply(&c.Temporal)
}

// Source says where the value of a setting comes from: "default" if it was not set.
func (c Config) Source(name string) string {
	for _, s := range c.explained {
		if s.Name == name {
			return s.Source
		}
	}
	return "default"
}

// Demo reports whether neither a key nor a base URL is set, so that only the scripted
// demo model could answer.
func (c Config) Demo() bool { return c.OpenAIBaseURL == "" && !c.OpenAIKey.IsSet() }

// OneProcess reports whether the store serves a single process, which then has
// to run the worker too.
func (c Config) OneProcess() bool {
	return c.Store == "memory:" || strings.HasPrefix(c.Store, "file:")
}

// NoTemporal says what does not answer where Temporal cannot be reached. program is what
// a person calls.
func (c Config) NoTemporal(program string) string {
	if c.died != "" && c.Source(TemporalAddress) == "default" {
		return "the dev stack of this home, with Temporal at " + c.died + ", does not run any more: start " + program + " dev again"
	}
	return "no server answers at " + c.Temporal.HostPort
}

// Load reads all settings. Its error has code invalid and one line per problem,
// each naming the setting, the value, what is allowed and where it came from.
func Load(o Options) (Config, error) {
	c := Config{Delegation: agent.DelegationPolicy{EnabledAgents: map[string]bool{}}}
	r := newResolver(o, &c)
	if r.dir == "" {
		return Config{}, agent.Errorf(agent.CodeInvalid, "the working directory cannot be found; start from an existing directory")
	}
	if r.get(Home); c.Home == "" {
		return Config{}, r.failure()
	}
	r.addYAML(&c)
	if info, live := ReadLive(c.Home); live {
		c.Dev = &info
	} else {
		c.died = info.Temporal
	}
	c.Temporal = r.temporal(c.Dev)
	defaults := map[string]func() string{
		TemporalUI: func() string { return uiOf(c.Temporal.HostPort) },
		User:       osUser,
		Workspace:  func() string { return r.dir },
		Store:      func() string { return "sqlite:" + filepath.Join(c.Home, "spool.db") },
	}
	for _, s := range r.table {
		if _, done := r.used[s.name]; !done {
			r.read(s, defaults[s.name])
		}
	}
	c.Encryption.Apply(&c.Temporal)
	c.Server, c.ServerToken = serverOf(c.Server, c.ServerToken)
	if len(r.problems) > 0 {
		return Config{}, r.failure()
	}
	c.Private = r.private()
	c.explained = r.explain()
	return c, nil
}

// serverOf takes the token out of a link.
func serverOf(link string, token Secret) (string, Secret) {
	u, err := url.Parse(link)
	if err != nil || link == "" {
		return "", token
	}
	if t := u.Query().Get("token"); t != "" {
		token = NewSecret(t)
	}
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimRight(u.String(), "/"), token
}

// osUser names who runs the process; containers often have no such entry.
func osUser() string {
	if u, err := user.Current(); err == nil {
		if CheckUser(u.Username) == "" {
			return u.Username
		}
	}
	return "local"
}

// uiOf finds the web UI of a local server, which listens 1000 ports higher if there
// is one: a link that leads nowhere is worse than none.
func uiOf(hostPort string) string {
	host, port, ok := strings.Cut(hostPort, ":")
	n, err := strconv.Atoi(port)
	if !ok || err != nil || (host != "localhost" && host != "127.0.0.1") {
		return ""
	}
	ui := "http://" + host + ":" + strconv.Itoa(n+1000)
	asker := http.Client{Timeout: uiTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := asker.Get(ui + "/api/v1/settings")
	if err != nil {
		return ""
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return ""
	}
	return ui
}

// uiTimeout bounds the question whether there is a web UI on this machine.
const uiTimeout = 500 * time.Millisecond

// private lists the files outside home that hold what home does by default, or keys.
func (r *resolver) private() []string {
	all := []string{r.used["webTokens"].value, r.used[TemporalConfig].value, r.tlsKey}
	switch scheme, path, _ := strings.Cut(r.used[Store].value, ":"); scheme {
	case "sqlite", "file":
		path, _, _ = strings.Cut(path, "?")
		all = append(all, path)
		for _, beside := range []string{"-wal", "-shm", "-journal"} {
			if scheme == "sqlite" {
				all = append(all, path+beside)
			}
		}
	}
	if path, ok := strings.CutPrefix(r.used[EncryptionKeys].value, encryption.FilePrefix); ok {
		all = append(all, path)
	}
	return slices.DeleteFunc(all, func(path string) bool {
		below, err := filepath.Rel(r.used[Home].value, path)
		return path == "" || err == nil && filepath.IsLocal(below)
	})
}
