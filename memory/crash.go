package memory

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Environment variables that make a process kill itself at a named point, for
// tests of recovery.
const (
	// CrashAtEnv is a comma list of points, each "name" or "name:N" for its N-th hit.
	CrashAtEnv = "SPOOL_CRASH_AT"
	// CrashOnceEnv names a file: the process dies only if it can create it, so
	// that its successor with the same environment lives on.
	CrashOnceEnv = "SPOOL_CRASH_ONCE"
)

// CrashPoint kills the process with SIGKILL if SPOOL_CRASH_AT names this point.
// Stores call it around each commit: "before-X" when everything is written but
// nothing committed, "after-X" when it is committed but the caller does not know
// yet. It costs one nil check when the variable is unset.
var CrashPoint = crashPoint

var crash = parseCrash(os.Getenv(CrashAtEnv), os.Getenv(CrashOnceEnv))

// crashPlan counts down to each point.
type crashPlan struct {
	mu   sync.Mutex
	left map[string]int
	once string
}

func parseCrash(spec, once string) *crashPlan {
	if spec == "" {
		return nil
	}
	p := &crashPlan{left: map[string]int{}, once: once}
	for _, item := range strings.Split(spec, ",") {
		name, count, _ := strings.Cut(strings.TrimSpace(item), ":")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			n = 1
		}
		p.left[name] = n
	}
	return p
}

func crashPoint(name string) {
	if crash != nil && crash.due(name) {
		die()
	}
}

// due counts a hit and reports whether the process is to die of it.
func (p *crashPlan) due(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.left[name]
	if !ok || n == 0 {
		return false
	}
	p.left[name] = n - 1
	if n > 1 {
		return false
	}
	if p.once == "" {
		return true
	}
	f, err := os.OpenFile(p.once, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// die ends the process as a kill -9 from outside would: no deferred call runs.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Signal(syscall.SIGKILL)
	}
	select {}
}
