package screen

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// commandWord is what may be a command; /usr/bin/ls is none.
var commandWord = regexp.MustCompile(`^/[A-Za-z]*$`)

func first(text string) string {
	word, _, _ := strings.Cut(strings.TrimRight(text, " \n"), " ")
	return word
}

type command struct {
	name, args, help string
	run              func(m *model, arg string) tea.Cmd
}

func commands() []command {
	return []command{
		{"/help", "", "this text", (*model).help},
		{"/new", "", "begin a new session", (*model).begin},
		{"/sessions", "[N|ID]", "list conversations; with a number or an id, go there", (*model).sessions},
		{"/model", "[NAME]", "the model that answers from the next message on", (*model).chooseModel},
		{"/agent", "[NAME]", "the agent that answers from the next message on", (*model).chooseAgent},
		{"/agents", "", "who there is", other("agents", false)},
		{"/tasks", "", "work that was handed out", other("tasks", true)},
		{"/trace", "", "the tree of sub-agents", other("trace", true)},
		{"/cost", "", "what this conversation has used", (*model).costs},
		{"/asks", "", "put open approvals and questions again", (*model).askAgain},
		{"/allowed", "[revoke N]", "what was allowed for this session; take number N back", (*model).allowed},
		{"/fork", "[N]", "go on in a copy, up to message N", (*model).fork},
		{"/retry", "", "run the last turn again", (*model).retry},
		{"/export", "[DIR]", "write the session as files", (*model).export},
		{"/quit", "", "leave; so does Ctrl-D", func(m *model, _ string) tea.Cmd { return m.leave() }},
	}
}

func (m *model) obey(text string) tea.Cmd {
	name := strings.ToLower(first(text))
	if name == "/exit" {
		name = "/quit"
	}
	arg := strings.TrimSpace(text[len(first(text)):])
	m.print(m.look.dim("> " + terminal.Visible(text)))
	for _, c := range commands() {
		if c.name == name && arg != "" && c.args == "" && name != "/help" {
			m.print(name + " takes nothing behind it, and nothing was done; the arrow up brings it back")
			return nil
		}
		if c.name == name {
			return c.run(m, arg)
		}
	}
	m.print(terminal.Visible(name) + " is no command of chat, and nothing was sent; /help lists them. A message that begins with / needs a blank before it")
	return nil
}

func (m *model) help(string) tea.Cmd {
	for _, c := range commands() {
		m.print(fmt.Sprintf("  %-20s %s", c.name+" "+c.args, c.help))
	}
	m.print("  All else is sent. Enter sends; Alt-Enter or Ctrl-J begins a line. Tab completes commands and @files. ↑ ↓ bring back what was typed.",
		"  While a turn runs, Enter queues a message behind it and Ctrl-S steers it into the turn.",
		"  "+Banner)
	return nil
}

// Banner says how to leave.
const Banner = "Ctrl-C: cancel the turn. Ctrl-C twice: quit; the turn goes on. Help: /help"

// other runs a command of the program about the conversation.
func other(name string, thread bool) func(*model, string) tea.Cmd {
	return func(m *model, _ string) tea.Cmd {
		args := []string{name}
		if thread {
			args = append(args, m.thread)
		}
		return m.starter(args...)
	}
}

func (m *model) starter(args ...string) tea.Cmd {
	width := m.width
	return func() tea.Msg { return told{m.o.Starter(m.ctx, width, args...)} }
}

func (m *model) begin(string) tea.Cmd {
	return func() tea.Msg { return moved{session: spool.NewID(), note: "a new session"} }
}

func (m *model) move(to moved) tea.Cmd {
	if m.fail(to.err) {
		return nil
	}
	m.req.ThreadID, m.req.SessionID, m.req.ConversationID = to.thread, to.session, ""
	m.sent = nil
	cmd := m.load()
	m.print("", m.look.bold("── "+m.thread+" ")+m.look.dim(to.note))
	return cmd
}

const listed = 20

func (m *model) sessions(arg string) tea.Cmd {
	width := m.width
	return func() tea.Msg {
		list, _, err := m.o.C.ThreadPage(m.ctx, memory.ThreadFilter{}, "", listed)
		if err != nil {
			return moved{err: err}
		}
		if n, err := strconv.Atoi(arg); err == nil && n > 0 && n <= len(list) {
			return moved{thread: list[n-1].ID}
		}
		if arg != "" {
			return m.found(arg)
		}
		return told{printer.ThreadList(list, width) + "\n/sessions N goes there"}
	}
}

// found opens the conversation that an id, or its beginning, names.
func (m *model) found(id string) tea.Msg {
	id, err := chat.Find(m.ctx, m.o.C, id)
	if err == nil {
		_, err = m.o.C.Show(m.ctx, id, false)
	}
	return moved{thread: id, err: err}
}

func (m *model) chooseModel(name string) tea.Cmd {
	if name != "" {
		m.req.Model = name
		m.print("  the model from the next message on: " + terminal.Visible(name))
		return nil
	}
	now := m.known.Config.Model
	if now == "" {
		now = "the worker's default"
	}
	m.print("  model: "+terminal.Visible(now), "  /model NAME changes it; known here: "+strings.Join(m.o.Models(), ", "))
	return nil
}

func (m *model) chooseAgent(name string) tea.Cmd {
	switch known := m.o.Agents(); {
	case name == "":
		now := m.known.Config.Name
		if now == "" {
			now = "the worker's default"
		}
		m.print("  agent: "+terminal.Visible(now), "  /agent NAME changes it; known here: "+strings.Join(known, ", "))
	case agent.CheckAgentType(name) != nil:
		m.print(m.look.bad("✗ " + terminal.Visible(name) + " is no name of an agent"))
	default:
		if m.req.Agent = name; len(known) > 0 && !slices.Contains(known, name) {
			m.print(m.look.ask("! there is no agent " + name + " here; the worker decides"))
		}
		m.print("  the agent from the next message on: " + name)
	}
	return nil
}

func (m *model) costs(string) tea.Cmd {
	thread := m.thread
	return func() tea.Msg {
		n, err := m.o.C.Trace(m.ctx, thread)
		if err != nil {
			return moved{err: err}
		}
		return told{fmt.Sprintf("  %s: %s, %d model requests, %d tool calls", printer.Short(thread), printer.Cost(n.DurationMs, n.Tokens, n.Price), n.Thread.RequestCount, n.Thread.ToolCallCount)}
	}
}

func (m *model) askAgain(string) tea.Cmd {
	m.left = map[string]bool{}
	m.form, m.asks = nil, nil
	return m.check()
}

// allowed lists what was allowed for the session, and takes one of it back.
func (m *model) allowed(arg string) tea.Cmd {
	return func() tea.Msg {
		text, err := chat.Allowed(m.ctx, m.o.C, m.thread, arg)
		if err != nil {
			return moved{err: err}
		}
		return told{text}
	}
}

func (m *model) fork(arg string) tea.Cmd {
	thread := m.thread
	return func() tea.Msg {
		at, err := chat.MessageID(m.ctx, m.o.C, thread, arg)
		if err != nil {
			return moved{err: err}
		}
		f, err := m.o.C.Fork(m.ctx, spool.ForkRequest{ThreadID: thread, At: at})
		return moved{thread: f.ThreadID, note: "a copy of " + thread, err: err}
	}
}

func (m *model) retry(string) tea.Cmd {
	gen, thread := m.gen, m.thread
	return func() tea.Msg {
		_, err := m.o.C.Retry(m.ctx, thread, "")
		return retried{gen, err}
	}
}

func (m *model) export(dir string) tea.Cmd {
	args := []string{"sessions", "export", m.thread}
	if dir != "" {
		args = append(args, "--dir", dir)
	}
	return m.starter(args...)
}

// complete completes what stands before the cursor: a command, its argument, or a file.
func (m *model) complete() {
	word, before := m.input.word(), m.input.before()
	at := strings.LastIndex(" "+before, " @")
	var from []string
	switch line := m.input.Value(); {
	case at >= 0:
		word = before[at:] // names may have blanks
		from = m.files(word)
	case word == line && strings.HasPrefix(word, "/"):
		for _, c := range commands() {
			from = append(from, c.name)
		}
	case strings.HasPrefix(line, "/model "):
		from = m.o.Models()
	case strings.HasPrefix(line, "/agent "):
		from = m.o.Agents()
	}
	from = slices.DeleteFunc(slices.Clone(from), func(name string) bool { return !strings.HasPrefix(name, word) })
	m.input.names = nil
	if len(from) == 0 {
		return
	}
	same := from[0]
	for _, name := range from {
		for !strings.HasPrefix(name, same) {
			same = same[:len(same)-1]
		}
	}
	rest := strings.ToValidUTF8(same[len(word):], "")
	if len(from) == 1 && !strings.HasSuffix(rest, "/") {
		rest += " "
	}
	m.input.InsertString(rest)
	if len(from) > 1 {
		for _, name := range from {
			m.input.names = append(m.input.names, terminal.Visible(name))
		}
	}
}

// files are the files and folders that @ and a beginning may mean.
func (m *model) files(word string) (names []string) {
	if m.o.Folder == "" {
		return nil
	}
	dir, base := filepath.Split(strings.TrimPrefix(word, "@"))
	if !filepath.IsLocal(filepath.Join(".", dir)) {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(m.o.Folder, dir)) // a folder that cannot be read has no names
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(base, ".") || strings.Contains(e.Name(), "\n") {
			continue
		}
		name := "@" + dir + e.Name()
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	return names
}
