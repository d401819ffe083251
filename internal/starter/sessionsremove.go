package starter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/sessionfile"
)

type sessionsDeleteCmd struct {
	files
	ID string `arg:"" help:"A session or a thread. With --dir its files are removed, not what the store holds."`
}

func (c *sessionsDeleteCmd) Run(ctx context.Context, a *app) error {
	if c.given() {
		f, err := c.folder(a)
		if err != nil {
			return err
		}
		removed, err := f.DeleteSession(c.ID)
		if err == nil && len(removed) == 0 {
			err = noSession(f, c.ID)
		}
		return a.deleted(removed, err)
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
	if err == nil && res.Session { // what was logged for it goes too
		if dir, err := sessionfile.ProfileDir(cfg.Home, cfg.Profile); err == nil && sessionfile.CheckID(roots[0].SessionID) == nil {
			if err := os.Remove(filepath.Join(dir, "sessions", roots[0].SessionID, "http-log.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
				a.Progress("%v", err)
			}
		}
	}
	return a.deleted(res.Threads, err)
}

func (a *app) deleted(what []string, err error) error {
	if err != nil {
		return err
	}
	return a.Show(map[string]any{"deleted": append([]string{}, what...)}, func() {
		for _, id := range what {
			a.Print("deleted %s", id)
		}
		if len(what) == 0 {
			a.Progress("nothing was deleted")
		}
	})
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
	v, err := time.ParseDuration(string(text))
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		v = time.Duration(min(n, 100_000)) * 24 * time.Hour
	}
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not an age: use 30d, 12h, or 0 for never", text)
	}
	*d = age(v)
	return nil
}

func (c *sessionsExpireCmd) Run(ctx context.Context, a *app) error {
	if c.MaxAge == 0 {
		a.Progress("nothing expires: give --older-than 30d, for example")
		return a.deleted(nil, nil)
	}
	if c.given() {
		f, err := c.folder(a)
		if err != nil {
			return err
		}
		return a.deleted(f.ExpireSessions(sessionfile.ExpireOptions{
			MaxAge: time.Duration(c.MaxAge), Now: time.Now(), Keep: func(i sessionfile.Session) bool {
				return slices.Contains(c.Keep, i.ID) || slices.Contains(c.Keep, i.ThreadID)
			},
		}))
	}
	client, cfg, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	res, err := archive.Expire(ctx, client.Store(), owning(cfg), archive.ExpireOptions{
		MaxAge: time.Duration(c.MaxAge), Now: time.Now(), Workdir: workdir(c.Workdir), Keep: c.Keep,
	})
	return a.deleted(res.Threads, err)
}
