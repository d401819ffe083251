//go:build postgres

package port_test

import (
	"testing"

	"github.com/spool-agents/spool/internal/pgtest"
)

// TestAll_PortConformanceOnPostgres runs the suite, each case on a schema of
// its own.
func TestAll_PortConformanceOnPostgres(t *testing.T) {
	database := pgtest.Database(t)
	runSuite(t, harness{
		Location: func(t *testing.T, _ string) string { return pgtest.Schema(t, database) },
		Open:     open, Sound: sound,
		Durable: true, Shared: true, CrashPoint: "edit", Conversations: true,
	})
}
