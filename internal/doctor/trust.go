package doctor

import (
	"strconv"

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

// PrintOffers prints files with all that they may do, and returns those that are not
// agreed to.
func PrintOffers(p *printer.Printer, offers []trust.Offer) {
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
