// Package supervise runs a command so that nothing of it outlives the caller,
// not even when the caller is killed with SIGKILL.
//
// The caller starts its own executable again under the name in Arg0. That copy,
// the supervisor, starts the command, holds the reading end of a pipe (the
// lifeline) whose only writing end is the caller's, and becomes the parent of
// every orphan among the command's descendants. The kernel closes the lifeline
// when the caller dies in any way, and then the supervisor kills all of them,
// those that left the process group with setsid or a double fork included (on
// Linux; elsewhere those of the process group). The same happens when the
// command ends, so a forgotten background process never holds a tool open.
//
// The supervisor runs below a second copy, the guard, which does nothing but wait for
// it: a command may kill its supervisor, and then the guard becomes the parent of the
// orphans and kills them. A supervisor that is stopped is killed by the guard, a guard that
// is stopped by the caller. The other way round, the caller's pipe ends with the guard.
// A command that kills both at the same moment gets away: nothing but a user of its own
// keeps a program from killing others of its user.
//
// The copies are taken over in this package's init, which Go runs before that of
// packages that import more, so it starts in a few milliseconds. The package
// must import little for that.
package supervise

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Arg0 is the name (argument zero) under which a process becomes a guard, and guarded
// that of its supervisor.
const (
	Arg0    = "spool-supervise"
	guarded = Arg0 + "-command"
)

// lifelineFD is the first of exec.Cmd.ExtraFiles.
const lifelineFD = 3

// statusCannotStart is what shells exit with when a command does not exist.
const statusCannotStart = 127

// giveUp is how long it is tried to kill what cannot be killed.
const giveUp = 3 * time.Second

func init() {
	if len(os.Args) != 1 {
		return
	}
	// syscall.Exit runs no exit hooks, which may print (coverage builds).
	switch os.Args[0] {
	case Arg0:
		syscall.Exit(guard())
	case guarded:
		syscall.Exit(supervise(receive()))
	}
}

// Send tells a supervisor that was started what to run. It comes by the lifeline, not
// as arguments, so that a command that kills whatever has a text in its arguments does
// not hit its own supervisor. That the supervisor died is for its exit to say.
func Send(lifeline *os.File, command ...string) {
	text := strings.Join(command, "\x00")
	n := len(text)
	_, _ = lifeline.Write(append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, text...))
}

// receive returns what Send sent; nothing if the caller died before.
func receive() []string {
	var size [4]byte
	if !readLifeline(size[:]) {
		return nil
	}
	text := make([]byte, int(size[0])<<24|int(size[1])<<16|int(size[2])<<8|int(size[3]))
	if !readLifeline(text) {
		return nil
	}
	return strings.Split(string(text), "\x00")
}

// readLifeline fills b, or reports that the lifeline ended. It makes no os.File of it,
// which would close it one day.
func readLifeline(b []byte) bool {
	for len(b) > 0 {
		switch n, err := syscall.Read(lifelineFD, b); {
		case err == syscall.EINTR:
		case err != nil || n <= 0:
			return false
		default:
			b = b[n:]
		}
	}
	return true
}

func guard() int {
	self, err := Executable()
	if err != nil {
		return cannotStart(Arg0, err)
	}
	prepare()
	pid, err := syscall.ForkExec(self, []string{guarded}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, lifelineFD}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return cannotStart(self, err)
	}
	go standIn(pid)
	status, killed := wait(pid)
	killAll(pid)
	if killed {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // so that the caller knows
	}
	return status
}

// standIn kills a supervisor that does not do so once the lifeline has ended, because
// the command stopped it, and what is below it.
func standIn(pid int) {
	const grace = time.Second
	if awaitEnd(lifelineFD) {
		for time.Sleep(grace); ; time.Sleep(10 * time.Millisecond) {
			signalAll(pid, syscall.SIGKILL)
		}
	}
}

// Kill ends a guard that does not end, as the command stopped it too. What is below it
// comes first: until the guard is gone all orphans become its children.
func Kill(guard int) {
	below := descendants(guard)
	for end := time.Now().Add(giveUp); len(below) > 0 && time.Now().Before(end); below = descendants(guard) {
		for _, p := range below {
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
		time.Sleep(2 * time.Millisecond)
	}
	_ = syscall.Kill(-guard, syscall.SIGKILL)
}

// prepare makes this process the parent of orphans, and deaf to signals that are meant
// for others.
func prepare() {
	becomeReaper()
	// Notify, not Ignore: an ignored signal would stay ignored in the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
}

func cannotStart(name string, err error) int {
	_, _ = os.Stderr.WriteString(name + " cannot be started: " + err.Error() + "\n")
	return statusCannotStart
}

func supervise(argv []string) int {
	if len(argv) == 0 {
		return statusCannotStart
	}
	syscall.CloseOnExec(lifelineFD)
	prepare()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: childAttr(),
	})
	if err != nil {
		return cannotStart(argv[0], err)
	}
	go watch(pid)
	status, _ := wait(pid)
	killAll(pid)
	return status
}

// watch obeys the lifeline: a byte asks the command to stop, its end kills.
func watch(pid int) {
	var b [1]byte
	for {
		n, err := syscall.Read(lifelineFD, b[:])
		switch {
		case err == syscall.EINTR:
		case n == 1:
			signalAll(pid, syscall.SIGTERM)
		default:
			// Nobody waits for us any more, or the time for stopping is over.
			for {
				signalAll(pid, syscall.SIGKILL)
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}

// wait reaps whatever ends until the process itself does, and reports whether a signal
// killed that.
func wait(pid int) (status int, killed bool) {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return statusCannotStart, false
		case got != pid:
		case ws.Signaled():
			return 128 + int(ws.Signal()), true
		case ws.Exited():
			return ws.ExitStatus(), false
		}
	}
}

// killAll kills what the command left behind until there is nothing to wait
// for. New processes of a fork bomb are met in the next round. What cannot be
// killed (it changed its user) is given up after a while.
func killAll(pid int) {
	for end := time.Now().Add(giveUp); time.Now().Before(end); {
		signalAll(pid, syscall.SIGKILL)
		for {
			got, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.ECHILD {
				return
			}
			if err != nil || got <= 0 {
				break
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// signalAll signals the command's process group and all descendants.
func signalAll(pid int, sig syscall.Signal) {
	_ = syscall.Kill(-pid, sig)
	for _, p := range descendants(os.Getpid()) {
		_ = syscall.Kill(p, sig)
	}
}
