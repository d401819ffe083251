package tool

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// moreProcesses is how many processes and threads a command may add to what runs.
const moreProcesses = 2048

// processLimit is how many processes and threads may run when a command starts another
// one: the kernel counts all of a user, so it has to start from those that run.
func processLimit() int64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Procs) + moreProcesses
}

// fileLimit is how large a file of a command may get, in KiB: half of what is free, so
// that one file does not take the disk from the worker.
func fileLimit(dir string) int64 {
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil {
		return 0
	}
	return max(int64(fs.Bavail)*int64(fs.Bsize)>>11, 1) //nolint:unconvert // not everywhere is it an int64
}

// keepAttributes gives a new file the extended attributes of the one it replaces, access
// lists among them. It returns those that could not be kept.
func (p place) keepAttributes(to *os.File) (lost string) {
	from, _, err := p.open(os.O_RDONLY)
	if err != nil {
		return "" // what may not be read has none that we could keep
	}
	defer func() { _ = from.Close() }()
	names, value := make([]byte, 64<<10), make([]byte, 64<<10) // the kernel's limits
	n, _ := unix.Flistxattr(int(from.Fd()), names)             // a file system that has none has nothing to lose
	for name := range strings.FieldsFuncSeq(string(names[:max(n, 0)]), func(r rune) bool { return r == 0 }) {
		size, err := unix.Fgetxattr(int(from.Fd()), name, value)
		if err != nil || unix.Fsetxattr(int(to.Fd()), name, value[:size], 0) != nil {
			lost += " " + name
		}
	}
	return lost
}
