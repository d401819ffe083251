package memorytest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// portModel is what a port must be like.
type portModel map[string][]PortItem

func (m portModel) set(key string, list []PortItem) agent.Code {
	seen := map[string]bool{}
	for _, it := range list {
		if it.ID != "" && seen[it.ID] {
			return agent.CodeInvalid
		}
		seen[it.ID] = true
	}
	if len(list) == 0 {
		delete(m, key)
		return ""
	}
	m[key] = slices.Clone(list)
	return ""
}

func (m portModel) add(key string, list []PortItem) agent.Code {
	have := slices.Clone(m[key])
	for _, it := range list {
		i := slices.IndexFunc(have, func(o PortItem) bool { return o.ID == it.ID })
		switch {
		case it.ID == "" || i < 0:
			have = append(have, it)
		case have[i].Text != it.Text:
			return agent.CodeConflict
		}
	}
	if len(have) > 0 {
		m[key] = have
	}
	return ""
}

var errAbandoned = errors.New("abandoned")

// portWorld drives ports and a model with the same random operations.
type portWorld struct {
	*portEnv
	rt    *rapid.T
	model portModel
}

func runRandomPort(t *testing.T, h PortHarness) {
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
		w := &portWorld{rt: rt, model: portModel{}}
		w.portEnv = newPortEnv(t, h)
		w.fataler = rt
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			w.step()
		}
		w.check()
		if err := w.p.Close(); err != nil {
			rt.Fatalf("close: %v", err)
		}
	})
	t.Logf("%d random histories", n)
}

func (w *portWorld) key() string {
	return rapid.SampledFrom([]string{"cli", "agent:general:1", "__metadata__:cli", "s/ü"}).Draw(w.rt, "key")
}

func (w *portWorld) list() []PortItem {
	one := rapid.Custom(func(t *rapid.T) PortItem {
		return PortItem{
			ID:   rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"}).Draw(t, "id"),
			Text: rapid.SampledFrom([]string{"x", "x", "x", "y\n\u2028"}).Draw(t, "text"),
		}
	})
	return rapid.SliceOfN(one, 0, 4).Draw(w.rt, "items")
}

func (w *portWorld) step() {
	w.Helper()
	switch rapid.IntRange(0, 9).Draw(w.rt, "op") {
	case 0, 1:
		key, list := w.key(), w.list()
		w.want(w.p.Set(w.ctx, key, list), w.model.set(key, list))
	case 2, 3, 4:
		key, list := w.key(), w.list()
		code := w.model.add(key, list)
		w.want(w.p.Append(w.ctx, key, list...), code)
		if !slices.ContainsFunc(list, func(i PortItem) bool { return i.ID == "" }) {
			w.want(w.p.Append(w.ctx, key, list...), code)
		}
	case 5:
		key := w.key()
		delete(w.model, key)
		w.want(w.p.Delete(w.ctx, key), "")
	case 6:
		clear(w.model)
		w.want(w.p.Clear(w.ctx), "")
	case 7:
		s, m := memory.MemorySnapshot[PortItem]{}, maps.Clone(w.model)
		var code agent.Code
		for range rapid.IntRange(0, 3).Draw(w.rt, "keys") {
			s[w.key()] = w.list()
		}
		for key, list := range s {
			if c := m.set(key, list); c != "" {
				code = c
			}
		}
		if code == "" {
			w.model = m
		}
		w.want(w.p.ImportSnapshot(w.ctx, s), code)
	case 8:
		w.update()
	case 9:
		if w.h.Durable {
			w.want(w.p.Close(), "")
			w.p = w.another()
		}
		w.check()
	}
}

// update does several things in one unit, which may be abandoned.
func (w *portWorld) update() {
	w.Helper()
	type change struct {
		key   string
		items []PortItem
		set   bool
	}
	var changes []change
	for range rapid.IntRange(1, 4).Draw(w.rt, "changes") {
		changes = append(changes, change{w.key(), w.list(), rapid.Bool().Draw(w.rt, "set")})
	}
	abandon := rapid.IntRange(0, 3).Draw(w.rt, "abandon") == 0
	m := maps.Clone(w.model)
	var code agent.Code
	for _, c := range changes {
		if c.set {
			code = m.set(c.key, c.items)
		} else {
			code = m.add(c.key, c.items)
		}
		if code != "" {
			break
		}
	}
	err := w.p.Update(w.ctx, func(b memory.Batch[PortItem]) error {
		for _, c := range changes {
			var err error
			if c.set {
				err = b.Set(c.key, c.items)
			} else {
				_, err = b.Append(c.key, c.items...)
			}
			if err != nil {
				return err
			}
		}
		if abandon {
			return errAbandoned
		}
		return nil
	})
	switch {
	case code != "":
		w.want(err, code)
	case abandon:
		if !errors.Is(err, errAbandoned) {
			w.Fatalf("an abandoned unit returned %v", err)
		}
	default:
		w.want(err, "")
		w.model = m
	}
}

func (w *portWorld) want(err error, code agent.Code) {
	w.Helper()
	if agent.CodeOf(err) != code {
		w.Fatalf("got %q (%v), want %q", agent.CodeOf(err), err, code)
	}
}

func (w *portWorld) check() {
	w.Helper()
	w.same("everything", fmt.Sprint(w.snapshot()), fmt.Sprint(memory.MemorySnapshot[PortItem](w.model)))
	w.keys(w.p, slices.Sorted(maps.Keys(w.model))...)
	for _, key := range []string{"cli", "nothing"} {
		want := append([]PortItem{}, w.model[key]...)
		w.holds(w.p, key, want)
	}
}
