package tool

import (
	"context"
	"sync/atomic"

	"github.com/spool-agents/spool/agent"
)

// Live is a registry whose tools change while it is used: a server came up,
// another one announced a new list. Each call works on the registry of one
// moment. Safe for concurrent use.
type Live struct {
	base    *Registry
	now     atomic.Pointer[Registry]
	pending func(name string) (agent.Tool, bool)
}

// NewLive makes a live registry of tools that stay. pending, which may be nil,
// returns the stand-in for a tool that is expected but not there yet: it is
// never offered, but a call of it is treated with the caution, and given the
// time, that the real tool would get.
func NewLive(pending func(name string) (agent.Tool, bool), base ...agent.Tool) (*Live, error) {
	r, err := New(base...)
	if err != nil {
		return nil, err
	}
	l := &Live{base: r, pending: pending}
	l.now.Store(r)
	return l, nil
}

// Set replaces the tools that come on top of those that stay.
func (l *Live) Set(more ...agent.Tool) error {
	r, err := l.base.With(more...)
	if err != nil {
		return err
	}
	l.now.Store(r)
	return nil
}

// holding returns the registry that has a tool of this name, if any has.
func (l *Live) holding(name string) *Registry {
	r := l.now.Load()
	if r.byName[name] != nil || l.pending == nil {
		return r
	}
	t, ok := l.pending(name)
	if !ok {
		return r
	}
	alone, err := New(t)
	if err != nil {
		return r
	}
	return alone
}

// Specs is Registry.Specs; what is only expected is not in it.
func (l *Live) Specs(allow []string) []agent.ToolSpec { return l.now.Load().Specs(allow) }

// Lookup is Registry.Lookup, stand-ins included.
func (l *Live) Lookup(name string) (agent.Tool, bool) { return l.holding(name).Lookup(name) }

// Run is Registry.Run, stand-ins included.
func (l *Live) Run(ctx context.Context, name string, run agent.ToolRun) agent.ToolResult {
	return l.holding(name).Run(ctx, name, run)
}

// Check is Registry.Check. A stand-in's check may make the real tool known, which
// then checks for itself.
func (l *Live) Check(ctx context.Context, name string, run agent.ToolRun) (agent.ToolResult, bool) {
	_, known := l.now.Load().Lookup(name)
	refusal, refused := l.holding(name).Check(ctx, name, run)
	if r := l.now.Load(); !known && !refused && r.byName[name] != nil {
		return r.Check(ctx, name, run)
	}
	return refusal, refused
}

// Gate is Registry.Gate, stand-ins included.
func (l *Live) Gate(name string, run agent.ToolRun, policy map[string]string) agent.Gate {
	return l.holding(name).Gate(name, run, policy)
}
