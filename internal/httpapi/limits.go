package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/spool-agents/spool/agent"
)

// Limits bound what one user may do; zero values are replaced by the defaults.
type Limits struct {
	// Reads and Writes are requests a second; four times as many may come at once.
	Reads, Writes float64
	// Streams is how many streams may be open at the same time.
	Streams int
}

// Defaults of Limits.
const (
	defaultReads   = 200
	defaultWrites  = 100
	defaultStreams = 400
	// Wrong tokens from one address: so many at once, then one every guessEvery.
	guesses    = 10
	guessEvery = 3 * time.Second
	// maxCounted bounds the users and addresses that are remembered.
	maxCounted = 10_000
)

type limiter struct {
	l       Limits
	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	streams map[string]int
}

func newLimiter(l Limits) *limiter {
	if l.Reads == 0 {
		l.Reads = defaultReads
	}
	if l.Writes == 0 {
		l.Writes = defaultWrites
	}
	if l.Streams == 0 {
		l.Streams = defaultStreams
	}
	return &limiter{l: l, buckets: map[string]*rate.Limiter{}, streams: map[string]int{}}
}

func (l *limiter) allow(key string, each rate.Limit, burst int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	if b == nil {
		if len(l.buckets) >= maxCounted { // those who are full again need no memory
			for k, old := range l.buckets {
				if old.Tokens() >= float64(old.Burst()) {
					delete(l.buckets, k)
				}
			}
		}
		b = rate.NewLimiter(each, burst)
		l.buckets[key] = b
	}
	return b.Allow()
}

func (l *limiter) request(user string, write bool) error {
	kind, each := "read", l.l.Reads
	if write {
		kind, each = "write", l.l.Writes
	}
	if most := int(4*each) + 1; !l.allow(kind+" "+user, rate.Limit(each), most) {
		return tooMany("one user may send %g %s requests a second, %d at once: try again in a second (Retry-After)", each, kind, most)
	}
	return nil
}

func (l *limiter) guess(r *http.Request) error {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if !l.allow("guess "+host, rate.Every(guessEvery), guesses) {
		return tooMany("too many wrong tokens from one address: one more is looked at every %s", guessEvery)
	}
	return nil
}

func tooMany(format string, args ...any) error {
	return &httpError{http.StatusTooManyRequests, "rate_limited", fmt.Sprintf(format, args...)}
}

// stream counts an open stream of a user until done is called.
func (l *limiter) stream(user string) (done func(), err error) {
	done, ok := l.count("user "+user, l.l.Streams)
	if !ok {
		return nil, agent.Errorf(agent.CodeLimit, "%d streams are open already: close some", l.l.Streams)
	}
	return done, nil
}

// count counts one more of something until done is called, unless there are most
// of it.
func (l *limiter) count(key string, most int) (done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[key] >= most {
		return nil, false
	}
	l.streams[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.streams[key]--; l.streams[key] == 0 {
			delete(l.streams, key)
		}
	}, true
}

// browser counts a stream of a browser until done is called, unless it has all that it
// may have. It waits a moment for a stream that the browser has let go to end, but
// only one request of a browser does: each that waits holds one of its few connections.
func (l *limiter) browser(ctx context.Context, session string, wait time.Duration) (done func(), ok bool) {
	if done, ok = l.count("browser "+session, browserStreams); ok {
		return done, true
	}
	last, mayWait := l.count("waiting "+session, 1)
	if !mayWait {
		return func() {}, false
	}
	defer last()
	for until := time.Now().Add(wait); time.Now().Before(until) && ctx.Err() == nil; {
		pause(ctx, browserWait/10)
		if done, ok = l.count("browser "+session, browserStreams); ok {
			return done, true
		}
	}
	return func() {}, false
}
