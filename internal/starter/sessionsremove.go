package starter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/sessionfile"
)

type sessionsDeleteCmd struct {
	files
	ID string `arg:"" help:"A session or a thread. With --dir its files are removed, not what the store holds."`
}

// Run removes a session.
func (c *sessionsDeleteCmd) Run(ctx context.Context, a *app) error {
	if c.Dir != "" || c.Prefix != "" {
		return c.deleteFiles(a)
	}
	client, cfg, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	roots, err := archive.Find(ctx, client.Store(), owning(cfg), c.ID)
	if err != nil {
		return err
	}
	res, err := archive.Delete(ctx, client.Store(), owning(cfg), c.ID)
	if err != nil {
		return err
	}
	if res.Session { // what was logged for it goes too
		if dir, err := sessionfile.ProfileDir(cfg.Home, cfg.Profile); err == nil && sessionfile.CheckID(roots[0].SessionID) == nil {
			if err := os.Remove(filepath.Join(dir, "sessions", roots[0].SessionID, "http-log.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
				a.progress("%s", clean(err.Error()))
			}
		}
	}
	return a.printDeleted(res.Threads)
}

func (a *app) printDeleted(what []string) error {
	if what == nil {
		what = []string{}
	}
	if a.json {
		return a.printJSON(map[string]any{"deleted": what})
	}
	for _, id := range what {
		a.print("deleted %s", id)
	}
	if len(what) == 0 {
		a.progress("nothing was deleted")
	}
	return nil
}

// deleteFiles removes the files of a session.
func (c *sessionsDeleteCmd) deleteFiles(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	f, err := c.folder(a, cfg)
	if err != nil {
		return err
	}
	removed, err := f.DeleteSession(c.ID)
	if err != nil {
		return err
	}
	if len(removed) == 0 {
		return agent.Errorf(agent.CodeNotFound, "folder %s has no session %q", f.Dir, c.ID)
	}
	return a.printDeleted(removed)
}

type sessionsExpireCmd struct {
	files
	MaxAge  age      `name:"older-than" placeholder:"AGE" help:"How long after its last activity a session is kept: 30d, 12h; 0 = for ever."`
	Workdir string   `placeholder:"DIR" help:"Of the store: only those started in this directory."`
	Keep    []string `placeholder:"ID" help:"Sessions or threads that stay, such as one that is being restored."`
}

// age is a duration that may be given in days.
type age time.Duration

// UnmarshalText reads 30d, 12h, 0.
func (d *age) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 100_000 {
			return fmt.Errorf("%q is not a number of days: use 30d, 12h, or 0 for never", s)
		}
		*d = age(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	v, err := time.ParseDuration(s)
	if s == "0" {
		v, err = 0, nil
	}
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not an age: use 30d, 12h, or 0 for never", s)
	}
	*d = age(v)
	return nil
}

// Run removes what is old.
func (c *sessionsExpireCmd) Run(ctx context.Context, a *app) error {
	if c.MaxAge == 0 {
		a.progress("nothing expires: give --older-than 30d, for example")
		return a.printDeleted(nil)
	}
	keep := map[string]bool{}
	for _, id := range c.Keep {
		keep[id] = true
	}
	if c.Dir != "" || c.Prefix != "" {
		cfg, err := a.config()
		if err != nil {
			return err
		}
		f, err := c.folder(a, cfg)
		if err != nil {
			return err
		}
		removed, err := f.ExpireSessions(sessionfile.ExpireOptions{
			MaxAge: time.Duration(c.MaxAge), Now: time.Now(), Keep: func(s sessionfile.Session) bool { return keep[s.ID] || keep[s.ThreadID] },
		})
		if err != nil {
			return err
		}
		return a.printDeleted(removed)
	}
	client, cfg, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	res, err := archive.Expire(ctx, client.Store(), owning(cfg), archive.ExpireOptions{
		MaxAge: time.Duration(c.MaxAge), Now: time.Now(), Workdir: workdir(c.Workdir), Keep: c.Keep,
	})
	if err != nil {
		return err
	}
	return a.printDeleted(res.Threads)
}
