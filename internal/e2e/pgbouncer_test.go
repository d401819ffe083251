//go:build postgres && pgbouncer

package e2e

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/pgtest"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// pgbouncer gives each transaction any connection. A tree of agents works behind it, as
// docs/stores.md says that it is set up.
func TestAll_BehindPgbouncer(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t)
	dir, err := os.MkdirTemp("", "bouncer")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := portOf(t, l.Addr().String())
	require.NoError(t, l.Close())
	ini := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(ini, []byte(fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = default_transaction_isolation,lock_timeout,idle_in_transaction_session_timeout,statement_timeout
`, portOf(t, c.Address()), free, filepath.Join(dir, "users"))), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "users"), []byte(`"spool" ""`+"\n"), 0o644))
	require.NoError(t, os.Chmod(dir, 0o755))
	pooler := exec.Command("pgbouncer", ini)
	if os.Getuid() == 0 { // it refuses to run as root
		pooler.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	log := new(strings.Builder)
	pooler.Stderr = log
	require.NoError(t, pooler.Start())
	t.Cleanup(func() {
		_ = pooler.Process.Kill()
		_ = pooler.Wait()
		if t.Failed() {
			t.Log(log)
		}
	})
	tt.Eventually(t, "pgbouncer listens", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+free)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	tt.OnStore(t, func(t testing.TB) string {
		u, err := url.Parse(c.Database(t))
		require.NoError(t, err)
		q := u.Query()
		q.Set("default_query_exec_mode", "exec")
		q.Set("pool_max_conns", "6")
		u.Host, u.RawQuery = "127.0.0.1:"+free, q.Encode()
		return u.String()
	})
	s := tt.New(t)
	s.StartWorker()
	s.StartWorker()
	r := s.Send("s1", treeScript())
	other := s.Send("s2", script.Script(add(1, 2), count("n"), "slow 20ms say end"))
	require.Equal(t, "completed", s.Wait(r).Status)
	require.Equal(t, "end", s.Wait(other).Response)
	quiet(t, s, r.ThreadID)
	require.Equal(t, 1, lines(s.File("n")))
	s.Verify()
}
