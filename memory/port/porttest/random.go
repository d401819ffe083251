package porttest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spool-agents/spool/agent"
)

// model is what a port must be like.
type model snapshot

func (m model) set(key string, list []Item) agent.Code {
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

func (m model) add(key string, list []Item) agent.Code {
	have := slices.Clone(m[key])
	for _, it := range list {
		i := slices.IndexFunc(have, func(o Item) bool { return o.ID == it.ID })
		if i < 0 {
			have = append(have, it)
		} else if have[i] != it {
			return agent.CodeConflict
		}
	}
	return m.set(key, have)
}

func runRandom(t *testing.T, h Harness) {
	t.Helper()
	limit := h.RandomFor
	if limit == 0 {
		limit = 5 * time.Second
	}
	began, n := time.Now(), 0
	rapid.Check(t, func(rt *rapid.T) {
		if time.Since(began) > limit && n > 0 {
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
	one := rapid.Custom(func(t *rapid.T) Item {
		return Item{rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "id"), agent.RoleUser, rapid.SampledFrom([]string{"x", "x", "x", "y\n\u2028"}).Draw(t, "text")}
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
