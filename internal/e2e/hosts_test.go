//go:build postgres

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// link is the only way of a worker to its store.
type link struct {
	url, to string

	mu    sync.Mutex
	conns []net.Conn
	state linkState
}

type linkState int

const (
	linkWhole   linkState = iota
	linkRefused           // connections end, new ones too
	linkSilent            // connections stay, and nothing passes
)

func newLink(t *testing.T, store string) *link {
	t.Helper()
	u, err := url.Parse(store)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &link{to: u.Host}
	u.Host = l.Addr().String()
	k.url = u.String()
	t.Cleanup(func() { _ = l.Close(); k.set(linkRefused) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.serve(c)
		}
	}()
	return k
}

func (k *link) is() linkState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// set changes the link. One that is whole again begins with new connections.
func (k *link) set(to linkState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state = to; to != linkSilent {
		for _, c := range k.conns {
			_ = c.Close()
		}
		k.conns = nil
	}
}

func (k *link) serve(c net.Conn) {
	server, err := net.Dial("tcp", k.to)
	if err != nil || k.is() == linkRefused {
		_ = c.Close()
		return
	}
	k.mu.Lock()
	k.conns = append(k.conns, c, server)
	k.mu.Unlock()
	go k.pass(c, server)
	k.pass(server, c)
}

func (k *link) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if k.is() == linkSilent && err == nil {
			continue // what was read is lost
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			_ = from.Close()
			_ = to.Close()
			return
		}
	}
}

// One of two workers loses its store: all messages are answered by the other one, what
// it was about included, and it works again when the store is back.
func TestAWorkerWithoutItsStoreLeavesTheWorkToOthers(t *testing.T) {
	t.Parallel()
	tt.OnPostgres(t)
	for name, how := range map[string]linkState{"refused": linkRefused, "silent": linkSilent} {
		t.Run(name, func(t *testing.T) {
			s := stack(t)
			way := newLink(t, s.StoreSpec())
			cut := s.StartWorker("SPOOL_STORE="+way.url, anyPort)
			streamed := s.Send("streamed", "script: slow 50ms say "+strings.Repeat("word ", 300)+"end")
			streaming(t, s, streamed.ThreadID)
			other := s.StartWorker()
			way.set(how)
			var sent []spool.Reply
			for i := range 12 {
				sent = append(sent, s.Send(fmt.Sprint("s", i), "script: say answered"))
			}
			for _, r := range sent {
				require.Equal(t, "answered", s.Wait(r).Response)
			}
			require.True(t, strings.HasSuffix(s.Wait(streamed).Response, "word end"))
			require.Contains(t, cut.Log(), "takes no tasks until what is missing is back")
			status, r := readiness(t, cut)
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.False(t, r.Parts["store"].OK || r.Parts["worker"].OK, r)

			other.Kill()
			way.set(linkWhole)
			require.Equal(t, "again", s.Ask("s1", "script: say again").Response)
			require.Contains(t, cut.Log(), "what was missing is back")
			tt.Eventually(t, "it is ready", func() bool { status, _ = readiness(t, cut); return status == http.StatusOK })
		})
	}
}
