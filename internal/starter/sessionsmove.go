package starter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/sessionfile"
)

type sessionsExportCmd struct {
	files
	All        bool   `help:"All sessions of the user and profile."`
	Events     bool   `help:"Write events.json, the log, too."`
	EventsLast int    `placeholder:"N" help:"With --events: only the last N events of each thread."`
	ID         string `arg:"" optional:"" help:"A session or the beginning of its id, a thread, or latest."`
}

func (c *sessionsExportCmd) Validate() error {
	switch {
	case c.All == (c.ID != ""):
		return fmt.Errorf("give the id of a session or thread, or --all")
	case c.EventsLast < 0 || c.EventsLast > 0 && !c.Events:
		return fmt.Errorf("--events-last %d is not valid: use a number from 1, with --events", c.EventsLast)
	case strings.HasPrefix(c.Prefix, sessionfile.SubAgentMark):
		return fmt.Errorf("--prefix %q is not possible: %q begins the names of sub-agents' files", c.Prefix, sessionfile.SubAgentMark)
	}
	return c.files.Validate()
}

func (c *sessionsExportCmd) Run(ctx context.Context, a *app) error {
	client, cfg, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	f, err := c.folder(a)
	if err != nil {
		return err
	}
	ids, err := c.ids(ctx, client)
	if err != nil {
		return err
	}
	f.Tidy()
	out := struct {
		Dir string `json:"dir"`
		archive.Exported
		Refused []archive.Refused `json:"refused"`
	}{f.Dir, archive.Exported{Threads: []string{}, Files: []string{}}, []archive.Refused{}}
	for _, id := range ids {
		one, err := archive.Export(ctx, client.Store(), f, owning(cfg), id, sessionfile.EventOptions{Enabled: c.Events, Cap: c.EventsLast})
		code := agent.CodeOf(err)
		switch {
		case c.All && code == agent.CodeNotFound: // deleted meanwhile
		case err != nil && (!c.All || code == agent.CodeUnavailable || ctx.Err() != nil):
			return err
		case err != nil:
			out.Refused = append(out.Refused, archive.Refused{Name: id, Reason: err.Error()})
		}
		out.Threads, out.Files = append(out.Threads, one.Threads...), append(out.Files, one.Files...)
		out.MissingImages = append(out.MissingImages, one.MissingImages...)
	}
	err = a.Show(out, func() {
		for _, path := range out.Files {
			a.Print("%s", terminal.Visible(path))
		}
	})
	a.left(out.MissingImages, "the export holds everything else", "not exported", out.Refused)
	if err == nil && len(out.Refused) > 0 {
		return exit.With(exit.Failed)
	}
	return err
}

// left says which images are missing, and what was refused.
func (a *app) left(images []string, also, refusal string, refused []archive.Refused) {
	for _, name := range images {
		a.Progress("image %s is missing, which a message shows: %s", name, also)
	}
	for _, r := range refused {
		a.Progress("%s: %v", refusal, r)
	}
}

// ids are the sessions and threads to export.
func (c *sessionsExportCmd) ids(ctx context.Context, client *spool.Client) (ids []string, err error) {
	switch {
	case c.All:
		all, err := client.Threads(ctx, memory.ThreadFilter{})
		for _, t := range all {
			ids = append(ids, t.ID)
		}
		return ids, err
	case c.ID == chat.Latest:
		t, err := chat.Newest(ctx, client, "")
		return []string{t.SessionID}, err
	}
	id, err := chat.FullID(ctx, client, c.ID)
	return []string{id}, err
}

type sessionsImportCmd struct {
	Prefix string `placeholder:"NAME" help:"What the names of the files begin with (default: session)."`
	Only   string `name:"session" short:"s" placeholder:"SESSION" help:"Only this session."`
	Dir    string `arg:"" help:"The folder of the files."`
}

func (c *sessionsImportCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.storeConfig()
	if err != nil {
		return err
	}
	f, err := (&files{Dir: c.Dir, Prefix: c.Prefix}).folder(a)
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		return err
	}
	client, err := a.openWith(ctx, cfg, false) // a backup may go into a new store
	if err != nil {
		return err
	}
	in, err := archive.Import(ctx, client.Store(), f, owning(cfg), c.Only)
	if err != nil {
		return err
	}
	if len(in.Added)+len(in.Present)+len(in.Refused) == 0 {
		return agent.Errorf(agent.CodeNotFound, "folder %s has no sessions: name the folder of an export, which holds files %s_*.json or a folder sessions", f.Dir, cmp.Or(f.Prefix, sessionfile.DefaultPrefix))
	}
	err = a.Show(in, func() {
		for _, id := range in.Added {
			a.Print("imported %s", id)
		}
		a.otherProfiles(ctx, client.Store(), cfg, append(in.Added, in.Present...))
		if len(in.Present) > 0 {
			a.Progress("%s there already, as in the files", printer.Plural(len(in.Present), "thread"))
		}
	})
	for _, d := range in.Dropped {
		a.Progress("not taken over from %s: %s", d.ThreadID, terminal.Visible(d.What))
	}
	a.left(in.MissingImages, "copy the folder images of the export too, and import again", "not imported", in.Refused)
	if err == nil && len(in.Refused)+len(in.MissingImages) > 0 {
		return exit.With(exit.Failed)
	}
	return err
}

// otherProfiles says where imported threads are found that keep another profile
// than that of the command.
func (a *app) otherProfiles(ctx context.Context, store memory.Reader, cfg config.Config, ids []string) {
	others := map[string]int{}
	for _, id := range ids {
		if t, err := store.Thread(ctx, cfg.User, id); err == nil && t.Profile != cfg.Profile {
			others[t.Profile]++
		}
	}
	for _, profile := range slices.Sorted(maps.Keys(others)) {
		a.Progress("%s of profile %s, where they were exported, not of %s: see them with SPOOL_PROFILE=%s", printer.Plural(others[profile], "thread"), terminal.Visible(profile), cfg.Profile, terminal.Visible(profile))
	}
}
