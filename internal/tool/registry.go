package tool

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spool-agents/spool/agent"
)

// grace is how long a tool may take to stop after its context ended. A tool that
// takes longer is abandoned: its goroutine goes on, its result is dropped.
const grace = time.Second

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Registry holds tools by name. It does not change, so it is safe for
// concurrent use; With makes a larger one.
type Registry struct {
	entries []*entry // sorted by name
	byName  map[string]*entry
}

type entry struct {
	tool   agent.Tool
	spec   agent.ToolSpec
	schema *validator
}

// New makes a registry. Names that providers refuse, double names and schemas
// that do not compile are errors.
func New(tools ...agent.Tool) (*Registry, error) {
	r := &Registry{byName: map[string]*entry{}}
	for _, t := range tools {
		spec := t.Spec()
		if !toolName.MatchString(spec.Name) {
			return nil, agent.Errorf(agent.CodeInvalid, "tool name %q is not valid: use 1 to 64 of A-Z a-z 0-9 _ -", spec.Name)
		}
		if r.byName[spec.Name] != nil {
			return nil, agent.Errorf(agent.CodeInvalid, "tool %q is registered twice", spec.Name)
		}
		v, err := newValidator(spec)
		if err != nil {
			return nil, err
		}
		e := &entry{t, spec, v}
		r.byName[spec.Name] = e
		r.entries = append(r.entries, e)
	}
	slices.SortFunc(r.entries, func(a, b *entry) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	return r, nil
}

// With returns a registry that has these tools too.
func (r *Registry) With(tools ...agent.Tool) (*Registry, error) {
	all := make([]agent.Tool, 0, len(r.entries)+len(tools))
	for _, e := range r.entries {
		all = append(all, e.tool)
	}
	return New(append(all, tools...)...)
}

// Lookup returns the tool of this name.
func (r *Registry) Lookup(name string) (agent.Tool, bool) {
	if e := r.byName[name]; e != nil {
		return e.tool, true
	}
	return nil, false
}

// Names lists the tools in order.
func (r *Registry) Names() []string {
	names := make([]string, len(r.entries))
	for i, e := range r.entries {
		names[i] = e.spec.Name
	}
	return names
}

// Specs lists the tools an agent is offered, always in the same order. A nil
// list allows all, an empty one none; an entry may hold * as in mcp__github__*,
// and mcp__github alone means all tools of that server.
func (r *Registry) Specs(allow []string) []agent.ToolSpec {
	specs := make([]agent.ToolSpec, 0, len(r.entries))
	for _, e := range r.entries {
		if Allowed(allow, e.spec.Name) {
			specs = append(specs, e.spec)
		}
	}
	return specs
}

// Allowed reports whether an allow-list as understood by Specs admits a tool.
func Allowed(allow []string, name string) bool {
	if allow == nil {
		return true
	}
	for _, a := range allow {
		if a == name {
			return true
		}
		if ok, err := path.Match(a, name); err == nil && ok {
			return true
		}
		if strings.HasPrefix(a, "mcp__") && strings.Count(a, "__") == 1 && strings.HasPrefix(name, a+"__") {
			return true
		}
	}
	return false
}

// Run runs a tool and always returns a result a model can read: unknown tools,
// bad arguments, panics, errors, timeouts and a cancelled ctx included. The
// result is valid UTF-8. A run whose ctx was cancelled says aborted; whether a
// person or a stopping worker did it is for the caller to tell (context.Cause).
func (r *Registry) Run(ctx context.Context, name string, run agent.ToolRun) agent.ToolResult {
	e := r.byName[name]
	if e == nil {
		return r.unknown(name)
	}
	run.Args = normalArgs(run.Args)
	if problem := e.schema.check(run.Args); problem != "" {
		return agent.ToolFailed(agent.ErrInvalidInput, "%s", CleanText(problem))
	}
	timeout := e.spec.Timeout
	if timeout <= 0 {
		timeout = agent.DefaultToolTimeout
	}
	timeout += e.spec.Aside
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	done := make(chan agent.ToolResult, 1)
	go func() { done <- e.guarded(ctx, run) }()
	select {
	case res := <-done:
		return finish(res)
	case <-ctx.Done():
	}
	select {
	case res := <-done:
		return finish(res)
	case <-time.After(grace):
		return ended(ctx.Err(), name, timeout)
	}
}

// Check returns the result of a call that Run would refuse, and true: of an
// unknown tool, of arguments that do not fit the schema, and of what the tool
// itself knows beforehand (agent.Checker). It runs nothing.
func (r *Registry) Check(ctx context.Context, name string, run agent.ToolRun) (refusal agent.ToolResult, refused bool) {
	e := r.byName[name]
	if e == nil {
		return r.unknown(name), true
	}
	run.Args = normalArgs(run.Args)
	if problem := e.schema.check(run.Args); problem != "" {
		return agent.ToolFailed(agent.ErrInvalidInput, "%s", CleanText(problem)), true
	}
	checker, ok := e.tool.(agent.Checker)
	if !ok {
		return agent.ToolResult{}, false
	}
	defer func() {
		if recover() != nil {
			refusal, refused = agent.ToolResult{}, false // Run tells of the panic
		}
	}()
	refusal, refused = checker.Check(ctx, run)
	return finish(refusal), refused
}

func (r *Registry) unknown(name string) agent.ToolResult {
	return agent.ToolFailed(agent.ErrToolNotFound, "There is no tool %q. Available tools: %s.", CleanText(name), strings.Join(r.Names(), ", "))
}

// guarded runs the tool and turns its panic or error into a result.
func (e *entry) guarded(ctx context.Context, run agent.ToolRun) (res agent.ToolResult) {
	defer func() {
		if p := recover(); p != nil {
			res = agent.ToolFailed(agent.ErrUnknown, "The tool %s panicked: %v\nat %s", e.spec.Name, p, panicSite(debug.Stack()))
		}
	}()
	res, err := e.tool.Run(ctx, run)
	switch {
	case err == nil:
		return res
	case ctx.Err() != nil:
		return ended(ctx.Err(), e.spec.Name, e.spec.Timeout+e.spec.Aside)
	case errors.Is(err, context.DeadlineExceeded):
		return agent.ToolFailed(agent.ErrTimeout, "The tool %s ran into a timeout of its own: %v", e.spec.Name, err)
	}
	return agent.ToolFailed(agent.ErrUnknown, "The tool %s failed: %v", e.spec.Name, err)
}

// ended is the result of a run that its context ended.
func ended(cause error, name string, timeout time.Duration) agent.ToolResult {
	if errors.Is(cause, context.DeadlineExceeded) {
		text := "The tool did not finish in time and was stopped"
		if name != "" {
			text = fmt.Sprintf("The tool %s did not finish in time and was stopped", name)
		}
		if timeout > 0 {
			text += fmt.Sprintf(" after %s", timeout)
		}
		return agent.ToolFailed(agent.ErrTimeout, "%s.", text)
	}
	return agent.ToolFailed(agent.ErrAborted, "%s", agent.TextAborted)
}

// finish gives a result the form all others rely on.
func finish(res agent.ToolResult) agent.ToolResult {
	res.Content = Clip(CleanText(res.Content), MaxResult)
	if res.Status != agent.CallFailed {
		res.Status, res.ErrorReason = agent.CallSuccess, ""
	} else if res.ErrorReason == "" {
		res.ErrorReason = agent.ErrUnknown
	}
	return res
}

// panicSite is the frame that panicked: the first below runtime's own.
func panicSite(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") && i+3 < len(lines) {
			return strings.TrimSpace(lines[i+3])
		}
	}
	return "unknown"
}

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
