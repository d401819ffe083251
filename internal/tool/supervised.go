package tool

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spool-agents/spool/internal/tool/supervise"
)

// Supervised is a command below a supervisor (see package supervise), so that nothing of
// it outlives this process.
type Supervised struct {
	cmd      *exec.Cmd
	lifeline *os.File
	exited   chan struct{}
	status   error // of the command, once it has exited
}

// StartSupervised starts a command with the folder, the environment and the streams of cmd.
// Stop has to follow.
func StartSupervised(cmd *exec.Cmd, command ...string) (*Supervised, error) {
	self, err := supervise.Executable()
	if err != nil {
		return nil, err
	}
	read, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Path, cmd.Args, cmd.ExtraFiles = self, []string{supervise.Arg0}, []*os.File{read}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without the terminal of this process
	// If the supervisor itself is killed, a stray holder of a pipe must not keep us waiting.
	cmd.WaitDelay = time.Second
	err = cmd.Start()
	_ = read.Close()
	if err != nil {
		return nil, errors.Join(err, lifeline.Close())
	}
	supervise.Send(lifeline, command...)
	s := &Supervised{cmd: cmd, lifeline: lifeline, exited: make(chan struct{})}
	go func() {
		s.status = cmd.Wait()
		close(s.exited)
	}()
	return s, nil
}

// Exited is closed when the command has ended and all it wrote has been passed on.
func (s *Supervised) Exited() <-chan struct{} { return s.exited }

func (s *Supervised) exits(within time.Duration) bool {
	select {
	case <-s.exited:
		return true
	case <-time.After(within):
		return false
	}
}

// Kill ends the command by force; Stop still has to follow.
func (s *Supervised) Kill() { _ = s.lifeline.Close() }

// Stop ends the command: first politely, by force after grace.
func (s *Supervised) Stop(grace time.Duration) {
	_, _ = s.lifeline.Write([]byte{'T'})
	polite := s.exits(grace)
	s.Kill() // whatever still runs
	if !polite && !s.exits(5*time.Second) {
		supervise.Kill(s.cmd.Process.Pid)
		<-s.exited
	}
}
