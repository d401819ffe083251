package memorytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// portItemRules are about single keys.
var portItemRules = []portRule{
	{"a missing key is empty, not an error, and is not made by reading or deleting it", func(e *portEnv) {
		e.holds(e.p, "none", []PortItem{})
		e.ok(e.p.Delete(e.ctx, "none"))
		e.ok(e.p.Clear(e.ctx))
		e.ok(e.p.Append(e.ctx, "none"))
		e.keys(e.p)
	}},
	{"what is set is what is got, in its order", func(e *portEnv) {
		want := []PortItem{{ID: "b", Text: "ü \"<&>\" \u2028 \\ 🧵\n", Tags: []string{"x", "y"}, N: 1 << 62}, item("a"), item("c")}
		e.ok(e.p.Set(e.ctx, "k", want))
		e.holds(e.p, "k", want)
	}},
	{"a set replaces all items of its key and no others", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a", "b", "c")))
		e.ok(e.p.Set(e.ctx, "other", items("a")))
		e.ok(e.p.Set(e.ctx, "k", items("c", "d")))
		e.holds(e.p, "k", items("c", "d"))
		e.holds(e.p, "other", items("a"))
	}},
	{"a set to nothing removes the key", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		e.ok(e.p.Set(e.ctx, "k", nil))
		e.keys(e.p)
		e.ok(e.p.Set(e.ctx, "k", []PortItem{}))
		e.keys(e.p)
	}},
	{"an append adds behind what is there, in its order", func(e *portEnv) {
		e.ok(e.p.Append(e.ctx, "k", item("b")))
		e.ok(e.p.Append(e.ctx, "k", item("a"), item("d")))
		e.ok(e.p.Append(e.ctx, "k", item("c")))
		e.holds(e.p, "k", items("b", "a", "d", "c"))
	}},
	{"a repeated append adds nothing, one that overlaps adds the rest", func(e *portEnv) {
		e.ok(e.p.Append(e.ctx, "k", item("a"), item("b")))
		e.ok(e.p.Append(e.ctx, "k", item("a"), item("b")))
		e.holds(e.p, "k", items("a", "b"))
		e.ok(e.p.Append(e.ctx, "k", item("b"), item("c"), item("c")))
		e.holds(e.p, "k", items("a", "b", "c"))
		e.ok(e.p.Append(e.ctx, "other", item("a")))
		e.holds(e.p, "other", items("a"))
	}},
	{"an append after a set knows the ids that were set", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a", "b")))
		e.ok(e.p.Append(e.ctx, "k", item("b"), item("c")))
		e.holds(e.p, "k", items("a", "b", "c"))
		e.ok(e.p.Set(e.ctx, "k", items("c")))
		e.ok(e.p.Append(e.ctx, "k", item("a")))
		e.holds(e.p, "k", items("c", "a"))
	}},
	{"the same id with other content is refused, and nothing of that append is added", func(e *portEnv) {
		e.ok(e.p.Append(e.ctx, "k", item("a")))
		e.unchanged(func() {
			other := PortItem{ID: "a", Text: "another text"}
			e.code(e.p.Append(e.ctx, "k", item("b"), other), agent.CodeConflict)
			e.code(e.p.Append(e.ctx, "k", item("c"), PortItem{ID: "c", Text: "another text"}), agent.CodeConflict)
		})
	}},
	{"items without an id are never taken for one another", func(e *portEnv) {
		x := PortItem{Text: "x"}
		e.ok(e.p.Append(e.ctx, "k", x, x))
		e.ok(e.p.Append(e.ctx, "k", x))
		e.holds(e.p, "k", []PortItem{x, x, x})
		e.ok(e.p.Set(e.ctx, "k", []PortItem{x, x}))
		e.holds(e.p, "k", []PortItem{x, x})
	}},
	{"a set with one id twice is refused", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		e.unchanged(func() { e.code(e.p.Set(e.ctx, "k", items("b", "c", "b")), agent.CodeInvalid) })
	}},
	{"a deleted key is gone, and can be made again", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		e.ok(e.p.Set(e.ctx, "other", items("b")))
		e.ok(e.p.Delete(e.ctx, "k"))
		e.keys(e.p, "other")
		e.ok(e.p.Append(e.ctx, "k", item("a")))
		e.holds(e.p, "k", items("a"))
	}},
	{"clear removes everything", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		e.ok(e.p.Set(e.ctx, "agent:general:1", items("b")))
		e.ok(e.p.Clear(e.ctx))
		e.keys(e.p)
		e.holds(e.p, "k", []PortItem{})
	}},
	{"keys are sorted by their bytes", func(e *portEnv) {
		for _, key := range []string{"ä", "b", "Z", "a", "a/b", "a-b", "agent:x:1", "__metadata__:a", "10", "9", "🧵", "A", " "} {
			e.ok(e.p.Append(e.ctx, key, item("x")))
		}
		e.keys(e.p, " ", "10", "9", "A", "Z", "__metadata__:a", "a", "a-b", "a/b", "agent:x:1", "b", "ä", "🧵")
	}},
	{"keys that differ in case, in spaces or in their Unicode form are different keys", func(e *portEnv) {
		for i, key := range []string{"k", "K", "k ", "caf\u00e9", "cafe\u0301", "%", "_", "'; DROP TABLE memory_items; --"} {
			e.ok(e.p.Append(e.ctx, key, PortItem{ID: "x", N: int64(i)}))
		}
		for i, key := range []string{"k", "K", "k ", "caf\u00e9", "cafe\u0301", "%", "_", "'; DROP TABLE memory_items; --"} {
			e.holds(e.p, key, []PortItem{{ID: "x", N: int64(i)}})
		}
	}},
	{"a key that is empty, too long, not UTF-8 or contains NUL is refused", func(e *portEnv) {
		for _, key := range []string{"", strings.Repeat("k", memory.MaxKeyLength+1), "a\x00b", "\xff"} {
			_, err := e.p.Get(e.ctx, key)
			e.code(err, agent.CodeInvalid)
			e.code(e.p.Set(e.ctx, key, items("a")), agent.CodeInvalid)
			e.code(e.p.Append(e.ctx, key, item("a")), agent.CodeInvalid)
			e.code(e.p.Delete(e.ctx, key), agent.CodeInvalid)
		}
		long := strings.Repeat("k", memory.MaxKeyLength)
		e.ok(e.p.Append(e.ctx, long, item("a")))
		e.keys(e.p, long)
	}},
	{"an id that is too long or contains NUL is refused", func(e *portEnv) {
		e.code(e.p.Append(e.ctx, "k", item("a\x00b")), agent.CodeInvalid)
		e.code(e.p.Append(e.ctx, "k", item("a"), item(strings.Repeat("i", memory.MaxKeyLength+1))), agent.CodeInvalid)
		e.keys(e.p)
		e.ok(e.p.Append(e.ctx, "k", item(strings.Repeat("i", memory.MaxKeyLength))))
	}},
	{"items go in and come out as copies", func(e *portEnv) {
		in := []PortItem{{ID: "a", Tags: []string{"one"}}}
		e.ok(e.p.Set(e.ctx, "k", in))
		in[0].Tags[0], in[0].ID = "changed", "z"
		want := []PortItem{{ID: "a", Tags: []string{"one"}}}
		e.holds(e.p, "k", want)
		out, err := e.p.Get(e.ctx, "k")
		e.ok(err)
		out[0].Tags[0], out[0].ID = "changed", "z"
		_ = append(out[:0], item("z"))
		e.holds(e.p, "k", want)
		s := e.snapshot()
		s["k"][0].Tags[0] = "changed"
		delete(s, "k")
		e.holds(e.p, "k", want)
	}},
	{"an item of a megabyte is kept", func(e *portEnv) {
		big := PortItem{ID: "big", Text: strings.Repeat("0123456789abcdé ", 70_000)}
		e.ok(e.p.Append(e.ctx, "k", item("a"), big))
		e.holds(e.p, "k", []PortItem{item("a"), big})
	}},
}

// portUnitRules are about several operations at once.
var portUnitRules = []portRule{
	{"an update of several keys happens as a whole", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "old", items("x")))
		e.ok(e.p.Update(e.ctx, func(b memory.Batch[PortItem]) error {
			n, err := b.Append("k", item("a"), item("b"), item("a"))
			if err != nil || n != 2 {
				return fmt.Errorf("added %d: %w", n, err)
			}
			n, err = b.Len("k")
			if err != nil || n != 2 {
				return fmt.Errorf("a unit does not see its own writes: %d, %w", n, err)
			}
			if err := b.Delete("old"); err != nil {
				return err
			}
			keys, err := b.Keys()
			if err != nil || fmt.Sprint(keys) != "[k]" {
				return fmt.Errorf("keys inside the unit: %v, %w", keys, err)
			}
			return b.Set("count", []PortItem{{N: 2}})
		}))
		e.holds(e.p, "k", items("a", "b"))
		e.holds(e.p, "count", []PortItem{{N: 2}})
		e.keys(e.p, "count", "k")
	}},
	{"an update that fails changes nothing, and its error is returned", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		failed := errors.New("changed my mind")
		e.unchanged(func() {
			err := e.p.Update(e.ctx, func(b memory.Batch[PortItem]) error {
				if err := b.Clear(); err != nil {
					return err
				}
				if _, err := b.Append("k", item("b")); err != nil {
					return err
				}
				if _, err := b.Append("n", item("b")); err != nil {
					return err
				}
				return failed
			})
			if !errors.Is(err, failed) {
				e.Errorf("got %v, want the error of the unit", err)
			}
		})
		e.ok(e.p.Append(e.ctx, "k", item("c")))
		e.holds(e.p, "k", items("a", "c"))
	}},
	{"clear inside an update is seen by what follows it", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "a", items("x")))
		e.ok(e.p.Set(e.ctx, "b", items("x")))
		e.ok(e.p.Update(e.ctx, func(b memory.Batch[PortItem]) error {
			if err := b.Clear(); err != nil {
				return err
			}
			_, err := b.Append("b", item("y"))
			return err
		}))
		e.keys(e.p, "b")
		e.holds(e.p, "b", items("y"))
	}},
	{"a view reads and cannot write", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		e.unchanged(func() {
			e.ok(e.p.View(e.ctx, func(b memory.Batch[PortItem]) error {
				got, err := b.Get("k")
				e.ok(err)
				e.same("items", got, items("a"))
				e.code(b.Set("k", nil), agent.CodeInvalid)
				_, err = b.Append("k", item("b"))
				e.code(err, agent.CodeInvalid)
				e.code(b.Delete("k"), agent.CodeInvalid)
				e.code(b.Clear(), agent.CodeInvalid)
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
	{"concurrent writers lose nothing and double nothing", func(e *portEnv) {
		const writers, each = 6, 15
		var wg sync.WaitGroup
		for w := range writers {
			p := e.p
			if e.h.Durable && w%2 == 1 {
				p = e.another()
			}
			wg.Go(func() {
				for _, it := range numbered(fmt.Sprint("w", w), each) {
					for range 2 { // each is repeated, as after a lost reply
						if err := p.Append(e.ctx, "shared", it); err != nil {
							e.Errorf("append: %v", err)
						}
					}
					err := p.Update(e.ctx, func(b memory.Batch[PortItem]) error {
						n, err := b.Get("count")
						if err != nil {
							return err
						}
						next := int64(1)
						if len(n) > 0 {
							next = n[0].N + 1
						}
						return b.Set("count", []PortItem{{N: next}})
					})
					if err != nil {
						e.Errorf("count: %v", err)
					}
				}
			})
		}
		wg.Wait()
		e.holds(e.p, "count", []PortItem{{N: writers * each}})
		got, err := e.p.Get(e.ctx, "shared")
		e.ok(err)
		e.same("number of items", len(got), writers*each)
		last := map[string]string{}
		for _, it := range got {
			writer, _, _ := strings.Cut(it.ID, "-")
			if it.ID <= last[writer] {
				e.Errorf("%s stands behind %s", it.ID, last[writer])
			}
			last[writer] = it.ID
		}
	}},
	{"a reader sees whole units while others write", func(e *portEnv) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				v := []PortItem{{N: int64(i)}}
				err := e.p.Update(e.ctx, func(b memory.Batch[PortItem]) error { return errors.Join(b.Set("a", v), b.Set("b", v)) })
				if err != nil {
					e.Errorf("update: %v", err)
					return
				}
			}
		})
		for range 60 {
			s := e.snapshot()
			e.same("one of two keys that change together", s["a"], s["b"])
		}
		close(stop)
		wg.Wait()
	}},
}

// portSnapshotRules are about everything at once.
var portSnapshotRules = []portRule{
	{"an export that is imported into an empty memory makes it equal", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "cli", []PortItem{{ID: "b", Tags: []string{"x"}}, item("a"), {Text: "no id"}}))
		e.ok(e.p.Append(e.ctx, "agent:general:1", item("c")))
		e.ok(e.p.Set(e.ctx, "__metadata__:cli", []PortItem{{N: 3}}))
		s := e.snapshot()
		data, err := json.Marshal(s)
		e.ok(err)
		var read memory.MemorySnapshot[PortItem]
		e.ok(json.Unmarshal(data, &read))
		target := newPortEnv(e.test, e.h)
		target.keys(target.p)
		target.ok(target.p.ImportSnapshot(target.ctx, read))
		target.same("snapshot", target.snapshot(), s)
		target.keys(target.p, "__metadata__:cli", "agent:general:1", "cli")
		target.ok(target.p.Append(target.ctx, "cli", item("a"), item("d")))
		got, err := target.p.Get(target.ctx, "cli")
		target.ok(err)
		target.same("items after a repeated append", len(got), 4)
	}},
	{"a snapshot's JSON is an object of lists", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "cli", []PortItem{{ID: "a", Text: "hi"}}))
		data, err := json.Marshal(e.snapshot())
		e.ok(err)
		e.same("JSON", string(data), `{"cli":[{"id":"a","text":"hi"}]}`)
	}},
	{"the snapshot of an empty memory is empty, not null", func(e *portEnv) {
		data, err := json.Marshal(e.snapshot())
		e.ok(err)
		e.same("JSON", string(data), `{}`)
	}},
	{"an import replaces the keys it names and keeps the others", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a", "b")))
		e.ok(e.p.Set(e.ctx, "other", items("c")))
		e.ok(e.p.Set(e.ctx, "gone", items("d")))
		e.ok(e.p.ImportSnapshot(e.ctx, memory.MemorySnapshot[PortItem]{"k": items("x"), "gone": {}}))
		e.same("everything", e.snapshot(), memory.MemorySnapshot[PortItem]{"k": items("x"), "other": items("c")})
	}},
	{"an import with anything wrong in it changes nothing", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		e.unchanged(func() {
			e.code(e.p.ImportSnapshot(e.ctx, memory.MemorySnapshot[PortItem]{"k": items("x"), "l": items("y"), "": items("z")}), agent.CodeInvalid)
			e.code(e.p.ImportSnapshot(e.ctx, memory.MemorySnapshot[PortItem]{"k": items("x"), "l": items("y", "y")}), agent.CodeInvalid)
		})
	}},
}
