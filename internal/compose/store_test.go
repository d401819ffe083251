//go:build postgres

package compose

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/postgres"
)

// TestStoreDatabase runs what the server runs when its volume is new, and opens the
// store where the workers look for it.
func TestStoreDatabase(t *testing.T) {
	p := load(t, nil)
	c := pgtest.Start(t)
	file := filepath.Join(t.TempDir(), "spool.sql")
	if err := os.WriteFile(file, []byte(p.Configs["store-database"].Content), 0o600); err != nil {
		t.Fatal(err)
	}
	// The image's superuser is called temporal; the test cluster's has the store's name.
	pgtest.Exec(t, c.URL("postgres"), "CREATE ROLE temporal SUPERUSER LOGIN")
	admin, err := url.Parse(c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	admin.User = url.User("temporal")
	pgtest.Exec(t, admin.String(), "ALTER ROLE spool RENAME TO other")
	// As the image's entry point does it.
	if out, err := exec.CommandContext(t.Context(), "psql", "-v", "ON_ERROR_STOP=1", "--no-psqlrc", "-f", file, admin.String()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	where, err := url.Parse(configuration(t, p.Services["worker"]).Store)
	if err != nil {
		t.Fatal(err)
	}
	where.Host = c.Address()
	s, err := postgres.Open(t.Context(), where.String(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Send(t.Context(), memorytest.Request("s", "m")); err != nil {
		t.Fatal(err)
	}
	if err := memorytest.RunTurns(t.Context(), s, "s/default"); err != nil {
		t.Fatal(err)
	}
	if password, _ := where.User.Password(); !strings.Contains(p.Configs["store-database"].Content, "LOGIN PASSWORD '"+password+"'") {
		t.Error("the role's password is not the workers'")
	}
}
