package memorytest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// portVolatileRules are for ports that keep nothing.
var portVolatileRules = []portRule{
	{"what is in memory only is gone when it is opened again", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("a")))
		e.ok(e.p.Close())
		e.keys(e.another())
	}},
}

// portDurableRules are for ports whose items outlive their process.
var portDurableRules = []portRule{
	{"everything is there when it is opened again, in its order", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("c", "a")))
		e.ok(e.p.Append(e.ctx, "k", item("b"), PortItem{Text: "no id"}))
		e.ok(e.p.Append(e.ctx, "agent:general:1", item("x")))
		before := e.snapshot()
		e.ok(e.p.Close())
		e.p = e.another()
		e.same("snapshot", e.snapshot(), before)
		e.ok(e.p.Append(e.ctx, "k", item("b"), item("d")))
		e.holds(e.p, "k", append(items("c", "a", "b"), PortItem{Text: "no id"}, item("d")))
	}},
	{"nothing is made before the first access, nor by reading", func(e *portEnv) {
		dir := filepath.Join(e.test.TempDir(), "deeper")
		p, err := e.h.Open(e.h.Location(e.test, dir))
		e.ok(err)
		if _, err := os.Stat(dir); err == nil {
			e.Errorf("opening made a folder")
		}
		e.ok(p.Close())
	}},
	{"what one port appended another one sees at once", func(e *portEnv) {
		other := e.another()
		e.keys(other)
		for i, it := range numbered("n", 6) {
			p, reader := e.p, other
			if i%2 == 1 {
				p, reader = other, e.p
			}
			e.ok(p.Append(e.ctx, "k", it))
			e.holds(reader, "k", numbered("n", i+1))
		}
		e.ok(other.Clear(e.ctx))
		e.keys(e.p)
	}},
	{"a writer that takes six seconds is waited for", func(e *portEnv) {
		other := e.another()
		holds := make(chan struct{})
		var once sync.Once
		var wg sync.WaitGroup
		wg.Go(func() {
			err := e.p.Update(e.ctx, func(b memory.Batch[PortItem]) error {
				_, err := b.Append("k", item("slow"))
				once.Do(func() { close(holds) })
				time.Sleep(6 * time.Second)
				return err
			})
			if err != nil {
				e.Errorf("the slow one: %v", err)
			}
		})
		<-holds
		start := time.Now()
		e.ok(other.Append(e.ctx, "k", item("waiting")))
		if waited := time.Since(start); waited < 4*time.Second {
			e.Errorf("waited %s only", waited)
		}
		wg.Wait()
		e.holds(e.p, "k", items("slow", "waiting"))
	}},
	{"a closed port says so", func(e *portEnv) {
		e.ok(e.p.Append(e.ctx, "k", item("a")))
		e.ok(e.p.Close())
		e.ok(e.p.Close())
		_, err := e.p.Get(e.ctx, "k")
		e.code(err, agent.CodeUnavailable)
		e.code(e.p.Append(e.ctx, "k", item("b")), agent.CodeUnavailable)
	}},
	{"several processes append to one key and lose nothing", func(e *portEnv) {
		const processes, each = 4, 20
		var wg sync.WaitGroup
		for n := range processes {
			c := e.child(fmt.Sprint("p", n), "0", fmt.Sprint(each))
			wg.Go(func() {
				if acked, err := c.Lines(); err != nil || len(acked) != each {
					e.Errorf("process %d: %d appends, %v", n, len(acked), err)
				}
			})
		}
		wg.Wait()
		got, err := e.p.Get(e.ctx, childKey)
		e.ok(err)
		e.same("number of items", len(got), processes*each)
		e.sound(got)
	}},
	{"a process that dies before a save leaves the old state, one that dies after it the new one, and a repeated append adds once", func(e *portEnv) {
		e.ok(e.p.Append(e.ctx, childKey, numbered("p", 2)...))
		e.ok(e.p.Set(e.ctx, childCount, []PortItem{{N: 2}}))
		for _, c := range []struct {
			point string
			left  int
		}{{"before-items-save", 2}, {"after-items-save", 3}} {
			once := filepath.Join(e.test.TempDir(), "once")
			env := []string{memory.CrashAtEnv + "=" + c.point, memory.CrashOnceEnv + "=" + once}
			acked, err := e.child("p", fmt.Sprint(2), fmt.Sprint(c.left+1), env...).Lines()
			if err == nil || len(acked) != 0 {
				e.Fatalf("%s: the process did not die: %v, %v", c.point, acked, err)
			}
			e.holds(e.p, childKey, numbered("p", c.left))
			e.holds(e.p, childCount, []PortItem{{N: int64(c.left)}})
			if _, err := e.child("p", "2", "3", env...).Lines(); err != nil {
				e.Fatalf("%s: the successor: %v", c.point, err)
			}
			e.holds(e.p, childKey, numbered("p", 3))
			e.holds(e.p, childCount, []PortItem{{N: 3}})
			e.ok(e.p.Set(e.ctx, childKey, numbered("p", 2)))
			e.ok(e.p.Set(e.ctx, childCount, []PortItem{{N: 2}}))
		}
	}},
	{"a process killed at any moment loses nothing acknowledged and tears nothing", func(e *portEnv) {
		writes := 100
		if os.Getenv("SPOOL_LONG") == "1" {
			writes = 1000
		}
		kills, acked := 0, 0
		for acked < writes {
			c := e.child("p", fmt.Sprint(acked), fmt.Sprint(writes))
			after := 1 + rand.IntN(5)
			var lines []string
			for line, ok := "", true; ok && len(lines) < after; {
				if line, ok = c.Next(); ok {
					lines = append(lines, line)
				}
			}
			// Into the middle of the next write.
			time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
			_ = c.Process.Kill()
			rest, err := c.Lines()
			switch {
			case err != nil && c.ProcessState.Exited():
				e.Fatalf("the process failed after %d appends: %v", acked+len(lines)+len(rest), err)
			case err != nil:
				kills++
			}
			acked += len(lines) + len(rest)
			p := e.another()
			got, err := p.Get(e.ctx, childKey)
			e.ok(err)
			if len(got) < acked || len(got) > acked+1 {
				e.Fatalf("%d items after %d acknowledged appends", len(got), acked)
			}
			e.same("items", got, numbered("p", len(got)))
			e.holds(p, childCount, []PortItem{{N: int64(len(got))}})
			e.ok(p.Close())
		}
		if kills < writes/25 {
			e.Errorf("only %d processes were killed in %d writes", kills, writes)
		}
		e.test.Logf("%d kills in %d writes", kills, writes)
	}},
}

// sound checks that each process's items are whole and in their order.
func (e *portEnv) sound(got []PortItem) {
	e.Helper()
	next := map[string]int{}
	for _, it := range got {
		writer, _, _ := strings.Cut(it.ID, "-")
		e.same("item", it, item(fmt.Sprintf("%s-%04d", writer, next[writer])))
		next[writer]++
	}
}
