package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// keyMeta is the field of _meta that carries the idempotency key of a call: the
// same for each of its runs.
const keyMeta = "spool/idempotencyKey"

type serverTool struct {
	server *server
	name   string // as the server calls it
	spec   agent.ToolSpec
}

func newTool(s *server, t *sdk.Tool, name string) serverTool {
	spec := agent.ToolSpec{Name: name, Timeout: s.cfg.Call, Aside: s.cfg.aside(), Gate: s.cfg.gate(t.Name)}
	title := t.Title
	if a := t.Annotations; a != nil {
		title = cmp.Or(title, a.Title)
		spec.ReadOnly = a.ReadOnlyHint && s.cfg.Trusted
		spec.Repeatable = a.ReadOnlyHint || a.IdempotentHint
	}
	schema, note := schemaOf(name, schemaIn(t))
	spec.Schema, spec.Description = schema, describe(s.cfg.ID, t.Description, title)+note
	return serverTool{s, t.Name, spec}
}

// aside is the most that a run takes beside one call's own time: for sessions, which
// may be tried with two versions of the protocol, and for repeats and their turn.
func (c ServerConfig) aside() time.Duration {
	once := 2*c.Start + c.Call
	return once - c.Call + mostRepeats*(once+c.turn())
}

// turn is how long a call that is repeated lets others that are have the server.
func (c ServerConfig) turn() time.Duration { return c.Start + c.Call }

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

// mostRepeats is how often a call is made again after its server ended under it.
const mostRepeats = 2

// Run calls the tool. A call whose server ended before it was sent, or ended while it
// ran and nothing can come of doing it twice, is made again in a new session. It may
// be the call that ends the server, so those that it ended under are repeated one
// after another.
func (t serverTool) Run(ctx context.Context, r agent.ToolRun) (agent.ToolResult, error) {
	last := t.once(ctx, r, attempted{})
	for range mostRepeats {
		if !last.again {
			break
		}
		leave := func() {}
		if last.cut > 0 {
			leave = t.server.apart(ctx)
		}
		last = t.once(ctx, r, last)
		leave()
	}
	return last.result, last.err
}

type attempted struct {
	result agent.ToolResult // if it is not made again
	err    error            // it was cancelled
	again  bool             // it may be made again
	cut    int              // how many attempts the server ended under, so far
}

// once makes one attempt at the call, after the one before. What it takes to have a
// session is no time of the call.
func (t serverTool) once(ctx context.Context, r agent.ToolRun, before attempted) attempted {
	l, err := t.server.open(ctx)
	switch {
	case err != nil && before.cut > 0:
		return t.failed(ctx, agent.ErrNetwork, fmt.Sprintf("The MCP server %s ended while the call ran, and there is no new session: %v.", t.server.cfg.ID, err), true)
	case err != nil:
		return t.failed(ctx, agent.ErrNetwork, cannotReach(t.server, err).Content, false)
	}
	calling, cancel := context.WithTimeout(ctx, t.server.cfg.Call)
	defer cancel()
	res, err := t.call(calling, l, r)
	var refused *jsonrpc.Error
	switch {
	case err == nil:
		return attempted{result: resultOf(r, res)}
	case calling.Err() != nil:
		return t.failed(ctx, agent.ErrTimeout, fmt.Sprintf("The MCP server %s did not answer within %s (timeout of its entry in %s).", t.server.cfg.ID, t.server.cfg.Call, t.server.cfg.File), true)
	case errors.As(err, &refused) && !isUndelivered(refused):
		return attempted{result: refusal(refused)}
	}
	if refused == nil {
		t.server.forget(l)
	}
	// The SDK says that the connection is closed of calls that it did not send any more.
	unsent := errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, sdk.ErrConnectionClosed)
	ran, cut := !unsent && !errors.Is(err, syscall.ECONNREFUSED), before.cut
	if ran {
		cut++
	}
	out := t.failed(ctx, agent.ErrNetwork, t.brokeOff(l, err, cut), ran)
	out.again, out.cut = out.err == nil && (unsent || t.spec.Repeatable), cut
	return out
}

// brokeOff says how a session ended under a call, for the time that cut counts.
func (t serverTool) brokeOff(l *link, err error, cut int) string {
	text := fmt.Sprintf("The MCP server %s broke off the call: %v.", t.server.cfg.ID, l.explain(err))
	ends := []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE} // of its pipes
	if t.server.cfg.Kind == kindStdio && slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) {
		text = fmt.Sprintf("The MCP server %s ended while the call ran.", t.server.cfg.ID)
		if cut > 1 {
			text = fmt.Sprintf("The MCP server %s ended while the call ran, %d times in a row: the call itself seems to end it, so do not repeat it as it is.", t.server.cfg.ID, cut)
		}
	}
	if said := l.last(); said != "" {
		text += " It said last: " + said
	}
	return text
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

// failed is the end of a call without an answer. begun says that the server may have
// done it.
func (t serverTool) failed(ctx context.Context, reason agent.ErrorReason, text string, begun bool) attempted {
	if errors.Is(ctx.Err(), context.Canceled) {
		return attempted{err: ctx.Err()}
	}
	if begun && !t.spec.Repeatable {
		text += " Whether the call took effect is not known, it may or may not have: find out before you repeat it."
	}
	return attempted{result: agent.ToolFailed(reason, "%s", text)}
}

// undelivered is how the SDK marks a request that got no answer of the server
// itself but leaves the session as it is: a refused connection, a 503 of a proxy.
const undelivered = "rejected by transport"

func isUndelivered(e *jsonrpc.Error) bool { return e != nil && e.Message == undelivered }

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
	cfg  ServerConfig // of its server; of one that nobody agreed to, the defaults
}

// Spec is careful: nothing is known of the tool.
func (t standIn) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Description: "A tool of an MCP server that has not started yet.", Schema: json.RawMessage(anything), Timeout: t.cfg.Call, Aside: t.cfg.aside() + 2*t.cfg.Start}
}

// Check waits for the server. What it says of the call is that it has no such tool,
// or that it cannot be reached; the tool itself is checked by those who know it then.
func (t standIn) Check(ctx context.Context, _ agent.ToolRun) (agent.ToolResult, bool) {
	real, why := t.m.await(ctx, t.name)
	if real != nil || ctx.Err() == nil {
		return why, real == nil
	}
	t.m.mu.Lock()
	s, _ := t.m.expected(t.name)
	t.m.mu.Unlock()
	if s != nil {
		if why := s.failure(); why != nil {
			return cannotReach(s, why), true
		}
	}
	return agent.ToolResult{}, false
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
