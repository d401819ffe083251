package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// settings are what the figures depend on.
func settings(dir string) []setting {
	return []setting{
		{"date", time.Now().UTC().Format("2006-01-02")},
		{"machine", fmt.Sprintf("%s/%s, %d CPUs%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load())},
		{"disk", fmt.Sprintf("a 4 KB write and fsync takes %.2f ms", milliseconds(syncTime(dir)))},
		{"versions", versions()},
		{"store", "SQLite (modernc), WAL, synchronous FULL; the floor's rows likewise"},
		{"model", "a stub on loopback that answers at once, streamed"},
		{"server", "Temporal's program as `starter dev` runs it: SQLite, WAL, tuned; workers' heartbeat timeout 2 s"},
	}
}

func versions() string {
	out := []string{strings.TrimPrefix(runtime.Version(), "go"), "", ""}
	out[0] = "Go " + out[0]
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			switch m.Path {
			case "go.temporal.io/sdk":
				out[1] = "Temporal SDK " + m.Version
			case "modernc.org/sqlite":
				out[2] = "modernc.org/sqlite " + m.Version
			}
		}
	}
	return strings.Join(out, ", ")
}

// load is the machine's load before the run, where the system tells it: other
// work on the same machine makes absolute times worse.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), " ")
	return ", load before the run " + first
}

// syncTime is the median time of a small durable write in dir.
func syncTime(dir string) time.Duration {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0
	}
	defer f.Close()
	var times []time.Duration
	block := make([]byte, 4096)
	for range 50 {
		at := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0
		}
		if err := f.Sync(); err != nil {
			return 0
		}
		times = append(times, time.Since(at))
	}
	return median(times)
}
