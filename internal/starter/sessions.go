package starter

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// latest stands for the main session with the newest activity.
const latest = "latest"

type sessionsCmd struct {
	List   sessionsListCmd   `cmd:"" help:"List sessions, newest activity first: of the store, or of a folder's files."`
	Load   sessionsLoadCmd   `cmd:"" help:"Print a session with its sub-agents."`
	Export sessionsExportCmd `cmd:"" help:"Write the files of a session."`
	Import sessionsImportCmd `cmd:"" help:"Add the sessions of a folder's files to the store, as they were."`
	Delete sessionsDeleteCmd `cmd:"" help:"Remove a session with its sub-agents."`
	Expire sessionsExpireCmd `cmd:"" help:"Remove sessions in which nothing happened for a while."`
}

// files say which files a command is about.
type files struct {
	Dir    string `placeholder:"DIR" help:"The folder of the files."`
	Prefix string `placeholder:"NAME" help:"What the names of the files begin with (default: session)."`
}

// Validate checks the prefix.
func (f *files) Validate() error {
	if f.Prefix == "" {
		return nil
	}
	return sessionfile.CheckPrefix(f.Prefix)
}

// folder is the folder of the files, that of the profile if none is named.
func (f *files) folder(a *app, cfg config.Config) (sessionfile.Folder, error) {
	dir, err := filepath.Abs(f.Dir)
	if f.Dir == "" {
		dir, err = sessionfile.ProfileDir(cfg.Home, cfg.Profile)
	}
	return sessionfile.Folder{
		Dir: dir, Prefix: strings.TrimPrefix(f.Prefix, sessionfile.SubAgentMark),
		OnDamage: func(d *port.DamagedError) { a.progress("%s", clean(d.Error())) },
	}, err
}

// owner is whose sessions a command sees.
func owning(cfg config.Config) archive.Owner {
	return archive.Owner{UserID: cfg.User, Profile: cfg.Profile}
}

// sessionInfo is an entry of a list.
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

func infoOf(t agent.Thread) sessionInfo {
	i := sessionInfo{
		ID: t.SessionID, Kind: t.Kind, ThreadID: t.ID, ConversationID: t.ConversationID, Topic: t.Topic, AgentType: t.AgentType, ParentThreadID: t.ParentThreadID,
		Workdir: t.Workdir, StartedAt: t.CreatedAt, LastActiveAt: t.UpdatedAt, MessageCount: t.MessageCount, Tokens: t.TotalTokens, Status: statusText(t),
	}
	if t.Kind == agent.KindSubAgent {
		i.ID, i.ConversationID = t.AgentID, ""
	}
	return i
}

type sessionsListCmd struct {
	files
	All     bool   `help:"Include those of sub-agents."`
	Workdir string `placeholder:"DIR" help:"Only those started in this directory."`
	Limit   int    `placeholder:"N" default:"100" help:"Of the store: at most this many (default ${default})."`
	After   string `placeholder:"CURSOR" help:"Of the store: go on behind an earlier list, which names its cursor."`
}

// Validate checks the arguments.
func (c *sessionsListCmd) Validate() error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit %d is not valid: use a number from 1", c.Limit)
	}
	if err := spool.CheckPage(c.After); err != nil {
		return fmt.Errorf("--after: %w", err)
	}
	return c.files.Validate()
}

// Run lists sessions.
func (c *sessionsListCmd) Run(ctx context.Context, a *app) error {
	if c.Dir != "" || c.Prefix != "" {
		return c.listFiles(a)
	}
	client, _, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	list, next, err := client.ThreadPage(ctx, memory.ThreadFilter{All: c.All, Workdir: workdir(c.Workdir)}, c.After, c.Limit)
	if err != nil {
		return err
	}
	infos := []sessionInfo{}
	for _, t := range list {
		infos = append(infos, infoOf(t))
	}
	return a.printSessions(infos, []archive.Refused{}, next)
}

// workdir makes a folder absolute, as threads have it.
func workdir(dir string) string {
	if dir == "" {
		return ""
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

func (a *app) printSessions(infos []sessionInfo, broken []archive.Refused, next string) error {
	if a.json {
		doc := map[string]any{"sessions": infos, "broken": broken}
		if next != "" {
			doc["next"] = next
		}
		return a.printJSON(doc)
	}
	for _, i := range infos {
		what := i.Status
		if what == "" {
			what = string(i.Kind)
		}
		a.print("%-50s %-12s %s %4d messages  %s", i.ThreadID, what, i.LastActiveAt.Local().Format(time.DateTime), i.MessageCount, oneLine(i.Topic, 60))
		if i.Lost > 0 {
			a.progress("%s: its last line is torn, %s lost", i.Path, plural(i.Lost, "message"))
		}
	}
	for _, b := range broken {
		a.progress("left out: %s", clean(b.Error()))
	}
	if next != "" {
		a.progress("there are more: --after %s", next)
	}
	return nil
}

type sessionsLoadCmd struct {
	files
	Workdir string `placeholder:"DIR" help:"With latest: only of those started in this directory."`
	ID      string `arg:"" help:"A session, a thread, a sub-agent, the short id of a file, or latest."`
}

// branchOf is a session with its sub-agents, as printed.
type branchOf struct {
	sessionfile.Session
	Children []branchOf `json:"children"`
}

// Run prints a session: of the store, or with --dir of files.
func (c *sessionsLoadCmd) Run(ctx context.Context, a *app) error {
	if c.Dir != "" || c.Prefix != "" {
		return c.loadFile(a)
	}
	client, cfg, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	id := c.ID
	if id == latest {
		newest, err := newest(ctx, client, workdir(c.Workdir))
		if err != nil {
			return err
		}
		id = newest.ID
	}
	roots, err := archive.Find(ctx, client.Store(), owning(cfg), id)
	if err != nil {
		return err
	}
	var trees []branchOf
	for _, root := range roots {
		if p, err := agent.ParseThreadID(id); err == nil && p.Kind == agent.KindSubAgent {
			root.ID = id
		} else if sub := agent.ThreadOfAgent(id); sub != "" && root.SessionID != id {
			root.ID = sub
		}
		records, err := client.Store().ExportThreads(ctx, memory.ExportRequest{UserID: cfg.User, ThreadID: root.ID, Below: true})
		if err != nil {
			return err
		}
		tree, err := branchOfRecords(records, records[0].Thread.ID)
		if err != nil {
			return err
		}
		trees = append(trees, tree)
	}
	return a.printTrees(trees)
}

// newest is the main thread with the newest activity, never a sub-agent.
func newest(ctx context.Context, c conversations, dir string) (agent.Thread, error) {
	found, _, err := c.ThreadPage(ctx, memory.ThreadFilter{Workdir: dir}, "", 1)
	if err != nil {
		return agent.Thread{}, err
	}
	if len(found) == 0 {
		where := ""
		if dir != "" {
			where = " in " + dir
		}
		return agent.Thread{}, agent.Errorf(agent.CodeNotFound, "there is no conversation%s", where)
	}
	return found[0], nil
}

func branchOfRecords(records []memory.ThreadRecord, id string) (branchOf, error) {
	b := branchOf{Children: []branchOf{}}
	for _, r := range records {
		switch {
		case r.Thread.ID == id:
			s, err := archive.Session(r)
			if err != nil {
				return b, err
			}
			s.Store = nil
			b.Session = s
		case r.Thread.ParentThreadID == id:
			child, err := branchOfRecords(records, r.Thread.ID)
			if err != nil {
				return b, err
			}
			b.Children = append(b.Children, child)
		}
	}
	return b, nil
}

func (a *app) printTrees(trees []branchOf) error {
	if a.json {
		return a.printJSON(map[string]any{"sessions": trees})
	}
	for _, t := range trees {
		a.printBranch(t)
	}
	return nil
}

func (a *app) printBranch(b branchOf) {
	a.print("thread   %s", b.ThreadID)
	if b.ParentThreadID != "" {
		a.print("parent   %s", b.ParentThreadID)
	}
	a.print("workdir  %s", clean(b.Workdir))
	a.print("active   %s to %s, %d messages, %d tokens", b.StartedAt.Local().Format(time.DateTime), b.LastActiveAt.Local().Format(time.DateTime), len(b.Messages), b.Tokens.Total)
	for _, m := range b.Messages {
		a.print("\n%s", messageText(m))
	}
	for _, child := range b.Children {
		a.print("")
		a.printBranch(child)
	}
}
