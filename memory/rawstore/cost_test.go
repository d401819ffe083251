package rawstore_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spool-agents/spool/memory/memorytest"
)

// TestAppendCostsTheSame on a long key as on a short one.
func TestAppendCostsTheSame(t *testing.T) {
	p := mustPort(t, "sqlite:"+filepath.Join(t.TempDir(), "m.db"))
	list := func(n int) []memorytest.PortItem {
		out := make([]memorytest.PortItem, n)
		for i := range out {
			out[i] = memorytest.PortItem{ID: fmt.Sprint("old-", i), Text: "some text of a message that is there"}
		}
		return out
	}
	for key, n := range map[string]int{"short": 100, "long": 100_000} {
		if err := p.Set(t.Context(), key, list(n)); err != nil {
			t.Fatal(err)
		}
	}
	// In turns, so that what else this machine does hits both; medians of the
	// repeated appends too, whose cost is that of finding the id.
	times := map[string][]time.Duration{}
	for i := range 300 {
		for _, key := range []string{"short", "long"} {
			item := memorytest.PortItem{ID: fmt.Sprint("new-", i)}
			start := time.Now()
			for range 2 {
				if err := p.Append(t.Context(), key, item); err != nil {
					t.Fatal(err)
				}
			}
			times[key] = append(times[key], time.Since(start))
		}
	}
	median := func(key string) time.Duration {
		slices.Sort(times[key])
		return times[key][len(times[key])/2]
	}
	short, long := median("short"), median("long")
	t.Logf("behind 100 items %s, behind 100,000 %s", short, long)
	if float64(long) > 1.5*float64(short) {
		t.Errorf("an append behind 100,000 items takes %s, behind 100 %s: more than 1.5 times as long", long, short)
	}
}
