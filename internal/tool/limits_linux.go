package tool

import "syscall"

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
