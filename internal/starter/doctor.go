package starter

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/spool-agents/spool/internal/remote"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/memory"
)

type doctorCmd struct {
	Only []string `sep:"," placeholder:"PART,…" help:"Check only these: store, temporal, workers, worker (that one of this machine serves; both need store and temporal), agents, models, tools, telemetry. A health check asks for worker: it starts no MCP server and asks no model."`
}

// doctorParts are what can be checked by itself.
var doctorParts = []string{"store", "temporal", "workers", "worker", "agents", "models", "tools", "telemetry"}

// Validate checks the arguments.
func (d *doctorCmd) Validate() error {
	for _, part := range d.Only {
		if !slices.Contains(doctorParts, part) {
			return fmt.Errorf("--only %q is not valid: use some of %s, separated by commas", part, strings.Join(doctorParts, ", "))
		}
	}
	return nil
}

// wants reports whether one of the parts is to be checked. Only who asks for it alone
// has the worker of this machine checked: doctor may run on any.
func (d *doctorCmd) wants(parts ...string) bool {
	if len(d.Only) == 0 {
		return !slices.Equal(parts, []string{"worker"})
	}
	return slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(d.Only, part) })
}

// storeTimeout bounds the wait for a store whose lock another program holds.
const storeTimeout = 5 * time.Second

// check is one finding of doctor.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// ToDo is what mends it, empty if nothing has to be.
	ToDo string `json:"todo,omitempty"`
}

// Run prints settings and checks. It fails if something needed does not work.
func (d *doctorCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	var checks []check
	var reached bool
	if cfg.Server != "" {
		if len(d.Only) > 0 {
			return usage("--only is for where the parts are: leave it out with --server (SPOOL_SERVER), of which doctor checks whether it answers")
		}
		if err := a.onlyServer("SPOOL_SERVER, from " + cfg.Source(config.Server)); err != nil {
			return err
		}
		checks, reached = examineServer(ctx, cfg)
	} else {
		checks, reached = d.examine(ctx, a, cfg)
	}
	if a.json {
		if err := a.printJSON(map[string]any{"settings": cfg.Explain(), "checks": checks}); err != nil {
			return err
		}
	} else {
		if len(d.Only) == 0 {
			a.printSettings(cfg)
		}
		a.printChecks(checks)
	}
	if !reached {
		return ended(exitAway)
	}
	for _, c := range checks {
		if !c.OK {
			return ended(exitFailed)
		}
	}
	return nil
}

func (a *app) printSettings(cfg config.Config) {
	for _, s := range cfg.Explain() {
		a.print("%-20s %-50s %s", s.Name, clean(s.Value), s.Source)
	}
	a.print("")
}

func (a *app) printChecks(checks []check) {
	for _, c := range checks {
		mark := "ok"
		if !c.OK {
			mark = "NOT OK"
		}
		a.print("%-20s %-6s %s", clean(c.Name), mark, clean(c.Detail))
		if c.ToDo != "" {
			a.print("%-20s %-6s to do: %s", "", "", clean(c.ToDo))
		}
	}
}

// examineServer checks the web server that takes the place of store and Temporal:
// models, tools and agents are those of its workers.
func examineServer(ctx context.Context, cfg config.Config) (checks []check, reached bool) {
	c, err := remote.New(cfg.Server, cfg.ServerToken.Reveal())
	if err == nil {
		_, _, err = c.ThreadPage(ctx, memory.ThreadFilter{}, "", 1)
	}
	if err == nil {
		return []check{{"server", true, agent.MaskURL(cfg.Server) + " answers; what its workers can do, doctor tells there", ""}}, true
	}
	return []check{{"server", false, err.Error(), "check the link (SPOOL_SERVER, " + cfg.Source(config.Server) + ") and whether the server runs; or unset it to use store and Temporal"}},
		agent.CodeOf(err) != agent.CodeUnavailable
}

// examine checks the parts that are wanted; reached is false if store or Temporal
// is away, on which turns run.
func (d *doctorCmd) examine(ctx context.Context, a *app, cfg config.Config) (checks []check, reached bool) {
	reached = true
	var store memory.ConversationMemoryStore
	var tc client.Client
	if d.wants("store", "workers", "worker") {
		var found check
		store, found = a.examineStore(ctx, cfg)
		checks, reached = append(checks, found), found.OK
	}
	if d.wants("temporal", "workers", "worker") {
		var server []check
		tc, server = a.examineTemporal(ctx, cfg)
		checks, reached = append(checks, server...), reached && tc != nil
	}
	if store != nil && tc != nil {
		c := spool.NewClient(store, tc, clientOptions(cfg))
		if d.wants("worker") {
			checks = append(checks, examineWorker(ctx, c))
		}
		if d.wants("workers") {
			checks = append(checks, a.examineWorkers(ctx, cfg, c)...)
		}
	}
	if d.wants("agents") {
		checks = append(checks, a.examineAgents(cfg)...)
	}
	if d.wants("models") {
		checks = append(checks, a.examineModels(ctx, cfg)...)
	}
	if d.wants("tools") {
		checks = append(checks, a.examineTools(ctx, cfg)...)
	}
	if d.wants("telemetry") {
		checks = append(checks, examineTelemetry(ctx, a.lookup))
	}
	return checks, reached
}

func (a *app) examineStore(ctx context.Context, cfg config.Config) (memory.ConversationMemoryStore, check) {
	names := "or name another one (SPOOL_STORE, " + cfg.Source(config.Store) + ")"
	if cfg.Store == memoryStore {
		return nil, check{"store", true, "memory: is of each process that uses it, and gone with it", ""}
	}
	if err := existing(cfg); err != nil {
		return nil, check{"store", false, err.Error(), "send, chat or dev makes it; " + names}
	}
	within, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	c, err := a.openWith(within, cfg, false)
	if err == nil {
		_, err = c.Store().Threads(within, memory.ThreadFilter{Limit: 1})
	}
	if within.Err() != nil && ctx.Err() == nil {
		return nil, check{"store", false, agent.MaskURL(cfg.Store) + " could not be used within " + storeTimeout.String() +
			": another program holds its lock (a backup, a database browser, a transaction), or its disk or server does not answer", "end that program, or see to disk and server; " + names}
	}
	if path, ok := strings.CutPrefix(cfg.Store, "sqlite:"); ok && err == nil {
		err = writable(path)
	}
	if err != nil {
		return nil, check{"store", false, err.Error(), "see to the store, " + names}
	}
	return c.Store(), check{"store", true, agent.MaskURL(cfg.Store) + " (id " + c.Store().ID() + ")", ""}
}

// writable reports why a file that can be read cannot be written.
func writable(path string) error {
	path, _, _ = strings.Cut(path, "?")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return agent.Wrap(err, agent.CodeUnavailable, "the store can be read only")
	}
	return f.Close()
}

func (a *app) examineTemporal(ctx context.Context, cfg config.Config) (client.Client, []check) {
	tc, err := dial(ctx, cfg.Temporal)
	if err != nil {
		return nil, []check{{"temporal", false, "no server answers at " + cfg.Temporal.HostPort + ": " + oneLine(err.Error(), 300),
			a.name + " dev starts a local one; TEMPORAL_ADDRESS (" + cfg.Source(config.TemporalAddress) + ") names another"}}
	}
	a.closers = append(a.closers, tc.Close)
	checks := []check{{"temporal", true, cfg.Temporal.HostPort + ", namespace " + cfg.Temporal.Namespace, ""}}
	if cfg.Encryption.Any() {
		checks = append(checks, check{"encryption", true, "key " + cfg.Encryption.String(), ""})
	}
	_, err = tc.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: cfg.Temporal.Namespace})
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		checks = append(checks, check{"namespace", false, "the server has no namespace " + cfg.Temporal.Namespace,
			"name another one (TEMPORAL_NAMESPACE, " + cfg.Source(config.TemporalNamespace) + "), or make it: temporal operator namespace create " + cfg.Temporal.Namespace})
	}
	return tc, checks
}

// examineWorker asks Temporal whether a worker of this machine, or container, works.
func examineWorker(ctx context.Context, c *spool.Client) check {
	host, err := os.Hostname()
	switch {
	case err != nil:
		return check{"worker", false, "this machine's name cannot be known: " + err.Error(), "give it one; workers are told apart by it"}
	case !c.ServingOn(ctx, host):
		return check{"worker", false, "no worker on " + host + " polls task queue " + c.TaskQueue(), "start one here, or see its log for why it does not"}
	}
	return check{"worker", true, "a worker on " + host + " polls task queue " + c.TaskQueue(), ""}
}

// examineWorkers asks Temporal who polls the task queue. What a worker was started
// with nobody can ask.
func (a *app) examineWorkers(ctx context.Context, cfg config.Config, c *spool.Client) []check {
	if n, ago := c.Heard(ctx); n > 0 {
		return []check{{"workers", true, plural(n, "worker") + " on task queue " + c.TaskQueue() + heard(n, ago) +
			"; what follows holds for a worker that is started here with these settings", ""}}
	}
	if cfg.OneProcess() {
		return []check{{"workers", true, "none now: send, chat and dev run one themselves on this store", ""}}
	}
	checks := []check{{"workers", false, "nobody polls task queue " + c.TaskQueue(), a.name + " dev starts a worker"}}
	if own := agent.TaskQueue(c.Store().ID()); own != c.TaskQueue() {
		checks = append(checks, check{"taskQueue", false, "SPOOL_TASK_QUEUE is " + c.TaskQueue() + ", but this store's own queue is " + own +
			", polled by " + plural(c.WorkersOf(ctx, own), "worker"), "unset it (it is from " + cfg.Source(config.TaskQueue) + "), or start workers with it"})
	}
	return checks
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

// examineAgents tells what is wrong in the templates, which are used as far as
// they can be read.
func (a *app) examineAgents(cfg config.Config) []check {
	catalog, warnings := a.templates(cfg)
	checks := []check{}
	for _, w := range warnings {
		checks = append(checks, check{"agents", false, w.String(), "mend the file; " + a.name + " agents shows what is loaded"})
	}
	if len(checks) == 0 {
		checks = append(checks, check{"agents", true, plural(len(catalog.List()), "agent"), ""})
	}
	return checks
}

// templates loads the agents that a worker started here has, and warns of what is
// wrong in their files, providers that are not set up included.
func (a *app) templates(cfg config.Config) (*template.Catalog, []template.Warning) {
	catalog, warnings := template.Load(cfg.Workspace, cfg.Home)
	if known, err := boot.LoadModels(cfg, a.lookup); err == nil { // else models and doctor tell
		warnings = append(warnings, catalog.Unrouted(known.Routable)...)
	}
	return catalog, warnings
}

func (a *app) examineModels(ctx context.Context, cfg config.Config) []check {
	var checks []check
	found := a.probeModels(ctx, cfg)
	for _, p := range found.Problems {
		checks = append(checks, check{"models", false, p.Where + ": " + p.What, p.ToDo})
	}
	for _, m := range found.Models {
		c := check{"model", m.Answers, m.title() + " answers", ""}
		switch {
		case m.Demo:
			c.Detail = "the scripted demo model, for workers started with these settings"
		case !m.Answers:
			c.Detail, c.ToDo = m.title()+" ("+strings.Join(m.Sources, "; ")+") does not answer: "+m.Problem, m.ToDo
		}
		checks = append(checks, c)
	}
	return checks
}

// examineTools tells which tools there are and whether MCP servers answer.
func (a *app) examineTools(ctx context.Context, cfg config.Config) []check {
	checks := []check{{"tools", true, plural(len(builtinTools(cfg)), "tool") + " built in", ""}}
	files, servers := mcp.Probe(ctx, a.mcpOptions(cfg))
	for _, f := range files {
		if f.Problem != "" {
			checks = append(checks, check{"mcp", false, f.Path + " " + f.Problem, "mend the file"})
		}
	}
	for _, s := range servers {
		c := check{"mcp", true, "server " + s.ID + " answers: " + plural(len(s.Tools), "tool"), ""}
		switch s.State {
		case mcp.StateFailed:
			c.OK, c.Detail, c.ToDo = false, "server "+s.ID+" of "+s.File+": "+s.Problem, "mend its entry, or add \"disabled\": true to it"
		case mcp.StateWaiting:
			c.Detail, c.ToDo = "server "+s.ID+" of "+s.File+" is not started: nobody has agreed to the file", a.name+" tools shows what it runs, "+a.name+" tools --trust agrees"
		}
		checks = append(checks, c)
	}
	return checks
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
