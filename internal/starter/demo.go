package starter

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/devstack"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/verify"
)

// demoLimit bounds the demo, start and end included.
const demoLimit = 2 * time.Minute

type demoCmd struct{}

type demo struct {
	a       *app
	stack   *devstack.Stack
	project string
	c       *spool.Client
	sent    spool.Reply
	// Taken when the worker was killed.
	killed  int
	before  []agent.ToolCall
	problem []string
}

// Run demonstrates, and fails unless everything it says is true.
func (demoCmd) Run(ctx context.Context, a *app) error {
	dir, err := os.MkdirTemp("", "spool-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	home := filepath.Join(dir, "home") // beside the project: tools do not work in Spool's own folder
	if err := os.Mkdir(home, 0o700); err != nil {
		return fmt.Errorf("make a home for the demo: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	run := &demo{a: a}
	if err := run.start(limited, home); err != nil {
		return err
	}
	defer run.stack.Close()
	if err := run.show(limited); err != nil {
		return err
	}
	if a.live && !a.JSON {
		a.Print("")
		a.Print("Temporal shows it at %s", run.c.WorkflowURL(run.sent.ThreadID))
		a.Print("Open %s · Enter to stop", run.stack.Info().Web)
		_, _ = a.Typed.Next(ctx, "", nil) // any end of the wait will do
	}
	if len(run.problem) > 0 {
		return exit.With(exit.Failed)
	}
	return nil
}

// start makes a project and starts the stack.
func (d *demo) start(ctx context.Context, home string) error {
	d.project = filepath.Join(filepath.Dir(home), "project")
	if err := makeProject(d.project); err != nil {
		return fmt.Errorf("make the demo's project: %w", err)
	}
	d.a.Progress("starting a Temporal server and a worker")
	cfg := config.Config{Home: home, Store: "sqlite:" + filepath.Join(home, "spool.db"), User: "demo", Profile: "default"}
	// Nothing makes the workers use another model, server or store.
	env := slices.DeleteFunc(slices.Clone(d.a.env), func(kv string) bool {
		return strings.HasPrefix(kv, "OPENAI_") || strings.HasPrefix(kv, "SPOOL_") || strings.HasPrefix(kv, "TEMPORAL_")
	})
	var err error
	d.stack, err = devstack.Start(ctx, devstack.Options{
		Home: home, Store: cfg.Store, Server: devstack.Embedded, Workers: 1, Env: append(env, "SPOOL_USER=demo"), Dir: d.project, Log: &demoLog{w: d.a.Err},
		Web: d.a.live && !d.a.JSON, WebToken: httpapi.NewToken(), Demo: true,
	})
	if err != nil {
		return err
	}
	cfg.UseServer(d.stack.Info().Temporal, client.DefaultNamespace)
	cfg.TemporalUI = d.stack.Info().UI
	if err := d.a.awaitWorkers(ctx, cfg, d.stack); err != nil {
		d.stack.Close()
		return err
	}
	if d.c, err = d.a.openWith(ctx, cfg, true); err != nil {
		d.stack.Close()
	}
	return err
}

// makeProject writes what the demo's agents find, with so much to search that a search
// can be killed in the middle.
func makeProject(dir string) error {
	files := map[string]string{}
	for _, name := range []string{"README.md", "go.mod", "main.go", "store.go", "notes.txt"} {
		files[name] = "Part of Spool's demonstration.\n"
	}
	for day := 1; day <= 8; day++ {
		var b strings.Builder
		for order := range 60_000 {
			fmt.Fprintf(&b, "2026-11-%02d level=info order %06d was received, stored, packed and sent on its way\n", day, order)
		}
		if day == 5 {
			b.WriteString("2026-11-05 level=error order 424242 was lost between two desks\n")
		}
		files[fmt.Sprintf("logs/orders-%d.log", day)] = b.String()
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// demoLog leaves out what a part says when it is well.
type demoLog struct{ w io.Writer }

func (l *demoLog) Write(p []byte) (int, error) {
	if s := string(p); strings.Contains(s, " | ") && !strings.Contains(s, "level=ERROR") && !strings.Contains(s, "panic") {
		return len(p), nil
	}
	return l.w.Write(p)
}

// show sends the prompt, kills the worker in mid-batch, and reports.
func (d *demo) show(ctx context.Context) (err error) {
	d.sent, err = d.c.Send(ctx, memory.SendRequest{SessionID: "demo", Content: agent.Text(script.DemoLogsPrompt), Workdir: d.project})
	if err != nil {
		return err
	}
	d.a.Progress("you: %s", script.DemoLogsPrompt)
	struck := make(chan error, 1)
	go func() { struck <- d.strike(ctx) }()
	t := &chat.Talk{Person: d.a.Person, C: d.c, Wait: true, Stream: d.a.live && !d.a.JSON}
	reply, err := t.Until(ctx, d.sent, nil)
	if err != nil {
		return err
	}
	select {
	case err = <-struck:
	case <-time.After(100 * time.Millisecond):
		err = agent.Errorf(agent.CodeInternal, "the turn ended before a batch was half done, so the worker was not killed")
	}
	d.check(err == nil, "the worker was killed with kill -9 in the middle of a batch", err)
	return d.report(ctx, reply, t.Stream)
}

// strike kills the worker when a batch is half done; the stack starts another.
func (d *demo) strike(ctx context.Context) error {
	for {
		calls, err := d.calls(ctx)
		if err != nil {
			return err
		}
		if halfDone(calls) {
			d.killed = d.stack.KillWorker()
			d.before, err = d.calls(ctx)
			d.a.Progress("*** kill -9 of the worker (pid %d): %s", d.killed, inFlight(calls))
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// calls lists the tool calls of the whole tree.
func (d *demo) calls(ctx context.Context) ([]agent.ToolCall, error) {
	threads, err := d.c.Threads(ctx, memory.ThreadFilter{All: true, Root: d.sent.ThreadID})
	if err != nil {
		return nil, err
	}
	var all []agent.ToolCall
	for _, t := range threads {
		calls, err := d.c.Store().ToolCalls(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, calls...)
	}
	return all, nil
}

// halfDone reports whether some batch has a finished and a running call.
func halfDone(calls []agent.ToolCall) bool {
	done := map[string]bool{}
	for _, c := range calls {
		if c.Status == agent.CallSuccess {
			done[fmt.Sprint(c.TurnID, c.Step)] = true
		}
	}
	return slices.ContainsFunc(calls, func(c agent.ToolCall) bool {
		return c.Status == agent.CallRunning && done[fmt.Sprint(c.TurnID, c.Step)]
	})
}

func inFlight(calls []agent.ToolCall) string {
	var done, running []string
	for _, c := range calls {
		switch {
		case c.Status.Final():
			done = append(done, c.ToolName)
		case c.Status == agent.CallRunning:
			running = append(running, terminal.CallText(c.ToolName, c.Args))
		}
	}
	return fmt.Sprintf("finished: %s; running: %s", strings.Join(done, ", "), strings.Join(running, ", "))
}

func (d *demo) check(ok bool, what string, err error) {
	mark := "ok  "
	if !ok {
		mark = "FAIL"
		d.problem = append(d.problem, what)
	}
	if err != nil {
		what += ": " + err.Error()
	}
	d.a.Progress("%s %s", mark, terminal.Visible(what))
}

// report prints the answer, the tree, what was repeated, and the check.
func (d *demo) report(ctx context.Context, reply spool.Reply, shown bool) error {
	if !shown && !d.a.JSON {
		d.a.Print("%s\n", terminal.Clean(reply.Response))
	}
	d.check(reply.Status == string(agent.ThreadCompleted) && reply.Response != "", "the turn was answered", nil)
	n, err := d.c.Trace(ctx, d.sent.ThreadID)
	if err != nil {
		return err
	}
	d.check(len(n.Children) >= 2 && allCompleted(n), "two sub-agents, each a thread and a workflow of its own, linked and completed", nil)
	workers := d.stack.Info().PIDs.Workers
	d.check(d.killed != 0 && workers[0] != d.killed, fmt.Sprintf("another worker (pid %d) went on", workers[0]), nil)
	repeats, err := d.repeats(ctx)
	if err != nil {
		return err
	}
	o := verify.Options{Threads: []string{d.sent.ThreadID}, Temporal: openRuns{d.c}, Grace: 5 * time.Second}
	report, err := verify.Check(ctx, d.c.Store(), o)
	if err != nil {
		return err
	}
	d.check(report.OK, "verify: every invariant holds", nil)
	for _, v := range report.Violations {
		d.a.Progress("     %s", terminal.Visible(v.String()))
	}
	doc := map[string]any{"ok": len(d.problem) == 0, "reply": reply, "trace": n, "repeated": repeats.again, "notRepeated": repeats.once, "killed": d.killed, "verify": report}
	return d.a.Show(doc, func() {
		d.a.Print("")
		d.a.Trace(n)
		d.a.Print("")
		for _, line := range repeats.again {
			d.a.Print("repeated:     %s", line)
		}
		for _, line := range repeats.once {
			d.a.Print("not repeated: %s", line)
		}
	})
}

func allCompleted(n *spool.Node) bool {
	for _, child := range n.Children {
		if !allCompleted(child) || child.Link == nil || child.Link.CallStatus != agent.CallSuccess {
			return false
		}
	}
	return n.Thread.Status == agent.ThreadCompleted
}

// repeated tells what ran more than once and what did not.
type repeated struct{ again, once []string }

// repeats compares the attempts in the store with those at the kill.
func (d *demo) repeats(ctx context.Context) (repeated, error) {
	var r repeated
	calls, err := d.calls(ctx)
	if err != nil {
		return r, err
	}
	kept, succeeded := true, true
	for _, c := range calls {
		succeeded = succeeded && c.Status == agent.CallSuccess
		line := fmt.Sprintf("%s %s (%s, %d run)", c.ID, terminal.CallText(c.ToolName, c.Args), c.Status, c.Attempts)
		for _, b := range d.before {
			if b.ID == c.ID && b.Status.Final() {
				line += ", finished before the kill"
				kept = kept && b.Attempts == c.Attempts && b.Status == c.Status && b.Result == c.Result
			}
		}
		if c.Attempts > 1 {
			r.again = append(r.again, line)
		} else {
			r.once = append(r.once, line)
		}
	}
	d.check(kept && len(d.before) > 0, "no tool whose result was stored ran again", nil)
	d.check(succeeded && len(r.again) > 0, "the tool that was running ran again, and all calls succeeded", nil)
	return r, nil
}
