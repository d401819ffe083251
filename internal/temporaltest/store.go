package temporaltest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/pgtest"
)

var chosen sync.Map

// OnPostgres makes the stacks of a test and its subtests use PostgreSQL.
func OnPostgres(t testing.TB) {
	OnStore(t, func(t testing.TB) string {
		// Many processes share the server.
		return pgtest.With(t, pgtest.Database(t), "pool_max_conns", "6")
	})
}

// OnStore makes the stacks of a test and its subtests use the stores that
// store makes, as SPOOL_STORE names them.
func OnStore(t testing.TB, store func(t testing.TB) string) {
	chosen.Store(t.Name(), store)
	t.Cleanup(func() { chosen.Delete(t.Name()) })
}

func storeOf(t testing.TB, s *Stack) string {
	t.Helper()
	for name := t.Name(); name != ""; name = name[:max(0, strings.LastIndex(name, "/"))] {
		if store, ok := chosen.Load(name); ok {
			return store.(func(testing.TB) string)(t)
		}
	}
	return "sqlite:" + s.StorePath()
}

// OnFiles makes the stacks of a test and its subtests use a file store, whose
// workers run in the test's process.
func OnFiles(t testing.TB) {
	OnStore(t, func(t testing.TB) string { return "file:" + t.TempDir() })
}

// InMemory makes the stacks of a test and its subtests use a store in memory,
// whose workers run in the test's process.
func InMemory(t testing.TB) {
	OnStore(t, func(testing.TB) string { return "memory:" })
}

// startHere starts a worker in this process, as a program does whose store
// serves one process.
func (s *Stack) startHere(env ...string) *Process {
	s.t.Helper()
	all := append(append([]string{}, s.Env...), env...)
	lookup := func(name string) string {
		for i := len(all) - 1; i >= 0; i-- {
			if v, ok := strings.CutPrefix(all[i], name+"="); ok {
				return v
			}
		}
		return ""
	}
	cfg, err := config.Load(config.Options{Env: lookup, Environ: func() []string { return all }, Dir: s.Work})
	require.NoError(s.t, err)
	p := &Process{name: "worker in this process", log: &safeBuffer{}, done: make(chan struct{})}
	log := slog.New(slog.NewTextHandler(p.log, nil))
	o, err := boot.Options(cfg, s.Store, lookup, log)
	require.NoError(s.t, err)
	o.Temporal, err = boot.Dial(s.Ctx(), cfg, log)
	require.NoError(s.t, err)
	w, err := spool.NewWorker(s.Ctx(), o)
	require.NoError(s.t, err)
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	go func() {
		defer close(p.done)
		defer o.Temporal.Close()
		if err := w.Run(ctx); err != nil {
			log.Error("worker", "error", err)
		}
	}()
	s.Workers = append(s.Workers, p)
	return p
}
