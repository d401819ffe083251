package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func none(string) string { return "" }

// A wrong command line names the flag, the value and what is allowed.
func TestWrongOptions(t *testing.T) {
	for args, want := range map[string]string{
		"":                             "either --db FILE or --postgres URL",
		"--db a --postgres b":          "one of the two",
		"--db a b":                     `unexpected argument "b"`,
		"--db a --port -1":             "--port -1: use a port from 0 to 65535",
		"--db a --port 65536":          "--port 65536",
		"--db a --ui-port -2":          "--ui-port -2: use a port from -1 to 65535",
		"--db a --log-level loud":      `--log-level "loud": use debug, info, warn or error`,
		"--db a --namespace=":          "--namespace is empty",
		"--db a --ui-codec-endpoint x": `--ui-codec-endpoint "x": use an http:// or https:// URL`,
		"--db a --unknown":             "-unknown",
		"--postgres mysql://h/d --x=1": "-x",
	} {
		if _, err := parseOptions(strings.Fields(args), none, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", args, err, want)
		}
	}
	var stderr bytes.Buffer
	if code := run([]string{"--port", "x"}, none, nil, io.Discard, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "--help") {
		t.Errorf("exit code %d, stderr %q; want %d and a hint", code, stderr.String(), exitUsage)
	}
}

// The password may come from the environment; a flag wins over it.
func TestPostgresFromEnvironment(t *testing.T) {
	getenv := func(name string) string {
		if name == envPostgres {
			return "postgres://u:secret@h/d"
		}
		return ""
	}
	if o, err := parseOptions(nil, getenv, io.Discard); err != nil || o.postgres != "postgres://u:secret@h/d" {
		t.Errorf("options %+v, %v; want the URL of the environment", o, err)
	}
	abs, err := filepath.Abs("a.db")
	if err != nil {
		t.Fatal(err)
	}
	if o, err := parseOptions([]string{"--db", "a.db"}, getenv, io.Discard); err != nil || o.postgres != "" || o.db != abs {
		t.Errorf("options %+v, %v; want --db %s only", o, err, abs)
	}
	var stderr bytes.Buffer
	if code := run([]string{"--postgres", "mysql://u:secret@h/d"}, none, nil, io.Discard, &stderr); code != exitFailed ||
		!strings.Contains(stderr.String(), "postgres://user:password@host") || strings.Contains(stderr.String(), "secret") {
		t.Errorf("exit code %d, stderr %q; want a hint without the password", code, stderr.String())
	}
}

// Help goes to stdout and is not an error.
func TestHelp(t *testing.T) {
	var stdout bytes.Buffer
	if _, err := parseOptions([]string{"--help"}, none, &stdout); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error %v", err)
	}
	for _, name := range []string{"-db", "-postgres", "-port", "-ui-port", "-namespace", "-log-level", "-untuned", "-parent-pipe", "-ui-codec-endpoint"} {
		if !strings.Contains(stdout.String(), name) {
			t.Errorf("help does not mention %s", name)
		}
	}
}
