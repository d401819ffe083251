package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times in /proc; it is 10 ms wherever Go runs on Linux.
const tick = 10 * time.Millisecond

// cpuTime is the processor time that processes have used so far. It says more
// than the clock on a machine that has other work to do as well. It is 0 where
// the system does not tell it as Linux does.
func cpuTime(processes ...*process) time.Duration {
	var sum time.Duration
	for _, p := range processes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
		if err != nil {
			return 0
		}
		// The second field is the name in brackets, which may hold spaces.
		_, rest, _ := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			return 0
		}
		for _, f := range fields[11:13] { // in user mode, in the kernel
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum
}
