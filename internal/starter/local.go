package starter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/memory"
)

const memoryStore = "memory:"

// leaveWithin bounds what is tidied up in Temporal when a store in memory goes.
const leaveWithin = 3 * time.Second

// serveHere opens a store for this process alone and starts a worker on it.
func (a *app) serveHere(ctx context.Context, cfg config.Config) (*spool.Client, error) {
	a.Alone, a.Gone = true, cfg.Store == memoryStore
	fresh := existing(cfg) != nil
	if err := prepareHome(cfg); err != nil {
		return nil, err
	}
	store, err := boot.OpenStore(ctx, cfg, a.log())
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() { _ = store.Close() })
	a.announce(cfg, fresh)
	telemetry := a.telemetry(ctx, true)
	c := a.client(ctx, cfg, store, telemetry)
	switch {
	case !c.Connected() && a.Gone:
		return nil, agent.Errorf(agent.CodeUnavailable, "Temporal cannot be reached at %s, and a store in memory keeps nothing until it is back: start it (%s dev), or name another store", cfg.Temporal.HostPort, a.Name)
	case !c.Connected():
		return c, nil
	}
	o, err := boot.Options(cfg, store, a.lookup, slog.New(&short{Handler: a.log().Handler(), tell: sync.OnceFunc(func() {
		a.Progress("some agent files count only in part, or not at all: %s agents says which, and why", a.Name)
	})}))
	if err != nil {
		return nil, err
	}
	o.Temporal = c.Temporal()
	boot.Tell(&o, telemetry)
	w, err := spool.NewWorker(ctx, o)
	if err != nil {
		return nil, err
	}
	// The worker outlives an interrupt: what was begun is handed over in order.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(work) }()
	a.closers = append(a.closers, func() {
		stop()
		told := time.AfterFunc(time.Second, func() {
			a.Progress("what runs may end within %s; Ctrl-C ends it at once", cfg.DrainTime)
		})
		defer told.Stop()
		if err := <-ended; err != nil {
			a.Progress("worker: %v", err)
		}
		if cfg.Store == memoryStore {
			abandon(store, c.Temporal())
		}
	})
	if cfg.Demo() {
		a.Progress("the scripted demo model answers; set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) for a real one")
	}
	return c, nil
}

// short is a log that names what is wrong with agent files in one line: each command that
// runs a worker would repeat it all.
type short struct {
	slog.Handler
	tell func()
}

// Handle writes a record.
func (s *short) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == boot.TemplateWarning {
		s.tell()
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// abandon ends the runs of a store that is about to be gone: nobody could go on
// with them. It is best effort.
func abandon(store memory.ConversationMemoryStore, tc client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	open, err := store.OpenTurns(ctx, memory.OpenTurnFilter{})
	if err != nil {
		return
	}
	for _, t := range open {
		_ = tc.TerminateWorkflow(ctx, t.ThreadID, "", "its store was in the memory of a process that has ended")
	}
}

// useDemo lets the demo model answer in this process.
func (a *app) useDemo(wanted bool) error {
	if !wanted {
		return nil
	}
	if cfg, err := a.configIn(""); err != nil || !cfg.OneProcess() {
		return errors.Join(err, exit.Misuse("--demo-model changes nothing here, leave it out: the workers answer, and are started with it"))
	}
	a.flags[config.DemoModel] = "true"
	return nil
}
