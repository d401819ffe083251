package port_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/verify"
)

func TestMain(m *testing.M) {
	processtest.Main(m, jobs(open), map[string]processtest.Job{
		"full":     func(args []string) error { return childFull(jsonItems(args[0])) },
		"readonly": func(args []string) error { return childReadOnly(jsonItems(args[0])) },
	})
}

// options are those of the views under test.
var options = spool.MemoryOptions{UserID: "u", Profile: "default", Session: "s"}

// open opens a location as a program would.
func open(location string) (port.MemoryPersistence, error) {
	return spool.OpenMemory(context.Background(), location, options)
}

func mustOpen(t *testing.T, location string) port.MemoryPersistence {
	t.Helper()
	p := memorytest.Must(open(location))(t)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// place is a kind of location that can be exchanged for others by configuration.
type place struct {
	name, file string
	h          harness
}

var places = []place{
	{"json:", "memory.json", harness{Durable: true, Shared: true, CrashPoint: "items-save"}},
	{"sqlite:", "spool.db", harness{Durable: true, Shared: true, CrashPoint: "edit", Conversations: true, Sound: sound}},
	{"file:", "files", harness{Durable: true, Conversations: true, Sound: sound}},
	{"memory:", "", harness{Conversations: true}},
}

func (p place) at(dir string) string {
	if p.file == "" {
		return p.name
	}
	return p.name + filepath.Join(dir, p.file)
}

// sound checks the threads of a store that the suite wrote to.
func sound(t *testing.T, location string) {
	t.Helper()
	s, err := spool.OpenStore(context.Background(), location)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	isSound(t, s)
}

func isSound(t *testing.T, s memory.ConversationMemoryStore) {
	t.Helper()
	report, err := verify.Check(context.Background(), s, verify.Options{})
	if err != nil || !report.OK {
		t.Errorf("%v, %v", report.Violations, err)
	}
}

// TestRow25_PortConformance also shows rows 27 to 30 on every implementation.
func TestRow25_PortConformance(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		runSuite(t, harness{
			Location: func(*testing.T, string) string { return "" },
			Open:     func(string) (port.MemoryPersistence, error) { return port.NewInMemory(), nil },
		})
	})
	for _, p := range places {
		t.Run(strings.TrimSuffix(p.name, ":"), func(t *testing.T) {
			p.h.Location, p.h.Open = func(_ *testing.T, dir string) string { return p.at(dir) }, open
			runSuite(t, p.h)
		})
	}
}
