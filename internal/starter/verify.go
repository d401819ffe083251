package starter

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/verify"
)

type verifyCmd struct {
	All    bool   `help:"Check every thread of the store."`
	Print  bool   `help:"Print the thread and its sub-agents in full."`
	Repair bool   `help:"Count numbers anew and put missing results back, in your own threads, and name what is left."`
	Thread string `arg:"" optional:"" help:"Id of a thread or session, or the beginning of one, or latest; it is checked with everything below it."`
}

func (c *verifyCmd) Validate() error {
	switch {
	case c.All && c.Thread != "":
		return fmt.Errorf("--all checks every thread: leave out %s, or leave out --all", c.Thread)
	case !c.All && c.Thread == "":
		return fmt.Errorf("give a thread id, or --all")
	case c.All && c.Print:
		return fmt.Errorf("--print prints one thread: give its id in place of --all")
	case c.Thread != "":
		return chat.CheckID(c.Thread)
	}
	return nil
}

func (c *verifyCmd) Run(ctx context.Context, a *app) error {
	client, cfg, err := a.open(ctx, true)
	if err != nil {
		return err
	}
	var o verify.Options
	if c.Thread != "" {
		if c.Thread, err = chat.Find(ctx, client, c.Thread); err != nil {
			return err
		}
		if _, err := client.Store().Thread(ctx, cfg.User, c.Thread); err != nil && !memory.IsDamaged(err) {
			return err
		}
		o.Threads = []string{c.Thread}
	}
	if client.Connected() {
		o.Temporal = openRuns{client}
	} else {
		a.Progress("Temporal cannot be reached: rule 11 (no open turn without an open run) is not checked")
	}
	if c.Print && !a.JSON {
		err := eachThread(ctx, client, c.Thread, func(v spool.View) { a.Thread(v); a.Print("") })
		if err != nil {
			return err
		}
	}
	var repaired []spool.Repaired
	if c.Repair {
		if repaired, err = a.repair(ctx, client, c.Thread); err != nil {
			return err
		}
	}
	report, err := verify.Check(ctx, client.Store(), o)
	if err != nil {
		return err
	}
	if a.JSON {
		err = a.printVerified(ctx, client, c, report, repaired)
	} else {
		for _, v := range report.Violations {
			a.Print("%s", terminal.Visible(v.String()))
		}
		if report.OK {
			a.Print("ok, %s checked", printer.Plural(report.Checked, "thread"))
		}
	}
	if err != nil || report.OK {
		return err
	}
	a.Progress("%s in %s", printer.Plural(len(report.Violations), "violation"), printer.Plural(report.Checked, "thread"))
	if c.Repair {
		a.Progress("these cannot be repaired: restore a backup, or export what is left (%s sessions export) and go on in a new conversation", a.Name)
	}
	return exit.With(exit.Failed)
}

// repair mends rows, then open turns without a run, and says what it did.
func (a *app) repair(ctx context.Context, client *spool.Client, threadID string) ([]spool.Repaired, error) {
	repaired, err := client.Repair(ctx, threadID)
	for _, r := range repaired {
		a.Progress("repaired %s: %s", r.ThreadID, terminal.Visible(r.Did))
	}
	if memory.IsDamaged(err) { // the check names what is left
		a.Progress("%v", err)
		err = nil
	}
	if err != nil || !client.Connected() {
		return repaired, err
	}
	done, err := client.Reconcile(ctx, 0)
	for _, what := range done {
		a.Progress("reconciled %s", terminal.Visible(what))
		id, did, _ := strings.Cut(what, ": ")
		repaired = append(repaired, spool.Repaired{ThreadID: id, Did: did})
	}
	return repaired, err
}

// openRuns lets a check ask Temporal.
type openRuns struct{ c *spool.Client }

// IsOpen reports whether a workflow id has an open run.
func (r openRuns) IsOpen(ctx context.Context, workflowID string) (bool, error) {
	return r.c.OpenRun(ctx, workflowID)
}

// printVerified prints the report, with the threads if asked for.
func (a *app) printVerified(ctx context.Context, client *spool.Client, c *verifyCmd, report verify.Report, repaired []spool.Repaired) error {
	type mended struct {
		verify.Report
		Repaired []spool.Repaired `json:"repaired,omitempty"`
	}
	if !c.Print {
		return a.Document(mended{report, repaired})
	}
	var views []spool.View
	err := eachThread(ctx, client, c.Thread, func(v spool.View) { views = append(views, v) })
	if err != nil {
		return err
	}
	return a.Document(struct {
		mended
		Threads []spool.View `json:"threads"`
	}{mended{report, repaired}, views})
}

func eachThread(ctx context.Context, client *spool.Client, threadID string, do func(spool.View)) error {
	v, err := client.Show(ctx, threadID, true)
	if err != nil {
		return err
	}
	do(v)
	children, err := client.Store().Children(ctx, threadID)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := eachThread(ctx, client, child.ID, do); err != nil {
			return err
		}
	}
	return nil
}

type historyCmd struct {
	RunID  string `name:"run" placeholder:"RUN" help:"Run id (default: the latest run)."`
	All    bool   `help:"All runs that Temporal still knows: into files with --dir, otherwise one document."`
	Dir    string `placeholder:"DIR" help:"With --all: write one file per run, as worker replay reads them."`
	Thread string `arg:"" help:"Id of a thread, or of a session for its default or only conversation, or of a task for its agent, or the beginning of one, or latest."`
}

func (c *historyCmd) Validate() error {
	switch {
	case c.All && c.RunID != "":
		return fmt.Errorf("--run names one run and --all means all: give one of the two")
	case c.Dir != "" && !c.All:
		return fmt.Errorf("--dir is where --all writes: add --all")
	}
	return chat.CheckID(c.Thread)
}

func (c *historyCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.open(ctx, true)
	if err != nil {
		return err
	}
	if c.Thread, err = chat.Find(ctx, client, c.Thread); err != nil {
		return err
	}
	if !c.All {
		raw, err := client.History(ctx, c.Thread, c.RunID)
		if err != nil {
			return err
		}
		_, err = a.Out.Write(append(raw, '\n'))
		return err
	}
	runs, err := client.Runs(ctx, c.Thread)
	if err != nil {
		return err
	}
	type document struct {
		spool.Run
		History json.RawMessage `json:"history"`
	}
	docs := []document{}
	for _, r := range runs {
		raw, err := client.History(ctx, c.Thread, r.RunID)
		if err != nil {
			return err
		}
		if c.Dir == "" {
			docs = append(docs, document{r, raw})
			continue
		}
		if err := writeFile(filepath.Join(c.Dir, r.RunID+".json"), raw); err != nil {
			return err
		}
		if !a.JSON {
			a.Print("%s", terminal.Visible(filepath.Join(c.Dir, r.RunID+".json")))
		}
	}
	if c.Dir != "" && !a.JSON {
		return nil
	}
	return a.Document(map[string]any{"threadId": c.Thread, "runs": docs})
}

func writeFile(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return agent.Wrap(err, agent.CodeInvalid, "cannot make the folder of %s", path)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
		return agent.Wrap(err, agent.CodeInvalid, "cannot write %s", path)
	}
	return nil
}
