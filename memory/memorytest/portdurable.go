package memorytest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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
		e.reopen()
		e.keys()
	}},
}

// portDurableRules are for ports whose items outlive their process.
var portDurableRules = []portRule{
	{"everything is there when it is opened again, in its order", func(e *portEnv) {
		e.ok(e.p.Set(e.ctx, "k", items("c", "a")))
		e.ok(e.p.Append(e.ctx, "k", item("b"), PortItem{Role: agent.RoleUser, Text: "no id"}))
		e.ok(e.p.Append(e.ctx, "other", item("x")))
		before := e.snapshot(nil)
		e.ok(e.p.Close())
		e.ok(e.p.Close())
		_, err := e.p.Get(e.ctx, "k")
		e.code(err, agent.CodeUnavailable, agent.CodeInternal)
		e.reopen()
		e.same("snapshot", e.snapshot(nil), before)
		e.ok(e.p.Append(e.ctx, "k", item("b"), item("d")))
		e.holds("k", append(items("c", "a", "b"), PortItem{Role: agent.RoleUser, Text: "no id"}, item("d")))
	}},
}

// portSharedRules are for ports that several processes may have open.
var portSharedRules = []portRule{
	{"what one port appended another one sees at once", func(e *portEnv) {
		other := e.another()
		other.keys()
		for i, it := range numbered("n", 6) {
			writer, reader := e, other
			if i%2 == 1 {
				writer, reader = other, e
			}
			e.ok(writer.p.Append(e.ctx, "k", it))
			reader.holds("k", numbered("n", i+1))
		}
		e.ok(other.p.Clear(e.ctx))
		e.keys()
	}},
	{"several processes append to one key and lose nothing", func(e *portEnv) {
		const processes, each = 3, 15
		var wg sync.WaitGroup
		for n := range processes {
			c := e.child(fmt.Sprint("p", n), 0, each)
			wg.Go(func() {
				if acked, err := c.Lines(); err != nil || len(acked) != each {
					e.Errorf("process %d: %d appends, %v", n, len(acked), err)
				}
			})
		}
		wg.Wait()
		got, err := e.p.Get(e.ctx, "shared")
		e.ok(err)
		e.same("number of items", len(got), processes*each)
		e.sound(got)
	}},
	{"a process that dies before a save leaves the old state, one that dies after it the new one, and a repeated append adds once", func(e *portEnv) {
		for moment, left := range map[string]int{"before-": 2, "after-": 3} {
			e.ok(e.p.Set(e.ctx, "shared", numbered("p", 2)))
			e.ok(e.p.Set(e.ctx, "count", number(2)))
			env := []string{memory.CrashAtEnv + "=" + moment + e.h.CrashPoint, memory.CrashOnceEnv + "=" + filepath.Join(e.test.TempDir(), "once")}
			acked, err := e.child("p", 2, left+1, env...).Lines()
			if err == nil || len(acked) != 0 {
				e.Fatalf("%s: the process did not die: %v, %v", moment, acked, err)
			}
			e.holds("shared", numbered("p", left))
			e.holds("count", number(left))
			if _, err := e.child("p", 2, 3, env...).Lines(); err != nil {
				e.Fatalf("%s: the successor: %v", moment, err)
			}
			e.holds("shared", numbered("p", 3))
			e.holds("count", number(3))
		}
	}},
	{"a process killed at any moment loses nothing acknowledged and tears nothing", func(e *portEnv) {
		writes := 60
		if os.Getenv("SPOOL_LONG") == "1" {
			writes = 1000
		}
		kills, acked := 0, 0
		for acked < writes {
			c := e.child("p", acked, writes)
			for range 1 + rand.IntN(5) {
				if _, ok := c.Next(); !ok {
					break
				}
				acked++
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
			got, err := e.p.Get(e.ctx, "shared")
			e.ok(err)
			if len(got) < acked || len(got) > acked+1 {
				e.Fatalf("%d items after %d acknowledged appends", len(got), acked)
			}
			e.same("items", got, numbered("p", len(got)))
			e.holds("count", number(len(got)))
		}
		if kills < writes/25 {
			e.Errorf("only %d processes were killed in %d writes", kills, writes)
		}
	}},
}
