// Package health says whether what a program needs is there, for the program itself
// and over HTTP.
package health

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// checkWithin bounds a check, whatever it waits for.
	checkWithin = 2 * time.Second
	// fresh is how long what was found counts as the present state.
	fresh = time.Second
)

// Part is something that a program needs.
type Part struct {
	Name string
	// Check says why the part is missing. It need not obey its context.
	Check func(context.Context) error
	// Optional parts are reported, but the program is ready without them.
	Optional bool
}

// State is that of a part. Problem is for people who run the program: it may name hosts.
type State struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
}

// Report is the state of all parts.
type Report struct {
	Ready bool             `json:"ready"`
	Parts map[string]State `json:"parts"`
}

// Missing is the first of these parts that is not there, and what is wrong with it.
func (r Report) Missing(names ...string) (part, problem string) {
	for _, name := range names {
		if s, known := r.Parts[name]; known && !s.OK {
			return name, s.Problem
		}
	}
	return "", ""
}

// Monitor checks parts. It is safe for concurrent use.
type Monitor struct {
	parts []Part
	busy  []chan struct{} // of the check under way of each part, closed when it has ended

	mu   sync.Mutex
	at   time.Time
	last Report
}

// New makes a monitor of parts; none of them is checked yet.
func New(parts ...Part) *Monitor {
	return &Monitor{parts: parts, busy: make([]chan struct{}, len(parts))}
}

// Look checks all parts at once, within two seconds, or returns what was found within
// the last second.
func (m *Monitor) Look() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.Parts != nil && time.Since(m.at) < fresh {
		return m.last
	}
	problems := make([]error, len(m.parts))
	var all sync.WaitGroup
	for i := range m.parts {
		all.Go(func() { problems[i] = m.check(i) })
	}
	all.Wait()
	r := Report{Ready: true, Parts: map[string]State{}}
	for i, p := range m.parts {
		s := State{OK: problems[i] == nil}
		if !s.OK {
			s.Problem = problems[i].Error()
		}
		r.Parts[p.Name] = s
		r.Ready = r.Ready && (s.OK || p.Optional)
	}
	m.at, m.last = time.Now(), r
	return r
}

var errSilent = errors.New("no answer within " + checkWithin.String())

// check is that of one part. One that hangs is not begun a second time.
func (m *Monitor) check(i int) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkWithin)
	defer cancel()
	if m.busy[i] != nil {
		select {
		case <-m.busy[i]:
		case <-ctx.Done():
			return errSilent
		}
	}
	ended, result := make(chan struct{}), make(chan error, 1)
	m.busy[i] = ended
	go func() {
		defer close(ended)
		result <- m.parts[i].Check(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return errSilent
	}
}
