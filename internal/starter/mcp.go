package starter

import (
	"context"
	"os"

	"github.com/spool-agents/spool/internal/mcpserver"
	"github.com/spool-agents/spool/internal/usage"
)

type mcpCmd struct {
	Approvals bool `help:"Let the client approve tool calls that wait for a person. A model may be what decides then."`
}

// Run serves a client on stdin and stdout until it leaves.
func (m *mcpCmd) Run(ctx context.Context, a *app) error {
	c, cfg, err := a.servingThreads(ctx)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil || cfg.Server != "" {
		dir = ""
	}
	a.warnOfWorkers(ctx, c, cfg, dir)
	return mcpserver.Serve(ctx, mcpserver.Options{C: c, Version: usage.ThisBuild().Version, Folder: dir, Decide: m.Approvals}, a.stdin, a.stdout)
}
