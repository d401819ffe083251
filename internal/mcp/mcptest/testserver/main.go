// Command testserver is an MCP server for tests: it does what real servers do,
// and what they should not.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	listen = flag.String("http", "", "serve streamable HTTP at this address instead of stdio")
	token  = flag.String("token", "", "with -http: the bearer token to ask for")
	late   = flag.Duration("late", 0, "wait before the first answer")
	lateIf = flag.String("late-if", "", "with -late: wait only if this file is there")
	junk   = flag.Bool("junk", false, "print greetings to stdout, as servers must not")
	broken = flag.Bool("broken", false, "end with an error at once")
	eager  = flag.Bool("eager", false, "change the list of tools as soon as a client is there")
	unless = flag.String("unless", "", "end with an error if this file is there")
	odd    = flag.Bool("odd", false, "offer tools with odd names and schemas")
)

func main() {
	flag.Parse()
	if *broken {
		fmt.Fprintln(os.Stderr, "testserver: no database at localhost:1")
		os.Exit(3)
	}
	if _, err := os.Stat(*unless); *unless != "" && err == nil {
		os.Exit(4)
	}
	if _, err := os.Stat(*lateIf); *lateIf == "" || err == nil {
		time.Sleep(*late)
	}
	if *junk {
		fmt.Println("Welcome to testserver!")
		fmt.Println("[info] listening")
		fmt.Println(`{"level":"info","msg":`)
	}
	server := build()
	var err error
	if *listen != "" {
		h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
		err = http.ListenAndServe(*listen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // a test's server
			if *token != "" && r.Header.Get("Authorization") != "Bearer "+*token {
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		}))
	} else {
		err = server.Run(context.Background(), &mcp.StdioTransport{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}

type args struct {
	Text  string `json:"text,omitempty"`
	File  string `json:"file,omitempty"`
	Ms    int    `json:"ms,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
	Any   any    `json:"any,omitempty"`
}

type handler = func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error)

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func build() *mcp.Server {
	var s *mcp.Server
	s = mcp.NewServer(&mcp.Implementation{Name: "testserver", Version: "1"}, &mcp.ServerOptions{
		InitializedHandler: func(context.Context, *mcp.InitializedRequest) {
			if *eager {
				mcp.AddTool(s, &mcp.Tool{Name: "early"}, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
					return text("early"), nil, nil
				})
			}
		},
	})
	readOnly, idempotent := &mcp.ToolAnnotations{ReadOnlyHint: true}, &mcp.ToolAnnotations{IdempotentHint: true}
	add := func(name string, hints *mcp.ToolAnnotations, h handler) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Does " + name + ".", Annotations: hints}, h)
	}
	add("echo", readOnly, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return text("echo: " + a.Text), nil, nil
	})
	add("read", readOnly, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return text("read by testserver"), nil, nil
	})
	add("key", idempotent, func(_ context.Context, r *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		return text(fmt.Sprint(r.Params.Meta["spool/idempotencyKey"])), nil, nil
	})
	add("pid", readOnly, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return text(fmt.Sprint(os.Getpid())), nil, nil
	})
	add("environment", readOnly, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return text(strings.Join(os.Environ(), "\n")), nil, nil
	})
	add("fail", nil, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("the moon is in the wrong phase")
	})
	add("shout", nil, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, a.Text)
		time.Sleep(150 * time.Millisecond) // what was written is to be read before the call ends
		return text("shouted"), nil, nil
	})
	add("big", readOnly, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return text(strings.Repeat("0123456789abcdef", a.Bytes/16)), nil, nil
	})
	add("write", nil, slowWrite)
	add("write_again", idempotent, slowWrite)
	add("die", nil, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return nil, nil, die(a)
	})
	add("die_again", idempotent, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return nil, nil, die(a)
	})
	add("die_once", idempotent, func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		if _, err := os.Stat(a.File); err == nil {
			return text("alive"), nil, nil
		}
		return nil, nil, die(a)
	})
	add("contents", readOnly, contents)
	add("structured", readOnly, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: map[string]any{"answer": 42}}, nil, nil
	})
	add("exact", readOnly, func(_ context.Context, r *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, IsError: a.Text == "fail", StructuredContent: r.Params.Arguments}, nil, nil
	})
	add("refuse", readOnly, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		r := text("no such page")
		r.IsError = true
		return r, nil, nil
	})
	add("grow", nil, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		add("extra", readOnly, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
			return text("extra"), nil, nil
		})
		return text("grown"), nil, nil
	})
	if *odd {
		oddities(s)
	}
	return s
}

// slowWrite appends to a file what happens to the call: start, then end or
// cancelled. It reports progress meanwhile.
func slowWrite(ctx context.Context, r *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
	if err := note(a.File, "start"); err != nil {
		return nil, nil, err
	}
	for done := 0; done < a.Ms; done += 20 {
		if token := r.Params.GetProgressToken(); token != nil {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(done), Total: float64(a.Ms), Message: "writing"})
		}
		select {
		case <-ctx.Done():
			return nil, nil, note(a.File, "cancelled")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return text("written"), nil, note(a.File, "end")
}

func note(file, what string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, what)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func die(a args) error {
	if a.File != "" {
		if err := note(a.File, "died"); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "panic: out of cheese")
	os.Exit(7)
	return nil
}

func contents(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{
		Content: []mcp.Content{
			&mcp.TextContent{Text: "some text"},
			&mcp.ImageContent{Data: picture(), MIMEType: "image/png"},
			&mcp.AudioContent{Data: []byte("RIFF"), MIMEType: "audio/wav"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "memo://2", MIMEType: "application/pdf", Blob: []byte("%PDF")}},
			&mcp.ResourceLink{URI: "file:///a.txt", Name: "a"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "memo://1", Text: "the memo"}},
		},
		StructuredContent: map[string]any{"answer": 42},
	}, nil, nil
}

func picture() []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 3)))
	return b.Bytes()
}

// oddities are tools as they are found in the wild. The SDK refuses to make
// them, so their schemas are put into the answer.
func oddities(s *mcp.Server) {
	schemas := map[string]string{
		"ns:tool.name/x":                `{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","properties":{"text":{"type":"string"}},"additionalProperties":{}}`,
		strings.Repeat("long_name_", 8): `{"type":"object","properties":{"text":{"type":"string"}}}`,
		strings.Repeat("long_name_", 9): `{"type":"object"}`,
		"clash.one":                     `{"type":"object"}`,
		"clash_one":                     `{"type":"object"}`,
		"clash/one":                     `{"type":"object"}`,
		"no_type":                       `{"properties":{"text":{"type":"string"}},"required":["text"]}`,
		"boolean":                       `true`,
		"empty":                         `{}`,
		"nothing":                       `null`,
		"types":                         `{"type":["object","null"]}`,
		"union":                         `{"type":"object","anyOf":[{"properties":{"text":{"type":"string"}},"required":["text"]},{"properties":{"id":{"type":"integer"}}}]}`,
		"reference":                     `{"type":"object","properties":{"node":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}`,
		"remote":                        `{"type":"object","properties":{"x":{"$ref":"https://example.com/schema.json"}}}`,
		"unknown_draft":                 `{"$schema":"https://example.com/draft-99","type":"object"}`,
		"wrong":                         `{"type":"object","properties":{"text":{"type":"strnig"}}}`,
		"huge":                          `{"type":"object","properties":{"text":{"enum":["` + strings.Repeat("x", 200_000) + `"]}}}`,
		"lookahead":                     `{"type":"object","properties":{"word":{"type":"string","pattern":"^(?=.*x).+$"},"n":{"type":"integer","default":9007199254740993}},"required":["n"]}`,
		"root_reference":                `{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"n":{"type":"integer"},"next":{"$ref":"#/definitions/In"}},"required":["n"]}}}`,
		"properties_is_a_list":          `{"type":"object","properties":[]}`,
	}
	for name := range schemas {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(_ context.Context, _ *mcp.CallToolRequest, a map[string]any) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprintf("%s got %v", name, a)), nil, nil
		})
	}
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, r)
			if l, ok := res.(*mcp.ListToolsResult); ok && err == nil {
				for i, t := range l.Tools {
					if schema, there := schemas[t.Name]; there {
						c := *t
						c.InputSchema = json.RawMessage(schema)
						l.Tools[i] = &c
					}
				}
			}
			return res, err
		}
	})
}
