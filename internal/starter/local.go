package starter

import (
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/memory"
)

const memoryStore = "memory:"

// leaveWithin bounds what is tidied up in Temporal when a store in memory goes.
const leaveWithin = 3 * time.Second

// serving opens store and Temporal for a command that waits for turns. On a
// store that serves one process only, that process is this one: it runs the
// worker too.
func (a *app) serving(ctx context.Context, cfg config.Config) (*spool.Client, error) {
	if !cfg.OneProcess() {
		return a.openWith(ctx, cfg, true)
	}
	return a.serveHere(ctx, cfg)
}

// serveHere opens a store for this process alone and starts a worker on it.
func (a *app) serveHere(ctx context.Context, cfg config.Config) (*spool.Client, error) {
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	a.alone = true
	if err := prepareHome(cfg); err != nil {
		return nil, err
	}
	store, err := boot.OpenStore(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() { _ = store.Close() })
	told := a.tell(ctx, true)
	tc, c := a.client(ctx, cfg, store, told)
	if tc == nil {
		return c, nil
	}
	o, err := boot.Options(cfg, store, a.lookup, log)
	if err != nil {
		return nil, err
	}
	o.Temporal = tc
	boot.Tell(&o, told)
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
		if err := <-ended; err != nil {
			a.progress("worker: %s", clean(err.Error()))
		}
		if cfg.Store == memoryStore {
			abandon(store, tc)
		}
	})
	if cfg.Demo() {
		a.progress("no model is configured: the scripted demo model answers; set OPENAI_API_KEY or OPENAI_BASE_URL (and SPOOL_MODEL) for a real one")
	}
	return c, nil
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

// noStoreInMemory refuses commands that would look into an empty store.
func (a *app) noStoreInMemory(cfg config.Config) error {
	if cfg.Store != memoryStore {
		return nil
	}
	return agent.Errorf(agent.CodeInvalid, "the store memory: belongs to one process and is gone with it, so there is nothing in it for this command: use %s chat, or a store that stays, sqlite:PATH or file:DIR", a.name)
}
