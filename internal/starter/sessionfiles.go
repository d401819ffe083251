package starter

import (
	"strings"

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
