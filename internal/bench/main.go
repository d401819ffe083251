// Command bench measures what the README and docs/figures.md promise and prints
// it as one table: the size of histories, the time per step against a
// hand-written floor, how soon a turn goes on after its worker was killed, how
// soon a cancel takes effect, how soon a token is seen, what a hundred followers
// cost, and what an append costs in a long thread.
//
// Everything is real: the Temporal server, the workers and the floor's worker
// are processes of their own, the store is a file. Only the model is a stub
// that answers at once. Ratios compare two things of the same run, measured in
// turn; absolute times depend on the machine.
//
// A figure that misses its bar is printed as such and is no error: the program
// ends with 1 only if something could not be measured.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spool-agents/spool/internal/pgtest"
)

var parts = []string{"history", "long", "step", "kill", "cancel", "token", "follow", "append", "load", "actions", "parked", "waiters", "start"}

// limit bounds a part, so that something that hangs becomes a row that says so.
const limit = 2 * time.Hour

// steps are those of a run that is timed.
const steps = 40

type options struct {
	only  []string
	json  bool
	long  bool
	bin   string
	dir   string
	times int
	soak  int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := attempt(func() { run(ctx) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) {
	if len(os.Args) == 4 && os.Args[1] == "floor-worker" {
		floorWorker(ctx, os.Args[2], os.Args[3])
		return
	}
	o := parse(os.Args[1:])
	t := measure(ctx, o)
	if o.json {
		check(t.json(os.Stdout))
	} else {
		check(t.text(os.Stdout))
	}
	if t.Failed {
		fail("something could not be measured")
	}
}

// failure ends a measurement. check, must and fail panic with it, and attempt
// returns it: there is nothing to do about one but to tell it.
type failure struct{ error }

func fail(format string, args ...any) { check(fmt.Errorf(format, args...)) }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// attempt does f and returns what ended it too soon.
func attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// floorWorker is this program as the floor's worker; it ends with its parent.
func floorWorker(ctx context.Context, address, db string) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	serveFloor(ctx, address, db)
}

func parse(args []string) options {
	var o options
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	only := fs.String("only", strings.Join(parts, ","), "what to measure")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.long, "long", false, "also run a turn of 5,000 tool calls, and 1,000 turns at once (takes long)")
	fs.StringVar(&o.bin, "bin", "bin", "folder of the programs starter, worker and temporal")
	fs.StringVar(&o.dir, "dir", "", "folder on the disk to measure on; default: a temporary one")
	fs.IntVar(&o.times, "times", 20, "how often: pairs of runs, workers killed, turns cancelled; 15 times as many appends")
	fs.IntVar(&o.soak, "soak", 0, "only keep a worker busy for so many minutes")
	check(fs.Parse(args))
	o.only = strings.Split(*only, ",")
	for _, p := range o.only {
		if !slices.Contains(parts, p) {
			fail("--only %q: use some of %s", p, strings.Join(parts, ", "))
		}
	}
	o.bin = must(filepath.Abs(o.bin))
	return o
}

func (o options) on(part string) bool { return slices.Contains(o.only, part) }

func measure(ctx context.Context, o options) *table {
	dir := must(os.MkdirTemp(o.dir, "spool-bench-"))
	defer os.RemoveAll(dir)
	dir = must(filepath.Abs(dir))
	model := must(startStub())
	defer model.close()
	t := &table{Settings: settings()}
	if o.on("append") && o.soak == 0 {
		where := [2]string{"sqlite:" + filepath.Join(dir, "append-short.db"), "sqlite:" + filepath.Join(dir, "append-long.db")}
		try(ctx, t, "append", func(ctx context.Context) { measureAppend(ctx, "sqlite", where, t, 15*o.times) })
		try(ctx, t, "append", func(ctx context.Context) {
			c := must(pgtest.New())
			defer c.Close()
			// Two databases that every cluster has.
			measureAppend(ctx, "postgres", [2]string{c.URL("postgres"), c.URL("template1")}, t, 15*o.times)
		})
	}
	if !slices.ContainsFunc(o.only, func(p string) bool { return p != "append" }) {
		return t
	}
	s := newStack(ctx, "sqlite", "", o.bin, dir, model)
	if o.soak > 0 {
		try(ctx, t, "soak", func(ctx context.Context) { measureSoak(ctx, s, t, o.soak) })
		s.t.close()
		return t
	}
	measureOn(ctx, s, t, o)
	s.t.close()
	if slices.ContainsFunc([]string{"step", "follow", "load", "waiters"}, o.on) {
		try(ctx, t, "Postgres", func(ctx context.Context) { measurePostgres(ctx, t, o, dir, model) })
	}
	return t
}

func measureOn(ctx context.Context, s *stack, t *table, o options) {
	all := map[string]func(context.Context){
		"history": func(ctx context.Context) { measureHistory(ctx, s, t) },
		"long":    func(ctx context.Context) { measureLong(ctx, s, t, o.long) },
		"step":    func(ctx context.Context) { measureStep(ctx, s, t, o.times) },
		"kill":    func(ctx context.Context) { measureKill(ctx, s, t, o.times) },
		"cancel":  func(ctx context.Context) { measureCancel(ctx, s, t, o.times) },
		"token":   func(ctx context.Context) { measureToken(ctx, s, t, 2*o.times) },
		"follow":  func(ctx context.Context) { measureFollow(ctx, s, t, o.times) },
		"load":    func(ctx context.Context) { measureLoad(ctx, s, t, o.times, o.long) },
		"actions": func(ctx context.Context) { measureActions(ctx, s, t) },
		"parked":  func(ctx context.Context) { measureParked(ctx, s, t, o.long) },
		"waiters": func(ctx context.Context) {
			measureWaiters(ctx, t, "sqlite:"+s.file("waiters.db"), "SQLite", func() int64 { return 0 })
		},
		"start": func(ctx context.Context) { measureStart(ctx, s, t, o.bin, o.times) },
	}
	for _, p := range parts {
		if f := all[p]; f != nil && slices.Contains(o.only, p) {
			try(ctx, t, p, f)
		}
	}
}

// try runs one measurement; its failure does not keep others from running.
func try(ctx context.Context, t *table, name string, f func(context.Context)) {
	if ctx.Err() != nil {
		t.fail(name, ctx.Err())
		return
	}
	begun := time.Now()
	fmt.Fprintf(os.Stderr, "bench: %s …", name)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := attempt(func() { f(ctx) })
	fmt.Fprintf(os.Stderr, " %s\n", time.Since(begun).Round(100*time.Millisecond))
	if err != nil {
		t.fail(name, err)
	}
}
