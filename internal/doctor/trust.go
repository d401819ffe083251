package doctor

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/trust"
)

func (d *Doctor) asks() string { return d.Program + " trust shows what it asks for, and agrees" }

// Offers are the files that ask for something: settings, agents and MCP servers of the
// folder, and the MCP servers of home. What is shown and agreed to is what is read here.
func (d *Doctor) Offers() (offers []trust.Offer) {
	catalog, _ := template.Load(boot.Folders(d.Config))
	found := append([]trust.Offer{d.Config.Folder}, catalog.Offers()...)
	for _, f := range d.MCP().Files() {
		found = append(found, f.Offer)
	}
	for _, o := range found {
		if len(o.Allows) > 0 || o.Problem != "" {
			offers = append(offers, o)
		}
	}
	return offers
}

// Trust shows these files and records that a person agrees to them: with yes at once, else
// if ask is there and says so. agreed means that nothing waits any more.
func (d *Doctor) Trust(ctx context.Context, p *printer.Printer, yes bool, ask func(context.Context, string) (bool, error)) (agreed bool, err error) {
	offers := d.Offers()
	err = p.Show(map[string]any{"home": d.Config.Home, "files": append([]trust.Offer{}, offers...), "agrees": yes}, func() { printOffers(p, offers) })
	if err = cmp.Or(err, p.Out.Failed()); err != nil {
		return false, err // what was not shown is not agreed to
	}
	var open []trust.File
	laxer := 0
	for _, o := range offers {
		if !o.Agreed && o.Problem == "" {
			open = append(open, o.File)
			if !o.Plain {
				laxer++
			}
		}
	}
	if len(open) == 0 {
		p.Progress("nothing here waits for your agreement")
		return true, nil
	}
	if !yes && ask != nil {
		p.Progress("%s to agree to, %d of them with rules, settings or servers that allow more", printer.Plural(len(open), "file"), laxer)
		if yes, err = ask(ctx, "Agree to what is shown? A file that changes is asked about again. [y/N] "); err != nil {
			return false, err
		}
	}
	if !yes {
		p.Progress("nothing was agreed to; --yes agrees without asking")
		return false, nil
	}
	if err := trust.Agree(d.Config.Home, time.Now(), open...); err != nil {
		return false, err
	}
	p.Progress("agreed, for home %s", strconv.QuoteToASCII(d.Config.Home))
	return true, nil
}

// Forget takes back what was agreed to of a folder and of the workspace.
func (d *Doctor) Forget(p *printer.Printer, folder string) error {
	forgotten := 0
	for _, one := range []string{folder, d.Config.Workspace} {
		n, err := trust.Forget(d.Config.Home, one)
		if err != nil {
			return err
		}
		forgotten += n
	}
	if forgotten == 0 {
		return agent.Errorf(agent.CodeNotFound, "no agreement is kept for this folder: nothing was taken back")
	}
	return p.Show(map[string]any{"home": d.Config.Home, "forgotten": forgotten}, func() { p.Progress("%s taken back", printer.Plural(forgotten, "agreement")) })
}

func printOffers(p *printer.Printer, offers []trust.Offer) {
	for _, o := range offers {
		state := "not agreed to"
		if o.Agreed {
			state = "agreed to"
		}
		p.Print("%s  %s, sha256 %s", strconv.QuoteToASCII(o.Path()), state, o.Hash())
		if o.Problem != "" {
			p.Print("  cannot be used: %s", strconv.QuoteToASCII(o.Problem))
		}
		for _, line := range o.Allows {
			p.Print("  %s", line)
		}
	}
}
