package supervise

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const prSetChildSubreaper = 36

// Executable is the path that starts the caller's own program again, also after
// its file was replaced.
func Executable() (string, error) { return "/proc/self/exe", nil }

// becomeReaper makes orphans below us our children instead of init's.
func becomeReaper() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

// childAttr puts the command into its own group. Should the supervisor itself be
// killed, the kernel kills the command: init runs on the main thread, which
// lives as long as the process, so the per-thread death signal is safe here.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits until nobody can write to a pipe any more, without reading from it.
func awaitEnd(fd int) bool {
	poll := struct {
		fd              int32
		events, happens int16
	}{fd: int32(fd)} // an end is told without being asked for
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, 0, 0, 0, 0) //nolint:gosec // as the kernel has it
		if err != syscall.EINTR {
			return err == 0
		}
	}
}

func descendants(of int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	children := map[int][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid …; the name may hold blanks and parentheses.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || fields[0][0] == 'Z' {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	var below []int
	for next := []int{of}; len(next) > 0; next = next[1:] {
		below = append(below, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return below
}
