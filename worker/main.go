// Command worker runs Spool's turns: it serves the task queue of its store on a
// Temporal server.
package main

import (
	"context"
	"os"

	"github.com/spool-agents/spool/internal/boot"
)

func main() {
	boot.HideEnvironment() // it runs the commands of agents
	os.Exit(run(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}
