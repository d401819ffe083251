package starter

import (
	"context"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/remote"
	"github.com/spool-agents/spool/memory"
)

// conversations is what commands do with threads: spool.Client does it on a store,
// remote.Client behind a web server.
type conversations interface {
	KeepImage(ctx context.Context, data []byte) (string, error)
	Send(ctx context.Context, r memory.SendRequest) (spool.Reply, error)
	Retry(ctx context.Context, threadID, requestID string) (spool.Reply, error)
	Fork(ctx context.Context, r spool.ForkRequest) (spool.Forked, error)
	Cancel(ctx context.Context, r memory.CancelRequest) (spool.Cancelled, error)
	Status(ctx context.Context, threadID, turnID string) (spool.Reply, error)
	Served(ctx context.Context, r spool.Reply) spool.Reply
	Wait(ctx context.Context, threadID, turnID string, o spool.WaitOptions) (spool.Reply, error)
	Follow(ctx context.Context, threadID, cursor string, o spool.FollowOptions, f func(spool.Update) error) error
	TailTree(ctx context.Context, threadID string) (map[string]string, error)

	Approvals(ctx context.Context, threadID string) ([]spool.ApprovalRequest, error)
	Decisions(ctx context.Context) ([]memory.Approval, error)
	Decide(ctx context.Context, d memory.Decision) (spool.Decided, error)
	Questions(ctx context.Context, threadID string) ([]spool.QuestionRequest, error)
	Answer(ctx context.Context, r memory.AnswerRequest) (spool.Answered, error)
	ModelWaits(ctx context.Context, threadID string) ([]agent.ModelWait, error)

	ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) ([]agent.Thread, string, error)
	Show(ctx context.Context, threadID string, events bool) (spool.View, error)
	Tasks(ctx context.Context, threadID string) ([]agent.Task, error)
	Trace(ctx context.Context, threadID string) (*spool.Node, error)
	// Connected reports whether what is sent is run at once.
	Connected() bool
}

// threads opens what holds the threads: the web server that is configured, or the
// store, connected to Temporal if wanted.
func (a *app) threads(ctx context.Context, temporal bool) (conversations, config.Config, error) {
	return a.threadsBy(ctx, func(ctx context.Context, cfg config.Config) (*spool.Client, error) {
		if err := existing(cfg); err != nil {
			return nil, err
		}
		return a.openWith(ctx, cfg, temporal)
	})
}

// newThreads is threads for a command that may make the store.
func (a *app) newThreads(ctx context.Context, temporal bool) (conversations, config.Config, error) {
	return a.threadsBy(ctx, func(ctx context.Context, cfg config.Config) (*spool.Client, error) {
		return a.openWith(ctx, cfg, temporal)
	})
}

// servingThreads is threads for a command that waits for turns: on a store that
// serves one process it runs the worker too.
func (a *app) servingThreads(ctx context.Context) (conversations, config.Config, error) {
	return a.threadsBy(ctx, a.serving)
}

func (a *app) threadsBy(ctx context.Context, open func(context.Context, config.Config) (*spool.Client, error)) (conversations, config.Config, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, cfg, err
	}
	if cfg.Server != "" {
		if err := a.onlyServer("SPOOL_SERVER, from " + cfg.Source(config.Server)); err != nil {
			return nil, cfg, err
		}
		c, err := remote.New(cfg.Server, cfg.ServerToken.Reveal())
		if err != nil {
			return nil, cfg, err
		}
		return c, cfg, nil
	}
	c, err := open(ctx, cfg)
	if err != nil {
		return nil, cfg, err
	}
	return c, cfg, nil
}
