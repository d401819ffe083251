package memorytest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// PortItem is what the suite keeps in ports.
type PortItem struct {
	ID   string   `json:"id"`
	Text string   `json:"text"`
	Tags []string `json:"tags,omitempty"`
	N    int64    `json:"n,omitempty"`
}

// PortItemID is the id of a PortItem, for the making of ports.
func PortItemID(i PortItem) string { return i.ID }

// PortHarness tells the suite of memory.MemoryPort how to make ports and what they can do.
type PortHarness struct {
	// Location names a new empty place for data; those that are files are below
	// dir, which exists.
	Location func(t *testing.T, dir string) string
	// Open opens the data at a location, as another process would.
	Open func(location string) (memory.AtomicPort[PortItem], error)
	// Durable ports keep their items when they are closed, and share them with
	// other ports of the same location, in this process and in others. The
	// TestMain of the test calls PortChild with Open then.
	Durable bool
	// RandomFor bounds the time of the property test; 0 means 5 seconds.
	RandomFor time.Duration
}

// portEnv is a port under test.
type portEnv struct {
	fataler
	test     *testing.T
	h        PortHarness
	location string
	p        memory.AtomicPort[PortItem]
	ctx      context.Context
}

// portRule is one case of the suite, named by the sentence it checks.
type portRule struct {
	name string
	run  func(e *portEnv)
}

// RunPort runs every case of the suite of memory.MemoryPort, each on data of its own,
// and the property test.
func RunPort(t *testing.T, h PortHarness) {
	t.Helper()
	run := func(group string, rules []portRule) {
		t.Run(group, func(t *testing.T) {
			for _, r := range rules {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					r.run(newPortEnv(t, h))
				})
			}
		})
	}
	run("items", portItemRules)
	run("units", portUnitRules)
	run("snapshots", portSnapshotRules)
	if h.Durable {
		run("durable", portDurableRules)
	} else {
		run("volatile", portVolatileRules)
	}
	t.Run("random operations do what they do on a map", func(t *testing.T) { runRandomPort(t, h) })
}

func newPortEnv(t *testing.T, h PortHarness) *portEnv {
	t.Helper()
	e := &portEnv{fataler: t, test: t, h: h, ctx: t.Context(), location: h.Location(t, t.TempDir())}
	e.p = e.another()
	return e
}

// another opens the same data again.
func (e *portEnv) another() memory.AtomicPort[PortItem] {
	e.Helper()
	p, err := e.h.Open(e.location)
	e.ok(err)
	e.test.Cleanup(func() { _ = p.Close() })
	return p
}

func (e *portEnv) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error (%s): %v", agent.CodeOf(err), err)
	}
}

func (e *portEnv) code(err error, codes ...agent.Code) {
	e.Helper()
	if !slices.Contains(codes, agent.CodeOf(err)) {
		e.Fatalf("error %q (%v), want code %v", agent.CodeOf(err), err, codes)
	}
}

func (e *portEnv) same(what string, got, want any) {
	e.Helper()
	if !reflect.DeepEqual(got, want) {
		e.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

// item makes an item whose text can be checked against its id.
func item(id string) PortItem { return PortItem{ID: id, Text: "text of " + id} }

func items(ids ...string) []PortItem {
	out := []PortItem{}
	for _, id := range ids {
		out = append(out, item(id))
	}
	return out
}

func numbered(prefix string, n int) []PortItem {
	out := []PortItem{}
	for i := range n {
		out = append(out, item(fmt.Sprintf("%s-%04d", prefix, i)))
	}
	return out
}

// holds checks the items of a key.
func (e *portEnv) holds(p memory.MemoryPort[PortItem], key string, want []PortItem) {
	e.Helper()
	got, err := p.Get(e.ctx, key)
	e.ok(err)
	e.same("items of "+key, got, want)
}

// keys checks which keys there are.
func (e *portEnv) keys(p memory.MemoryPort[PortItem], want ...string) {
	e.Helper()
	got, err := p.Keys(e.ctx)
	e.ok(err)
	if want == nil {
		want = []string{}
	}
	e.same("keys", got, want)
}

// snapshot returns everything.
func (e *portEnv) snapshot() memory.MemorySnapshot[PortItem] {
	e.Helper()
	s, err := e.p.ExportSnapshot(e.ctx)
	e.ok(err)
	return s
}

// unchanged checks that f leaves everything as it was.
func (e *portEnv) unchanged(f func()) {
	e.Helper()
	before := e.snapshot()
	f()
	e.same("everything", e.snapshot(), before)
}
