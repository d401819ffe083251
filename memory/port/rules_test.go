package port_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/port"
)

// rules are those of every port.
var rules = []rule{
	{"a missing key is empty, not an error, and is not made by reading or deleting it", func(e *env) {
		e.holds("none", []item{})
		e.ok(errors.Join(e.p.Delete(e.ctx, "none"), e.p.Clear(e.ctx), e.p.Append(e.ctx, "none"), e.p.Set(e.ctx, "none", nil)))
		e.same("everything", e.snapshot(), snapshot{})
	}},
	{"a set replaces all items of its key, in its order, and no others; nothing removes the key", func(e *env) {
		odd := item{"b", agent.RoleUser, "ü \"<&>\" \u2028 \\ 🧵\n" + strings.Repeat("0123456789abcdé ", 70_000)}
		e.ok(e.p.Set(e.ctx, "k", append([]item{odd}, letters("ac")...)))
		e.holds("k", append([]item{odd}, letters("ac")...))
		e.ok(e.p.Set(e.ctx, "other", letters("a")))
		e.ok(e.p.Set(e.ctx, "k", letters("cd")))
		e.same("everything", e.snapshot(), snapshot{"k": letters("cd"), "other": letters("a")})
		changed := letters("ced")
		changed[0].Text = "another text"
		e.ok(e.p.Set(e.ctx, "k", changed))
		e.holds("k", changed)
		e.unchanged(func() { e.code(e.p.Set(e.ctx, "other", letters("bcb")), agent.CodeInvalid) })
		e.ok(e.p.Set(e.ctx, "k", []item{}))
		e.keys("other")
	}},
	{"an append adds behind what is there what is not there yet; the same id with other content is refused", func(e *env) {
		e.ok(e.p.Append(e.ctx, "k", letters("b")...))
		e.ok(e.p.Append(e.ctx, "k", letters("add")...))
		e.ok(e.p.Append(e.ctx, "k", letters("ac")...))
		e.ok(e.p.Append(e.ctx, "other", letters("a")...))
		e.same("everything", e.snapshot(), snapshot{"k": letters("badc"), "other": letters("a")})
		e.unchanged(func() {
			for _, id := range []string{"b", "x"} {
				e.code(e.p.Append(e.ctx, "k", append(letters("x"), item{id, agent.RoleUser, "another"})...), agent.CodeConflict)
			}
		})
		e.ok(e.p.Set(e.ctx, "k", letters("ce")))
		e.ok(e.p.Append(e.ctx, "k", letters("ea")...))
		e.holds("k", letters("cea"))
	}},
	{"deleted keys are gone, and can be made again; clear removes all", func(e *env) {
		e.ok(errors.Join(e.p.Set(e.ctx, "k", letters("a")), e.p.Set(e.ctx, "other", letters("b")), e.p.Delete(e.ctx, "k")))
		e.keys("other")
		e.ok(e.p.Append(e.ctx, "k", letters("a")...))
		e.holds("k", letters("a"))
		e.ok(e.p.Clear(e.ctx))
		e.same("everything", e.snapshot(), snapshot{})
	}},
	{"an id that is too long or contains NUL is refused", func(e *env) {
		e.code(e.p.Append(e.ctx, "k", items("a\x00b")...), agent.CodeInvalid)
		e.code(e.p.Append(e.ctx, "k", items("a", strings.Repeat("i", port.MaxKeyLength+1))...), agent.CodeInvalid)
		e.keys()
		e.ok(e.p.Append(e.ctx, "k", items(strings.Repeat("i", port.MaxKeyLength))...))
	}},
	{"an update of several keys happens as a whole, and sees what it wrote", func(e *env) {
		e.ok(e.p.Set(e.ctx, "old", letters("x")))
		e.ok(e.units.Update(e.ctx, func(r port.Records) error {
			_, err := r.Append("k", records(letters("aba")))
			have, getting := r.Get("k")
			e.same("what a unit wrote", len(have), 2)
			return errors.Join(err, getting, r.Put("old", nil), r.Put("count", records(number(2))))
		}))
		e.same("everything", e.snapshot(), snapshot{"k": letters("ab"), "count": number(2)})
		e.ok(e.units.Update(e.ctx, func(r port.Records) error {
			clearing := r.Clear()
			_, err := r.Append("k", records(letters("c")))
			return errors.Join(clearing, err)
		}))
		e.same("everything", e.snapshot(), snapshot{"k": letters("c")})
	}},
	{"an update that fails changes nothing, and its error is returned; a view cannot write", func(e *env) {
		e.ok(e.p.Set(e.ctx, "k", letters("a")))
		failed := errors.New("changed my mind")
		e.unchanged(func() {
			err := e.units.Update(e.ctx, func(r port.Records) error {
				_, appended := r.Append("n", records(letters("b")))
				return errors.Join(r.Clear(), appended, failed)
			})
			e.same("the error of the unit", errors.Is(err, failed), true)
			e.ok(e.units.View(e.ctx, func(r port.Records) error {
				_, err := r.Append("k", records(letters("b")))
				for _, err := range []error{err, r.Put("k", nil), r.Clear()} {
					e.code(err, agent.CodeInvalid)
				}
				return nil
			}))
		})
	}},
	{"a call with a cancelled context changes nothing", func(e *env) {
		e.ok(e.p.Set(e.ctx, "k", letters("a")))
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		e.unchanged(func() {
			_, reading := e.p.Get(ctx, "k")
			for _, err := range []error{reading, e.p.Append(ctx, "k", letters("b")...)} {
				e.code(err, agent.CodeUnavailable)
				e.same("is context.Canceled", errors.Is(err, context.Canceled), true)
			}
		})
	}},
	{"concurrent writers lose nothing and double nothing, and readers see whole units", func(e *env) {
		const writers, each = 5, 10
		var wg sync.WaitGroup
		for w := range writers {
			p := e
			if e.h.Shared && w%2 == 1 {
				p = e.another()
			}
			wg.Go(func() {
				for _, it := range numbered(fmt.Sprint("w", w), each) {
					pair := records([]item{it})
					err := errors.Join(p.p.Append(e.ctx, "shared", it), p.p.Append(e.ctx, "shared", it), // as after a lost reply
						p.units.Update(e.ctx, func(r port.Records) error { return errors.Join(r.Put("one", pair), r.Put("two", pair)) }), p.count())
					if err != nil {
						e.Errorf("write: %v", err)
					}
				}
			})
		}
		for range 20 {
			s := e.snapshot()
			e.same("one of two keys that change together", s["one"], s["two"])
		}
		wg.Wait()
		e.holds("count", number(writers*each))
		e.whole(writers * each)
	}},
	{"an export that is imported into an empty memory makes it equal; its JSON is an object of lists", func(e *env) {
		e.ok(e.p.Set(e.ctx, "cli", letters("ba")))
		e.ok(e.p.Append(e.ctx, "other", letters("c")...))
		exported := memorytest.Must(e.p.ExportSnapshot(e.ctx))(e)
		data := memorytest.Must(json.Marshal(e.snapshot()))(e)
		e.same("JSON", string(data), `{"cli":[{"id":"b","role":"user","content":"text of b"},{"id":"a","role":"user","content":"text of a"}],"other":[{"id":"c","role":"user","content":"text of c"}]}`)
		target := newEnv(e.test, e.h)
		target.ok(target.p.ImportSnapshot(target.ctx, exported))
		target.same("snapshot", target.snapshot(), e.snapshot())
		target.ok(target.p.Append(target.ctx, "cli", letters("ad")...))
		target.holds("cli", letters("bad"))
	}},
	{"an import replaces the keys it names and keeps the others; with anything wrong in it, it changes nothing", func(e *env) {
		e.ok(e.p.ImportSnapshot(e.ctx, snapshot{"k": letters("a"), "other": letters("c"), "gone": letters("d")}))
		e.ok(e.p.ImportSnapshot(e.ctx, snapshot{"k": letters("x"), "gone": {}}))
		e.same("everything", e.snapshot(), snapshot{"k": letters("x"), "other": letters("c")})
		e.unchanged(func() {
			e.code(e.p.ImportSnapshot(e.ctx, snapshot{"k": letters("y"), "": letters("z")}), agent.CodeInvalid)
			e.code(e.p.ImportSnapshot(e.ctx, snapshot{"k": letters("y"), "l": letters("yy")}), agent.CodeInvalid)
		})
	}},
}

// count adds one to a number, in a unit that reads and writes.
func (e *env) count() error {
	return e.units.Update(e.ctx, func(r port.Records) error {
		have, err := r.Get("count")
		n, it := 0, item{}
		if err == nil && len(have) > 0 {
			if err = json.Unmarshal(have[0].Body, &it); err == nil {
				n, err = strconv.Atoi(it.Text)
			}
		}
		return errors.Join(err, r.Put("count", records(number(n+1))))
	})
}

// whole checks that what several writers appended is whole and in the order of each.
func (e *env) whole(n int) {
	e.Helper()
	got := memorytest.Must(e.p.Get(e.ctx, "shared"))(e)
	e.same("number of items", len(got), n)
	next := map[string]int{}
	for _, it := range got {
		writer, _, _ := strings.Cut(it.ID, "-")
		e.same("item", it, items(fmt.Sprintf("%s-%04d", writer, next[writer]))[0])
		next[writer]++
	}
}

// keyRules are for ports whose keys may be any text, and items anything.
var keyRules = []rule{
	{"keys are sorted by their bytes, and differ in case, in spaces and in their Unicode form", func(e *env) {
		want := []string{" ", "%", "'; DROP TABLE messages; --", "10", "9", "A", "K", "Z", "_", "a", "a-b", "a/b", "agent:x:1", "b", "cafe\u0301", "caf\u00e9", "k", "k ", "ä", "🧵"}
		for i := range want {
			e.ok(e.p.Append(e.ctx, want[(i*3)%len(want)], letters("x")...))
		}
		e.keys(want...)
	}},
	{"a key that is empty, too long, not UTF-8 or contains NUL is refused", func(e *env) {
		for _, key := range []string{"", strings.Repeat("k", port.MaxKeyLength+1), "a\x00b", "\xff"} {
			_, err := e.p.Get(e.ctx, key)
			for _, err := range []error{err, e.p.Set(e.ctx, key, letters("a")), e.p.Append(e.ctx, key, letters("a")...), e.p.Delete(e.ctx, key)} {
				e.code(err, agent.CodeInvalid)
			}
		}
		long := strings.Repeat("k", port.MaxKeyLength)
		e.ok(e.p.Append(e.ctx, long, letters("a")...))
		e.keys(long)
	}},
	{"items without an id are never taken for one another", func(e *env) {
		x := item{Text: "x"}
		e.ok(errors.Join(e.p.Append(e.ctx, "k", x, x), e.p.Append(e.ctx, "k", x)))
		e.holds("k", []item{x, x, x})
		e.ok(e.p.Set(e.ctx, "k", []item{x, x}))
		e.holds("k", []item{x, x})
	}},
}
