// This is the conformance suite of port.MemoryPort, which runs on every persistence.
package port_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/port"
)

// item is what the suite keeps in ports: the least that a message is.
type item struct {
	ID   string     `json:"id"`
	Role agent.Role `json:"role"`
	Text string     `json:"content"`
}

// harness tells the suite of port.MemoryPort how to make ports and what they
// can do.
type harness struct {
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
	// in others. The TestMain of the test does the Jobs then.
	Shared bool
	// CrashPoint is that of a write, of Shared ports.
	CrashPoint string
	// Conversations means that keys are names of conversations and items messages:
	// other keys are refused, and items without an id are given one.
	Conversations bool
}

// fataler is the part of testing.T and rapid.T that cases use.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// env is a port under test.
type env struct {
	fataler
	test     *testing.T
	ctx      context.Context
	h        harness
	location string
	units    port.MemoryPersistence
	p        *port.PersistedMemory[item] // over units
}

// rule is one case of the suite, named by the sentence it checks.
type rule struct {
	name string
	run  func(e *env)
}

// Run runs every case of the suite of port.MemoryPort, each on data of its own,
// and the property test. Metadata, which some ports add, is left out.
func runSuite(t *testing.T, h harness) {
	t.Helper()
	all := rules
	for _, more := range []struct {
		has   bool
		rules []rule
	}{{!h.Conversations, keyRules}, {h.Durable, durableRules}, {!h.Durable, volatileRules}, {h.Shared, sharedRules}} {
		if more.has {
			all = slices.Concat(all, more.rules)
		}
	}
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.run(newEnv(t, h))
		})
	}
	t.Run("random operations do what they do on a map", func(t *testing.T) { runRandom(t, h) })
}

func newEnv(t *testing.T, h harness) *env {
	t.Helper()
	e := &env{fataler: t, test: t, ctx: t.Context(), h: h, location: h.Location(t, t.TempDir())}
	if h.Sound != nil {
		t.Cleanup(func() { h.Sound(t, e.location) })
	}
	e.reopen()
	return e
}

func (e *env) reopen() {
	e.Helper()
	var err error
	e.units, err = e.h.Open(e.location)
	e.ok(err)
	p := port.NewPersistedMemory[item](e.units)
	e.test.Cleanup(func() { _ = p.Close() })
	e.p = p
}

// another opens the same data again.
func (e *env) another() *env {
	e.Helper()
	other := *e
	other.reopen()
	return &other
}

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error (%s): %v", agent.CodeOf(err), err)
	}
}

// code checks that an error has a code.
func (e *env) code(err error, want agent.Code) {
	e.Helper()
	if agent.CodeOf(err) != want {
		e.Fatalf("error %q (%v), want code %v", agent.CodeOf(err), err, want)
	}
}

func (e *env) same(what string, got, want any) {
	e.Helper()
	if !reflect.DeepEqual(got, want) {
		e.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

// numbered are items whose text can be checked against their ids, letters those
// whose ids are single letters.
func numbered(prefix string, n int) []item {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-%04d", prefix, i))
	}
	return items(ids...)
}

func letters(ids string) []item { return items(strings.Split(ids, "")...) }

func items(ids ...string) []item {
	out := []item{}
	for _, id := range ids {
		out = append(out, item{id, agent.RoleUser, "text of " + id})
	}
	return out
}

// number is an item that counts.
func number(n int) []item { return []item{{"n", agent.RoleUser, strconv.Itoa(n)}} }

// records are items as units of work know them.
func records(list []item) (out []port.Record) {
	for _, it := range list {
		body, err := json.Marshal(it)
		if err != nil {
			panic(err)
		}
		out = append(out, port.Record{ID: it.ID, Body: body})
	}
	return out
}

type snapshot = port.MemorySnapshot[item]

// holds checks the items of a key.
func (e *env) holds(key string, want []item) {
	e.Helper()
	got := memorytest.Must(e.p.Get(e.ctx, key))(e)
	e.same("items of "+key, got, want)
}

// keys checks which keys there are.
func (e *env) keys(want ...string) {
	e.Helper()
	got := memorytest.Must(e.p.Keys(e.ctx))(e)
	e.same("keys", slices.DeleteFunc(got, isMetadata), append([]string{}, want...))
}

func isMetadata(key string) bool { return strings.HasPrefix(key, "__metadata__:") }

// snapshot returns everything.
func (e *env) snapshot() snapshot {
	e.Helper()
	s := memorytest.Must(e.p.ExportSnapshot(e.ctx))(e)
	for key := range s {
		if isMetadata(key) {
			delete(s, key)
		}
	}
	return s
}

// unchanged checks that f leaves everything as it was.
func (e *env) unchanged(f func()) {
	e.Helper()
	before := e.snapshot()
	f()
	e.same("everything", e.snapshot(), before)
}

// Jobs are what the suite wants other processes to do, for processtest.Main.
func jobs(open func(location string) (port.MemoryPersistence, error)) map[string]processtest.Job {
	return map[string]processtest.Job{"append": func(args []string) error {
		p, err := open(args[0])
		if err != nil {
			return err
		}
		return childAppends(p, args[1], args[2], args[3])
	}}
}

// childAppends appends the items from..to of a name to the key "shared", each in one
// unit with a counter, and prints the id of each when it is acknowledged.
func childAppends(p port.MemoryPersistence, name, from, to string) error {
	first, _ := strconv.Atoi(from)
	last, _ := strconv.Atoi(to)
	for i, it := range records(numbered(name, last)[first:]) {
		err := p.Update(context.Background(), func(r port.Records) error {
			if _, err := r.Append("shared", []port.Record{it}); err != nil {
				return err
			}
			return r.Put("count", records(number(first+i+1)))
		})
		if err != nil {
			return err
		}
		fmt.Println(it.ID)
	}
	return nil
}

// child starts another process on the same data; it is killed when the case ends.
func (e *env) child(name string, from, to int, env ...string) *processtest.Process {
	e.Helper()
	return processtest.Start(e.test, "append", env, e.location, name, strconv.Itoa(from), strconv.Itoa(to))
}
