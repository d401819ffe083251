// Package doctor finds out whether the parts that Spool needs work: store, Temporal,
// workers, agents, models, tools. It says of each what is wrong and what to do.
package doctor

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/mcp"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/telemetry/export"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// Parts are what can be checked by itself.
var Parts = []string{"store", "temporal", "workers", "worker", "agents", "models", "tools", "telemetry"}

// storeTimeout bounds the wait for a store whose lock another program holds.
const storeTimeout = 5 * time.Second

// Doctor examines what a configuration names.
type Doctor struct {
	Config config.Config
	Env    func(string) string
	// Program is how a person calls the starter.
	Program string
	// Open opens the store, which has to be there; Dial connects to Temporal.
	Open   func(context.Context) (memory.ConversationMemoryStore, error)
	Dial   func(context.Context) (client.Client, error)
	Client func(memory.ConversationMemoryStore, client.Client) *spool.Client
}

// Check is one finding.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// ToDo is what mends it, empty if nothing has to be.
	ToDo string `json:"todo,omitempty"`
}

// Examine checks the parts in only, or all but "worker": only who asks for that one has
// the worker of this machine checked, as doctor may run on any. reached is false if
// store or Temporal, on which turns run, cannot be reached.
func (d *Doctor) Examine(ctx context.Context, only []string) (checks []Check, reached bool) {
	wants := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool {
			return slices.Contains(only, part) || len(only) == 0 && part != "worker"
		})
	}
	reached = true
	var store memory.ConversationMemoryStore
	var tc client.Client
	if wants("store", "workers", "worker") {
		var found Check
		store, found = d.store(ctx)
		checks, reached = append(checks, found), found.OK
	}
	if wants("temporal", "workers", "worker") {
		var found []Check
		tc, found = d.temporal(ctx)
		checks, reached = append(checks, found...), reached && tc != nil
	}
	if store != nil && tc != nil {
		c := d.Client(store, tc)
		if wants("worker") {
			checks = append(checks, worker(ctx, c))
		}
		if wants("workers") {
			checks = append(checks, d.workers(ctx, c)...)
		}
	}
	for _, part := range []struct {
		name    string
		examine func(context.Context) []Check
	}{{"agents", d.agents}, {"models", d.models}, {"tools", d.tools}, {"telemetry", d.telemetry}} {
		if wants(part.name) {
			checks = append(checks, part.examine(ctx)...)
		}
	}
	return checks, reached
}

func (d *Doctor) store(ctx context.Context) (memory.ConversationMemoryStore, Check) {
	cfg := d.Config
	another := "name another one (SPOOL_STORE, " + cfg.Source(config.Store) + ")"
	if cfg.Store == "memory:" {
		return nil, Check{"store", true, "memory: is of each process that uses it, and gone with it", ""}
	}
	within, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	store, err := d.Open(within)
	if err == nil {
		_, err = store.Load(within)
	}
	if s, ok := store.(interface{ Writable() error }); ok && err == nil {
		err = s.Writable()
	}
	switch {
	case within.Err() != nil && ctx.Err() == nil:
		return nil, Check{"store", false, agent.MaskURL(cfg.Store) + " could not be used within " + storeTimeout.String() +
			": another program holds its lock (a backup, a database browser, a transaction), or its disk or server does not answer", "end that program, or see to disk and server; or " + another}
	case agent.CodeOf(err) == agent.CodeNotFound:
		return nil, Check{"store", false, err.Error(), "send, chat or dev makes it; or " + another}
	case err != nil:
		return nil, Check{"store", false, err.Error(), "see to the store, or " + another}
	}
	return store, Check{"store", true, agent.MaskURL(cfg.Store) + " (id " + store.ID() + ")", ""}
}

func (d *Doctor) temporal(ctx context.Context) (client.Client, []Check) {
	cfg := d.Config
	tc, err := d.Dial(ctx)
	if err != nil {
		return nil, []Check{{"temporal", false, cfg.NoTemporal(d.Program) + ": " + terminal.OneLine(err.Error(), 300),
			d.Program + " dev starts a local one; TEMPORAL_ADDRESS (" + cfg.Source(config.TemporalAddress) + ") names another"}}
	}
	checks := []Check{{"temporal", true, cfg.Temporal.HostPort + ", namespace " + cfg.Temporal.Namespace, ""}}
	if cfg.Encryption.Any() {
		checks = append(checks, Check{"encryption", true, "key " + cfg.Encryption.String(), ""})
	}
	_, err = tc.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: cfg.Temporal.Namespace})
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		checks = append(checks, Check{"namespace", false, "the server has no namespace " + cfg.Temporal.Namespace,
			"name another one (TEMPORAL_NAMESPACE, " + cfg.Source(config.TemporalNamespace) + "), or make it: temporal operator namespace create " + cfg.Temporal.Namespace})
	}
	return tc, checks
}

func worker(ctx context.Context, c *spool.Client) Check {
	host, err := os.Hostname()
	switch {
	case err != nil:
		return Check{"worker", false, "this machine's name cannot be known: " + err.Error(), "give it one; workers are told apart by it"}
	case !c.Serving(ctx, "@"+host+"@"):
		return Check{"worker", false, "no worker on " + host + " polls task queue " + c.TaskQueue(), "start one here, or see its log for why it does not"}
	}
	return Check{"worker", true, "a worker on " + host + " polls task queue " + c.TaskQueue(), ""}
}

// workers asks Temporal who polls the task queue, and what they answer with.
func (d *Doctor) workers(ctx context.Context, c *spool.Client) []Check {
	if found, ago := c.Heard(ctx); len(found) > 0 {
		kinds, uses := boot.Kinds(found), ""
		if len(kinds) > 0 {
			uses = "; " + kinds[0].String()
		}
		if differ := boot.Differ(kinds); differ != "" {
			return []Check{{"workers", false, differ, "start all of them with the same settings, agents and version, or give them queues of their own (SPOOL_TASK_QUEUE)"}}
		}
		return []Check{{"workers", true, printer.Plural(len(found), "worker") + " on task queue " + c.TaskQueue() + heard(len(found), ago) + uses +
			"; what follows holds for a worker that is started here with these settings", ""}}
	}
	if d.Config.OneProcess() {
		return []Check{{"workers", true, "none now: send, chat and dev run one themselves on this store", ""}}
	}
	checks := []Check{{"workers", false, "no worker is running: nobody polls task queue " + c.TaskQueue(), d.Program + " dev starts a worker"}}
	if own := agent.TaskQueue(c.Store().ID()); own != c.TaskQueue() {
		checks = append(checks, Check{"taskQueue", false, "SPOOL_TASK_QUEUE is " + c.TaskQueue() + ", but this store's own queue is " + own +
			", polled by " + printer.Plural(c.WorkersOf(ctx, own), "worker"), "unset it (it is from " + d.Config.Source(config.TaskQueue) + "), or start workers with it"})
	}
	return checks
}

// Running are the kinds of the workers that run now, as far as they can be asked.
func (d *Doctor) Running(ctx context.Context) []boot.Kind {
	store, _ := d.store(ctx)
	if store == nil {
		return nil
	}
	tc, err := d.Dial(ctx)
	if err != nil {
		return nil
	}
	found, _ := d.Client(store, tc).Heard(ctx)
	return boot.Kinds(found)
}

// heard says how old the news of workers is: Temporal remembers those that ended for
// a while, and an idle one asks for work about once a minute.
func heard(workers int, ago time.Duration) string {
	if ago <= 10*time.Second {
		return ""
	}
	who := "last heard of "
	if workers > 1 {
		who = "last heard of any of them "
	}
	return ", " + who + strconv.Itoa(int(ago.Seconds())) + " s ago: idle, or ended"
}

// agents says what is wrong in the templates, which are used as far as they can be
// read.
func (d *Doctor) agents(context.Context) (checks []Check) {
	catalog, warnings := d.Templates()
	for _, w := range warnings {
		if w.Asks {
			checks = append(checks, Check{"agents", true, w.String(), d.asks()})
			continue
		}
		checks = append(checks, Check{"agents", false, w.String(), "mend the file; " + d.Program + " agents shows what is loaded"})
	}
	if checks == nil {
		return []Check{{"agents", true, printer.Plural(len(catalog.List()), "agent"), ""}}
	}
	return checks
}

// Templates are the agents that a worker started here has, and what is wrong in their
// files, providers that are not set up included.
func (d *Doctor) Templates() (*template.Catalog, []template.Warning) {
	catalog, warnings := template.Load(boot.Folders(d.Config))
	if known, err := boot.LoadModels(d.Config, d.Env); err == nil { // else it is reported with the models
		warnings = append(warnings, catalog.Unrouted(known.Routable)...)
	}
	return catalog, warnings
}

func (d *Doctor) models(ctx context.Context) (checks []Check) {
	found := d.Models(ctx)
	for _, p := range found.Problems {
		checks = append(checks, Check{"models", false, p.Where + ": " + p.What, p.ToDo})
	}
	for _, m := range found.Models {
		c := Check{"model", m.Answers, m.title() + " answers", ""}
		switch {
		case m.Demo:
			c.Detail = "the scripted demo model, in dev or where it is asked for (worker --demo-model); no other worker starts with these settings"
		case !m.Answers:
			c.Detail, c.ToDo = m.title()+" ("+strings.Join(m.Sources, "; ")+") does not answer: "+m.Problem, m.ToDo
		}
		checks = append(checks, c)
	}
	return checks
}

func (d *Doctor) tools(ctx context.Context) []Check {
	checks := []Check{{"tools", true, printer.Plural(len(d.builtin()), "tool") + " built in", ""}}
	if problem := d.Config.Folder.Problem; problem != "" {
		checks = append(checks, Check{"settings", false, problem, "mend the file; until then nothing in it counts"})
	}
	files, servers := mcp.Probe(ctx, d.MCP())
	for _, f := range files {
		if f.Problem != "" {
			checks = append(checks, Check{"tools", false, f.Path() + " " + f.Problem, "mend the file"})
		}
	}
	for _, s := range servers {
		c := Check{"tools", true, "MCP server " + s.ID + " answers: " + printer.Plural(len(s.Tools), "tool"), ""}
		switch s.State {
		case mcp.StateFailed:
			c.OK, c.Detail, c.ToDo = false, "MCP server "+s.ID+" of "+s.File+": "+s.Problem, "mend its entry, or add \"disabled\": true to it"
		case mcp.StateWaiting:
			c.Detail, c.ToDo = "MCP server "+s.ID+" of "+s.File+" is not started: nobody has agreed to the file", d.asks()
		}
		checks = append(checks, c)
	}
	return checks
}

// telemetry says whether telemetry is on and its endpoint answers. One that does not is
// no failure: turns go on.
func (d *Doctor) telemetry(ctx context.Context) []Check {
	traces, metrics := export.Signals(d.Env)
	c := Check{Name: "telemetry", OK: true}
	switch {
	case traces && metrics:
		c.Detail = "traces and metrics on"
	case traces:
		c.Detail = "traces on"
	case metrics:
		c.Detail = "metrics on"
	default:
		c.Detail = "off (OTEL_EXPORTER_OTLP_ENDPOINT turns it on)"
		return []Check{c}
	}
	for _, e := range export.Endpoints(d.Env) {
		if err := e.Reach(ctx); err != nil {
			c.Detail += ", but " + e.Address + " does not answer: " + err.Error()
			c.ToDo = "start the collector, or see to OTEL_EXPORTER_OTLP_ENDPOINT; turns go on without"
			break
		}
		c.Detail += ", " + e.Address + " answers"
	}
	return []Check{c}
}
