package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spool-agents/spool/internal/temporaltest"
)

// tick is the unit of the times in /proc; it is 10 ms wherever Go runs on Linux.
const tick = 10 * time.Millisecond

// cpuTime is the processor time that processes, and those that they started, have
// used so far. It says more than the clock on a machine that has other work to do
// as well. It is 0 where the system does not tell it as Linux does.
func cpuTime(processes ...*temporaltest.Process) (sum time.Duration) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, path := range all {
		b, _ := os.ReadFile(path) // it may have ended
		// The second field is the name in brackets, which may hold spaces.
		_, rest, _ := strings.Cut(string(b), ") ")
		fields := append([]string{filepath.Base(filepath.Dir(path))}, strings.Fields(rest)...)
		if len(fields) < 14 || !slices.ContainsFunc(processes, func(p *temporaltest.Process) bool {
			return slices.Contains([]string{fields[0], fields[2]}, strconv.Itoa(p.PID()))
		}) {
			continue
		}
		for _, f := range fields[12:14] { // in user mode, in the kernel
			n, _ := strconv.Atoi(f)
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

func ownTime() time.Duration {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
