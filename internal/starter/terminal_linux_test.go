package starter

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/memory"
)

// desk is a person at a pseudo-terminal that runs one command in process.
type desk struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	code   chan int
	mu     sync.Mutex
	screen strings.Builder
	seen   int
}

// sit opens a terminal; what is typed before start waits in it.
func sit(t *testing.T) *desk {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	d := &desk{t: t, master: master, slave: slave, code: make(chan int, 1)}
	t.Cleanup(func() { _ = slave.Close(); _ = master.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			d.mu.Lock()
			d.screen.Write(buf[:n])
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return d
}

func (d *desk) start(b *bench, args ...string) {
	go func() { d.code <- Run(d.t.Context(), args, b.env(), d.slave, d.slave, d.slave) }()
}

// draws is start at a terminal that is drawn at.
func (d *desk) draws(b *bench, args ...string) {
	go func() {
		d.code <- Run(d.t.Context(), args, append(b.env(), "TERM=xterm-256color"), d.slave, d.slave, d.slave)
	}()
}

// Terminals bracket what is pasted.
const pasteBegins, pasteEnds = "\x1b[200~", "\x1b[201~"

// patience bounds waits for what is bound to come; only a failure reaches it.
const patience = time.Minute

func (d *desk) types(s string) {
	_, err := io.WriteString(d.master, s)
	require.NoError(d.t, err)
}

func (d *desk) shows() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.screen.String()
}

// sees waits until something new on the screen contains want.
func (d *desk) sees(want string) {
	d.t.Helper()
	assert.Eventually(d.t, func() bool {
		i := strings.Index(d.shows()[d.seen:], want)
		if i >= 0 {
			d.seen += i + len(want)
		}
		return i >= 0
	}, patience, 5*time.Millisecond, "%q on the screen", want)
	if d.t.Failed() {
		d.t.Fatalf("the screen shows %q", d.shows())
	}
}

func (d *desk) ends(code int) {
	d.t.Helper()
	select {
	case got := <-d.code:
		require.Equal(d.t, code, got, "the screen shows %q", d.shows())
	case <-time.After(patience):
		d.t.Fatalf("it does not end; the screen shows %q", d.shows())
	}
}

func decision(b *bench, id string) string {
	list, err := b.store.Approvals(b.t.Context(), memory.ApprovalFilter{UserID: owner})
	require.NoError(b.t, err)
	for _, a := range list {
		if a.ID == id {
			return a.Decision
		}
	}
	b.t.Fatalf("no approval %s", id)
	return ""
}

const anyAnswer = "still does): "

// What was typed or pasted before a question stood there is no answer to it.
func TestOnlyWhatIsTypedAfterAQuestionAnswersIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ap, turn := b.asking("s1")
	d := sit(t)
	d.types("y\n" + pasteBegins + "always\ny") // the paste has not ended yet
	d.draws(b, "send", "--wait", "-s", "s1", "--message-id", "m1", "write")
	d.sees("orchestrator wants to run:")
	d.sees(`1. shell`)
	d.sees(`command: \x1b[2Jrm`)
	d.sees("then Enter")
	d.types(pasteEnds + "\r" + pasteBegins + "y" + pasteEnds)
	d.sees("a paste is no answer")
	d.types("\r")
	d.sees("choose first")
	d.types("q")
	d.sees(`"q" is no answer`)
	d.types("\r")
	assert.Empty(t, decision(b, ap.ID), "still open")
	d.types("n\r")
	d.sees("the decision is saved")
	assert.Equal(t, memory.Deny, decision(b, ap.ID))
	b.round(turn, 1)
	b.finish(turn, 2, agent.ThreadCancelled)
	d.ends(exit.Failed)
	was, err := unix.IoctlGetTermios(int(d.slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	assert.NotZero(t, was.Lflag&unix.ECHO)
	assert.NotZero(t, was.Lflag&unix.ICANON)
}

func TestAnEditNamesItsCallAndIsShownAsOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ap, turn := b.asking("s1")
	d := sit(t)
	d.start(b, "send", "--wait", "-s", "s1", "--message-id", "m1", "write")
	for _, word := range []string{"like", "yes no", "always 1", "n 1", "l"} { // what is not offered
		d.sees(anyAnswer)
		d.types(word + "\r")
		d.sees(" is no ")
	}
	assert.Empty(t, decision(b, ap.ID), "still open")
	d.sees(anyAnswer)
	d.types("e\r")
	d.sees("which call, 1 to 2 (the others are denied")
	d.types("3\r")
	d.sees("3 is no call")
	d.sees(anyAnswer)
	d.types("e\r")
	d.sees("which call")
	d.types("2\r")
	d.sees("instead of running file_write")
	d.types("write it to q\r")
	d.sees("edited file_write")
	assert.Equal(t, memory.Edit, decision(b, ap.ID))
	b.round(turn, 1)
	b.finish(turn, 2, agent.ThreadCancelled)
	d.ends(exit.Failed)
	text := b.run("show", "s1/default").out
	assert.Contains(t, text, "edited            file_write")
	assert.Contains(t, text, "denied            shell")
	assert.Contains(t, text, "tool file_write edited\n  write it to q")
}

func TestYesToOneCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ap, turn := b.asking("s1")
	d := sit(t)
	d.start(b, "send", "--wait", "-s", "s1", "--message-id", "m1", "write")
	d.sees(anyAnswer)
	d.types("y 2\r")
	assert.Eventually(t, func() bool { return decision(b, ap.ID) == memory.Approve }, patience, 10*time.Millisecond)
	calls, err := b.store.ToolCalls(t.Context(), turn.ThreadID)
	require.NoError(t, err)
	assert.Equal(t, []agent.CallStatus{agent.CallDenied, agent.CallPending}, []agent.CallStatus{calls[0].Status, calls[1].Status})
	b.finish(turn, 1, agent.ThreadCancelled)
	d.ends(exit.Failed)
}

func TestChatAtATerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := sit(t)
	d.start(b, "chat", "-s", "s1")
	d.sees("Ctrl-C twice: quit; the turn goes on")
	d.sees("> ")
	d.types("/help\r")
	d.sees("/quit, /exit  leave")
	d.types("/model\r")
	d.sees("/model is no command of chat, and nothing was sent")
	d.types("last line enden\x7f\r")
	d.sees("saved, but not running")
	d.types("/usr/bin/ls is a path\r")
	d.sees("saved, but not running")
	d.types("\x04")
	d.sees("chat -s s1")
	d.ends(exit.Unavailable)
	inbox, err := b.store.Inbox(t.Context(), "s1/default")
	require.NoError(t, err)
	require.Len(t, inbox, 2)
	assert.Equal(t, "last line ende", inbox[0].Content.String())
	assert.Equal(t, "/usr/bin/ls is a path", inbox[1].Content.String())
}

// Without a terminal nobody can be asked: the rest of the input answers nothing.
func TestChatWithoutATerminalAnswersNothing(t *testing.T) {
	b := newBench(t)
	ap, _ := b.asking("s1")
	r := b.feed("what now?\ny\n", "chat", "-s", "s1")
	assert.Contains(t, r.errout, "waits for a decision on approval "+ap.ID)
	assert.Empty(t, decision(b, ap.ID))
}
