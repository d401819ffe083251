//go:build postgres && linux

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/pgtest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest"
)

// proxy stands between store and server and cuts every connection after a number
// of bytes.
type proxy struct {
	to       string
	listener net.Listener
	sent     atomic.Int64 // bytes from the store to the server, in all
	got      atomic.Int64 // bytes back

	mu    sync.Mutex
	conns map[net.Conn]bool
	// cut is how many more bytes pass in that direction; less than 0 = all.
	cut   atomic.Int64
	front atomic.Bool  // the direction: to the server
	done  atomic.Int64 // cuts so far
}

func startProxy(t *testing.T, db string) (*proxy, string) {
	t.Helper()
	u := memorytest.Must(url.Parse(db))(t)
	l := memorytest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{to: u.Host, listener: l, conns: map[net.Conn]bool{}}
	p.cut.Store(-1)
	t.Cleanup(func() { _ = l.Close(); p.cutAll() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	go p.pump(server, client, true)
	p.pump(client, server, false)
}

// pump copies until the budget of its direction is used up; then everything is cut.
func (p *proxy) pump(to, from net.Conn, front bool) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	count := &p.got
	if front {
		count = &p.sent
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if p.front.Load() == front && p.cut.Load() >= 0 {
			if left := p.cut.Add(-int64(n)); left < 0 {
				_, _ = to.Write(buf[:max(0, int64(n)+left)])
				p.done.Add(1)
				p.cutAll()
				return
			}
		}
		count.Add(int64(n))
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.(*net.TCPConn).SetLinger(0) // a reset, as from a machine that is gone
		_ = c.Close()
	}
	clear(p.conns)
	p.cut.Store(-1)
}

// TestCutInMidTransaction cuts the connection at every stage of operations that
// write many rows. Before the commit the caller is told that the store is not
// available; a commit without an answer is repeated. Nothing is half written, and
// the operation repeated has its effect once.
func TestCutInMidTransaction(t *testing.T) {
	db := pgtest.Database(t)
	direct := mustOpen(t, db)
	p, through := startProxy(t, db)
	s := mustOpen(t, through)
	refused, repeated := 0, 0
	for _, front := range []bool{true, false} {
		// The first run measures how much is said, the others cut in between.
		step, used := int64(0), int64(1)
		for at := int64(-1); at <= used; at += step {
			session := fmt.Sprintf("s%v%d", front, at)
			memorytest.Must(s.Send(t.Context(), memorytest.Request(session, "m")))(t)
			before, done := p.sent.Load(), p.done.Load()
			if !front {
				before = p.got.Load()
			}
			p.front.Store(front)
			p.cut.Store(at)
			_, err := s.TakeNext(t.Context(), memory.TakeRequest{ThreadID: session + "/default", RunID: "r", Config: &agent.SpecialistAgentConfig{Name: "a", SystemPrompt: session}})
			p.cut.Store(-1)
			if at < 0 {
				if used = p.sent.Load() - before; !front {
					used = p.got.Load() - before
				}
				if err != nil || used < 200 {
					t.Fatalf("%d bytes, %v", used, err)
				}
				step = max(1, used/60)
				continue
			}
			turns, readErr := direct.TurnsOf(t.Context(), session+"/default")
			if readErr != nil {
				t.Fatal(readErr)
			}
			switch {
			case p.done.Load() == done: // it was over before the cut
				continue
			case err == nil:
				repeated++
			default:
				refused++
				code(t, err, agent.CodeUnavailable, "nothing was changed; try again")
				if len(turns) > 0 {
					t.Fatalf("cut at %d: refused, but it took place", at)
				}
			}
			require.NoError(t, errors.Join(memorytest.RunTurns(t.Context(), s, session+"/default"), memorytest.RunTurns(t.Context(), s, session+"/default")), "cut at %d", at)
			if turns, err = direct.TurnsOf(t.Context(), session+"/default"); err != nil || len(turns) != 1 || turns[0].State != memory.TurnClosed {
				t.Fatalf("cut at %d: %+v, %v", at, turns, err)
			}
		}
	}
	t.Logf("%d cuts before the commit, %d after it", refused, repeated)
	if refused+repeated < 80 || refused == 0 || repeated == 0 {
		t.Errorf("%d refused, %d repeated: the stages were not all met", refused, repeated)
	}
	memorytest.Sound(t, direct)
}

// TestCutReadIsRepeated: a reader does not notice that its connection is lost
// between two reads, and is told when it is lost for good.
func TestCutReadIsRepeated(t *testing.T) {
	p, through := startProxy(t, pgtest.Database(t))
	s := mustOpen(t, through)
	memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "m")))(t)
	for range 5 {
		p.cutAll()
		memorytest.Must(s.Thread(t.Context(), "u", "s/default"))(t)
		p.cutAll()
		memorytest.Must(s.Send(t.Context(), memorytest.Request("s", "m")))(t) // a write that had not begun
	}
	_ = p.listener.Close()
	p.cutAll()
	_, err := s.Thread(t.Context(), "u", "s/default")
	code(t, err, agent.CodeUnavailable, "try again")
}

// TestFault_HalfOpenConnection: a server whose link drops everything is noticed, and
// the operation goes on over a new connection.
func TestFault_HalfOpenConnection(t *testing.T) {
	p, through := startProxy(t, pgtest.Database(t))
	s := mustOpen(t, through)
	for i := range 5 { // several connections stand idle
		if _, err := s.Send(t.Context(), memorytest.Request("s", fmt.Sprint("m", i))); err != nil {
			t.Fatal(err)
		}
	}
	p.deafen(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // three minutes without a bound
	defer cancel()
	if _, err := s.Send(ctx, memorytest.Request("s", "after")); err != nil {
		t.Fatalf("a write: %v", err)
	}
	p.deafen(t)
	if _, err := s.Thread(ctx, "u", "s/default"); err != nil {
		t.Fatalf("a read: %v", err)
	}
}

// deafen makes the system drop all packets to the proxy's connections, without a word
// to who sends them.
func (p *proxy) deafen(t *testing.T) {
	t.Helper()
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var set error
		err = raw.Control(func(fd uintptr) {
			set = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop[0]})
		})
		if err := errors.Join(err, set); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	}
	clear(p.conns)
}
