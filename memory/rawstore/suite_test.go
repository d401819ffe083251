package rawstore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/rawstore"
)

func TestMain(m *testing.M) {
	memorytest.PortChild(openPort)
	faultChild()
	os.Exit(m.Run())
}

func openPort(location string) (memory.AtomicPort[memorytest.PortItem], error) {
	p, err := rawstore.Open(location, rawstore.Options{})
	if err != nil {
		return nil, err
	}
	return memory.NewPersistedMemory(p, memorytest.PortItemID), nil
}

// backends are the locations that can be exchanged by configuration.
var backends = []struct {
	name, kind, file string
	durable          bool
}{
	{"memory", "memory:", "", false},
	{"file", "file:", "memory.json", true},
	{"sqlite", "sqlite:", "memory.db", true},
}

// TestRow25_PortConformance also shows rows 27 to 30 on every back end.
func TestRow25_PortConformance(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			memorytest.RunPort(t, memorytest.PortHarness{
				Location: func(_ *testing.T, dir string) string {
					if b.file == "" {
						return b.kind
					}
					return b.kind + filepath.Join(dir, b.file)
				},
				Open:    openPort,
				Durable: b.durable,
			})
		})
	}
}
