package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// keyMeta is the field of _meta that carries the idempotency key of a call: the
// same for each of its runs.
const keyMeta = "spool/idempotencyKey"

// serverTool is a tool of a server.
type serverTool struct {
	server *server
	name   string // as the server calls it
	spec   agent.ToolSpec
}

// newTool makes a tool of a server's description of it.
func newTool(s *server, t *sdk.Tool, name string) serverTool {
	spec := agent.ToolSpec{Name: name, Timeout: s.cfg.Call, Gate: s.cfg.gate(t.Name)}
	title := t.Title
	if a := t.Annotations; a != nil {
		title = firstOf(title, a.Title)
		spec.ReadOnly = a.ReadOnlyHint && s.cfg.Trusted
		spec.Repeatable = a.ReadOnlyHint || a.IdempotentHint
	}
	schema, note := schemaOf(name, t.InputSchema)
	spec.Schema, spec.Description = schema, describe(s.cfg.ID, t.Description, title)+note
	return serverTool{s, t.Name, spec}
}

// Spec describes the tool.
func (t serverTool) Spec() agent.ToolSpec { return t.spec }

// Check refuses a call whose server cannot be reached.
func (t serverTool) Check(ctx context.Context, _ agent.ToolRun) (agent.ToolResult, bool) {
	if why := t.server.unreachable(ctx); why != nil {
		return cannotReach(t.server, why), true
	}
	return agent.ToolResult{}, false
}

func cannotReach(s *server, why error) agent.ToolResult {
	return agent.ToolFailed(agent.ErrNetwork, "The MCP server %s cannot be reached: %v.", s.cfg.ID, why)
}

// Run calls the tool. A session that died before or during a call is opened
// again; the call is repeated only if nothing can come of doing it twice.
func (t serverTool) Run(ctx context.Context, r agent.ToolRun) (agent.ToolResult, error) {
	for again := false; ; again = true {
		l, err := t.server.open(ctx)
		if err != nil {
			return t.failed(ctx, fmt.Sprintf("The MCP server %s cannot be reached: %v.", t.server.cfg.ID, err), false)
		}
		res, err := t.call(ctx, l, r)
		var refused *jsonrpc.Error
		switch {
		case err == nil:
			return resultOf(r, res), nil
		case ctx.Err() != nil:
			return t.failed(ctx, fmt.Sprintf("The MCP server %s did not answer within %s.", t.server.cfg.ID, t.spec.Timeout), true)
		case errors.As(err, &refused) && !isUndelivered(refused):
			return refusal(refused), nil
		}
		if refused == nil {
			t.server.forget(l)
		}
		// The SDK says that the connection is closed of calls that it did not send any more.
		ended := errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, sdk.ErrConnectionClosed)
		unheard := ended || errors.Is(err, syscall.ECONNREFUSED)
		err = l.explain(err)
		if !again && (t.spec.Repeatable || ended) {
			continue
		}
		text := fmt.Sprintf("The MCP server %s broke off the call: %v.", t.server.cfg.ID, err)
		if said := l.last(); said != "" {
			text += " It said last: " + said
		}
		return t.failed(ctx, text, !unheard)
	}
}

func (t serverTool) call(ctx context.Context, l *link, r agent.ToolRun) (*sdk.CallToolResult, error) {
	token, leave := t.server.enter(r)
	defer leave()
	params := &sdk.CallToolParams{
		Name: t.name, Arguments: r.Args, Meta: sdk.Meta{keyMeta: r.CallID},
	}
	params.SetProgressToken(token)
	return l.session.CallTool(ctx, params)
}

// failed is the result of a call without an answer. begun says that the server
// may have done it.
func (t serverTool) failed(ctx context.Context, text string, begun bool) (agent.ToolResult, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return agent.ToolResult{}, ctx.Err()
	}
	if begun && !t.spec.Repeatable {
		text += " Whether the call took effect is not known: find out before you repeat it."
	}
	reason := agent.ErrNetwork
	if ctx.Err() != nil {
		reason = agent.ErrTimeout
	}
	return agent.ToolFailed(reason, "%s", text), nil
}

// undelivered is how the SDK marks a request that got no answer of the server
// itself but leaves the session as it is: a refused connection, a 503 of a proxy.
const undelivered = "rejected by transport"

func isUndelivered(e *jsonrpc.Error) bool { return e != nil && e.Message == undelivered }

// refusal is the result of a call that the protocol refused.
func refusal(e *jsonrpc.Error) agent.ToolResult {
	text := e.Message
	if len(e.Data) > 0 {
		text += " " + tool.Clip(string(e.Data), 2000)
	}
	switch e.Code {
	case jsonrpc.CodeInvalidParams:
		return agent.ToolFailed(agent.ErrInvalidInput, "The MCP server refused the call: %s", text)
	case jsonrpc.CodeMethodNotFound:
		return agent.ToolFailed(agent.ErrToolNotFound, "The MCP server does not have this tool: %s", text)
	}
	return agent.ToolFailed(agent.ErrUnknown, "The MCP server could not do the call: %s", text)
}

// standIn takes the place of a tool of a server that is expected but has not
// listed its tools: after a start of the worker, calls may be older than that.
type standIn struct {
	m    *Manager
	name string
}

// Spec is careful: nothing is known of the tool.
func (t standIn) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Description: "A tool of an MCP server that has not started yet.", Schema: json.RawMessage(anything), Timeout: defaultStart + defaultCall}
}

// Check waits for the server. What it says of the call is that it has no such tool,
// or that it cannot be reached; the tool itself is checked by those who know it then.
func (t standIn) Check(ctx context.Context, _ agent.ToolRun) (agent.ToolResult, bool) {
	real, why := t.m.await(ctx, t.name)
	if real == nil && ctx.Err() != nil {
		return t.m.failing(t.name)
	}
	return why, real == nil
}

// Run waits for the server and hands the call over.
func (t standIn) Run(ctx context.Context, r agent.ToolRun) (agent.ToolResult, error) {
	real, why := t.m.await(ctx, t.name)
	switch {
	case real != nil:
		return real.Run(ctx, r)
	case errors.Is(ctx.Err(), context.Canceled):
		return agent.ToolResult{}, ctx.Err()
	}
	return why, nil
}
