package mcp

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
)

// States of a server that was probed.
const (
	StateOK      = "ok"
	StateFailed  = "failed"
	StateWaiting = "waiting" // for a person's agreement
)

// Status tells of a server whether it answers.
type Status struct {
	ID   string `json:"id"`
	File string `json:"file"`
	// Transport is stdio, http or sse; Runs the command line or the URL as the
	// file has it.
	Transport string `json:"transport"`
	Runs      string `json:"runs"`
	State     string `json:"state"`
	Problem   string `json:"problem,omitempty"`
	TookMs    int64  `json:"tookMs"`
	// Tools are those it would offer.
	Tools []agent.ToolSpec `json:"-"`
}

// Probe starts every server that may be started, asks for its tools and ends it
// again. What waits for a person's agreement is listed and not started.
func Probe(ctx context.Context, o Options) ([]File, []Status) {
	files := o.Files()
	want, waiting := wanted(files)
	m := New(o, func([]agent.Tool) error { return nil })
	var wg sync.WaitGroup
	var mu sync.Mutex
	var out []Status
	add := func(s Status) {
		mu.Lock()
		defer mu.Unlock()
		out = append(out, s)
	}
	for _, f := range files {
		for _, c := range f.Servers {
			s := Status{ID: c.ID, File: c.File, Transport: c.Kind, Runs: c.raw}
			if w, ok := want[c.ID]; !ok || w.File != c.File {
				if waiting[serverName(c.ID)] == c.File {
					s.State = StateWaiting
					out = append(out, s)
				}
				continue // hidden by the project's of that name
			}
			srv := newServer(c, o.Env, o.Log, func() {})
			m.servers[c.ID] = srv
			wg.Go(func() {
				began := time.Now()
				_, err := srv.open(ctx)
				s.State, s.TookMs = StateOK, time.Since(began).Milliseconds()
				if err != nil {
					s.State, s.Problem = StateFailed, err.Error()
				}
				add(s)
			})
		}
	}
	wg.Wait()
	for _, t := range m.current() {
		st := t.(serverTool)
		for i := range out {
			if out[i].ID == st.server.cfg.ID && out[i].File == st.server.cfg.File {
				out[i].Tools = append(out[i].Tools, st.spec)
			}
		}
	}
	closeAll(m.servers)
	slices.SortFunc(out, func(a, b Status) int {
		return strings.Compare(a.File+"\x00"+a.ID, b.File+"\x00"+b.ID)
	})
	return files, out
}
