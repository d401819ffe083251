//go:build postgres

package e2e

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/pgtest"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// The server of the store is lost for good while turns run, and its standby takes over:
// what was accepted is answered, and no tool runs twice.
func TestAll_StoreFailsOver(t *testing.T) {
	t.Parallel()
	first := pgtest.Start(t)
	standby := first.Standby(t)
	tt.OnStore(t, func(t testing.TB) string {
		u, err := url.Parse(first.Database(t))
		require.NoError(t, err)
		q := u.Query()
		q.Set("pool_max_conns", "6")
		q.Set("host", "127.0.0.1,127.0.0.1")
		q.Set("port", portOf(t, first.Address())+","+portOf(t, standby.Address()))
		q.Set("target_session_attrs", "read-write")
		u.Host, u.RawQuery = "", q.Encode()
		return u.String()
	})
	s := tt.New(t)
	s.StartWorker()
	s.StartWorker()
	var sent []spool.Reply
	for i := range 6 {
		file := fmt.Sprint("n", i)
		sent = append(sent, s.Send(fmt.Sprint("s", i), script.Script(add(1, 2), slow(file, 0.3), count(file+"c"), "slow 20ms say "+strings.Repeat("word ", 40)+"end")))
	}
	saved(t, s, sent[0].ThreadID, 3)
	first.Kill(t)
	standby.Promote(t)
	for i, r := range sent {
		r = s.Wait(r)
		require.True(t, strings.HasSuffix(r.Response, "word end"), r.Error)
		require.LessOrEqual(t, lines(s.File(fmt.Sprint("n", i, "c"))), 1)
	}
	require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
	s.Verify()
}

func portOf(t testing.TB, address string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return p
}
