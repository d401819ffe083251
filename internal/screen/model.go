// Package screen is chat at a terminal: a conversation that is shown as it goes on, with
// a line to type into below it. There is one model; update.go changes it, view.go shows it.
// What is finished is printed above and belongs to the terminal, so that it can be
// scrolled, searched and copied; only what still changes is drawn.
package screen

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/memory"
)

// Options are what chat at a terminal needs.
type Options struct {
	C chat.Conversations
	// Request says to which conversation messages go, with which agent and model.
	Request memory.SendRequest
	// Name is the program, as a person types it.
	Name string
	In   io.Reader
	Out  io.Writer
	Env  []string
	// Plain paints nothing: NO_COLOR.
	Plain bool
	// Home keeps what was typed, "" = nothing is kept.
	Home string
	// Folder is the one whose files @ completes, "" = none can be seen from here.
	Folder string
	// Agents and Models are names to choose from.
	Agents, Models func() []string
	// Starter runs another command of the program, for a terminal of a width, and returns
	// what it printed.
	Starter func(ctx context.Context, width int, args ...string) string
	// Notes are printed first.
	Notes []string
}

type model struct {
	o    Options
	ctx  context.Context
	send func(tea.Msg) // for what is followed
	look look

	width, height int
	input         input
	hint          string // said below the line until the next key

	out      []string // finished lines that are not printed yet
	printing bool
	leaving  bool // quit once all is printed

	// The conversation. Gen counts those that were opened: what an earlier one still
	// tells is not heard.
	gen    int
	req    memory.SendRequest
	thread string
	known  agent.Thread // as it was read last
	stop   context.CancelFunc
	cursor map[string]string // by thread, where to go on
	live   *printer.Live
	said   map[string]string // messages and answers that were printed

	sent    []sent // messages that no turn has taken
	turn    turn
	form    *form
	asks    []*form         // behind form
	checked int             // how often they were read
	left    map[string]bool // asks that a person left open, or answered
	typed   time.Time       // when the last key was pressed

	interrupted time.Time // when Ctrl-C was pressed first
	cost        agent.Usage
	code        int // of the program, as send's for the last message
}

type sent struct {
	id, turnID, text, state string
}

// turn is the open turn as far as it was seen.
type turn struct {
	id      string
	began   time.Time
	model   string
	tools   []running
	message string // being streamed
	attempt int
	text    string
	wait    *agent.ModelWait
	note    string // why nobody works on it
	usage   agent.Usage
	agents  []*helper
}

type running struct{ id, text string }

// helper is a sub-agent in the tree of the turn.
type helper struct {
	id, name     string
	depth        int
	began, ended time.Time
	doing        string
	failed       bool
	tokens       int64
}

func (m *model) open() bool { return m.turn.id != "" }

// busy reports whether something is shown that changes by itself.
func (m *model) busy() bool {
	if m.open() || len(m.sent) > 0 {
		return true
	}
	for _, h := range m.turn.agents {
		if h.ended.IsZero() {
			return true
		}
	}
	return false
}

// Messages to the model, each with the generation it is about.
type (
	opened struct {
		gen   int
		tails map[string]string
		view  spool.View
		err   error
	}
	update struct {
		gen int
		u   spool.Update
	}
	followed struct {
		gen int
		err error
	}
	stored struct {
		gen   int
		id    string
		reply spool.Reply
		err   error
	}
	reported struct {
		gen   int
		reply spool.Reply
		used  []agent.Thread // the conversation
		err   error
	}
	openAsks struct {
		n         int
		approvals []spool.ApprovalRequest
		questions []spool.QuestionRequest
		err       error
	}
	served struct {
		gen  int
		note string
	}
	settled struct {
		gen  int
		id   string
		note string
		err  error
	}
	told  struct{ text string }
	moved struct {
		thread, session string
		note            string
		err             error
	}
	retried struct {
		gen int
		err error
	}
	printed struct{}
	tick    struct{}
)

// Run talks until the person leaves. Its error has the exit code that send would have
// for the last message. bye is how to go on, once a message was sent.
func Run(ctx context.Context, o Options) (thread string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &model{o: o, ctx: ctx, look: look{plain: o.Plain}, req: o.Request}
	m.input = input{Model: newText(), past: openHistory(o.Home), pastes: map[string]string{}}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Env), tea.WithoutSignalHandler()}
	if o.Plain {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	p := tea.NewProgram(m, options...)
	m.send = p.Send
	_, err = p.Run()
	if thread = m.thread; m.stop == nil { // it was never there
		thread = ""
	}
	m.input.clear() // what was typed is in the history, however it ended
	switch {
	case ctx.Err() != nil || errors.Is(err, tea.ErrProgramKilled):
		return thread, exit.With(exit.Interrupted)
	case err != nil:
		return thread, err
	}
	return thread, exit.With(m.code)
}
