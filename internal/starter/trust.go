package starter

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/doctor"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/trust"
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
		a.flags[config.Home] = cfg.Home // which depends on no other folder
		cfg, err = a.configIn(dir)
		cfg.Workspace = dir
	}
	if err != nil {
		return err
	}
	if c.Forget {
		return c.forget(a, cfg.Home, dir, cfg.Workspace)
	}
	offers := a.doctor(cfg).Offers()
	open := slices.DeleteFunc(slices.Clone(offers), func(o trust.Offer) bool { return o.Agreed || o.Problem != "" })
	if !a.JSON {
		doctor.PrintOffers(a.Printer, offers)
	}
	agreed := c.Yes
	if len(open) > 0 && !c.Yes && !a.JSON && a.Present {
		if agreed, err = a.Confirm(ctx, "Agree to what is shown? A file that changes is asked about again. [y/N] "); err != nil {
			return err
		}
	}
	if agreed && len(open) > 0 {
		if err := agree(cfg.Home, open); err != nil {
			return err
		}
		for i := range offers {
			offers[i].Agreed = offers[i].Problem == ""
		}
	}
	err = a.Show(map[string]any{"home": cfg.Home, "files": append([]trust.Offer{}, offers...)}, func() {
		switch {
		case len(open) == 0:
			a.Progress("nothing here waits for your agreement")
		case agreed:
			a.Progress("agreed, for home %s", strconv.QuoteToASCII(cfg.Home))
		default:
			a.Progress("nothing was agreed to; --yes agrees without asking")
		}
	})
	if err == nil && len(open) > 0 && !agreed {
		return exit.With(exit.Waiting)
	}
	return err
}

func agree(home string, offers []trust.Offer) error {
	var files []trust.File
	for _, o := range offers {
		files = append(files, o.File)
	}
	return trust.Agree(home, time.Now(), files...)
}

func (c *trustCmd) forget(a *app, home string, folders ...string) error {
	forgotten := 0
	for _, folder := range folders {
		n, err := trust.Forget(home, folder)
		if err != nil {
			return err
		}
		forgotten += n
	}
	if forgotten == 0 {
		return agent.Errorf(agent.CodeNotFound, "nothing of this folder was agreed to")
	}
	return a.Show(map[string]any{"home": home, "forgotten": forgotten}, func() { a.Progress("%d agreements are taken back", forgotten) })
}
