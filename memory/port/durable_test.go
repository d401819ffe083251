package port_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
)

// volatileRules are for ports that keep nothing.
var volatileRules = []rule{
	{"what is in memory only is gone when it is opened again", func(e *env) {
		e.ok(errors.Join(e.p.Set(e.ctx, "k", letters("a")), e.p.Close()))
		e.reopen()
		e.keys()
	}},
}

// durableRules are for ports whose items outlive their process.
var durableRules = []rule{
	{"everything is there when it is opened again, in its order", func(e *env) {
		e.ok(errors.Join(e.p.Set(e.ctx, "k", letters("ca")), e.p.Append(e.ctx, "k", letters("b")...), e.p.Append(e.ctx, "other", letters("x")...)))
		before := e.snapshot()
		e.ok(errors.Join(e.p.Close(), e.p.Close()))
		_, err := e.p.Get(e.ctx, "k")
		e.code(err, agent.CodeUnavailable)
		e.reopen()
		e.same("snapshot", e.snapshot(), before)
		e.ok(e.p.Append(e.ctx, "k", letters("bd")...))
		e.holds("k", letters("cabd"))
	}},
}

// sharedRules are for ports that several processes may have open.
var sharedRules = []rule{
	{"several processes append to one key and lose nothing, and others see it at once", func(e *env) {
		const processes, each = 3, 15
		other := e.another()
		other.keys()
		var children []*processtest.Process
		for n := range processes {
			children = append(children, e.child(fmt.Sprint("p", n), 0, each))
		}
		for n, c := range children {
			if acked, err := c.Lines(); err != nil || len(acked) != each {
				e.Errorf("process %d: %d appends, %v", n, len(acked), err)
			}
		}
		other.whole(processes * each)
		e.ok(other.p.Clear(e.ctx))
		e.keys()
	}},
	{"a process that dies before a save leaves the old state, one that dies after it the new one, and a repeated append adds once", func(e *env) {
		for moment, left := range map[string]int{"before-": 2, "after-": 3} {
			e.ok(errors.Join(e.p.Set(e.ctx, "shared", numbered("p", 2)), e.p.Set(e.ctx, "count", number(2))))
			env := []string{memory.CrashAtEnv + "=" + moment + e.h.CrashPoint, memory.CrashOnceEnv + "=" + filepath.Join(e.test.TempDir(), "once")}
			acked, err := e.child("p", 2, 3, env...).Lines()
			if err == nil || len(acked) != 0 {
				e.Fatalf("%s: the process did not die: %v, %v", moment, acked, err)
			}
			e.same(moment, e.snapshot(), snapshot{"shared": numbered("p", left), "count": number(left)})
			if _, err := e.child("p", 2, 3, env...).Lines(); err != nil {
				e.Fatalf("%s: the successor: %v", moment, err)
			}
			e.same(moment, e.snapshot(), snapshot{"shared": numbered("p", 3), "count": number(3)})
		}
	}},
	{"a process killed at any moment loses nothing acknowledged and tears nothing", func(e *env) {
		writes := 60
		if os.Getenv("SPOOL_LONG") == "1" {
			writes = 1000
		}
		kills, acked := 0, 0
		for acked < writes {
			c := e.child("p", acked, writes)
			for range 1 + rand.IntN(5) {
				if _, ok := c.Next(); ok {
					acked++
				}
			}
			// Into the middle of the next write.
			time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
			_ = c.Process.Kill()
			rest, err := c.Lines()
			switch {
			case err != nil && c.ProcessState.Exited():
				e.Fatalf("the process failed after %d appends: %v", acked+len(rest), err)
			case err != nil:
				kills++
			}
			acked += len(rest)
			s := e.snapshot()
			n := len(s["shared"])
			if n < acked || n > acked+1 {
				e.Fatalf("%d items after %d acknowledged appends", n, acked)
			}
			e.same("everything", s, snapshot{"shared": numbered("p", n), "count": number(n)})
		}
		if kills < writes/25 {
			e.Errorf("only %d processes were killed in %d writes", kills, writes)
		}
	}},
}

// model is what a port must be like.
type model snapshot

func (m model) set(key string, list []item) agent.Code {
	seen := map[string]bool{}
	for _, it := range list {
		if seen[it.ID] {
			return agent.CodeInvalid
		}
		seen[it.ID] = true
	}
	if m[key] = list; len(list) == 0 {
		delete(m, key)
	}
	return ""
}

func (m model) add(key string, list []item) agent.Code {
	have := slices.Clone(m[key])
	for _, it := range list {
		i := slices.IndexFunc(have, func(o item) bool { return o.ID == it.ID })
		if i < 0 {
			have = append(have, it)
		} else if have[i] != it {
			return agent.CodeConflict
		}
	}
	return m.set(key, have)
}

func runRandom(t *testing.T, h harness) {
	t.Helper()
	began, n := time.Now(), 0
	rapid.Check(t, func(rt *rapid.T) {
		if time.Since(began) > 5*time.Second && n > 0 {
			return
		}
		n++
		e := newEnv(t, h)
		e.fataler = rt
		model := model{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			e.randomStep(rt, model)
		}
		e.same("everything", e.snapshot(), snapshot(model))
		e.ok(e.p.Close())
	})
	t.Logf("%d random histories", n)
}

func (e *env) randomStep(rt *rapid.T, model model) {
	one := rapid.Custom(func(t *rapid.T) item {
		return item{rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "id"), agent.RoleUser, rapid.SampledFrom([]string{"x", "x", "x", "y\n\u2028"}).Draw(t, "text")}
	})
	key := rapid.SampledFrom([]string{"cli", "k", "z"}).Draw(rt, "key")
	list := rapid.SliceOfN(one, 0, 4).Draw(rt, "items")
	want := func(err error, code agent.Code) {
		rt.Helper()
		if agent.CodeOf(err) != code {
			rt.Fatalf("got %q (%v), want %q", agent.CodeOf(err), err, code)
		}
	}
	switch rapid.IntRange(0, 8).Draw(rt, "op") {
	case 0, 1:
		want(e.p.Set(e.ctx, key, list), model.set(key, list))
	case 2, 3, 4:
		code := model.add(key, list)
		want(e.p.Append(e.ctx, key, list...), code)
		want(e.p.Append(e.ctx, key, list...), code)
	case 5:
		delete(model, key)
		want(e.p.Delete(e.ctx, key), "")
	case 6:
		clear(model)
		want(e.p.Clear(e.ctx), "")
	case 7:
		want(e.p.ImportSnapshot(e.ctx, snapshot{key: list}), model.set(key, list))
	case 8:
		if e.h.Durable {
			want(e.p.Close(), "")
			e.reopen()
		}
		e.same("everything", e.snapshot(), snapshot(model))
		e.keys(slices.Sorted(maps.Keys(model))...)
	}
}
