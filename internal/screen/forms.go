package screen

import (
	"context"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// Forms put to a person what waits for them, one at a time, at a terminal where nothing
// else is drawn: for send and for trust.
type Forms struct {
	In    io.Reader
	Out   io.Writer
	Env   []string
	Plain bool
}

// Approval puts an approval.
func (f Forms) Approval(ctx context.Context, a spool.ApprovalRequest) (d memory.Decision, err error) {
	t, err := f.put(ctx, newApproval(a))
	if err == nil {
		d = *t.decision
	}
	return d, err
}

// Question puts a question.
func (f Forms) Question(ctx context.Context, q spool.QuestionRequest) (string, error) {
	t, err := f.put(ctx, newQuestion(q))
	return t.answer, err
}

// Confirm asks for yes or no.
func (f Forms) Confirm(ctx context.Context) (bool, error) {
	t, err := f.put(ctx, &form{choices: []choice{{key: "y", text: "yes"}, {key: "n", text: "no"}}, at: 1, safe: 1, quiet: time.Now()})
	return t.answer == "y", err
}

// put runs a form until it is answered.
func (f Forms) put(ctx context.Context, one *form) (taken, error) {
	m := &alone{form: one, look: look{plain: f.Plain}, width: 80}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(f.In), tea.WithOutput(f.Out), tea.WithEnvironment(f.Env), tea.WithoutSignalHandler()}
	if f.Plain {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	_, err := tea.NewProgram(m, options...).Run()
	switch {
	case ctx.Err() != nil:
		return taken{}, ctx.Err()
	case err != nil:
		return taken{}, err
	case m.taken.decision == nil && m.taken.answer == "":
		return taken{}, terminal.ErrLeft
	}
	return m.taken, nil
}

// alone is a form with nothing around it.
type alone struct {
	form  *form
	look  look
	width int
	taken taken
	done  bool
}

func (m *alone) Init() tea.Cmd { return m.beat() }

func (m *alone) beat() tea.Cmd {
	return tea.Tick(50*time.Millisecond, func(time.Time) tea.Msg { return tick{} })
}

func (m *alone) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width = msg.Width
	case tick:
		m.form.focused = m.form.focused || time.Since(m.form.quiet) > settle
		return m, m.beat()
	case tea.PasteMsg:
		if m.form.focused {
			m.form.paste(pasted(msg.Content))
		}
	case tea.KeyPressMsg:
		if k := msg.String(); k == "ctrl+c" || k == "ctrl+d" {
			m.done = true
			return m, tea.Quit
		}
		t, ok := m.form.key(msg)
		if !ok {
			m.form.quiet = time.Now()
		}
		if t.done {
			m.taken, m.done = t, true
			return m, tea.Quit
		}
	}
	return m, nil
}

func (m *alone) View() tea.View {
	if m.done {
		return tea.NewView("")
	}
	lines, cursor := m.form.view(m.look, m.width)
	v := tea.NewView(strings.Join(lines, "\n"))
	if cursor != nil && m.form.focused {
		cursor.X += 2
		v.Cursor = cursor
	}
	return v
}
