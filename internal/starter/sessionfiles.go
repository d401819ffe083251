package starter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// listFiles lists what is in files.
func (c *sessionsListCmd) listFiles(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	f, err := c.folder(a, cfg)
	if err != nil {
		return err
	}
	list, broken, err := f.ListSessions(sessionfile.ListOptions{All: c.All, Workdir: workdir(c.Workdir)})
	if err != nil {
		return err
	}
	infos, refused := []sessionInfo{}, []archive.Refused{}
	for _, i := range list {
		infos = append(infos, sessionInfo{
			ID: i.ID, Kind: i.Kind, ThreadID: i.ThreadID, ConversationID: i.ConversationID, Topic: i.Topic, AgentType: i.AgentType, ParentThreadID: i.ParentThreadID,
			Workdir: i.Workdir, StartedAt: i.StartedAt, LastActiveAt: i.LastActiveAt, MessageCount: int64(i.MessageCount), Tokens: i.Tokens.Total, Path: i.Path, Lost: i.Lost,
		})
	}
	for _, b := range broken {
		refused = append(refused, archive.Refused{Name: b.Path, Reason: b.Err.Error()})
	}
	return a.printSessions(infos, refused, "")
}

// loadFile prints a session of files. A prefix restricts where it is looked for.
func (c *sessionsLoadCmd) loadFile(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	f, err := c.folder(a, cfg)
	if err != nil {
		return err
	}
	missing := agent.Errorf(agent.CodeNotFound, "folder %s has no session %q", f.Dir, c.ID)
	if strings.HasPrefix(c.Prefix, sessionfile.SubAgentMark) {
		s, found, err := f.LoadSessionAs(c.Prefix, c.ID)
		if err == nil && !found {
			err = missing
		}
		if err != nil {
			return err
		}
		s.Store = nil
		return a.printTrees([]branchOf{{Session: s, Children: []branchOf{}}})
	}
	id := c.ID
	if id == latest {
		s, found, err := f.LatestSession(workdir(c.Workdir))
		if err == nil && !found {
			err = missing
		}
		if err != nil {
			return err
		}
		id = s.ThreadID
	}
	tree, found, broken, err := f.LoadTree(id)
	if err == nil && !found {
		err = missing
	}
	if err != nil {
		return err
	}
	for _, b := range broken {
		a.progress("left out: %s: %s", b.Path, clean(b.Err.Error()))
	}
	return a.printTrees([]branchOf{branchOfTree(tree)})
}

func branchOfTree(t sessionfile.Tree) branchOf {
	b := branchOf{Session: t.Session, Children: []branchOf{}}
	b.Store = nil
	for _, child := range t.Children {
		b.Children = append(b.Children, branchOfTree(child))
	}
	return b
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
			MaxAge: time.Duration(c.MaxAge), Now: time.Now(), Keep: func(i sessionfile.Info) bool { return keep[i.ID] || keep[i.ThreadID] },
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
