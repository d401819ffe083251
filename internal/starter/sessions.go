package starter

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
)

type sessionsCmd struct {
	List   sessionsListCmd   `cmd:"" eg:"--limit 5" help:"List sessions, newest activity first: of the store, or of a folder's files."`
	Load   sessionsLoadCmd   `cmd:"" eg:"latest" help:"Print a session with its sub-agents."`
	Export sessionsExportCmd `cmd:"" eg:"notes --dir backup" help:"Write the files of a session."`
	Import sessionsImportCmd `cmd:"" eg:"backup" help:"Add the sessions of a folder's files to the store, as they were."`
	Delete sessionsDeleteCmd `cmd:"" eg:"notes" help:"Remove a session with its sub-agents."`
	Expire sessionsExpireCmd `cmd:"" eg:"--older-than 30d" help:"Remove sessions in which nothing happened for a while."`
}

// files say which files a command is about.
type files struct {
	Dir    string `placeholder:"DIR" help:"The folder of the files."`
	Prefix string `placeholder:"NAME" help:"What the names of the files begin with (default: session)."`
}

func (f *files) Validate() error {
	if f.Prefix == "" {
		return nil
	}
	return sessionfile.CheckPrefix(f.Prefix)
}

// given means that the command is about files, not about the store.
func (f *files) given() bool { return f.Dir != "" || f.Prefix != "" }

// folder is the folder of the files, that of the profile if none is named.
func (f *files) folder(a *app) (sessionfile.Folder, error) {
	cfg, err := a.config()
	if err != nil {
		return sessionfile.Folder{}, err
	}
	dir, err := filepath.Abs(f.Dir)
	if f.Dir == "" {
		dir, err = sessionfile.ProfileDir(cfg.Home, cfg.Profile)
	}
	return sessionfile.Folder{
		Dir: dir, Prefix: strings.TrimPrefix(f.Prefix, sessionfile.SubAgentMark),
		OnDamage: func(d *port.DamagedError) { a.Progress("%v", d) },
	}, err
}

func noSession(f sessionfile.Folder, id string) error {
	return agent.Errorf(agent.CodeNotFound, "folder %s has no session %q", f.Dir, id)
}

func owning(cfg config.Config) archive.Owner {
	return archive.Owner{UserID: cfg.User, Profile: cfg.Profile}
}

func workdir(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		return abs
	}
	return dir
}

type sessionInfo struct {
	ID             string           `json:"id"`
	Kind           agent.ThreadKind `json:"kind"`
	ThreadID       string           `json:"threadId"`
	ConversationID string           `json:"conversationId,omitempty"`
	Topic          string           `json:"topic,omitempty"`
	AgentType      string           `json:"agentType,omitempty"`
	ParentThreadID string           `json:"parentThreadId,omitempty"`
	Workdir        string           `json:"workdir"`
	StartedAt      time.Time        `json:"startedAt"`
	LastActiveAt   time.Time        `json:"lastActiveAt"`
	MessageCount   int64            `json:"messageCount"`
	Tokens         int64            `json:"tokens"`
	// Of the store only.
	Status string `json:"status,omitempty"`
	// Of files only.
	Path string `json:"path,omitempty"`
	Lost int    `json:"lostMessages,omitempty"`
}

// infoOf describes a thread of the store.
func infoOf(t agent.Thread) sessionInfo {
	i := sessionInfo{
		ID: t.SessionID, Kind: t.Kind, ThreadID: t.ID, ConversationID: t.ConversationID, Topic: t.Topic, AgentType: t.AgentType, ParentThreadID: t.ParentThreadID,
		Workdir: t.Workdir, StartedAt: t.CreatedAt, LastActiveAt: t.UpdatedAt, MessageCount: t.MessageCount, Tokens: t.TotalTokens, Status: printer.Status(t),
	}
	if t.Kind == agent.KindSubAgent {
		i.ID, i.ConversationID = t.AgentID, ""
	}
	return i
}

type sessionsListCmd struct {
	files
	All bool `help:"Include those of sub-agents."`
	page
}

func (c *sessionsListCmd) Validate() error {
	if err := c.page.Validate(); err != nil {
		return err
	}
	return c.files.Validate()
}

type sessionList struct {
	Sessions []sessionInfo     `json:"sessions"`
	Broken   []archive.Refused `json:"broken"`
	Next     string            `json:"next,omitempty"`
}

func (c *sessionsListCmd) Run(ctx context.Context, a *app) error {
	find := c.inStore
	if c.given() {
		find = c.inFiles
	}
	list := sessionList{Sessions: []sessionInfo{}, Broken: []archive.Refused{}}
	if err := find(ctx, a, &list); err != nil {
		return err
	}
	var threads []agent.Thread
	for _, i := range list.Sessions {
		t := agent.Thread{ID: i.ThreadID, Kind: i.Kind, AgentType: i.AgentType, Status: agent.ThreadStatus(i.Status), UpdatedAt: i.LastActiveAt}
		t.MessageCount, t.Topic = i.MessageCount, i.Topic
		threads = append(threads, t)
	}
	return a.Show(list, func() {
		a.Table(a.Threads(threads, func(t agent.Thread) string { return cmp.Or(printer.Status(t), string(t.Kind)) }))
		for _, i := range list.Sessions {
			if i.Lost > 0 {
				a.Progress("%s: its last line is torn, %s lost", terminal.Visible(i.Path), printer.Plural(i.Lost, "message"))
			}
		}
		for _, b := range list.Broken {
			a.Progress("left out: %v", &b)
		}
		a.more(list.Next)
	})
}

func (c *sessionsListCmd) inStore(ctx context.Context, a *app, out *sessionList) error {
	client, _, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	list, next, err := client.ThreadPage(ctx, memory.ThreadFilter{All: c.All, Workdir: workdir(c.Workdir)}, c.After, c.Limit)
	for _, t := range list {
		out.Sessions = append(out.Sessions, infoOf(t))
	}
	out.Next = next
	return err
}

func (c *sessionsListCmd) inFiles(_ context.Context, a *app, out *sessionList) error {
	f, err := c.folder(a)
	if err != nil {
		return err
	}
	list, broken, err := f.ListSessions(sessionfile.ListOptions{All: c.All, Workdir: workdir(c.Workdir)})
	for _, i := range list {
		out.Sessions = append(out.Sessions, sessionInfo{
			ID: i.ID, Kind: i.Kind, ThreadID: i.ThreadID, ConversationID: i.ConversationID, Topic: i.Topic, AgentType: i.AgentType, ParentThreadID: i.ParentThreadID,
			Workdir: i.Workdir, StartedAt: i.StartedAt, LastActiveAt: i.LastActiveAt, MessageCount: int64(i.MessageCount), Tokens: i.Tokens.Total, Path: i.Path, Lost: i.Lost,
		})
	}
	for _, b := range broken {
		out.Broken = append(out.Broken, archive.Refused{Name: b.Path, Reason: b.Err.Error()})
	}
	return err
}

type sessionsLoadCmd struct {
	files
	Workdir string `placeholder:"DIR" help:"With latest: only of those started in this directory."`
	ID      string `arg:"" help:"A session or the beginning of its id, a thread, a sub-agent, the short id of a file, or latest."`
}

func (c *sessionsLoadCmd) Run(ctx context.Context, a *app) error {
	find := c.inStore
	if c.given() {
		find = c.inFiles
	}
	trees, err := find(ctx, a)
	if err != nil {
		return err
	}
	return a.Show(map[string]any{"sessions": trees}, func() {
		for _, t := range trees {
			printBranch(a, t)
		}
	})
}

func (c *sessionsLoadCmd) inStore(ctx context.Context, a *app) ([]sessionfile.Tree, error) {
	client, cfg, err := a.open(ctx, false)
	if err != nil {
		return nil, err
	}
	id := c.ID
	if id == chat.Latest {
		var newest agent.Thread
		newest, err = chat.Newest(ctx, client, workdir(c.Workdir))
		id = newest.ID
	} else {
		id, err = chat.FullID(ctx, client, id)
	}
	if err != nil {
		return nil, err
	}
	return archive.Load(ctx, client.Store(), owning(cfg), id)
}

// inFiles reads files. The prefix of sub-agents restricts where it looks.
func (c *sessionsLoadCmd) inFiles(_ context.Context, a *app) ([]sessionfile.Tree, error) {
	f, err := c.folder(a)
	if err != nil {
		return nil, err
	}
	var tree sessionfile.Tree
	var found bool
	var broken []sessionfile.BrokenFile
	switch {
	case strings.HasPrefix(c.Prefix, sessionfile.SubAgentMark):
		tree.Session, found, err = f.LoadSessionAs(c.Prefix, c.ID)
	case c.ID == chat.Latest:
		if tree.Session, found, err = f.LatestSession(workdir(c.Workdir)); found && err == nil {
			tree, found, broken, err = f.LoadTree(tree.Session.ThreadID)
		}
	default:
		tree, found, broken, err = f.LoadTree(c.ID)
	}
	if err == nil && !found {
		err = noSession(f, c.ID)
	}
	if err != nil {
		return nil, err
	}
	for _, b := range broken {
		a.Progress("left out: %s: %v", terminal.Visible(b.Path), b.Err)
	}
	withoutRows(&tree)
	return []sessionfile.Tree{tree}, nil
}

// withoutRows leaves out what only a store reads.
func withoutRows(t *sessionfile.Tree) {
	t.Store = nil
	for i := range t.Children {
		withoutRows(&t.Children[i])
	}
}

func printBranch(a *app, b sessionfile.Tree) {
	a.Print("thread   %s", b.ThreadID)
	if b.ParentThreadID != "" {
		a.Print("parent   %s", b.ParentThreadID)
	}
	a.Print("workdir  %s", terminal.Visible(b.Workdir))
	a.Print("active   %s to %s, %d messages, %d tokens", b.StartedAt.Local().Format(time.DateTime), b.LastActiveAt.Local().Format(time.DateTime), len(b.Messages), b.Tokens.Total)
	for _, m := range b.Messages {
		a.Print("\n%s", printer.Message(m))
	}
	for _, child := range b.Children {
		a.Print("")
		printBranch(a, child)
	}
}
