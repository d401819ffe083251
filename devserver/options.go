package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"path/filepath"

	"go.uber.org/zap/zapcore"
)

// envPostgres names the environment variable that stands in for --postgres, so
// that a password need not appear in the process list.
const envPostgres = "DEVSERVER_POSTGRES"

// noUI as --ui-port leaves the web UI out.
const noUI = -1

// options are the checked command line.
type options struct {
	db         string
	postgres   string
	port       int
	uiPort     int
	namespace  string
	logLevel   zapcore.Level
	untuned    bool
	parentPipe bool
	// uiCodec is where the web UI has payloads decoded; "" = they are not encrypted.
	uiCodec string
}

// parseOptions reads args and checks them before anything is touched. Help goes
// to stdout and returns flag.ErrHelp.
func parseOptions(args []string, getenv func(string) string, stdout io.Writer) (options, error) {
	var o options
	var level string
	fs := flag.NewFlagSet("devserver", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.db, "db", "", "SQLite `file` for Temporal's data; it and its folder are created")
	fs.StringVar(&o.postgres, "postgres", "", "PostgreSQL `URL` instead of --db: postgres://user:password@host:5432/name; a second\n"+
		"database name_visibility is used beside it, both are created (environment: "+envPostgres+")")
	fs.IntVar(&o.port, "port", 7233, "gRPC `port` on 127.0.0.1; 0 = a free one; a taken port moves on to the next free one")
	fs.IntVar(&o.uiPort, "ui-port", 8233, "web UI `port` on 127.0.0.1; likewise; -1 = no web UI")
	fs.StringVar(&o.uiCodec, "ui-codec-endpoint", "", "`URL` of a codec server, by which the web UI shows payloads that are encrypted")
	fs.StringVar(&o.namespace, "namespace", "default", "namespace to create, with Spool's search attributes")
	fs.StringVar(&level, "log-level", "error", "debug, info, warn or error; logs go to stderr")
	fs.BoolVar(&o.untuned, "untuned", false, "keep the server's default dynamic configuration and SQLite's defaults (for comparisons)")
	fs.BoolVar(&o.parentPipe, "parent-pipe", false, "shut down when stdin reaches its end, that is, when the parent process is gone")

	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stdout, "Usage: devserver --db FILE | --postgres URL [flags]\n\n"+
				"Runs a Temporal server with its web UI and prints one JSON line when it is ready.\n\nFlags:")
			fs.SetOutput(stdout)
			fs.PrintDefaults()
		}
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: devserver takes flags only", fs.Arg(0))
	}
	if o.db == "" && o.postgres == "" {
		o.postgres = getenv(envPostgres)
	}
	if (o.db == "") == (o.postgres == "") {
		return options{}, errors.New("give either --db FILE or --postgres URL, one of the two: it is where Temporal keeps its data")
	}
	if err := checkPort("--port", o.port, 0); err != nil {
		return options{}, err
	}
	if err := checkPort("--ui-port", o.uiPort, noUI); err != nil {
		return options{}, err
	}
	if u, err := url.Parse(o.uiCodec); o.uiCodec != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return options{}, fmt.Errorf("--ui-codec-endpoint %q: use an http:// or https:// URL", o.uiCodec)
	}
	if o.namespace == "" {
		return options{}, errors.New("--namespace is empty: give a name, for example default")
	}
	switch level {
	case "debug", "info", "warn", "error":
	default:
		return options{}, fmt.Errorf("--log-level %q: use debug, info, warn or error", level)
	}
	o.logLevel, _ = zapcore.ParseLevel(level) // one of the four above
	if o.db != "" {
		abs, err := filepath.Abs(o.db)
		if err != nil {
			return options{}, fmt.Errorf("--db %q: %w", o.db, err)
		}
		o.db = abs
	}
	return o, nil
}

func checkPort(name string, port, lowest int) error {
	if port < lowest || port > 65535 {
		return fmt.Errorf("%s %d: use a port from %d to 65535", name, port, lowest)
	}
	return nil
}
