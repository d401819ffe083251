package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// deskPatience bounds waits for what is bound to come; only a failure reaches it.
const deskPatience = time.Minute

// Desk is a person at a terminal: a pseudo-terminal with a program on one side and a
// terminal emulator on the other, whose screen is looked at.
type Desk struct {
	t      testing.TB
	master *os.File
	screen *vt.SafeEmulator
	cols   int
	rows   int
	ended  chan struct{}
	cmd    *exec.Cmd
}

// Run runs a command at a terminal of a size.
func Run(t testing.TB, cmd *exec.Cmd, cols, rows int) *Desk {
	t.Helper()
	return RunAs(t, cmd, cols, rows, "xterm-256color")
}

// RunAs runs a command at a terminal that says that it is of a kind.
func RunAs(t testing.TB, cmd *exec.Cmd, cols, rows int, term string) *Desk {
	t.Helper()
	cmd.Env = append(cmd.Env, "TERM="+term)
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)})
	require.NoError(t, err)
	d := &Desk{t: t, master: master, screen: vt.NewSafeEmulator(cols, rows), cols: cols, rows: rows, cmd: cmd, ended: make(chan struct{})}
	go func() { _, _ = io.Copy(master, d.screen) }() // what a terminal answers to queries
	go func() { _, _ = io.Copy(d.screen, master) }()
	go func() { _ = cmd.Wait(); close(d.ended) }() // ProcessState says how
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = master.Close()
		if t.Failed() {
			t.Logf("the terminal shows\n%s", d.All())
		}
	})
	return d
}

// Types types keys.
func (d *Desk) Types(keys string) {
	d.t.Helper()
	_, err := io.WriteString(d.master, keys)
	require.NoError(d.t, err)
}

// Keys that are more than a character.
const (
	Enter       = "\r"
	AltEnter    = "\x1b\r"
	CtrlC       = "\x03"
	CtrlD       = "\x04"
	CtrlJ       = "\n"
	CtrlS       = "\x13"
	CtrlU       = "\x15"
	CtrlW       = "\x17"
	CtrlA       = "\x01"
	CtrlE       = "\x05"
	Backspace   = "\x7f"
	Tab         = "\t"
	Esc         = "\x1b"
	Up          = "\x1b[A"
	Down        = "\x1b[B"
	Left        = "\x1b[D"
	Home        = "\x1b[H"
	PasteBegins = "\x1b[200~"
	PasteEnds   = "\x1b[201~"
)

// Pastes pastes a text, as terminals bracket it.
func (d *Desk) Pastes(text string) {
	d.t.Helper()
	d.Types(PasteBegins + text + PasteEnds)
}

// Resize changes the size of the terminal.
func (d *Desk) Resize(cols, rows int) {
	d.t.Helper()
	d.cols, d.rows = cols, rows
	d.screen.Resize(cols, rows)
	require.NoError(d.t, pty.Setsize(d.master, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}))
}

// Lines are the rows of the screen, as they stand there now.
func (d *Desk) Lines() []string {
	lines := make([]string, d.rows)
	for y := range lines {
		var b strings.Builder
		for x := 0; x < d.cols; {
			c := d.screen.CellAt(x, y)
			if c == nil || c.Width < 1 || c.Content == "" {
				b.WriteByte(' ')
				x++
				continue
			}
			b.WriteString(c.Content)
			x += c.Width
		}
		lines[y] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// All is what has been scrolled out of the screen, and the screen.
func (d *Desk) All() string {
	var b strings.Builder
	for _, line := range d.screen.Scrollback().Lines() {
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String() + strings.Join(d.Lines(), "\n")
}

// Until waits until something holds of the lines of the screen.
func (d *Desk) Until(what string, holds func(lines []string) bool) {
	d.t.Helper()
	end := time.Now().Add(deskPatience)
	for !holds(d.Lines()) {
		if time.Now().After(end) {
			d.t.Fatalf("%s: never seen; the terminal shows\n%s", what, d.All())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Sees waits until a text stands on the screen, within a line.
func (d *Desk) Sees(text string) {
	d.t.Helper()
	d.Until(text, func(lines []string) bool { return strings.Contains(strings.Join(lines, "\n"), text) })
}

// Loses waits until a text stands on the screen no more.
func (d *Desk) Loses(text string) {
	d.t.Helper()
	d.Until("no "+text, func(lines []string) bool { return !strings.Contains(strings.Join(lines, "\n"), text) })
}

// SeesLine waits until a line of the screen is exactly this.
func (d *Desk) SeesLine(line string) {
	d.t.Helper()
	d.Until(line, func(lines []string) bool {
		for _, l := range lines {
			if l == line {
				return true
			}
		}
		return false
	})
}

// Ordered waits until texts stand one behind the other in all that was shown.
func (d *Desk) Ordered(texts ...string) {
	d.t.Helper()
	d.Until(strings.Join(texts, ", then "), func([]string) bool {
		rest := d.All()
		for _, text := range texts {
			at := strings.Index(rest, text)
			if at < 0 {
				return false
			}
			rest = rest[at+len(text):]
		}
		return true
	})
}

// Painted reports whether a text stands on the screen in a colour of its own; what is
// before it in its line is one column wide each.
func (d *Desk) Painted(text string) bool {
	for y, line := range d.Lines() {
		if x := strings.Index(line, text); x >= 0 {
			c := d.screen.CellAt(len([]rune(line[:x])), y)
			if c != nil && c.Style.Fg != nil {
				return true
			}
		}
	}
	return false
}

// Cursor is where the cursor stands, and the line before it.
func (d *Desk) Cursor() (x, y int, line string) {
	at := d.screen.CursorPosition()
	return at.X, at.Y, d.Lines()[at.Y]
}

// Kill kills the program as kill -9 does.
func (d *Desk) Kill() {
	d.t.Helper()
	require.NoError(d.t, d.cmd.Process.Kill())
	<-d.ended
}

// Ends waits for the program's end, and checks its exit code.
func (d *Desk) Ends(code int) {
	d.t.Helper()
	select {
	case <-d.ended:
		require.Equal(d.t, code, d.cmd.ProcessState.ExitCode(), "the terminal shows\n%s", d.All())
	case <-time.After(deskPatience):
		d.t.Fatalf("it does not end; the terminal shows\n%s", d.All())
	}
}
