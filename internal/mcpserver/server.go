// Package mcpserver offers durable conversations to other agents and to editors: Spool
// as an MCP server.
package mcpserver

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/chat"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// A call waits so many seconds for a turn unless it says otherwise, and no longer than
// that: clients give up on calls after a minute or more. The turn goes on.
const (
	waitSeconds = 45
	mostSeconds = 600
)

// Options say what the server works on.
type Options struct {
	C       chat.Conversations
	Version string
	// Folder is where the tools of new conversations work, "" = the workers' folder.
	Folder string
	// Decide lets clients decide about tool calls that wait for a person. What decides
	// then may be a model.
	Decide bool
}

const instructions = `Conversations here are durable: a message that was accepted is answered even if this server, a worker or the caller dies.
Keep the threadId of an answer. If its status is running or queued, call wait; if it is waiting_for_user, give answer; if it is waiting_for_approval, a person decides.`

type sendIn struct {
	Text      string `json:"text" jsonschema:"the message"`
	Thread    string `json:"thread,omitempty" jsonschema:"the conversation to go on in, by its threadId; without it a new one is started"`
	Agent     string `json:"agent,omitempty" jsonschema:"agent that answers from now on"`
	Model     string `json:"model,omitempty" jsonschema:"model that answers from now on"`
	MessageID string `json:"messageId,omitempty" jsonschema:"id of this message: sent again with the same id it is one message"`
	Seconds   int    `json:"seconds,omitempty" jsonschema:"how long to wait for the answer (default 45, at most 600); -1 returns at once"`
}

type waitIn struct {
	Thread  string `json:"thread" jsonschema:"threadId"`
	Turn    string `json:"turn" jsonschema:"turnId, as send returned it"`
	Seconds int    `json:"seconds,omitempty" jsonschema:"how long to wait (default 45, at most 600)"`
}

type threadIn struct {
	Thread string `json:"thread" jsonschema:"threadId, or an id of a session, or the beginning of one, or latest"`
}

type answerIn struct {
	Question string `json:"question" jsonschema:"questionId"`
	Text     string `json:"text"`
}

type decideIn struct {
	Approval string `json:"approval" jsonschema:"approvalId"`
	Approve  bool   `json:"approve" jsonschema:"true lets its calls run, false refuses them"`
}

// New makes the server.
func New(o Options) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "spool", Version: o.Version}, &mcp.ServerOptions{Instructions: instructions})
	reads, adds := &mcp.ToolAnnotations{ReadOnlyHint: true}, &mcp.ToolAnnotations{DestructiveHint: new(bool)}
	add(s, &mcp.Tool{Name: "send", Annotations: adds, Description: "Start a conversation, or go on in one, and wait for the answer."}, o.send)
	add(s, &mcp.Tool{Name: "wait", Annotations: reads, Description: "Wait for the answer to a message that was sent."}, func(ctx context.Context, in waitIn) (any, error) {
		return o.wait(ctx, in.Thread, in.Turn, in.Seconds)
	})
	add(s, &mcp.Tool{Name: "tasks", Annotations: reads, Description: "List the tasks that a conversation gave to sub-agents, and what they wait for."}, found(o, func(ctx context.Context, id string) (any, error) {
		tasks, err := o.C.Tasks(ctx, id)
		if err != nil {
			return nil, err
		}
		asked, err := o.C.Questions(ctx, id)
		if err != nil {
			return nil, err
		}
		open, err := o.C.Approvals(ctx, id)
		return map[string]any{"tasks": tasks, "questions": asked, "approvals": open}, err
	}))
	add(s, &mcp.Tool{Name: "trace", Annotations: reads, Description: "Show the tree of a conversation and its sub-agents: states, tokens, prices."}, found(o, func(ctx context.Context, id string) (any, error) {
		return o.C.Trace(ctx, id)
	}))
	add(s, &mcp.Tool{Name: "answer", Annotations: adds, Description: "Answer a question of an agent."}, func(ctx context.Context, in answerIn) (any, error) {
		return o.C.Answer(ctx, memory.AnswerRequest{Target: in.Question, Text: in.Text})
	})
	if o.Decide {
		add(s, &mcp.Tool{Name: "approve", Description: "Let the tool calls of an approval run, or refuse them. Ask the person first."}, func(ctx context.Context, in decideIn) (any, error) {
			verdict := memory.Deny
			if in.Approve {
				verdict = memory.Approve
			}
			return o.C.Decide(ctx, memory.Decision{Target: in.Approval, Verdict: verdict})
		})
	}
	return s
}

// Serve serves one client until it leaves or ctx ends.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	both := &lines{in: bufio.NewReader(in), out: out}
	err := New(o).Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(both), Writer: both})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil //nolint:nilerr // the client, or a person, has ended it
	}
	return err
}

// lines are the messages of a client, one a line. What is none is answered here: the SDK
// would end the connection.
type lines struct {
	in      *bufio.Reader
	out     io.Writer
	writing sync.Mutex
	rest    []byte // of a line, or of what it held
	ended   error
}

// Close leaves stdout open.
func (l *lines) Close() error { return nil }

// Write writes a line.
func (l *lines) Write(p []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.out.Write(p)
}

// Read reads messages that are valid.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.ended != nil {
			return 0, l.ended
		}
		var line []byte
		line, l.ended = l.in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		batch := []json.RawMessage{line}
		if line[0] == '[' && json.Unmarshal(line, &batch) == nil && len(batch) == 0 {
			batch = []json.RawMessage{line} // which is no request
		}
		for _, one := range batch {
			if err := l.take(one); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// take passes a message on, or answers that it is none.
func (l *lines) take(one []byte) error {
	code, what := jsonrpc.CodeInvalidRequest, "this message is too long"
	_, err := jsonrpc.DecodeMessage(one)
	switch {
	case !json.Valid(one):
		code, what = jsonrpc.CodeParseError, "this line is no JSON: send one message a line"
	case err != nil:
		what = "this is no message of JSON-RPC 2.0"
	case len(one) <= mcp.DefaultMaxLineLength:
		l.rest = append(append(l.rest, one...), '\n')
		return nil
	}
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": what}})
	if err == nil {
		_, err = l.Write(append(raw, '\n'))
	}
	return err
}

// add adds a tool whose result is a JSON object in which nothing is hidden; an error is a
// result that the model reads.
func add[In any](s *mcp.Server, t *mcp.Tool, do func(context.Context, In) (any, error)) {
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		raw, err := json.Marshal(out)
		return nil, json.RawMessage(terminal.VisibleJSON(raw)), err
	})
}

// found looks the thread up first.
func found(o Options, do func(context.Context, string) (any, error)) func(context.Context, threadIn) (any, error) {
	return func(ctx context.Context, in threadIn) (any, error) {
		id, err := chat.Find(ctx, o.C, in.Thread)
		if err != nil {
			return nil, err
		}
		return do(ctx, id)
	}
}

func (o Options) send(ctx context.Context, in sendIn) (any, error) {
	r := memory.SendRequest{ThreadID: in.Thread, Agent: in.Agent, Model: in.Model, MessageID: in.MessageID, Content: agent.Text(in.Text), Workdir: o.Folder}
	var err error
	if r.ThreadID, err = chat.Find(ctx, o.C, in.Thread); err != nil {
		return nil, err
	}
	if in.Thread == "" {
		r.SessionID = spool.NewID()
		if in.MessageID != "" { // sent again it is one conversation, too
			r.SessionID = "mcp-" + in.MessageID
		}
	}
	sent, err := o.C.Send(ctx, r)
	if err != nil || in.Seconds < 0 || !sent.Moving() {
		return sent, err
	}
	return o.wait(ctx, sent.ThreadID, sent.TurnID, in.Seconds)
}

// wait returns how a turn stands when it has ended, needs somebody, or the time is over.
func (o Options) wait(ctx context.Context, thread, turn string, seconds int) (any, error) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(min(cmp.Or(max(seconds, 0), waitSeconds), mostSeconds))*time.Second)
	defer cancel()
	r, err := o.C.Wait(limited, thread, turn, spool.WaitOptions{})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return o.C.Status(ctx, thread, turn)
	}
	return r, err
}
