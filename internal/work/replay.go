package work

import (
	"fmt"
	"io"

	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/replay"
)

// replayFiles runs recorded histories, or those of folders, through this build's
// workflow code, with the settings' keys for what is encrypted in them.
func replayFiles(paths []string, env func(string) string, stdout, stderr io.Writer) int {
	if len(paths) == 0 {
		fmt.Fprintln(stderr, "worker: replay needs at least one history file, or a folder of them; `starter history THREAD > FILE` writes one")
		return exit.Usage
	}
	cfg, err := config.Load(config.Options{Env: env})
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return exit.Usage
	}
	code := exit.Done
	err = replay.Each(replay.Options{Keys: cfg.Encryption}, func(file string, err error) {
		if err != nil {
			fmt.Fprintln(stderr, err)
			code = exit.Failed
			return
		}
		fmt.Fprintf(stdout, "%s: ok\n", file)
	}, paths...)
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return exit.Failed
	}
	return code
}
