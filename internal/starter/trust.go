package starter

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
)

type trustCmd struct {
	Dir    string `arg:"" optional:"" help:"Folder; default: the working directory, and the workspace of workers that are started here."`
	Yes    bool   `xor:"what" help:"Agree without asking, to the bytes that this run has shown."`
	Forget bool   `xor:"what" help:"Take back what was agreed to of the folder."`
}

// Run shows what the files of a folder, and mcp.json of home, ask for, and records that a
// person agrees to these bytes.
func (c *trustCmd) Run(ctx context.Context, a *app) error {
	dir, err := filepath.Abs(c.Dir) // "" is the working directory
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return agent.Errorf(agent.CodeNotFound, "there is no folder %s", dir)
	}
	cfg, err := a.configIn("")
	if err == nil && c.Dir != "" {
		a.flags[config.Home] = cfg.Home // that of where the command is called
		cfg, err = a.configIn(dir)
		cfg.Workspace = dir
	}
	if err != nil {
		return err
	}
	if c.Forget {
		return a.doctor(cfg).Forget(a.Printer, dir)
	}
	var ask func(context.Context, string) (bool, error)
	if a.Present && a.live && !a.JSON {
		ask = a.Confirm
	}
	agreed, err := a.doctor(cfg).Trust(ctx, a.Printer, c.Yes, ask)
	if err == nil && !agreed {
		return exit.With(exit.Waiting)
	}
	return err
}
