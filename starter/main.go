// Command starter talks to Spool's threads and runs a local stack; see
// starter --help. Under the name worker or spool-worker it is the program worker, so
// that both may be one file.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spool-agents/spool/internal/starter"
	"github.com/spool-agents/spool/internal/work"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "worker", "spool-worker":
		work.Main()
	}
	os.Exit(starter.Run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
