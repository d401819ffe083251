package screen

import (
	"context"
	"errors"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/spool-agents/spool/internal/exit"
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
	m.input.clear() // what was typed is in the history, however it ended
	switch {
	case ctx.Err() != nil || errors.Is(err, tea.ErrProgramKilled):
		return m.thread, exit.With(exit.Interrupted)
	case err != nil:
		return m.thread, err
	}
	return m.thread, exit.With(m.code)
}
