// Command starter talks to Spool's threads and runs a local stack; see
// starter --help.
package main

import (
	"context"
	"os"

	"github.com/spool-agents/spool/internal/starter"
)

func main() {
	os.Exit(starter.Run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
