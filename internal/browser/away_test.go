//go:build postgres

package browser

import (
	"testing"

	"github.com/spool-agents/spool/internal/pgtest"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// That the store or Temporal is away is said in a line, until it is back or put away.
func TestAll_WhatIsAwayIsSaid(t *testing.T) {
	db, temporal := pgtest.Start(t), tt.StartServer(t)
	tt.OnStore(t, func(t testing.TB) string { return db.Database(t) })
	s := tt.NewOn(t, temporal)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say("script: say one")
	p.Text("article.assistant", "one")

	temporal.Kill()
	p.Text("[data-health=temporal]", "Temporal cannot be reached")
	p.Say("script: say kept")
	p.Press("[data-health=temporal]", "✕")
	p.Gone("[data-health=temporal]")
	temporal.Restart(t)
	p.Text("article.assistant", "kept")

	db.Kill(t)
	p.Text("[data-health=store]", "The store cannot be reached")
	db.Restart(t)
	p.Gone("[data-health=store]")
	p.Text(".live", "live")
	p.Say("script: say again")
	p.Text("article.assistant", "again")
	s.Verify()
}
