// Package tool holds the built-in tools, the registry that runs tools and the
// approval policy.
//
// A tool is one .go file and one .md file of the same name, its description for
// the model. File tools work inside the thread's workspace root and cannot leave
// it. The shell starts there but is a shell: what it may do is what its user may
// do, which is why it asks by default.
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Options choose the built-in tools.
type Options struct {
	// TavilyKey turns web_search on.
	TavilyKey string
	// AllowPrivate lets web_fetch reach private and loopback addresses.
	AllowPrivate bool
	// ShellMemory bounds each process of the shell, in bytes; 0 = no limit.
	ShellMemory int64
}

// Builtin returns the built-in tools. Without a key there is no web_search, so
// that no model is offered what cannot work.
func Builtin(o Options) []agent.Tool {
	tools := []agent.Tool{
		Calculator(), FileEdit(), FileRead(), FileWrite(), Glob(), Grep(), Ls(), Shell(o.ShellMemory), WebFetch(o.AllowPrivate),
	}
	if o.TavilyKey != "" {
		tools = append(tools, WebSearch(o.TavilyKey, ""))
	}
	return tools
}

// BuiltinNames lists the names of all built-in tools, web_search included.
func BuiltinNames() []string {
	return []string{"calculator", "file_edit", "file_read", "file_write", "glob", "grep", "ls", "shell", "web_fetch", "web_search"}
}

// typed is a tool made of a function over decoded arguments.
type typed[T any] struct {
	spec  agent.ToolSpec
	check func(ctx context.Context, r agent.ToolRun, args T) error
	run   func(ctx context.Context, r agent.ToolRun, args T) agent.ToolResult
}

// Func makes a tool of a spec and a function whose arguments are decoded from
// JSON into T. The schema is the place for all checks: the registry applies it
// before the function runs.
func Func[T any](spec agent.ToolSpec, run func(ctx context.Context, r agent.ToolRun, args T) agent.ToolResult) agent.Tool {
	return checked(spec, nil, run)
}

// checked is Func for a tool that knows beforehand of calls that cannot succeed:
// check returns why, or nil.
func checked[T any](spec agent.ToolSpec, check func(ctx context.Context, r agent.ToolRun, args T) error,
	run func(ctx context.Context, r agent.ToolRun, args T) agent.ToolResult) agent.Tool {
	return typed[T]{spec, check, run}
}

func (t typed[T]) Spec() agent.ToolSpec { return t.spec }

func (t typed[T]) Run(ctx context.Context, r agent.ToolRun) (agent.ToolResult, error) {
	var args T
	if err := json.Unmarshal(normalArgs(r.Args), &args); err != nil {
		return agent.ToolFailed(agent.ErrInvalidInput, "The arguments of %s cannot be read: %v", t.spec.Name, err), nil
	}
	return t.run(ctx, r, args), nil
}

func (t typed[T]) Check(ctx context.Context, r agent.ToolRun) (agent.ToolResult, bool) {
	var args T
	if t.check == nil || json.Unmarshal(normalArgs(r.Args), &args) != nil {
		return agent.ToolResult{}, false
	}
	err := t.check(ctx, r, args)
	if err == nil || ctx.Err() != nil {
		return agent.ToolResult{}, false
	}
	return failure(err), true
}

// normalArgs reads no arguments, which some providers send, as an empty object.
func normalArgs(raw json.RawMessage) json.RawMessage {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// readOnly is the spec of a tool that changes nothing and so may run again.
func readOnly(name, doc, schema string, timeout time.Duration) agent.ToolSpec {
	return agent.ToolSpec{
		Name: name, Description: strings.TrimSpace(doc), Schema: json.RawMessage(schema),
		ReadOnly: true, Repeatable: true, Timeout: timeout,
	}
}

// quick is readOnly for a tool that ends within a second, nearly always.
func quick(name, doc, schema string, timeout time.Duration) agent.ToolSpec {
	spec := readOnly(name, doc, schema, timeout)
	spec.Quick = true
	return spec
}
