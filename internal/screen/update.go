package screen

import (
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// twice is how soon a second Ctrl-C leaves the turn alone. Only then the first one
// cancels it.
const twice = 800 * time.Millisecond

// Init begins. The conversation is opened once the size of the terminal is known.
func (m *model) Init() tea.Cmd {
	m.print(m.o.Notes...)
	return m.beat()
}

// beat wakes the model while something moves.
func (m *model) beat() tea.Cmd {
	return tea.Tick(120*time.Millisecond, func(time.Time) tea.Msg { return tick{} })
}

// Update takes a message. What is finished is printed in order, whatever it was.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.take(msg)
	return m, tea.Batch(cmd, m.flush())
}

func (m *model) take(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(8, msg.Width-1), msg.Height // what is printed in the last column is erased with the rest of its line
		m.input.MaxHeight = max(1, min(10, m.height/3))
		m.input.SetWidth(m.width - 2)
		if m.gen == 0 {
			return m.load()
		}
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		m.paste(msg.Content)
	case printed:
		m.printing = false
	case tick:
		return m.ticked()
	case told:
		m.print(strings.Split(strings.TrimRight(terminal.Clean(msg.text), "\n"), "\n")...)
	case moved:
		return m.move(msg)
	default:
		return m.conversation(msg)
	}
	return nil
}

// ticked looks at what time alone changes.
func (m *model) ticked() tea.Cmd {
	cmds := []tea.Cmd{m.beat()}
	if m.width == 0 { // a terminal that does not tell its size
		cmds = append(cmds, m.take(tea.WindowSizeMsg{Width: 80, Height: 24}))
	}
	now := time.Now()
	if m.form != nil && !m.form.focused && m.input.Value() == "" && now.Sub(m.form.quiet) > settle && now.Sub(m.typed) > settle {
		m.form.focused = true
	}
	if !m.interrupted.IsZero() && now.Sub(m.interrupted) > twice {
		m.interrupted = time.Time{}
		if m.hint = ""; m.open() {
			m.hint = "the turn is being cancelled"
			cmds = append(cmds, m.cancel())
		}
	}
	return tea.Batch(cmds...)
}

// conversation takes what the conversation tells, unless another one is open now.
func (m *model) conversation(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case opened:
		if msg.gen == m.gen {
			return m.show(msg)
		}
	case update:
		if msg.gen == m.gen {
			return m.happened(msg.u)
		}
	case followed:
		if msg.gen == m.gen && m.ctx.Err() == nil {
			return m.again(msg.err)
		}
	case stored:
		return m.wasStored(msg)
	case retried:
		if msg.gen == m.gen {
			m.fail(msg.err)
			return m.check()
		}
	case reported:
		m.report(msg)
	case openAsks:
		if msg.n == m.checked {
			m.ask(msg)
		}
	case served:
		if msg.gen == m.gen {
			m.turn.note = msg.note
			return tea.Tick(2*time.Second, func(time.Time) tea.Msg { return checkAgain{msg.gen} })
		}
	case lookAgain:
		if msg.gen == m.gen && m.stop == nil && len(m.sent) == 0 {
			return m.load()
		}
	case checkAgain:
		if msg.gen == m.gen && m.busy() {
			return m.serving()
		}
	case settled:
		if msg.gen == m.gen {
			return m.wasSettled(msg)
		}
	}
	return nil
}

func (m *model) key(msg tea.KeyPressMsg) tea.Cmd {
	k := msg.String()
	defer func() { m.typed = time.Now() }()
	if k == "ctrl+c" {
		return m.interrupt()
	}
	m.hint = ""
	if m.form != nil {
		if t, ok := m.form.key(msg); ok {
			return m.answered(t)
		}
		if k == "tab" && !strings.HasPrefix(m.input.word(), "/") && !strings.HasPrefix(m.input.word(), "@") {
			m.form.focused = true
			return nil
		}
	}
	switch {
	case k == "ctrl+d" && m.input.Value() == "":
		return m.leave()
	case k == "enter":
		return m.enter(memory.Queue)
	case k == "ctrl+s":
		return m.enter(memory.Steer)
	case k == "tab":
		m.complete()
		return nil
	case k == "up" && m.input.Line() == 0 && m.input.LineInfo().RowOffset == 0:
		m.input.recall(-1)
		return nil
	case k == "down" && m.input.Line() == m.input.LineCount()-1 && m.input.LineInfo().RowOffset >= m.input.LineInfo().Height-1:
		m.input.recall(1)
		return nil
	}
	m.input.names = nil
	next, cmd := m.input.Update(msg)
	*m.input.Model = next
	return cmd
}

func (m *model) paste(text string) {
	if m.form != nil && m.form.focused {
		m.form.paste(pasted(text))
		return
	}
	m.typed = time.Now()
	m.input.paste(text)
}

// enter sends what was typed, or obeys it.
func (m *model) enter(how memory.WhenBusy) tea.Cmd {
	text := m.input.said()
	if text == "" {
		return nil
	}
	command := !m.input.pasted && commandWord.MatchString(first(m.input.Value()))
	if command && !strings.HasPrefix(m.input.Value(), " ") {
		m.input.clear()
		return m.obey(text)
	}
	m.input.clear()
	return m.post(text, how)
}

// interrupt cancels the turn; a second one leaves it to itself. Typed text stays.
func (m *model) interrupt() tea.Cmd {
	second := !m.interrupted.IsZero()
	switch {
	case second:
		return m.leave()
	case m.open():
		m.interrupted = time.Now()
		m.hint = "cancelling the turn. Ctrl-C again: quit; the turn goes on"
	case m.input.Value() != "":
		m.input.clear()
		m.hint = "cleared; the arrow up brings it back"
	default:
		m.interrupted = time.Now()
		m.hint = "Ctrl-C again, or Ctrl-D: quit"
	}
	return nil
}

// leave ends the chat as soon as all is printed.
func (m *model) leave() tea.Cmd {
	if m.input.Value() != "" {
		m.input.clear() // into the history
	}
	switch {
	case m.form != nil || len(m.asks) > 0:
		m.code = exit.Waiting
	case m.open():
		m.code = exit.Interrupted
	}
	for _, s := range m.sent {
		m.print(m.ownText(s.text), m.look.dim("  "+s.state))
	}
	m.sent, m.leaving = nil, true
	return nil
}

func (m *model) print(lines ...string) { m.out = append(m.out, lines...) }

// flush prints what is finished, one piece after the other: the next one waits until
// this one is there.
func (m *model) flush() tea.Cmd {
	switch {
	case m.printing || m.width == 0:
		return nil
	case len(m.out) == 0 && m.leaving:
		return tea.Quit
	case len(m.out) == 0:
		return nil
	}
	const most = 200 // lines at a time
	n := min(most, len(m.out))
	text := wrapped(strings.Join(m.out[:n], "\n"), m.width)
	m.out, m.printing = m.out[n:], true
	return tea.Sequence(tea.Println(text), func() tea.Msg { return printed{} })
}

// fail says what went wrong, if anything did.
func (m *model) fail(err error) bool {
	if err == nil {
		return false
	}
	text := terminal.Clean(agent.MaskPasswords(err.Error()))
	var p *spool.PendingError
	if errors.As(err, &p) {
		text = fmt.Sprintf("%s", p)
	}
	m.print(m.look.bad("✗ " + terminal.Clean(text)))
	m.code = exit.Code(err)
	return true
}
