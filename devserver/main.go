// Command devserver runs a complete Temporal server with its web UI in one
// process, on SQLite or PostgreSQL, tuned for one machine.
//
// It is a module of its own so that the application does not carry the
// server's dependencies. Build it with
//
//	cd devserver && go build -trimpath -ldflags '-s -w' -o ../bin/devserver .
package main

import "os"

func main() {
	stdout := os.Stdout
	// Standard output carries the ready line only; libraries that print to
	// os.Stdout (the UI's web framework does) must not get between.
	os.Stdout = os.Stderr
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, stdout, os.Stderr))
}
