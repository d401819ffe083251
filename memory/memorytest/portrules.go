package memorytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/port"
)

// portItemRules are about single keys.
var portItemRules = []portRule{
	{"a missing key is empty, not an error, and is not made by reading or deleting it", func(e *portEnv) {
		e.holds("none", []PortItem{})
		e.ok(e.p.Delete(e.ctx, "none"))
		e.ok(e.p.Clear(e.ctx))
		e.ok(e.p.Append(e.ctx, "none"))
		e.ok(e.p.Set(e.ctx, "none", nil))
		e.keys()
	}},
	{"a set replaces all items of its key, in its order, and no others; nothing removes the key", func(e *portEnv) {
		odd := PortItem{"b", agent.RoleUser, "ü \"<&>\" \u2028 \\ 🧵\n"}
		e.ok(e.p.Set(e.ctx, "k", []PortItem{odd, item("a"), item("c")}))
		e.holds("k", []PortItem{odd, item("a"), item("c")})
		e.ok(e.p.Set(e.ctx, "other", items("a")))
		e.ok(e.p.Set(e.ctx, "k", items("c", "d")))
		e.all(port.MemorySnapshot[PortItem]{"k": items("c", "d"), "other": items("a")})
		other := item("c")
		other.Text = "another text"
		e.ok(e.p.Set(e.ctx, "k", []PortItem{other, item("e"), item("d")}))
		e.holds("k", []PortItem{other, item("e"), item("d")})
		e.ok(e.p.Set(e.ctx, "k", []PortItem{}))
		e.keys("other")
		e.unchanged(func() { e.code(e.p.Set(e.ctx, "other", items("b", "c", "b")), agent.CodeInvalid) })
	}},
	{"an append adds behind what is there what is not there yet", func(e *portEnv) {
		e.ok(e.p.Append(e.ctx, "k", item("b")))
		e.ok(e.p.Append(e.ctx, "k", item("a"), item("d"), item("d")))
		e.ok(e.p.Append(e.ctx, "k", item("a"), item("c")))
		e.ok(e.p.Append(e.ctx, "other", item("a")))
		e.all(port.MemorySnapshot[PortItem]{"k": items("b", "a", "d", "c"), "other": items("a")})
		e.ok(e.p.Set(e.ctx, "k", items("c", "e")))
		e.ok(e.p.Append(e.ctx, "k", item("e"), item("a")))
		e.holds("k", items("c", "e", "a"))
	}},
	{"the same id with other content is refused, and nothing of that append is added", func(e *portEnv) {
		e.ok(e.p.Append(e.ctx, "k", item("a")))
		e.unchanged(func() {
			other := item("a")
			other.Text = "another text"
			e.code(e.p.Append(e.ctx, "k", item("b"), other), agent.CodeConflict)
			other.ID = "c"
			e.code(e.p.Append(e.ctx, "k", item("c"), other), agent.CodeConflict)
		})
	}},
	{"items without an id are never taken for one another", func(e *portEnv) {
		x := PortItem{Role: agent.RoleUser, Text: "x"}
		e.ok(e.p.Append(e.ctx, "k", x, x))
		e.ok(e.p.Append(e.ctx, "k", x))
		e.holds("k", []PortItem{x, x, x})
		e.ok(e.p.Set(e.ctx, "k", []PortItem{x, x}))
		e.holds("k", []PortItem{x, x})
	}},
	{"deleted keys are gone, and can be made again; clear removes all", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		e.ok(e.p.Set(e.ctx, "other", items("b")))
		e.ok(e.p.Delete(e.ctx, "k"))
		e.keys("other")
		e.ok(e.p.Append(e.ctx, "k", item("a")))
		e.holds("k", items("a"))
		e.ok(e.p.Clear(e.ctx))
		e.keys()
		e.holds("k", []PortItem{})
	}},
	{"an id that is too long or contains NUL is refused", func(e *portEnv) {
		e.code(e.p.Append(e.ctx, "k", item("a\x00b")), agent.CodeInvalid)
		e.code(e.p.Append(e.ctx, "k", item("a"), item(strings.Repeat("i", port.MaxKeyLength+1))), agent.CodeInvalid)
		e.keys()
		e.ok(e.p.Append(e.ctx, "k", item(strings.Repeat("i", port.MaxKeyLength))))
	}},
	{"an item of a megabyte is kept, as a copy", func(e *portEnv) {
		big := PortItem{"big", agent.RoleUser, strings.Repeat("0123456789abcdé ", 70_000)}
		in := []PortItem{item("a"), big}
		e.ok(e.p.Append(e.ctx, "k", in...))
		in[0].Text = "changed"
		out, err := e.p.Get(e.ctx, "k")
		e.ok(err)
		out[1].Text = "changed"
		e.holds("k", []PortItem{item("a"), big})
	}},
}

// portKeyRules are for ports whose keys may be any text.
var portKeyRules = []portRule{
	{"keys are sorted by their bytes, and differ in case, in spaces and in their Unicode form", func(e *portEnv) {
		want := []string{" ", "%", "'; DROP TABLE messages; --", "10", "9", "A", "K", "Z", "_", "__metadata__:a", "a", "a-b", "a/b", "agent:x:1", "b", "cafe\u0301", "caf\u00e9", "k", "k ", "ä", "🧵"}
		for i := range want {
			key := want[(i*5)%len(want)]
			e.ok(e.p.Append(e.ctx, key, PortItem{ID: "x", Text: key}))
		}
		e.keys(want...)
		for _, key := range want {
			e.holds(key, []PortItem{{ID: "x", Text: key}})
		}
	}},
	{"a key that is empty, too long, not UTF-8 or contains NUL is refused", func(e *portEnv) {
		for _, key := range []string{"", strings.Repeat("k", port.MaxKeyLength+1), "a\x00b", "\xff"} {
			_, err := e.p.Get(e.ctx, key)
			e.code(err, agent.CodeInvalid)
			e.code(e.p.Set(e.ctx, key, items("a")), agent.CodeInvalid)
			e.code(e.p.Append(e.ctx, key, item("a")), agent.CodeInvalid)
			e.code(e.p.Delete(e.ctx, key), agent.CodeInvalid)
		}
		long := strings.Repeat("k", port.MaxKeyLength)
		e.ok(e.p.Append(e.ctx, long, item("a")))
		e.keys(long)
	}},
}

// count adds one to a number, in a unit that reads and writes.
func (e *portEnv) count(key string) error {
	return e.units.Update(e.ctx, func(r port.Records) error {
		have, err := r.Get(key)
		n := 0
		if err == nil && len(have) > 0 {
			var it PortItem
			if err = json.Unmarshal(have[0].Body, &it); err == nil {
				n, err = strconv.Atoi(it.Text)
			}
		}
		if err != nil {
			return err
		}
		return r.Put(key, records(number(n+1)...))
	})
}

// portUnitRules are about several operations at once.
var portUnitRules = []portRule{
	{"an update of several keys happens as a whole, and sees what it wrote", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "old", items("x")))
		e.ok(e.units.Update(e.ctx, func(r port.Records) error {
			if _, err := r.Append("k", records(items("a", "b", "a")...)); err != nil {
				return err
			}
			have, err := r.Get("k")
			if err != nil || len(have) != 2 {
				return fmt.Errorf("a unit does not see its own writes: %d, %w", len(have), err)
			}
			return errors.Join(r.Put("old", nil), r.Put("count", records(number(2)...)))
		}))
		e.all(port.MemorySnapshot[PortItem]{"k": items("a", "b"), "count": number(2)})
		e.ok(e.units.Update(e.ctx, func(r port.Records) error {
			if err := r.Clear(); err != nil {
				return err
			}
			_, err := r.Append("k", records(item("c")))
			return err
		}))
		e.all(port.MemorySnapshot[PortItem]{"k": items("c")})
	}},
	{"an update that fails changes nothing, and its error is returned; a view cannot write", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		failed := errors.New("changed my mind")
		e.unchanged(func() {
			err := e.units.Update(e.ctx, func(r port.Records) error {
				_, appended := r.Append("n", records(item("b")))
				return errors.Join(r.Clear(), appended, failed)
			})
			if !errors.Is(err, failed) {
				e.Errorf("got %v, want the error of the unit", err)
			}
			e.ok(e.units.View(e.ctx, func(r port.Records) error {
				_, err := r.Append("k", records(item("b")))
				e.code(err, agent.CodeInvalid)
				e.code(r.Put("k", nil), agent.CodeInvalid)
				e.code(r.Clear(), agent.CodeInvalid)
				return nil
			}))
		})
	}},
	{"a call with a cancelled context changes nothing", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		e.unchanged(func() {
			err := e.p.Append(ctx, "k", item("b"))
			e.code(err, agent.CodeUnavailable)
			if !errors.Is(err, context.Canceled) {
				e.Errorf("errors.Is(%v, context.Canceled) does not hold", err)
			}
			_, err = e.p.Get(ctx, "k")
			e.code(err, agent.CodeUnavailable)
		})
	}},
	{"concurrent writers lose nothing and double nothing, and readers see whole units", func(e *portEnv) {
		const writers, each = 5, 10
		var wg sync.WaitGroup
		for w := range writers {
			p := e
			if e.h.Shared && w%2 == 1 {
				p = e.another()
			}
			wg.Go(func() {
				for _, it := range numbered(fmt.Sprint("w", w), each) {
					for range 2 { // each is repeated, as after a lost reply
						if err := p.p.Append(e.ctx, "shared", it); err != nil {
							e.Errorf("append: %v", err)
						}
					}
					pair := records(it)
					err := p.units.Update(e.ctx, func(r port.Records) error { return errors.Join(r.Put("one", pair), r.Put("two", pair)) })
					if err = errors.Join(err, p.count("count")); err != nil {
						e.Errorf("update: %v", err)
					}
				}
			})
		}
		for range 20 {
			s := e.snapshot(nil)
			e.same("one of two keys that change together", s["one"], s["two"])
		}
		wg.Wait()
		e.holds("count", number(writers*each))
		got, err := e.p.Get(e.ctx, "shared")
		e.ok(err)
		e.same("number of items", len(got), writers*each)
		e.sound(got)
	}},
}

// sound checks that each writer's items are whole and in their order.
func (e *portEnv) sound(got []PortItem) {
	e.Helper()
	next := map[string]int{}
	for _, it := range got {
		writer, _, _ := strings.Cut(it.ID, "-")
		e.same("item", it, item(fmt.Sprintf("%s-%04d", writer, next[writer])))
		next[writer]++
	}
}

// portSnapshotRules are about everything at once.
var portSnapshotRules = []portRule{
	{"an export that is imported into an empty memory makes it equal; its JSON is an object of lists", func(e *portEnv) {
		data, err := json.Marshal(e.snapshot(nil))
		e.ok(err)
		e.same("JSON of nothing", string(data), `{}`)
		e.ok(e.p.Set(e.ctx, "cli", append(items("b", "a"), PortItem{Role: agent.RoleUser, Text: "no id"})))
		e.ok(e.p.Append(e.ctx, "other", item("c")))
		exported, err := e.p.ExportSnapshot(e.ctx)
		e.ok(err)
		s := e.snapshot(nil)
		data, err = json.Marshal(s)
		e.ok(err)
		contains := `"other":[{"id":"c","role":"user","content":"text of c"}]}`
		if !strings.HasPrefix(string(data), `{"cli":[{"id":"b",`) || !strings.HasSuffix(string(data), contains) {
			e.Errorf("JSON: %s", data)
		}
		target := newPortEnv(e.test, e.h)
		target.ok(target.p.ImportSnapshot(target.ctx, exported))
		target.same("snapshot", target.snapshot(nil), s)
		target.ok(target.p.Append(target.ctx, "cli", item("a"), item("d")))
		got, err := target.p.Get(target.ctx, "cli")
		target.ok(err)
		target.same("items after a repeated append", len(got), 4)
	}},
	{"an import replaces the keys it names and keeps the others; with anything wrong in it, it changes nothing", func(e *portEnv) {
		for key, id := range map[string]string{"k": "a", "other": "c", "gone": "d"} {
			e.ok(e.p.Set(e.ctx, key, items(id)))
		}
		e.ok(e.p.ImportSnapshot(e.ctx, port.MemorySnapshot[PortItem]{"k": items("x"), "gone": {}}))
		want := port.MemorySnapshot[PortItem]{"k": items("x"), "other": items("c")}
		e.all(want)
		e.code(e.p.ImportSnapshot(e.ctx, port.MemorySnapshot[PortItem]{"k": items("y"), "": items("z")}), agent.CodeInvalid)
		e.code(e.p.ImportSnapshot(e.ctx, port.MemorySnapshot[PortItem]{"k": items("y"), "l": items("y", "y")}), agent.CodeInvalid)
		e.all(want)
	}},
}
