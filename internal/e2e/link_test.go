package e2e

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// link is the only way of a worker to what is at a URL.
type link struct {
	url, at, to string

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

func newLink(t *testing.T, of string) *link {
	t.Helper()
	u, err := url.Parse(of)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &link{to: u.Host, at: l.Addr().String()}
	u.Host = k.at
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
	k.mu.Lock() // a link that is cut now either refuses this connection or ends it
	if err != nil || k.state == linkRefused {
		k.mu.Unlock()
		_ = c.Close()
		return
	}
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
