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
)

// parts are what can be measured, in order.
var parts = []string{"history", "long", "step", "kill", "cancel", "token", "follow", "append"}

// limits bound the parts, so that something that hangs becomes a row that says so.
var limits = map[string]time.Duration{
	"history": 10 * time.Minute, "long": 2 * time.Hour, "step": 20 * time.Minute, "kill": 30 * time.Minute,
	"cancel": 10 * time.Minute, "token": 10 * time.Minute, "follow": 10 * time.Minute, "append": 20 * time.Minute,
}

type options struct {
	only    []string
	json    bool
	long    bool
	bin     string
	dir     string
	steps   int
	pairs   int
	kills   int
	cancels int
	tokens  int
	follows int
	turns   int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 4 && os.Args[1] == "floor-worker" {
		os.Exit(floorWorker(ctx, os.Args[2], os.Args[3]))
	}
	if len(os.Args) == 3 && os.Args[1] == "followers" {
		if err := serveFollowers(ctx, os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench followers:", err)
			os.Exit(1)
		}
		return
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	t, err := measure(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	write := t.text
	if o.json {
		write = t.json
	}
	if err := write(os.Stdout); err != nil || t.Failed {
		os.Exit(1)
	}
}

// floorWorker is this program as the floor's worker; it ends with its parent.
func floorWorker(ctx context.Context, address, db string) int {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := serveFloor(ctx, address, db); err != nil {
		fmt.Fprintln(os.Stderr, "bench floor-worker:", err)
		return 1
	}
	return 0
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	only := fs.String("only", strings.Join(parts, ","), "what to measure")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.long, "long", false, "also run a turn of 5,000 tool calls (takes long)")
	fs.StringVar(&o.bin, "bin", "bin", "folder of the programs starter, worker and temporal")
	fs.StringVar(&o.dir, "dir", "", "folder on the disk to measure on; default: a temporary one")
	fs.IntVar(&o.steps, "steps", 40, "steps of a run that is timed")
	fs.IntVar(&o.pairs, "pairs", 20, "pairs of runs, floor and Spool")
	fs.IntVar(&o.kills, "kills", 24, "workers to kill")
	fs.IntVar(&o.cancels, "cancels", 20, "turns to cancel")
	fs.IntVar(&o.tokens, "tokens", 40, "turns whose first token is timed")
	fs.IntVar(&o.follows, "follows", 20, "pairs of turns, followed and not")
	fs.IntVar(&o.turns, "turns", 300, "turns appended to each thread")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.only = strings.Split(*only, ",")
	for _, p := range o.only {
		if !slices.Contains(parts, p) {
			return o, fmt.Errorf("--only %q: use some of %s", p, strings.Join(parts, ", "))
		}
	}
	var err error
	o.bin, err = filepath.Abs(o.bin)
	return o, err
}

// measure does all that is asked for. Its error means that nothing could be measured.
func measure(ctx context.Context, o options) (*table, error) {
	dir, err := os.MkdirTemp(o.dir, "spool-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	model, err := startStub()
	if err != nil {
		return nil, err
	}
	defer model.close()
	t := &table{Settings: settings(dir)}
	if slices.Contains(o.only, "append") {
		where := [2]string{"sqlite:" + filepath.Join(dir, "append-short.db"), "sqlite:" + filepath.Join(dir, "append-long.db")}
		try(ctx, t, "append", func(ctx context.Context) error { return measureAppend(ctx, "sqlite", where, t, o.turns) })
		try(ctx, t, "append", func(ctx context.Context) error { return measureAppendPostgres(ctx, t, o.turns) })
	}
	if !slices.ContainsFunc(o.only, func(p string) bool { return p != "append" }) {
		return t, nil
	}
	s, err := newStack(ctx, "", o.bin, filepath.Join(dir, "sqlite"), model)
	if err != nil {
		return nil, err
	}
	measureOn(ctx, s, t, o)
	s.close()
	if slices.Contains(o.only, "follow") {
		try(ctx, t, "follow", func(ctx context.Context) error {
			return measureFollowPostgres(ctx, t, o, filepath.Join(dir, "postgres"), model)
		})
	}
	return t, nil
}

// measureOn measures what needs a server.
func measureOn(ctx context.Context, s *stack, t *table, o options) {
	lengths := []int{1000}
	if o.long {
		lengths = append(lengths, 5000)
	}
	all := map[string]func(context.Context) error{
		"history": func(ctx context.Context) error { return measureHistory(ctx, s, t) },
		"long":    func(ctx context.Context) error { return measureLong(ctx, s, t, lengths) },
		"step":    func(ctx context.Context) error { return measureStep(ctx, s, t, o.steps, o.pairs) },
		"kill":    func(ctx context.Context) error { return measureKill(ctx, s, t, o.kills) },
		"cancel":  func(ctx context.Context) error { return measureCancel(ctx, s, t, o.cancels) },
		"token":   func(ctx context.Context) error { return measureToken(ctx, s, t, o.tokens) },
		"follow":  func(ctx context.Context) error { return measureFollow(ctx, s, t, o.follows) },
	}
	for _, p := range parts {
		if f := all[p]; f != nil && slices.Contains(o.only, p) {
			try(ctx, t, p, f)
		}
	}
}

// try runs one measurement; its failure does not keep others from running.
func try(ctx context.Context, t *table, name string, f func(context.Context) error) {
	if ctx.Err() != nil {
		t.fail(name, ctx.Err())
		return
	}
	begun := time.Now()
	fmt.Fprintf(os.Stderr, "bench: %s …", name)
	ctx, cancel := context.WithTimeout(ctx, limits[name])
	defer cancel()
	err := f(ctx)
	fmt.Fprintf(os.Stderr, " %s\n", time.Since(begun).Round(100*time.Millisecond))
	if err != nil {
		t.fail(name, err)
	}
}
