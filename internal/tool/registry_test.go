package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

// fake is a tool of a function.
type fake struct {
	spec agent.ToolSpec
	run  func(ctx context.Context, r agent.ToolRun) (agent.ToolResult, error)
}

func (f fake) Spec() agent.ToolSpec { return f.spec }

func (f fake) Run(ctx context.Context, r agent.ToolRun) (agent.ToolResult, error) {
	return f.run(ctx, r)
}

func fakeTool(name string, run func(ctx context.Context) (agent.ToolResult, error)) fake {
	return fake{agent.ToolSpec{Name: name}, func(ctx context.Context, _ agent.ToolRun) (agent.ToolResult, error) { return run(ctx) }}
}

func registry(t *testing.T, tools ...agent.Tool) *tool.Registry {
	t.Helper()
	r, err := tool.New(tools...)
	require.NoError(t, err)
	return r
}

// call runs a tool in a workspace.
func call(t *testing.T, r *tool.Registry, dir, name string, args any) agent.ToolResult {
	t.Helper()
	raw, ok := args.(string)
	if !ok {
		b, err := json.Marshal(args)
		require.NoError(t, err)
		raw = string(b)
	}
	return r.Run(context.Background(), name, agent.ToolRun{CallID: "call_1", Workdir: dir, Args: json.RawMessage(raw)})
}

type m = map[string]any

func failed(t *testing.T, res agent.ToolResult, reason agent.ErrorReason, text string) {
	t.Helper()
	assert.Equal(t, agent.CallFailed, res.Status)
	assert.Equal(t, reason, res.ErrorReason)
	assert.Contains(t, res.Content, text)
}

func succeeded(t *testing.T, res agent.ToolResult) string {
	t.Helper()
	assert.Equal(t, agent.CallSuccess, res.Status, res.Content)
	assert.Empty(t, res.ErrorReason)
	if res.Whole == nil {
		return res.Content
	}
	whole, err := io.ReadAll(res.Whole)
	assert.NoError(t, err)
	return string(whole)
}

func TestSpecsAreStable(t *testing.T) {
	tools := tool.Builtin(tool.Options{TavilyKey: "k"})
	a := registry(t, tools...)
	for i, j := 0, len(tools)-1; i < j; i, j = i+1, j-1 {
		tools[i], tools[j] = tools[j], tools[i]
	}
	b := registry(t, tools...)
	first, err := json.Marshal(a.Specs(nil))
	require.NoError(t, err)
	second, err := json.Marshal(b.Specs(nil))
	require.NoError(t, err)
	assert.Equal(t, string(first), string(second), "the order of registration does not show")
	assert.Equal(t, tool.BuiltinNames(), a.Names())
	for _, s := range a.Specs(nil) {
		assert.NotEmpty(t, s.Description)
		assert.True(t, json.Valid(s.Schema), s.Name)
		assert.Positive(t, s.Timeout)
	}
}

func TestFlags(t *testing.T) {
	flags := map[string][2]bool{}
	for _, s := range registry(t, tool.Builtin(tool.Options{TavilyKey: "k"})...).Specs(nil) {
		flags[s.Name] = [2]bool{s.ReadOnly, s.Repeatable}
	}
	for name, f := range flags {
		want := [2]bool{true, true}
		switch name {
		case "file_write":
			want = [2]bool{false, true}
		case "file_edit", "shell":
			want = [2]bool{false, false}
		}
		assert.Equal(t, want, f, name)
	}
}

func TestWebSearchNeedsAKey(t *testing.T) {
	_, ok := registry(t, tool.Builtin(tool.Options{})...).Lookup("web_search")
	assert.False(t, ok)
}

func TestAllowList(t *testing.T) {
	none := func(context.Context) (agent.ToolResult, error) { return agent.ToolOK(""), nil }
	r := registry(t, fakeTool("a", none), fakeTool("mcp__x__one", none), fakeTool("mcp__x__two", none), fakeTool("mcp__xy__one", none))
	names := func(allow []string) (out []string) {
		for _, s := range r.Specs(allow) {
			out = append(out, s.Name)
		}
		return out
	}
	assert.Len(t, names(nil), 4)
	assert.Empty(t, names([]string{}))
	assert.Equal(t, []string{"a", "mcp__x__one"}, names([]string{"mcp__x__one", "a", "nobody"}))
	assert.Equal(t, []string{"mcp__x__one", "mcp__x__two"}, names([]string{"mcp__x"}))
	assert.Equal(t, []string{"mcp__x__one", "mcp__xy__one"}, names([]string{"mcp__*__one"}))
}

func TestNewRefuses(t *testing.T) {
	none := func(context.Context) (agent.ToolResult, error) { return agent.ToolOK(""), nil }
	for _, name := range []string{"", "a:b", "a b", strings.Repeat("x", 65)} {
		_, err := tool.New(fakeTool(name, none))
		assert.ErrorContains(t, err, "is not valid")
	}
	_, err := tool.New(fakeTool("a", none), fakeTool("a", none))
	assert.ErrorContains(t, err, `tool "a" is registered twice`)
	bad := fakeTool("a", none)
	bad.spec.Schema = json.RawMessage(`{"type": 3}`)
	_, err = tool.New(bad)
	assert.ErrorContains(t, err, `the schema of tool "a" is not usable`)
}

// F4: schemas of strangers work.
func TestForeignSchemas(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","additionalProperties":{}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`,
		`{"$schema":"https://example.com/unknown","type":"object"}`, `{}`, ``, `true`,
	} {
		f := fakeTool("a", func(context.Context) (agent.ToolResult, error) { return agent.ToolOK("ran"), nil })
		f.spec.Schema = json.RawMessage(schema)
		assert.Equal(t, "ran", succeeded(t, call(t, registry(t, f), "", "a", m{"x": 1})), schema)
	}
}

func TestBadCalls(t *testing.T) {
	r := registry(t, tool.Builtin(tool.Options{})...)
	failed(t, call(t, r, t.TempDir(), "teleport", "{}"), agent.ErrToolNotFound, `There is no tool "teleport". Available tools: calculator, file_edit`)
	for args, want := range map[string]string{
		`{"path":`:               "are not valid JSON",
		`{"path":"a"} x`:         "are not valid JSON",
		`[]`:                     "must be a JSON object",
		``:                       "missing property 'path'",
		`null`:                   "missing property 'path'",
		`{"path":3}`:             "path: got number, want string",
		`{"path":"a","x":1}`:     "additional properties 'x' not allowed",
		`{"path":"a","limit":0}`: "limit: minimum",
		"{\"path\":\"\xff":       "are not valid JSON",
	} {
		res := call(t, r, t.TempDir(), "file_read", args)
		failed(t, res, agent.ErrInvalidInput, want)
		assert.True(t, utf8.ValidString(res.Content))
	}
	failed(t, call(t, r, "", "ls", m{"path": "."}), agent.ErrUnknown, "no workspace directory")
}

func TestFaultsBecomeResults(t *testing.T) {
	r := registry(t,
		fakeTool("panics", func(context.Context) (agent.ToolResult, error) { panic("boom") }),
		fakeTool("errs", func(context.Context) (agent.ToolResult, error) { return agent.ToolResult{}, errors.New("broken") }),
		fakeTool("dirty", func(context.Context) (agent.ToolResult, error) { return agent.ToolOK("a\x00b\xff\x1b[2Jc\r\n"), nil }),
		fakeTool("blank", func(context.Context) (agent.ToolResult, error) { return agent.ToolResult{Content: "x"}, nil }),
	)
	res := call(t, r, "", "panics", "{}")
	failed(t, res, agent.ErrUnknown, "The tool panics panicked: boom\nat ")
	assert.Contains(t, res.Content, "registry_test.go:")
	failed(t, call(t, r, "", "errs", "{}"), agent.ErrUnknown, "The tool errs failed: broken")
	assert.Equal(t, "ab\uFFFDc\r\n", succeeded(t, call(t, r, "", "dirty", "{}")))
	assert.Equal(t, "x", succeeded(t, call(t, r, "", "blank", "{}")))
}

// D2: a result of 50 MB is a result; a larger one than the limit loses its middle.
func TestLargeResults(t *testing.T) {
	big := func(n int) fake {
		return fakeTool("big", func(context.Context) (agent.ToolResult, error) { return agent.ToolOK(strings.Repeat("é", n/2)), nil })
	}
	assert.Len(t, succeeded(t, call(t, registry(t, big(50<<20)), "", "big", "{}")), 50<<20)
	text := succeeded(t, call(t, registry(t, big(80<<20)), "", "big", "{}"))
	assert.Less(t, len(text), tool.MaxResult+100)
	assert.True(t, utf8.ValidString(text))
	assert.Contains(t, text, "bytes left out")
}

// D7: a tool that ignores its context is given up soon.
func TestStubbornTools(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	stubborn := fakeTool("stubborn", func(context.Context) (agent.ToolResult, error) { <-release; return agent.ToolOK("late"), nil })
	stubborn.spec.Timeout = 50 * time.Millisecond
	polite := fakeTool("polite", func(ctx context.Context) (agent.ToolResult, error) {
		<-ctx.Done()
		return agent.ToolResult{}, ctx.Err()
	})
	polite.spec.Timeout = 50 * time.Millisecond
	r := registry(t, stubborn, polite)

	failed(t, call(t, r, "", "stubborn", "{}"), agent.ErrTimeout, "The tool stubborn did not finish in time and was stopped after 50ms.")
	failed(t, call(t, r, "", "polite", "{}"), agent.ErrTimeout, "did not finish in time")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	failed(t, r.Run(ctx, "polite", agent.ToolRun{}), agent.ErrAborted, agent.TextAborted)
	failed(t, r.Run(ctx, "stubborn", agent.ToolRun{}), agent.ErrAborted, agent.TextAborted)
}

func TestWith(t *testing.T) {
	r := registry(t, tool.Ls())
	more, err := r.With(tool.Grep())
	require.NoError(t, err)
	assert.Equal(t, []string{"grep", "ls"}, more.Names())
	assert.Equal(t, []string{"ls"}, r.Names())
	_, err = more.With(tool.Ls())
	assert.Error(t, err)
}
