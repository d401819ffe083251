package starter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/screen"
	"github.com/spool-agents/spool/internal/template"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

type target struct {
	Session      string `short:"s" placeholder:"SESSION" help:"Session; without it a new one is started."`
	Conversation string `short:"c" placeholder:"NAME" help:"Conversation in the session (default: default)."`
	Thread       string `short:"t" placeholder:"THREAD" help:"Id of a thread, or of a session for the conversation it has, in place of session and conversation."`
	Continue     bool   `help:"Go on in the conversation used last in this directory."`
	DemoModel    bool   `help:"On a store of one process, whose worker runs here: let the scripted demo model answer where no model is configured (SPOOL_DEMO_MODEL)."`
	Agent        string `placeholder:"NAME" help:"Agent that answers from now on."`
	Model        string `placeholder:"NAME" help:"Model that answers from now on."`
}

// Validate checks what can be checked without a store.
func (t *target) Validate(k *kong.Context) error {
	for _, p := range k.Path {
		if f := p.Flag; f != nil && f.Target.String() == "" && slices.Contains([]string{"session", "conversation", "thread"}, f.Name) {
			return fmt.Errorf("--%s is empty, perhaps a variable that is not set: name one, or leave the flag out", f.Name)
		}
	}
	switch {
	case t.Thread != "" && (t.Session != "" || t.Conversation != ""):
		return fmt.Errorf("--thread replaces --session and --conversation: give one or the other")
	case t.Continue && (t.Thread != "" || t.Session != "" || t.Conversation != ""):
		return fmt.Errorf("--continue finds the thread itself: leave out --session, --conversation and --thread")
	}
	for _, c := range []struct {
		flag, value string
		check       func(string) error
	}{
		{"--session", t.Session, func(v string) error { return agent.CheckName("name", v) }},
		{"--conversation", t.Conversation, func(v string) error { return agent.CheckName("name", v) }},
		{"--thread", t.Thread, chat.CheckID}, {"--agent", t.Agent, agent.CheckAgentType},
	} {
		if c.value == "" {
			continue
		}
		if err := c.check(c.value); err != nil {
			return fmt.Errorf("%s: %w", c.flag, err)
		}
	}
	return nil
}

func (t *target) request(ctx context.Context, c chat.Conversations, cfg config.Config) (memory.SendRequest, error) {
	dir, err := os.Getwd()
	if err != nil || cfg.Server != "" { // folders of this machine mean nothing there
		dir = ""
	}
	r := memory.SendRequest{SessionID: t.Session, ConversationID: t.Conversation, Agent: t.Agent, Model: t.Model, Workdir: dir}
	if r.ThreadID, err = chat.Find(ctx, c, t.Thread); err != nil {
		return r, err
	}
	if t.Continue {
		found, err := chat.Newest(ctx, c, dir)
		if agent.CodeOf(err) == agent.CodeNotFound {
			return r, agent.Wrap(err, agent.CodeNotFound, "nothing to continue (leave out --continue to start a conversation)")
		}
		if err != nil {
			return r, err
		}
		r.ThreadID = found.ID
	}
	if r.ThreadID == "" && r.SessionID == "" {
		r.SessionID = spool.NewID()
	}
	return r, nil
}

type sendCmd struct {
	target
	MessageID string `placeholder:"ID" help:"Id of this message; repeating a send with the same id is safe."`
	WhenBusy  string `placeholder:"queue|steer|reject" help:"While a turn runs: a later turn (queue), into the running one (steer), or refuse (reject). Default: answer the question of the thread or its sub-agents if exactly one is open; refuse if several are, or an approval; else queue."`
	Schema    string `placeholder:"FILE" type:"path" help:"JSON schema that the answer has to fit; the response is then JSON."`
	waiting
	Image []string `placeholder:"FILE" help:"Send an image (PNG, JPEG, GIF or WebP) with the message; may be repeated. It is kept in the store, with the conversation."`
	Text  string   `arg:"" help:"The message; what stdin holds is put behind it. Or - to read all of it from stdin."`
}

func (s *sendCmd) Validate(k *kong.Context) error {
	if err := s.target.Validate(k); err != nil {
		return err
	}
	switch memory.WhenBusy(s.WhenBusy) {
	case "", memory.Queue, memory.Steer, memory.Reject:
	default:
		return fmt.Errorf("--when-busy %q is not valid: use queue, steer or reject", s.WhenBusy)
	}
	if s.Schema != "" && memory.WhenBusy(s.WhenBusy) == memory.Steer {
		return fmt.Errorf("--schema is about the answer of a turn, and a steered message has none of its own: leave out --when-busy steer")
	}
	if strings.TrimSpace(s.Text) == "" {
		return fmt.Errorf("the message is empty: give a text, or - to read it from stdin")
	}
	return s.waiting.Validate()
}

func (s *sendCmd) Run(ctx context.Context, a *app) error {
	if err := s.check(a); err != nil {
		return err
	}
	text, err := a.Given(a.stdin, s.Text, "message")
	if err == nil && s.Text != "-" {
		text, err = a.WithStdin(a.stdin, text)
	}
	if err != nil {
		return err
	}
	var schema []byte
	if s.Schema != "" {
		var f *os.File
		if f, err = os.Open(s.Schema); err == nil {
			schema, err = chat.ReadText(f)
			_ = f.Close()
		}
		if err == nil && len(bytes.TrimSpace(schema)) == 0 {
			err = errors.New("the file is empty")
		}
		if err != nil {
			return agent.Wrap(err, agent.CodeInvalid, "--schema cannot be read")
		}
	}
	if err := a.useDemo(s.DemoModel); err != nil {
		return err
	}
	open := a.servingThreads
	if s.Detach { // who does not wait needs no worker
		open = a.newThreads
	}
	c, cfg, err := open(ctx)
	if err != nil {
		return err
	}
	req, err := s.request(ctx, c, cfg)
	if err != nil {
		return err
	}
	a.warnOfAgent(cfg, req.Agent)
	a.warnOfWorkers(ctx, c, cfg, req.Workdir)
	if req.Content, err = withImages(ctx, c, text, s.Image); err != nil {
		return err
	}
	req.MessageID, req.WhenBusy, req.AnswerSchema = s.MessageID, memory.WhenBusy(s.WhenBusy), schema
	tails, err := c.TailTree(ctx, chat.ThreadOf(req))
	if err != nil {
		return err
	}
	sent, err := c.Send(ctx, req)
	if err != nil {
		return err
	}
	if s.Session == "" && req.ThreadID == "" && !a.JSON && cfg.Store != memoryStore {
		a.Progress("session %s; go on with: %s send -s %s TEXT", sent.SessionID, a.Name, sent.SessionID)
	}
	return s.await(ctx, a, c, sent, tails)
}

// withImages is a message of a text and images. They are kept where the message
// goes, by their content, so that it means the same for ever and everywhere.
func withImages(ctx context.Context, c chat.Conversations, text string, files []string) (agent.Content, error) {
	if len(files) == 0 {
		return agent.Text(text), nil
	}
	content := agent.Content{Parts: []agent.Part{{Type: "text", Text: text}}}
	if len(files) > agent.MaxImages {
		return content, agent.Errorf(agent.CodeInvalid, "--image was given %d times, at most %d images are possible: send the others with another message", len(files), agent.MaxImages)
	}
	for _, file := range files {
		data, err := readImage(file)
		if err != nil {
			return content, err
		}
		name, err := c.KeepImage(ctx, data)
		if err != nil {
			return content, agent.Wrap(err, agent.CodeOf(err), "--image %s", file)
		}
		content.Parts = append(content.Parts, agent.Part{Type: "image_url", ImageURL: &agent.ImageURL{URL: agent.ImageScheme + name}})
	}
	return content, nil
}

func readImage(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, agent.Wrap(err, agent.CodeInvalid, "--image")
	case !info.Mode().IsRegular() || info.Size() > agent.MaxImage:
		return nil, agent.Errorf(agent.CodeInvalid, "--image %s: it must be a file of at most %d MB", file, agent.MaxImage>>20)
	}
	data, err := os.ReadFile(file)
	return data, agent.Wrap(err, agent.CodeInvalid, "--image")
}

// warnOfAgent says that an agent is not known here. The worker decides: its
// templates may be others.
func (a *app) warnOfAgent(cfg config.Config, name string) {
	if name == "" || cfg.Server != "" { // the server knows others
		return
	}
	catalog, _ := template.Load(boot.Folders(cfg)) // agents prints the warnings
	if _, ok := catalog.Get(name); !ok {
		a.Progress("warning: there is no agent %s here (%s agents lists them); the worker decides, and if it knows none either, the turn fails", name, a.Name)
	}
}

// warnOfWorkers says what a sender does not expect: tools that work in another folder,
// and workers of which one answers so and another one otherwise.
func (a *app) warnOfWorkers(ctx context.Context, c chat.Conversations, cfg config.Config, dir string) {
	client, ok := c.(*spool.Client)
	if !ok || a.Alone {
		return
	}
	if cfg.Dev != nil && cfg.Dev.Workspace != "" && cfg.Dev.Temporal == cfg.Temporal.HostPort && !within(cfg.Dev.Workspace, dir) {
		a.Progress("tools work in %s, where dev was started, not in this folder", terminal.Visible(cfg.Dev.Workspace))
	}
	workers, _ := client.Heard(ctx)
	if differ := boot.Differ(boot.Kinds(workers)); differ != "" {
		a.Progress("warning: %s (%s doctor)", terminal.Clean(differ), a.Name)
	}
}

// within reports whether dir lies in a workspace, as workers see it.
func within(workspace, dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	root, rootErr := filepath.EvalSymlinks(workspace)
	rel, relErr := filepath.Rel(root, real)
	return err == nil && rootErr == nil && relErr == nil && filepath.IsLocal(rel)
}

type chatCmd struct {
	target
	Plain bool `help:"Lines as they come, without colours and drawing: for screen readers and logs. So it is without a terminal and with TERM=dumb."`
}

// Run talks until the person leaves.
func (k *chatCmd) Run(ctx context.Context, a *app) error {
	if a.JSON {
		return exit.Misuse("chat is for people and has no --json: use send --json")
	}
	if err := a.useDemo(k.DemoModel); err != nil {
		return err
	}
	c, cfg, err := a.servingThreads(ctx)
	if err != nil {
		return err
	}
	req, err := k.request(ctx, c, cfg)
	if err != nil {
		return err
	}
	if !c.Connected() {
		a.Progress("Temporal cannot be reached; messages are stored and run when it is back (%s dev starts a local one)", a.Name)
	}
	a.warnOfAgent(cfg, req.Agent)
	a.warnOfWorkers(ctx, c, cfg, req.Workdir)
	if k.Plain || !a.live || a.Forms == nil {
		a.Forms = nil
		return chat.Run(ctx, a.Person, c, req)
	}
	return a.draw(ctx, c, cfg, req)
}

func (a *app) draw(ctx context.Context, c chat.Conversations, cfg config.Config, req memory.SendRequest) error {
	o := screen.Options{C: c, Request: req, Name: a.Name, In: a.stdin, Out: a.stdout, Env: a.env, Plain: a.lookup("NO_COLOR") != "", Folder: req.Workdir, Notes: []string{screen.Banner}}
	if cfg.Store != memoryStore { // which leaves nothing on disk
		o.Home = cfg.Home
	}
	o.Agents = func() []string {
		catalog, _ := template.Load(boot.Folders(cfg)) // agents prints the warnings
		return catalog.Names()
	}
	o.Models = func() []string { return append([]string{cfg.Model}, cfg.FallbackModels...) }
	o.Starter = func(ctx context.Context, width int, args ...string) string {
		var said strings.Builder
		inside := newApp(a.env, strings.NewReader(""), &said, &said)
		inside.Name, inside.Width, inside.opened, inside.base = a.Name, width, c, a.flags
		inside.run(ctx, args)
		return said.String()
	}
	thread, err := screen.Run(ctx, o)
	if thread != "" {
		a.Progress("go on with: %s chat -t %s", a.Name, thread)
	}
	return err
}
