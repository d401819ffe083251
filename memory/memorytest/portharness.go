package memorytest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/port"
)

// PortItem is what the suite keeps in ports: the least that a message is.
type PortItem struct {
	ID   string     `json:"id"`
	Role agent.Role `json:"role"`
	Text string     `json:"content"`
}

// PortHarness tells the suite of port.MemoryPort how to make ports and what they
// can do.
type PortHarness struct {
	// Location names a new empty place for data; those that are files are below
	// dir, which exists.
	Location func(t *testing.T, dir string) string
	// Open opens the data at a location, as another process would.
	Open func(location string) (port.MemoryPersistence, error)
	// Sound, if set, checks what is at a location when a case has ended.
	Sound func(t *testing.T, location string)

	// Durable ports keep their items when they are closed.
	Durable bool
	// Shared ports see what others of their location write, in this process and
	// in others. The TestMain of the test calls PortChild with Open then.
	Shared bool
	// CrashPoint is that of a write, of Shared ports.
	CrashPoint string
	// Conversations means that keys are names of conversations, each of which has
	// metadata too, and that items are given ids.
	Conversations bool
	// RandomFor bounds the time of the property test; 0 means 5 seconds.
	RandomFor time.Duration
}

// portEnv is a port under test.
type portEnv struct {
	fataler
	test     *testing.T
	h        PortHarness
	location string
	p        *port.PersistedMemory[PortItem]
	units    port.MemoryPersistence // of p
	ctx      context.Context
}

// portRule is one case of the suite, named by the sentence it checks.
type portRule struct {
	name string
	run  func(e *portEnv)
}

// RunPort runs every case of the suite of port.MemoryPort, each on data of its own,
// and the property test.
func RunPort(t *testing.T, h PortHarness) {
	t.Helper()
	rules := slices.Concat(portItemRules, portUnitRules, portSnapshotRules)
	for _, more := range []struct {
		has   bool
		rules []portRule
	}{{!h.Conversations, portKeyRules}, {h.Durable, portDurableRules}, {!h.Durable, portVolatileRules}, {h.Shared, portSharedRules}} {
		if more.has {
			rules = append(rules, more.rules...)
		}
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.run(newPortEnv(t, h))
		})
	}
	t.Run("random operations do what they do on a map", func(t *testing.T) { runRandomPort(t, h) })
}

func newPortEnv(t *testing.T, h PortHarness) *portEnv {
	t.Helper()
	e := &portEnv{fataler: t, test: t, h: h, ctx: t.Context(), location: h.Location(t, t.TempDir())}
	if h.Sound != nil {
		t.Cleanup(func() { h.Sound(t, e.location) })
	}
	e.reopen()
	return e
}

func (e *portEnv) reopen() {
	e.Helper()
	var err error
	e.units, err = e.h.Open(e.location)
	e.ok(err)
	p := port.NewPersistedMemory[PortItem](e.units)
	e.test.Cleanup(func() { _ = p.Close() })
	e.p = p
}

// another opens the same data again.
func (e *portEnv) another() *portEnv {
	e.Helper()
	other := *e
	other.reopen()
	return &other
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
func item(id string) PortItem { return PortItem{id, agent.RoleUser, "text of " + id} }

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

// number is an item that counts.
func number(n int) []PortItem {
	return []PortItem{{ID: "n", Role: agent.RoleUser, Text: strconv.Itoa(n)}}
}

// records are items as units of work know them.
func records(list ...PortItem) []port.Record {
	var out []port.Record
	for _, it := range list {
		body, err := json.Marshal(it)
		if err != nil {
			panic(err)
		}
		out = append(out, port.Record{ID: it.ID, Body: body})
	}
	return out
}

// plain takes away what conversations add: ids that were given, metadata.
func (e *portEnv) plain(s port.MemorySnapshot[PortItem], want map[string][]PortItem) port.MemorySnapshot[PortItem] {
	if !e.h.Conversations {
		return s
	}
	for key := range s {
		if strings.HasPrefix(key, "__metadata__:") {
			delete(s, key)
		}
		for i, w := range want[key] {
			if w.ID == "" && i < len(s[key]) {
				s[key][i].ID = ""
			}
		}
	}
	return s
}

// holds checks the items of a key.
func (e *portEnv) holds(key string, want []PortItem) {
	e.Helper()
	got, err := e.p.Get(e.ctx, key)
	e.ok(err)
	e.same("items of "+key, e.plain(port.MemorySnapshot[PortItem]{key: got}, map[string][]PortItem{key: want})[key], want)
}

// keys checks which keys there are.
func (e *portEnv) keys(want ...string) {
	e.Helper()
	got, err := e.p.Keys(e.ctx)
	e.ok(err)
	if e.h.Conversations {
		got = slices.DeleteFunc(got, func(key string) bool { return strings.HasPrefix(key, "__metadata__:") })
	}
	e.same("keys", got, append([]string{}, want...))
}

// all checks everything.
func (e *portEnv) all(want port.MemorySnapshot[PortItem]) {
	e.Helper()
	e.same("everything", e.snapshot(want), want)
}

func (e *portEnv) snapshot(want map[string][]PortItem) port.MemorySnapshot[PortItem] {
	e.Helper()
	s, err := e.p.ExportSnapshot(e.ctx)
	e.ok(err)
	return e.plain(s, want)
}

// unchanged checks that f leaves everything as it was.
func (e *portEnv) unchanged(f func()) {
	e.Helper()
	before := e.snapshot(nil)
	f()
	e.same("everything", e.snapshot(nil), before)
}

// portChildEnv makes a test binary act as another process of a port.
const portChildEnv = "SPOOL_PORT_TEST_CHILD"

// PortChild runs what the suite wants other processes to do and ends the
// process. In any other process it does nothing. Call it first in TestMain.
func PortChild(open func(location string) (port.MemoryPersistence, error)) {
	if os.Getenv(portChildEnv) == "" {
		return
	}
	p, err := open(os.Args[1])
	if err == nil {
		err = childAppends(p, os.Args[2], os.Args[3:])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", agent.CodeOf(err), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// childAppends appends the items from..to of a name to the key "shared", each in one
// unit with a counter, and prints the id of each when it is acknowledged.
func childAppends(p port.MemoryPersistence, name string, bounds []string) error {
	first, err := strconv.Atoi(bounds[0])
	if err != nil {
		return err
	}
	last, err := strconv.Atoi(bounds[1])
	if err != nil {
		return err
	}
	for _, it := range numbered(name, last)[first:] {
		err := p.Update(context.Background(), func(r port.Records) error {
			if _, err := r.Append("shared", records(it)); err != nil {
				return err
			}
			have, err := r.Get("shared")
			if err != nil {
				return err
			}
			return r.Put("count", records(number(len(have))...))
		})
		if err != nil {
			return err
		}
		fmt.Println(it.ID)
	}
	return nil
}

// child starts another process on the same data; it is killed when the case ends.
func (e *portEnv) child(name string, from, to int, env ...string) *Process {
	e.Helper()
	return StartProcess(e.test, append([]string{portChildEnv + "=append"}, env...), e.location, name, strconv.Itoa(from), strconv.Itoa(to))
}
