package memorytest

import (
	"slices"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/memorytest/internal/copycases"
	"github.com/spool-agents/spool/memory/memorytest/internal/peoplecases"
	"github.com/spool-agents/spool/memory/memorytest/internal/suite"
	"github.com/spool-agents/spool/memory/memorytest/internal/treecases"
	"github.com/spool-agents/spool/memory/memorytest/internal/turncases"
)

// Harness tells the suite how to make stores and what they can do.
type Harness = suite.Harness

// Clock is a clock that stands still until it is moved. Safe for concurrent use.
type Clock = suite.Clock

// NewClock makes a clock that shows a fixed time of whole milliseconds.
func NewClock() *Clock { return suite.NewClock() }

// Picture is a PNG, another one for each n.
func Picture(n int) []byte { return suite.Picture(n) }

// Showing is a message that shows kept images.
func Showing(r memory.SendRequest, names ...string) memory.SendRequest {
	return suite.Showing(r, names...)
}

// Must returns v, or ends the test: Must(store.Read())(t).
func Must[T any](v T, err error) func(t suite.Failer) T { return suite.Must(v, err) }

// Fails checks that an operation has an error of one of the codes, and returns its
// text: Fails(store.Write())(t, code).
func Fails[T any](v T, err error) func(t suite.Failer, codes ...agent.Code) string {
	return suite.Fails(v, err)
}

// RunStore runs every case of the suite on stores of h, each on a store of its
// own, and the property test.
func RunStore(t *testing.T, h Harness) {
	t.Helper()
	groups := slices.Concat(turncases.Groups, peoplecases.Groups, treecases.Groups, copycases.Groups)
	if h.Durable {
		groups = append(groups, suite.Group{Name: "durable", Rules: turncases.DurableRules})
	}
	if h.MultiProcess {
		groups = append(groups, suite.Group{Name: "processes", Rules: turncases.ProcessRules})
	}
	for _, g := range groups {
		t.Run(g.Name, func(t *testing.T) {
			for _, r := range g.Rules {
				t.Run(r.Name, func(t *testing.T) { r.Check(t, h) })
			}
		})
	}
	t.Run("random operations keep every invariant and repetitions change nothing", func(t *testing.T) {
		runRandom(t, h)
	})
}
